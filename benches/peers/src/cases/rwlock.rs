//! Ten fibers share a lock that nine times out of ten they only read under.

use std::sync::Arc;
use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "rwlock",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "read-write lock, per lock",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "10 fibers lock a million times in all, every tenth time to write. Tokio: \
        tokio::sync::RwLock.",
    ..Case::INSIDE
};

const FIBERS: u32 = 10;
const LOCKS: u32 = 1_000_000;

/// How often each fiber locks.
fn each(run: Run) -> u32 {
    run.scale(LOCKS, 10_000) / FIBERS
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let each = each(run);
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let lock = Arc::new(volt::sync::RwLock::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    volt::go(move || {
                        for i in 0..each {
                            match i % 10 {
                                0 => *lock.write().unwrap() += 1,
                                _ => assert!(*lock.read().unwrap() > 0),
                            }
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*lock.read().unwrap(), FIBERS * each / 10);
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
            let lock = Arc::new(tokio::sync::RwLock::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    tokio::spawn(async move {
                        for i in 0..each {
                            match i % 10 {
                                0 => *lock.write().await += 1,
                                _ => assert!(*lock.read().await > 0),
                            }
                        }
                    })
                })
                .collect();
            for one in all {
                one.await.unwrap();
            }
            assert_eq!(*lock.read().await, FIBERS * each / 10);
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
            let lock = Arc::new(may::sync::RwLock::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    may::go!(move || {
                        for i in 0..each {
                            match i % 10 {
                                0 => *lock.write().unwrap() += 1,
                                _ => assert!(*lock.read().unwrap() > 0),
                            }
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*lock.read().unwrap(), FIBERS * each / 10);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn threads(run: Run) -> f64 {
    on_threads(run, || {
        let each = each(run);
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let lock = Arc::new(std::sync::RwLock::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    std::thread::spawn(move || {
                        for i in 0..each {
                            match i % 10 {
                                0 => *lock.write().unwrap() += 1,
                                _ => assert!(*lock.read().unwrap() > 0),
                            }
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*lock.read().unwrap(), FIBERS * each / 10);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
