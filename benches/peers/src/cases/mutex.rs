//! Ten fibers take turns at one lock, and share one that each holds over a yield, so that every unlock hands
//! it on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::{Run, compute_for};

pub const CASE: Case = Case {
    name: "mutex",
    bodies: &[
        (Peer::Volt, volt::<FREE>),
        (Peer::Tokio, tokio::<FREE>),
        (Peer::May, may::<FREE>),
        (Peer::Threads, threads::<FREE>),
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
        (Peer::Volt, volt::<YIELDS>),
        (Peer::Tokio, tokio::<YIELDS>),
        (Peer::May, may::<YIELDS>),
        (Peer::Threads, threads::<YIELDS>),
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

pub const COMPUTES: Case = Case {
    name: "mutex_computing",
    bodies: &[
        (Peer::Volt, volt::<WORKS>),
        (Peer::Tokio, tokio::<WORKS>),
        (Peer::May, may::<WORKS>),
        (Peer::Threads, threads::<WORKS>),
    ],
    rows: &[Row {
        key: "figure",
        title: "mutex held for 20 us, and 20 us between, per lock",
        unit: Unit::Micros,
        bar: Bar::NotSlower,
    }],
    note: "10 fibers lock, compute for 20 us, add one, unlock and compute for 20 us, 20,000 times in all: 20 us a lock \
        at best, on two workers.",
    ..HELD
};

pub const COMPUTES_BRIEFLY: Case = Case {
    name: "mutex_brief",
    bodies: &[
        (Peer::Volt, volt::<WORKS_BRIEFLY>),
        (Peer::Tokio, tokio::<WORKS_BRIEFLY>),
        (Peer::May, may::<WORKS_BRIEFLY>),
        (Peer::Threads, threads::<WORKS_BRIEFLY>),
    ],
    rows: &[Row {
        key: "figure",
        title: "mutex held for 1 us, and 1 us between, per lock",
        unit: Unit::Micros,
        bar: Bar::NotSlower,
    }],
    note: "The same with 1 us each, 200,000 times in all.",
    ..COMPUTES
};

/// What a fiber does with the lock.
const FREE: u8 = 0;
const YIELDS: u8 = 1;
/// And without it as well.
const WORKS: u8 = 2;
const WORKS_BRIEFLY: u8 = 3;

fn piece<const TURN: u8>() {
    compute_for(Duration::from_micros(if TURN == WORKS { 20 } else { 1 }));
}

/// Without the lock.
fn goes_on<const TURN: u8>() {
    if TURN >= WORKS {
        piece::<TURN>();
    }
}

/// Of nanoseconds, in the unit of the case.
fn figure<const TURN: u8>(nanos: f64) -> f64 {
    if TURN >= WORKS { nanos / 1e3 } else { nanos }
}

const FIBERS: u32 = 10;

/// How often each fiber locks.
fn each<const TURN: u8>(run: Run) -> u32 {
    let locks = match TURN {
        FREE => 1_000_000,
        YIELDS | WORKS_BRIEFLY => 200_000,
        _ => 20_000,
    };
    run.scale(locks, 1_000) / FIBERS
}

fn volt<const TURN: u8>(run: Run) -> f64 {
    on_volt(run, move || {
        let each = each::<TURN>(run);
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
                            match TURN {
                                FREE => {}
                                YIELDS => volt::yield_now(),
                                _ => piece::<TURN>(),
                            }
                            *count += 1;
                            drop(count);
                            goes_on::<TURN>();
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*mutex.lock().unwrap(), FIBERS * each);
            sampler.add(start.elapsed());
        }
        figure::<TURN>(sampler.figure())
    })
}

fn tokio<const TURN: u8>(run: Run) -> f64 {
    on_tokio(run, async move {
        let each = each::<TURN>(run);
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
                            match TURN {
                                FREE => {}
                                YIELDS => tokio::task::yield_now().await,
                                _ => piece::<TURN>(),
                            }
                            *count += 1;
                            drop(count);
                            goes_on::<TURN>();
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
        figure::<TURN>(sampler.figure())
    })
}

fn may<const TURN: u8>(run: Run) -> f64 {
    on_may(run, move || {
        let each = each::<TURN>(run);
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
                            match TURN {
                                FREE => {}
                                YIELDS => may::coroutine::yield_now(),
                                _ => piece::<TURN>(),
                            }
                            *count += 1;
                            drop(count);
                            goes_on::<TURN>();
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*mutex.lock().unwrap(), FIBERS * each);
            sampler.add(start.elapsed());
        }
        figure::<TURN>(sampler.figure())
    })
}

fn threads<const TURN: u8>(run: Run) -> f64 {
    on_threads(run, || {
        let each = each::<TURN>(run);
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
                            match TURN {
                                FREE => {}
                                YIELDS => std::thread::yield_now(),
                                _ => piece::<TURN>(),
                            }
                            *count += 1;
                            drop(count);
                            goes_on::<TURN>();
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(*mutex.lock().unwrap(), FIBERS * each);
            sampler.add(start.elapsed());
        }
        figure::<TURN>(sampler.figure())
    })
}
