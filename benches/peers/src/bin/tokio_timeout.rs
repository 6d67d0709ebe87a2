//! A timeout that does not run out, beside Tokio's, in one run: `cargo run --release --bin tokio_timeout`.
//!
//! Around something that is ready at once, and around something that waits once, so that a timer is set
//! and cancelled; what the wait itself costs is measured without a timeout and taken off. One worker.
//! Bar: 0.3.

use std::hint::black_box;
use std::time::{Duration, Instant};

const TIMES: u32 = 200_000;
const ROUNDS: usize = 15;
const FAR: Duration = Duration::from_secs(60);

fn per_time(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / f64::from(TIMES)
}

fn our_ready(runtime: &volt::runtime::Runtime) -> f64 {
    runtime.run(|| {
        let start = Instant::now();
        for n in 0..TIMES {
            let _ = black_box(volt::timeout(black_box(FAR), || black_box(n)));
        }
        per_time(start)
    })
}

fn their_ready(runtime: &tokio::runtime::Runtime) -> f64 {
    let task = async {
        let start = Instant::now();
        for n in 0..TIMES {
            let _ = black_box(tokio::time::timeout(black_box(FAR), async { black_box(n) }).await);
        }
        per_time(start)
    };
    runtime.block_on(async { tokio::spawn(task).await.unwrap() })
}

/// Two fibers wake each other in turn; a round has two waits.
fn our_round_trip(runtime: &volt::runtime::Runtime, wait: fn()) -> f64 {
    runtime.run(|| {
        let me = volt::current();
        let partner = volt::go(move || {
            for _ in 0..TIMES {
                wait();
                me.unpark();
            }
        });
        let other = partner.thread();
        let start = Instant::now();
        for _ in 0..TIMES {
            other.unpark();
            wait();
        }
        let time = per_time(start);
        partner.join().unwrap();
        time
    })
}

/// Two tasks do so.
fn their_round_trip(runtime: &tokio::runtime::Runtime, timed: bool) -> f64 {
    use std::sync::Arc;
    use tokio::sync::Notify;

    async fn wait(notify: &Notify, timed: bool) {
        if timed {
            tokio::time::timeout(FAR, notify.notified()).await.unwrap();
        } else {
            notify.notified().await;
        }
    }
    let task = async move {
        let (here, there) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (mine, other) = (Arc::clone(&there), Arc::clone(&here));
        let partner = tokio::spawn(async move {
            for _ in 0..TIMES {
                wait(&mine, timed).await;
                other.notify_one();
            }
        });
        let start = Instant::now();
        for _ in 0..TIMES {
            there.notify_one();
            wait(&here, timed).await;
        }
        let time = per_time(start);
        partner.await.unwrap();
        time
    };
    runtime.block_on(async { tokio::spawn(task).await.unwrap() })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(name: &str, mut ours: impl FnMut() -> f64, mut theirs: impl FnMut() -> f64) {
    let pairs: Vec<_> = (0..ROUNDS).map(|_| (ours(), theirs())).collect();
    let our = median(pairs.iter().map(|pair| pair.0).collect());
    let their = median(pairs.iter().map(|pair| pair.1).collect());
    let ratio = median(pairs.iter().map(|pair| pair.0 / pair.1).collect());
    println!("{name:<28}: {our:>7.1} ns, Tokio {their:>7.1} ns, ratio {ratio:.2}");
}

fn main() {
    let volt = volt::runtime::Builder::new().workers(1).build().unwrap();
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    compare("around what is ready", || our_ready(&volt), || their_ready(&tokio));
    let timed = || volt::timeout(FAR, volt::thread::park).unwrap();
    compare(
        "set and cancelled",
        || (our_round_trip(&volt, timed) - our_round_trip(&volt, volt::thread::park)) / 2.0,
        || (their_round_trip(&tokio, true) - their_round_trip(&tokio, false)) / 2.0,
    );
}
