//! A thousand fibers compute, and are joined: how near all workers together come to their sum.

use std::hint::black_box;
use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "fork_join",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "1,000 fibers that compute, per fiber",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "A fiber spawns 1,000 that compute some 10 us each, and joins them.",
    ..Case::INSIDE
};

const FIBERS: u32 = 1_000;
const STEPS: u64 = 10_000;

/// Some 10 us.
fn compute(seed: u64) -> u64 {
    (0..STEPS).fold(black_box(seed), |x, i| x.wrapping_mul(6_364_136_223_846_793_005) ^ i)
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let fibers = run.scale(FIBERS, 50);
        let mut sampler = run.sampler(fibers);
        while sampler.again() {
            let start = Instant::now();
            let all: Vec<_> =
                (0..fibers).map(|i| volt::go(move || compute(u64::from(i)))).collect();
            all.into_iter().for_each(|one| assert_ne!(one.join().unwrap(), 0));
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let fibers = run.scale(FIBERS, 50);
        let mut sampler = run.sampler(fibers);
        while sampler.again() {
            let start = Instant::now();
            let all: Vec<_> =
                (0..fibers).map(|i| tokio::spawn(async move { compute(u64::from(i)) })).collect();
            for one in all {
                black_box(one.await.unwrap());
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may(run: Run) -> f64 {
    on_may(run, move || {
        let fibers = run.scale(FIBERS, 50);
        let mut sampler = run.sampler(fibers);
        while sampler.again() {
            let start = Instant::now();
            let all: Vec<_> =
                (0..fibers).map(|i| may::go!(move || compute(u64::from(i)))).collect();
            all.into_iter().for_each(|one| assert_ne!(one.join().unwrap(), 0));
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn threads(run: Run) -> f64 {
    on_threads(run, || {
        let fibers = run.scale(FIBERS, 50);
        let mut sampler = run.sampler(fibers);
        while sampler.again() {
            let start = Instant::now();
            let all: Vec<_> =
                (0..fibers).map(|i| std::thread::spawn(move || compute(u64::from(i)))).collect();
            all.into_iter().for_each(|one| assert_ne!(one.join().unwrap(), 0));
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
