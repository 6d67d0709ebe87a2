//! Ten fibers take turns at one lock, and share one that each holds over a yield, so that every unlock hands
//! it on.

use std::sync::Arc;
use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "mutex",
    bodies: &[
        (Peer::Volt, volt::<false>),
        (Peer::Tokio, tokio::<false>),
        (Peer::May, may::<false>),
        (Peer::Threads, threads::<false>),
        (Peer::Floor, super::channel_round_trip::compare_and_swap_pair),
    ],
    rows: &[Row {
        key: "figure",
        title: "contended mutex, per lock",
        unit: Unit::Nanos,
        bar: Bar::OfBest(0.4),
    }],
    note: "10 fibers lock, add one and unlock, a million times in all. Tokio: tokio::sync::Mutex, \
        the one that may be held over a wait, as volt's may. Floor: an uncontended pair of \
        compare-and-swap.",
    ..Case::INSIDE
};

pub const HELD: Case = Case {
    name: "mutex_held",
    part: Part::Beside,
    bodies: &[
        (Peer::Volt, volt::<true>),
        (Peer::Tokio, tokio::<true>),
        (Peer::May, may::<true>),
        (Peer::Threads, threads::<true>),
    ],
    rows: &[Row {
        key: "figure",
        title: "mutex held over a yield, per lock",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "10 fibers lock, yield, add one and unlock, 200,000 times in all; Tokio: \
        tokio::sync::Mutex; threads: sched_yield under std's.",
    ..Case::INSIDE
};

const FIBERS: u32 = 10;

/// How often each fiber locks.
fn each<const HELD: bool>(run: Run) -> u32 {
    run.scale(if HELD { 200_000 } else { 1_000_000 }, 10_000) / FIBERS
}

fn volt<const HELD: bool>(run: Run) -> f64 {
    on_volt(run, move || {
        let each = each::<HELD>(run);
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let mutex = Arc::new(volt::sync::Mutex::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    volt::go(move || {
                        for _ in 0..each {
                            let mut count = mutex.lock().unwrap();
                            if HELD {
                                volt::yield_now();
                            }
                            *count += 1;
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*mutex.lock().unwrap(), FIBERS * each);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio<const HELD: bool>(run: Run) -> f64 {
    on_tokio(run, async move {
        let each = each::<HELD>(run);
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let mutex = Arc::new(tokio::sync::Mutex::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    tokio::spawn(async move {
                        for _ in 0..each {
                            let mut count = mutex.lock().await;
                            if HELD {
                                tokio::task::yield_now().await;
                            }
                            *count += 1;
                        }
                    })
                })
                .collect();
            for one in all {
                one.await.unwrap();
            }
            assert_eq!(*mutex.lock().await, FIBERS * each);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may<const HELD: bool>(run: Run) -> f64 {
    on_may(run, move || {
        let each = each::<HELD>(run);
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let mutex = Arc::new(may::sync::Mutex::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    may::go!(move || {
                        for _ in 0..each {
                            let mut count = mutex.lock().unwrap();
                            if HELD {
                                may::coroutine::yield_now();
                            }
                            *count += 1;
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*mutex.lock().unwrap(), FIBERS * each);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn threads<const HELD: bool>(run: Run) -> f64 {
    on_threads(run, || {
        let each = each::<HELD>(run);
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let mutex = Arc::new(std::sync::Mutex::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    std::thread::spawn(move || {
                        for _ in 0..each {
                            let mut count = mutex.lock().unwrap();
                            if HELD {
                                std::thread::yield_now();
                            }
                            *count += 1;
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*mutex.lock().unwrap(), FIBERS * each);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
