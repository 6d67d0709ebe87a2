//! 200 fibers yield 1,000 times each.

use std::time::Instant;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use super::{Bar, Case, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "yield_many",
    bodies: &[
        (Peer::Volt, volt),
        (Peer::Tokio, tokio),
        (Peer::May, may),
        (Peer::Threads, threads),
        (Peer::Floor, floor),
    ],
    rows: &[Row {
        key: "figure",
        title: "yield_many, per yield",
        unit: Unit::Nanos,
        bar: Bar::OfBest(0.5),
    }],
    note: "200 fibers yield 1,000 times each. Floor: corosensei's bare resume and suspend, 200 in \
        turn, one thread.",
    ..Case::INSIDE
};

const FIBERS: u32 = 200;
const YIELDS: u32 = 1_000;

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let mut sampler = run.sampler(FIBERS * YIELDS);
        while sampler.again() {
            let start = Instant::now();
            let fibers: Vec<_> = (0..FIBERS)
                .map(|_| volt::go(|| (0..YIELDS).for_each(|_| volt::yield_now())))
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let mut sampler = run.sampler(FIBERS * YIELDS);
        while sampler.again() {
            let start = Instant::now();
            let tasks: Vec<_> = (0..FIBERS)
                .map(|_| {
                    tokio::spawn(async {
                        for _ in 0..YIELDS {
                            tokio::task::yield_now().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may(run: Run) -> f64 {
    on_may(run, move || {
        let mut sampler = run.sampler(FIBERS * YIELDS);
        while sampler.again() {
            let start = Instant::now();
            let coroutines: Vec<_> = (0..FIBERS)
                .map(|_| may::go!(|| (0..YIELDS).for_each(|_| may::coroutine::yield_now())))
                .collect();
            coroutines.into_iter().for_each(|coroutine| coroutine.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn threads(run: Run) -> f64 {
    on_threads(run, || {
        let mut sampler = run.sampler(FIBERS * YIELDS);
        while sampler.again() {
            let start = Instant::now();
            let threads: Vec<_> = (0..FIBERS)
                .map(|_| std::thread::spawn(|| (0..YIELDS).for_each(|_| std::thread::yield_now())))
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn floor(run: Run) -> f64 {
    let mut ring: Vec<_> = (0..FIBERS)
        .map(|_| {
            Coroutine::<(), (), (), DefaultStack>::new(|yielder, ()| {
                loop {
                    yielder.suspend(());
                }
            })
        })
        .collect();
    let mut sampler = run.sampler(FIBERS * YIELDS);
    while sampler.again() {
        let start = Instant::now();
        for _ in 0..YIELDS {
            for coroutine in &mut ring {
                let CoroutineResult::Yield(()) = coroutine.resume(()) else { unreachable!() };
            }
        }
        sampler.add(start.elapsed());
    }
    // Coroutines that have not ended would be unwound, one by one.
    std::mem::forget(ring);
    sampler.figure()
}
