//! A fiber sleeps for a millisecond, or for a tenth of one, again and again, and nothing else runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "nap",
    part: Part::Beside,
    bodies: &[
        (Peer::Volt, volt::<1000>),
        (Peer::Tokio, tokio::<1000>),
        (Peer::May, may::<1000>),
        (Peer::Threads, threads::<1000>),
    ],
    rows: &[row("a sleep of 1 ms, over that")],
    note: "One fiber sleeps for 1 ms 500 times, and nothing else runs: what a sleep takes more.",
    ..Case::INSIDE
};

pub const SHORT: Case = Case {
    name: "nap_short",
    bodies: &[
        (Peer::Volt, volt::<100>),
        (Peer::Tokio, tokio::<100>),
        (Peer::May, may::<100>),
        (Peer::Threads, threads::<100>),
    ],
    rows: &[row("a sleep of 0.1 ms, over that")],
    note: "The same with sleeps of 0.1 ms.",
    ..CASE
};

pub const CROWD: Case = Case {
    name: "nap_crowd",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt_crowd), (Peer::Tokio, tokio_crowd), (Peer::May, may_crowd)],
    rows: &[row("sleeps of 1 ms, fifty at a time, over that")],
    note: "5,000 fibers sleep for 1 ms each, with a permit of a semaphore that has fifty: what fifty sleeps \
        take more.",
    ..Case::INSIDE
};

const fn row(title: &'static str) -> Row {
    Row { key: "figure", title, unit: Unit::Micros, bar: Bar::NotSlower }
}

const NAP: Duration = Duration::from_millis(1);

fn naps(run: Run) -> u32 {
    run.scale(500, 20)
}

/// Microseconds that each took too long.
fn over(naps: u32, nap: Duration, start: Instant) -> f64 {
    (start.elapsed() / naps).saturating_sub(nap).as_secs_f64() * 1e6
}

fn volt<const MICROS: u64>(run: Run) -> f64 {
    on_volt(run, move || {
        let nap = Duration::from_micros(MICROS);
        let start = Instant::now();
        (0..naps(run)).for_each(|_| volt::sleep(nap));
        over(naps(run), nap, start)
    })
}

fn tokio<const MICROS: u64>(run: Run) -> f64 {
    on_tokio(run, async move {
        let nap = Duration::from_micros(MICROS);
        let start = Instant::now();
        for _ in 0..naps(run) {
            tokio::time::sleep(nap).await;
        }
        over(naps(run), nap, start)
    })
}

fn may<const MICROS: u64>(run: Run) -> f64 {
    on_may(run, move || {
        let nap = Duration::from_micros(MICROS);
        let start = Instant::now();
        (0..naps(run)).for_each(|_| may::coroutine::sleep(nap));
        over(naps(run), nap, start)
    })
}

fn threads<const MICROS: u64>(run: Run) -> f64 {
    on_threads(run, || {
        let nap = Duration::from_micros(MICROS);
        let start = Instant::now();
        (0..naps(run)).for_each(|_| std::thread::sleep(nap));
        over(naps(run), nap, start)
    })
}

const AT_ONCE: u32 = 50;

fn crowd(run: Run) -> u32 {
    run.scale(5_000, 200)
}

fn volt_crowd(run: Run) -> f64 {
    on_volt(run, move || {
        let permits = Arc::new(volt::sync::Semaphore::new(AT_ONCE as usize));
        let start = Instant::now();
        let all: Vec<_> = (0..crowd(run))
            .map(|_| {
                let permits = Arc::clone(&permits);
                volt::go(move || {
                    let _permit = permits.acquire().unwrap();
                    volt::sleep(NAP);
                })
            })
            .collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        over(crowd(run) / AT_ONCE, NAP, start)
    })
}

fn tokio_crowd(run: Run) -> f64 {
    on_tokio(run, async move {
        let permits = Arc::new(tokio::sync::Semaphore::new(AT_ONCE as usize));
        let start = Instant::now();
        let all: Vec<_> = (0..crowd(run))
            .map(|_| {
                let permits = Arc::clone(&permits);
                tokio::spawn(async move {
                    let _permit = permits.acquire().await.unwrap();
                    tokio::time::sleep(NAP).await;
                })
            })
            .collect();
        for one in all {
            one.await.unwrap();
        }
        over(crowd(run) / AT_ONCE, NAP, start)
    })
}

fn may_crowd(run: Run) -> f64 {
    on_may(run, move || {
        let permits = Arc::new(may::sync::Semphore::new(AT_ONCE as usize));
        let start = Instant::now();
        let all: Vec<_> = (0..crowd(run))
            .map(|_| {
                let permits = Arc::clone(&permits);
                may::go!(move || {
                    permits.wait();
                    may::coroutine::sleep(NAP);
                    permits.post();
                })
            })
            .collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        over(crowd(run) / AT_ONCE, NAP, start)
    })
}
