//! A park/unpark round trip between two fibers of one worker: `cargo bench --bench park`.

mod common;

use std::time::Instant;
use volt::runtime::{Builder, Runtime};

const ROUNDS: u64 = 200_000;

fn case(runtime: &Runtime) -> f64 {
    runtime.run(|| {
        let me = volt::current();
        let partner = volt::go(move || {
            for _ in 0..ROUNDS {
                volt::thread::park();
                me.unpark();
            }
        });
        let other = partner.thread();
        let start = Instant::now();
        for _ in 0..ROUNDS {
            other.unpark();
            volt::thread::park();
        }
        let elapsed = start.elapsed();
        partner.join().unwrap();
        elapsed.as_nanos() as f64 / ROUNDS as f64
    })
}

fn main() {
    let runtime = Builder::new().workers(1).build().unwrap();
    common::report("park/unpark round trip, one worker", 35.0, || case(&runtime));
}
