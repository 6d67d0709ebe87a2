//! So many fibers each do something every 10 ms, as heartbeats and timeouts do: what a tick costs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_tokio, on_volt};
use crate::run::{Run, say};

pub const FEW: Case = Case {
    name: "tickers_100",
    bodies: &[(Peer::Volt, volt::<100>), (Peer::Tokio, tokio::<100>), (Peer::May, may::<100>)],
    rows: &[cost("100 tickers, CPU per tick"), late("100 tickers, too late by")],
    note: "100 fibers tick every 10 ms for two seconds: the process's CPU time per tick, and how \
        late it comes on average. may has no ticker: it sleeps until the next one.",
    ..TICKERS
};

pub const MANY: Case = Case {
    name: "tickers_1000",
    bodies: &[
        (Peer::Volt, volt::<1_000>),
        (Peer::Tokio, tokio::<1_000>),
        (Peer::May, may::<1_000>),
    ],
    rows: &[cost("1,000 tickers, CPU per tick"), late("1,000 tickers, too late by")],
    note: "As above, 1,000 of them.",
    ..TICKERS
};

pub const VERY_MANY: Case = Case {
    name: "tickers_10000",
    bodies: &[
        (Peer::Volt, volt::<10_000>),
        (Peer::Tokio, tokio::<10_000>),
        (Peer::May, may::<10_000>),
    ],
    rows: &[cost("10,000 tickers, CPU per tick"), late("10,000 tickers, too late by")],
    note: "As above, 10,000 of them.",
    ..TICKERS
};

const TICKERS: Case = Case { part: Part::Beside, ..Case::INSIDE };

const fn cost(title: &'static str) -> Row {
    Row { key: "figure", title, unit: Unit::Nanos, bar: Bar::NotSlower }
}

const fn late(title: &'static str) -> Row {
    Row { key: "late", title, unit: Unit::Micros, bar: Bar::NotSlower }
}

const PERIOD: Duration = Duration::from_millis(10);

fn ticks(run: Run) -> u32 {
    run.scale(200, 5)
}

/// How late all ticks have come together, in nanoseconds.
static LATE: AtomicU64 = AtomicU64::new(0);

/// What one ticker notes.
struct Ticks {
    start: Instant,
    late: Duration,
    count: u32,
}

impl Ticks {
    fn new() -> Ticks {
        Ticks { start: Instant::now(), late: Duration::ZERO, count: 0 }
    }

    fn next(&self) -> Instant {
        self.start + PERIOD * (self.count + 1)
    }

    fn came(&mut self) {
        self.late += self.next().elapsed();
        self.count += 1;
    }

    fn end(self) {
        LATE.fetch_add(self.late.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// CPU nanoseconds per tick since the process had used `before`, after so many ticks.
fn figure(before: Duration, ticks: u32) -> f64 {
    say("late", LATE.load(Ordering::Relaxed) as f64 / 1e3 / f64::from(ticks));
    (cpu() - before).as_nanos() as f64 / f64::from(ticks)
}

/// What this process has used.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is alive for the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "the clock is there");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn volt<const TICKERS: u32>(run: Run) -> f64 {
    on_volt(run, move || {
        let before = cpu();
        let ticker = move || {
            let (mut ticks, mut interval) = (Ticks::new(), volt::time::interval(PERIOD));
            interval.tick();
            for _ in 0..self::ticks(run) {
                interval.tick();
                ticks.came();
            }
            ticks.end();
        };
        let all: Vec<_> = (0..TICKERS).map(|_| volt::go(ticker)).collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        figure(before, ticks(run) * TICKERS)
    })
}

fn tokio<const TICKERS: u32>(run: Run) -> f64 {
    on_tokio(run, async move {
        let before = cpu();
        let ticker = async |run| {
            let (mut ticks, mut interval) = (Ticks::new(), tokio::time::interval(PERIOD));
            interval.tick().await;
            for _ in 0..self::ticks(run) {
                interval.tick().await;
                ticks.came();
            }
            ticks.end();
        };
        let all: Vec<_> = (0..TICKERS).map(|_| tokio::spawn(ticker(run))).collect();
        for one in all {
            one.await.unwrap();
        }
        figure(before, ticks(run) * TICKERS)
    })
}

fn may<const TICKERS: u32>(run: Run) -> f64 {
    on_may(run, move || {
        let before = cpu();
        let ticker = move || {
            let mut ticks = Ticks::new();
            for _ in 0..self::ticks(run) {
                may::coroutine::sleep(ticks.next().saturating_duration_since(Instant::now()));
                ticks.came();
            }
            ticks.end();
        };
        let all: Vec<_> = (0..TICKERS).map(|_| may::go!(ticker)).collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        figure(before, ticks(run) * TICKERS)
    })
}
