//! A plain thread has one fiber after the other do something, and waits for it.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{self, Peer};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "outside_join",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "spawn from outside and join, one after the other",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "A thread outside the runtime spawns a fiber that does nothing and joins it, 5,000 times; everything sleeps \
        in between. Go has no outside.",
    go: false,
    ..Case::INSIDE
};

fn measure(run: Run, spawn_and_join: impl Fn()) -> f64 {
    let times = run.scale(5_000, 500);
    let mut sampler = run.sampler(times);
    while sampler.again() {
        let start = Instant::now();
        (0..times).for_each(|_| spawn_and_join());
        sampler.add(start.elapsed());
    }
    sampler.figure()
}

fn volt(run: Run) -> f64 {
    let runtime = peer::volt(run);
    measure(run, || runtime.go(|| ()).join().unwrap())
}

fn tokio(run: Run) -> f64 {
    let runtime = peer::tokio(run);
    measure(run, || runtime.block_on(runtime.spawn(async {})).unwrap())
}

fn may(run: Run) -> f64 {
    peer::may(run);
    measure(run, || may::go!(|| ()).join().unwrap())
}

fn threads(run: Run) -> f64 {
    peer::threads(run);
    measure(run, || std::thread::spawn(|| ()).join().unwrap())
}
