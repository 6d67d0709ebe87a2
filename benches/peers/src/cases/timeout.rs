//! A timeout that does not run out: around what is ready at once, and around a wait.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_tokio, on_volt};
use crate::run::Run;

pub const READY: Case = Case {
    name: "timeout_ready",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt_ready), (Peer::Tokio, tokio_ready)],
    rows: &[Row {
        key: "figure",
        title: "timeout around what is ready",
        unit: Unit::Nanos,
        bar: Bar::OfBest(0.3),
    }],
    note: "A timeout of a minute around code that does not wait. Go: context.WithTimeout, asked \
        once, cancelled.",
    ..Case::INSIDE
};

pub const WAITS: Case = Case {
    name: "timeout_waits",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt_waits), (Peer::Tokio, tokio_waits)],
    rows: &[Row {
        key: "figure",
        title: "timeout around a wait, set and cancelled",
        unit: Unit::Nanos,
        bar: Bar::OfBest(0.3),
    }],
    note: "Two fibers wake each other in turn, each wait under a timeout of a minute; the same \
        without is taken off. Go: a select over the wake and a new timer, which is stopped.",
    ..Case::INSIDE
};

const TIMES: u32 = 50_000;
const FAR: Duration = Duration::from_secs(60);

fn volt_ready(run: Run) -> f64 {
    on_volt(run, move || {
        let mut sampler = run.sampler(TIMES);
        while sampler.again() {
            let start = Instant::now();
            for n in 0..TIMES {
                let _ = black_box(volt::timeout(black_box(FAR), || black_box(n)));
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio_ready(run: Run) -> f64 {
    on_tokio(run, async move {
        let mut sampler = run.sampler(TIMES);
        while sampler.again() {
            let start = Instant::now();
            for n in 0..TIMES {
                let ready = async { black_box(n) };
                let _ = black_box(tokio::time::timeout(black_box(FAR), ready).await);
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn volt_waits(run: Run) -> f64 {
    fn round_trips(run: Run, wait: fn()) -> f64 {
        let mut sampler = run.sampler(2 * TIMES);
        while sampler.again() {
            let me = volt::current();
            let partner = volt::go(move || {
                for _ in 0..TIMES {
                    wait();
                    me.unpark();
                }
            });
            let other = partner.thread();
            let start = Instant::now();
            for _ in 0..TIMES {
                other.unpark();
                wait();
            }
            sampler.add(start.elapsed());
            partner.join().unwrap();
        }
        sampler.figure()
    }
    on_volt(run, move || {
        let timed = || volt::timeout(FAR, volt::thread::park).unwrap();
        round_trips(run, timed) - round_trips(run, volt::thread::park)
    })
}

fn tokio_waits(run: Run) -> f64 {
    async fn wait(notify: &Notify, timed: bool) {
        if timed {
            tokio::time::timeout(FAR, notify.notified()).await.unwrap();
        } else {
            notify.notified().await;
        }
    }
    async fn round_trips(run: Run, timed: bool) -> f64 {
        let mut sampler = run.sampler(2 * TIMES);
        while sampler.again() {
            let (here, there) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let (mine, other) = (Arc::clone(&there), Arc::clone(&here));
            let partner = tokio::spawn(async move {
                for _ in 0..TIMES {
                    wait(&mine, timed).await;
                    other.notify_one();
                }
            });
            let start = Instant::now();
            for _ in 0..TIMES {
                there.notify_one();
                wait(&here, timed).await;
            }
            sampler.add(start.elapsed());
            partner.await.unwrap();
        }
        sampler.figure()
    }
    on_tokio(run, async move { round_trips(run, true).await - round_trips(run, false).await })
}
