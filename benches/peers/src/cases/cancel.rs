//! 100,000 fibers that sleep are cancelled.

use std::time::{Duration, Instant};

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "cancel",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may)],
    rows: &[Row {
        key: "figure",
        title: "cancel of 100,000 sleepers, each",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "100,000 fibers sleep for an hour; they are cancelled one by one, and joined. volt's and \
        may's unwind, Tokio's are dropped; Go's select over the sleep and a context. may: 30,000.",
    ..Case::INSIDE
};

const HOUR: Duration = Duration::from_secs(3600);
/// Until all sleep.
const SETTLED: Duration = Duration::from_millis(500);

fn sleepers(run: Run) -> u32 {
    run.scale(100_000, 1_000)
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let mut sampler = run.sampler(sleepers(run));
        while sampler.again() {
            let all: Vec<_> = (0..sleepers(run)).map(|_| volt::go(|| volt::sleep(HOUR))).collect();
            volt::sleep(SETTLED);
            let start = Instant::now();
            all.iter().for_each(|one| one.cancel());
            all.into_iter().for_each(|one| assert!(one.join().is_err()));
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let mut sampler = run.sampler(sleepers(run));
        while sampler.again() {
            let all: Vec<_> =
                (0..sleepers(run)).map(|_| tokio::spawn(tokio::time::sleep(HOUR))).collect();
            tokio::time::sleep(SETTLED).await;
            let start = Instant::now();
            all.iter().for_each(|one| one.abort());
            for one in all {
                assert!(one.await.is_err());
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may(run: Run) -> f64 {
    on_may(run, move || {
        let count = sleepers(run).min(30_000);
        let mut sampler = run.sampler(count);
        while sampler.again() {
            let all: Vec<_> =
                (0..count).map(|_| may::go!(|| may::coroutine::sleep(HOUR))).collect();
            may::coroutine::sleep(SETTLED);
            let start = Instant::now();
            for one in &all {
                // SAFETY: what it runs is a sleep, which has nothing to clean up.
                unsafe { one.coroutine().cancel() };
            }
            all.into_iter().for_each(|one| assert!(one.join().is_err()));
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
