//! Spawning and running fibers that do not wait, from a fiber: `cargo bench --bench spawn`.
//!
//! A batch is spawned, then the spawner waits for the last one; the handles are dropped at once. One
//! worker: it shows the work, not the parallelism.

mod common;

use std::time::Instant;
use volt::runtime::{Builder, Runtime};

const BATCH: u64 = 100;
const BATCHES: u64 = 2_000;

fn detached(runtime: &Runtime) -> f64 {
    runtime.run(|| {
        let start = Instant::now();
        for _ in 0..BATCHES {
            for _ in 0..BATCH - 1 {
                drop(volt::go(|| ()));
            }
            // The last one goes behind the others.
            let me = volt::current();
            volt::yield_now();
            drop(volt::go(move || me.unpark()));
            volt::thread::park();
        }
        start.elapsed().as_nanos() as f64 / (BATCH * BATCHES) as f64
    })
}

fn joined(runtime: &Runtime) -> f64 {
    runtime.run(|| {
        let start = Instant::now();
        for _ in 0..BATCHES {
            for _ in 0..BATCH {
                volt::go(|| ()).join().unwrap();
            }
        }
        start.elapsed().as_nanos() as f64 / (BATCH * BATCHES) as f64
    })
}

fn main() {
    let runtime = Builder::new().workers(1).build().unwrap();
    common::report("spawn and run, detached, hot", 20.0, || detached(&runtime));
    common::report("spawn, run and join, one after the other", f64::INFINITY, || joined(&runtime));
}
