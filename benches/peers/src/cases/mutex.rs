//! Ten fibers take turns at one lock.

use std::sync::Arc;
use std::time::Instant;

use super::{Bar, Case, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "mutex",
    bodies: &[
        (Peer::Volt, volt),
        (Peer::Tokio, tokio),
        (Peer::May, may),
        (Peer::Threads, threads),
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

const FIBERS: u32 = 10;
const TIMES: u32 = 1_000_000;

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let each = run.scale(TIMES, 10_000) / FIBERS;
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let mutex = Arc::new(volt::sync::Mutex::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    volt::go(move || {
                        for _ in 0..each {
                            *mutex.lock().unwrap() += 1;
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

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let each = run.scale(TIMES, 10_000) / FIBERS;
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let mutex = Arc::new(tokio::sync::Mutex::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    tokio::spawn(async move {
                        for _ in 0..each {
                            *mutex.lock().await += 1;
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

fn may(run: Run) -> f64 {
    on_may(run, move || {
        let each = run.scale(TIMES, 10_000) / FIBERS;
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let mutex = Arc::new(may::sync::Mutex::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    may::go!(move || {
                        for _ in 0..each {
                            *mutex.lock().unwrap() += 1;
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

fn threads(run: Run) -> f64 {
    on_threads(run, || {
        let each = run.scale(TIMES, 10_000) / FIBERS;
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let mutex = Arc::new(std::sync::Mutex::new(0));
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    std::thread::spawn(move || {
                        for _ in 0..each {
                            *mutex.lock().unwrap() += 1;
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
