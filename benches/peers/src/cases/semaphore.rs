//! Ten fibers share three permits, each of which is held over a yield.

use std::sync::Arc;
use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "semaphore",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may)],
    rows: &[Row {
        key: "figure",
        title: "semaphore held over a yield, per permit",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "10 fibers take one of 3 permits, yield and give it back, 200,000 times in all. Go: a \
        channel of capacity 3.",
    ..Case::INSIDE
};

const FIBERS: u32 = 10;
const PERMITS: usize = 3;

/// How often each fiber takes one.
fn each(run: Run) -> u32 {
    run.scale(200_000, 10_000) / FIBERS
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let each = each(run);
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let permits = Arc::new(volt::sync::Semaphore::new(PERMITS));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let permits = Arc::clone(&permits);
                    volt::go(move || {
                        for _ in 0..each {
                            let _permit = permits.acquire().unwrap();
                            volt::yield_now();
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let each = each(run);
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let permits = Arc::new(tokio::sync::Semaphore::new(PERMITS));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let permits = Arc::clone(&permits);
                    tokio::spawn(async move {
                        for _ in 0..each {
                            let _permit = permits.acquire().await.unwrap();
                            tokio::task::yield_now().await;
                        }
                    })
                })
                .collect();
            for one in all {
                one.await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may(run: Run) -> f64 {
    on_may(run, move || {
        let each = each(run);
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let permits = Arc::new(may::sync::Semphore::new(PERMITS));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let permits = Arc::clone(&permits);
                    may::go!(move || {
                        for _ in 0..each {
                            permits.wait();
                            may::coroutine::yield_now();
                            permits.post();
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
