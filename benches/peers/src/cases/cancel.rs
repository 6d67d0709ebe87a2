//! 100,000 fibers that sleep are cancelled from outside, or told to stop.

use std::panic::{catch_unwind, resume_unwind};
use std::thread;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use volt::cancel::Token;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "cancel",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Floor, floor)],
    rows: &[Row {
        key: "figure",
        title: "cancel of 100,000 sleepers, each",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "100,000 fibers sleep for an hour; they are cancelled one by one, and joined. volt's and \
        may's unwind, Tokio's are dropped; Go's select over the sleep and a context. may: 30,000. \
        Floor: as many empty panics raised and caught, on as many threads.",
    ..Case::INSIDE
};

pub const TOLD: Case = Case {
    name: "cancel_told",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt_told), (Peer::Tokio, tokio_told)],
    rows: &[Row {
        key: "figure",
        title: "100,000 told to stop by a token, each",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "100,000 fibers wait for a token, an hour at most, and end when it is cancelled. Tokio: \
        the token of tokio-util; Go: select over a context and a timer, as above.",
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

fn floor(run: Run) -> f64 {
    let each = sleepers(run) / run.workers as u32;
    let mut sampler = run.sampler(each * run.workers as u32);
    while sampler.again() {
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..run.workers {
                scope.spawn(|| (0..each).for_each(|_| raise_and_catch()));
            }
        });
        sampler.add(start.elapsed());
    }
    sampler.figure()
}

fn raise_and_catch() {
    let caught = catch_unwind(|| resume_unwind(Box::new(())));
    let Err(_) = caught;
}

fn volt_told(run: Run) -> f64 {
    on_volt(run, move || {
        let mut sampler = run.sampler(sleepers(run));
        while sampler.again() {
            let token = Token::new();
            let wait = |token: Token| move || volt::time::timeout(HOUR, || token.cancelled());
            let all: Vec<_> = (0..sleepers(run)).map(|_| volt::go(wait(token.clone()))).collect();
            volt::sleep(SETTLED);
            let start = Instant::now();
            token.cancel();
            all.into_iter().for_each(|one| assert!(one.join().unwrap().is_ok()));
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio_told(run: Run) -> f64 {
    on_tokio(run, async move {
        let mut sampler = run.sampler(sleepers(run));
        while sampler.again() {
            let token = CancellationToken::new();
            let all: Vec<_> = (0..sleepers(run))
                .map(|_| {
                    let token = token.clone();
                    tokio::spawn(tokio::time::timeout(HOUR, token.cancelled_owned()))
                })
                .collect();
            tokio::time::sleep(SETTLED).await;
            let start = Instant::now();
            token.cancel();
            for one in all {
                assert!(one.await.unwrap().is_ok());
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
