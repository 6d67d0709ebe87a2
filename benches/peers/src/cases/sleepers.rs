//! 100,000 fibers sleep for 1 to 100 ms.

use std::time::{Duration, Instant};

use super::{Bar, Case, Row, Unit};
use crate::peer::{Peer, on_may, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "sleepers",
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may)],
    rows: &[Row {
        key: "figure",
        title: "100,000 sleepers, over the ideal",
        unit: Unit::Millis,
        bar: Bar::OfBest(0.3),
    }],
    note: "A fiber spawns 100,000, which sleep for 1 to 100 ms, and joins them: wall time less \
        the longest sleep. may: 30,000 of them, as each takes two of vm.max_map_count's mappings.",
    ..Case::INSIDE
};

const LONGEST: u64 = 100;

fn sleepers(run: Run) -> u64 {
    run.scale(100_000, 1_000)
}

fn nap(i: u64) -> Duration {
    Duration::from_millis(1 + i % LONGEST)
}

/// Milliseconds over the ideal.
fn over(nanos: f64) -> f64 {
    nanos / 1e6 - LONGEST as f64
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let mut sampler = run.sampler(1);
        while sampler.again() {
            let start = Instant::now();
            let all: Vec<_> =
                (0..sleepers(run)).map(|i| volt::go(move || volt::sleep(nap(i)))).collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            sampler.add(start.elapsed());
        }
        over(sampler.figure())
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let mut sampler = run.sampler(1);
        while sampler.again() {
            let start = Instant::now();
            let all: Vec<_> =
                (0..sleepers(run)).map(|i| tokio::spawn(tokio::time::sleep(nap(i)))).collect();
            for one in all {
                one.await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        over(sampler.figure())
    })
}

fn may(run: Run) -> f64 {
    on_may(run, move || {
        let mut sampler = run.sampler(1);
        while sampler.again() {
            let start = Instant::now();
            let all: Vec<_> = (0..sleepers(run).min(30_000))
                .map(|i| may::go!(move || may::coroutine::sleep(nap(i))))
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            sampler.add(start.elapsed());
        }
        over(sampler.figure())
    })
}
