//! 10,000 fibers that do nothing are spawned from outside the runtime; the last one to end says so.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use super::{Bar, Case, Row, Unit};
use crate::peer::{self, Peer};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "spawn_many",
    bodies: &[
        (Peer::Volt, volt),
        (Peer::Tokio, tokio),
        (Peer::May, may),
        (Peer::Threads, threads),
        (Peer::Floor, floor),
    ],
    rows: &[Row {
        key: "figure",
        title: "spawn_many, per fiber",
        unit: Unit::Nanos,
        bar: Bar::OfBest(0.3),
    }],
    note: "A thread outside the runtime spawns 10,000 fibers; each counts down, the last one \
        sends. Go has no outside: its main goroutine spawns. Floor: what the case itself shares, its \
        two handles and its count, while all run: by 64 to two threads that spin.",
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
    measure(run, |left, done| drop(thread::spawn(move || arrive(&left, &done))))
}

/// No fiber, no queue but a vector of vectors: each worker drops what the thread outside cloned.
fn floor(run: Run) -> f64 {
    const BATCH: u32 = 64;
    let mut sampler = run.sampler(FIBERS);
    let (done, all) = channel();
    let left = Arc::new(AtomicU32::new(0));
    let queue = Mutex::<Vec<Vec<(Arc<AtomicU32>, Sender<()>)>>>::default();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..run.workers {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let batch = queue.lock().unwrap().pop();
                    let Some(batch) = batch else {
                        thread::yield_now();
                        continue;
                    };
                    batch.into_iter().for_each(|(left, done)| arrive(&left, &done));
                }
            });
        }
        while sampler.again() {
            left.store(FIBERS, Ordering::Release);
            let start = Instant::now();
            for from in (0..FIBERS).step_by(BATCH as usize) {
                let batch = from..FIBERS.min(from + BATCH);
                let batch = batch.map(|_| (Arc::clone(&left), done.clone())).collect();
                queue.lock().unwrap().push(batch);
            }
            all.recv().unwrap();
            sampler.add(start.elapsed());
        }
        over.store(true, Ordering::Relaxed);
    });
    sampler.figure()
}
