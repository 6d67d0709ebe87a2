//! Ten fibers share a lock that nine times out of ten they only read under.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::{Run, compute_for};

pub const CASE: Case = Case {
    name: "rwlock",
    part: Part::Beside,
    bodies: &[
        (Peer::Volt, volt::<0>),
        (Peer::Tokio, tokio::<0>),
        (Peer::May, may::<0>),
        (Peer::Threads, threads::<0>),
    ],
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

/// The same, where readers compute.
pub const HELD: Case = Case {
    name: "rwlock_held",
    bodies: &[
        (Peer::Volt, volt::<20>),
        (Peer::Tokio, tokio::<20>),
        (Peer::May, may::<20>),
        (Peer::Threads, threads::<20>),
    ],
    rows: &[Row {
        key: "figure",
        title: "read-write lock held by readers for 20 us, per lock",
        unit: Unit::Micros,
        bar: Bar::NotSlower,
    }],
    note: "10 fibers lock 20,000 times in all, and compute for 20 us each time they read: 9 us a lock at best, on \
        two workers.",
    ..CASE
};

const FIBERS: u32 = 10;
const LOCKS: u32 = 1_000_000;

/// How often each fiber locks.
fn each<const MICROS: u64>(run: Run) -> u32 {
    run.scale(if MICROS > 0 { 20_000 } else { LOCKS }, 1_000) / FIBERS
}

fn read<const MICROS: u64>(count: &u32) {
    assert!(*count > 0);
    if MICROS > 0 {
        compute_for(Duration::from_micros(MICROS));
    }
}

/// Of nanoseconds, in the unit of the case.
fn figure<const MICROS: u64>(nanos: f64) -> f64 {
    if MICROS > 0 { nanos / 1e3 } else { nanos }
}

fn volt<const MICROS: u64>(run: Run) -> f64 {
    on_volt(run, move || {
        let each = each::<MICROS>(run);
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
                                _ => read::<MICROS>(&lock.read().unwrap()),
                            }
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*lock.read().unwrap(), FIBERS * each / 10);
            sampler.add(start.elapsed());
        }
        figure::<MICROS>(sampler.figure())
    })
}

fn tokio<const MICROS: u64>(run: Run) -> f64 {
    on_tokio(run, async move {
        let each = each::<MICROS>(run);
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
                                _ => read::<MICROS>(&*lock.read().await),
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
        figure::<MICROS>(sampler.figure())
    })
}

fn may<const MICROS: u64>(run: Run) -> f64 {
    on_may(run, move || {
        let each = each::<MICROS>(run);
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
                                _ => read::<MICROS>(&lock.read().unwrap()),
                            }
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*lock.read().unwrap(), FIBERS * each / 10);
            sampler.add(start.elapsed());
        }
        figure::<MICROS>(sampler.figure())
    })
}

fn threads<const MICROS: u64>(run: Run) -> f64 {
    on_threads(run, || {
        let each = each::<MICROS>(run);
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
                                _ => read::<MICROS>(&lock.read().unwrap()),
                            }
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*lock.read().unwrap(), FIBERS * each / 10);
            sampler.add(start.elapsed());
        }
        figure::<MICROS>(sampler.figure())
    })
}
