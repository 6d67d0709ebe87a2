//! Where fibers from outside go: `cargo bench --bench placement`.
//!
//! A plain thread spawns 10,000 fibers that do nothing, or that compute for 2 us, and waits for the
//! last. Nanoseconds per fiber, for each placement in turn.

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use volt::runtime::{Builder, Placement, Runtime};

const FIBERS: usize = 10_000;

fn work(rounds: u32) {
    for n in 0..rounds {
        black_box(n);
    }
}

fn case(runtime: &Runtime, rounds: u32) -> f64 {
    let left = Arc::new(AtomicUsize::new(FIBERS));
    let me = std::thread::current();
    let start = Instant::now();
    for _ in 0..FIBERS {
        let (left, me) = (Arc::clone(&left), me.clone());
        drop(runtime.go(move || {
            work(rounds);
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                me.unpark();
            }
        }));
    }
    while left.load(Ordering::Acquire) != 0 {
        std::thread::park();
    }
    start.elapsed().as_nanos() as f64 / FIBERS as f64
}

fn main() {
    let placements = [Placement::Injector, Placement::TwoChoices, Placement::LeastLoaded];
    let runtimes =
        placements.map(|placement| Builder::new().workers(2).placement(placement).build().unwrap());
    for (what, rounds) in [("empty", 0), ("computing", 3_000)] {
        let mut times = [(); 3].map(|()| Vec::new());
        for _ in 0..15 {
            for (runtime, times) in runtimes.iter().zip(&mut times) {
                times.push(case(runtime, rounds));
            }
        }
        for (placement, times) in placements.iter().zip(times) {
            println!("{what:<10} {placement:?}: {:.0} ns per fiber", common::median(times));
        }
    }
}
