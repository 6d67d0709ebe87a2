//! What a timeout costs that does not run out: `cargo bench --bench timeout`.
//!
//! Around nothing it is a look at the clock. Around a wait it is a timer besides, set and cancelled, which
//! is the difference between the last two lines. Tokio's is in `benches/peers` (`timeout_waits`).

mod common;

use std::hint::black_box;
use std::time::{Duration, Instant};
use volt::runtime::{Builder, Runtime};

const TIMES: u32 = 1_000_000;
const ROUNDS: u32 = 100_000;
const FAR: Duration = Duration::from_secs(60);

fn around_nothing(runtime: &Runtime) -> f64 {
    runtime.run(|| {
        let start = Instant::now();
        for n in 0..TIMES {
            let _ = black_box(volt::timeout(black_box(FAR), || black_box(n)));
        }
        start.elapsed().as_nanos() as f64 / f64::from(TIMES)
    })
}

/// A park/unpark round trip, whose two parks are each done by `wait`.
fn round_trip(runtime: &Runtime, wait: fn()) -> f64 {
    runtime.run(|| {
        let me = volt::current();
        let partner = volt::go(move || {
            for _ in 0..ROUNDS {
                wait();
                me.unpark();
            }
        });
        let other = partner.thread();
        let start = Instant::now();
        for _ in 0..ROUNDS {
            other.unpark();
            wait();
        }
        let elapsed = start.elapsed();
        partner.join().unwrap();
        elapsed.as_nanos() as f64 / f64::from(ROUNDS)
    })
}

fn main() {
    let runtime = Builder::new().workers(1).build().unwrap();
    common::report("timeout around nothing", 30.0, || around_nothing(&runtime));
    common::report("round trip", 35.0, || round_trip(&runtime, volt::thread::park));
    common::report("round trip of two waits with a timeout", 120.0, || {
        round_trip(&runtime, || volt::timeout(FAR, volt::thread::park).unwrap())
    });
}
