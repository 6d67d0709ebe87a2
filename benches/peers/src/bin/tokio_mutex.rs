//! A contended lock handed over among fibers, beside Tokio's `Mutex` among its tasks, in one run:
//! `cargo run --release --bin tokio_mutex`.
//!
//! Each fiber or task locks, yields while it holds the lock, and unlocks; one worker runs all. Bar: 0.3.

use std::sync::Arc;
use std::time::Instant;

const TIMES: u32 = 200_000;
const ROUNDS: usize = 15;

fn nanos(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_nanos() as f64 / f64::from(TIMES)
}

fn ours(runtime: &volt::runtime::Runtime, fibers: u32) -> f64 {
    runtime.run(move || {
        let mutex = Arc::new(volt::sync::Mutex::new(0u32));
        nanos(|| {
            let fibers: Vec<_> = (0..fibers)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    volt::go(move || {
                        for _ in 0..TIMES / fibers {
                            let mut count = mutex.lock().unwrap();
                            volt::yield_now();
                            *count += 1;
                        }
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        })
    })
}

fn theirs(runtime: &tokio::runtime::Runtime, tasks: u32) -> f64 {
    runtime.block_on(async move {
        let mutex = Arc::new(tokio::sync::Mutex::new(0u32));
        let start = Instant::now();
        let tasks: Vec<_> = (0..tasks)
            .map(|_| {
                let mutex = Arc::clone(&mutex);
                tokio::spawn(async move {
                    for _ in 0..TIMES / tasks {
                        let mut count = mutex.lock().await;
                        tokio::task::yield_now().await;
                        *count += 1;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        start.elapsed().as_nanos() as f64 / f64::from(TIMES)
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let volt = volt::runtime::Builder::new().workers(1).build().unwrap();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    for count in [2, 10, 100] {
        let pairs: Vec<_> =
            (0..ROUNDS).map(|_| (ours(&volt, count), theirs(&tokio, count))).collect();
        let our = median(pairs.iter().map(|pair| pair.0).collect());
        let their = median(pairs.iter().map(|pair| pair.1).collect());
        let ratio = median(pairs.iter().map(|pair| pair.0 / pair.1).collect());
        println!("{count:>4} share a lock: {our:>7.1} ns, Tokio {their:>7.1} ns, ratio {ratio:.2}");
    }
}
