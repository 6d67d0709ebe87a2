//! 10,000 fibers that do nothing are spawned from outside the runtime; the last one to end says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use super::{Bar, Case, Row, Unit};
use crate::peer::{self, Peer};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "spawn_many",
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "spawn_many, per fiber",
        unit: Unit::Nanos,
        bar: Bar::OfBest(0.3),
    }],
    note: "A thread outside the runtime spawns 10,000 fibers; each counts down, the last one \
        sends. Go has no outside: its main goroutine spawns.",
    ..Case::INSIDE
};

const FIBERS: u32 = 10_000;

/// What each fiber does.
fn arrive(left: &AtomicU32, done: &Sender<()>) {
    if left.fetch_sub(1, Ordering::AcqRel) == 1 {
        done.send(()).unwrap();
    }
}

/// `spawn` starts the given fiber and lets it go.
fn measure(run: Run, spawn: impl Fn(Arc<AtomicU32>, Sender<()>)) -> f64 {
    let (done, all) = channel();
    let left = Arc::new(AtomicU32::new(0));
    let mut sampler = run.sampler(FIBERS);
    while sampler.again() {
        left.store(FIBERS, Ordering::Release);
        let start = Instant::now();
        for _ in 0..FIBERS {
            spawn(Arc::clone(&left), done.clone());
        }
        all.recv().unwrap();
        sampler.add(start.elapsed());
    }
    sampler.figure()
}

fn volt(run: Run) -> f64 {
    let runtime = peer::volt(run);
    measure(run, |left, done| drop(runtime.go(move || arrive(&left, &done))))
}

fn tokio(run: Run) -> f64 {
    let runtime = peer::tokio(run);
    measure(run, |left, done| drop(runtime.spawn(async move { arrive(&left, &done) })))
}

fn may(run: Run) -> f64 {
    peer::may(run);
    measure(run, |left, done| drop(may::go!(move || arrive(&left, &done))))
}

fn threads(run: Run) -> f64 {
    peer::threads(run);
    measure(run, |left, done| drop(std::thread::spawn(move || arrive(&left, &done))))
}
