//! A yield among 200 fibers: `cargo bench --bench yields`.

mod common;

use std::time::Instant;
use volt::runtime::{Builder, Runtime};

const FIBERS: u64 = 200;
const YIELDS: u64 = 5_000;

fn case(runtime: &Runtime) -> f64 {
    runtime.run(|| {
        let start = Instant::now();
        let fibers: Vec<_> = (0..FIBERS)
            .map(|_| {
                volt::go(|| {
                    for _ in 0..YIELDS {
                        volt::yield_now();
                    }
                })
            })
            .collect();
        for fiber in fibers {
            fiber.join().unwrap();
        }
        start.elapsed().as_nanos() as f64 / (FIBERS * YIELDS) as f64
    })
}

fn main() {
    let one = Builder::new().workers(1).build().unwrap();
    common::report("yield among 200, one worker", 9.0, || case(&one));
    drop(one);
    let two = Builder::new().workers(2).build().unwrap();
    common::report("yield among 200, two workers", 10.0, || case(&two));
}
