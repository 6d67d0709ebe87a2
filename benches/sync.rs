//! Locks and `mpsc`, beside their peers in the same run: `cargo bench --bench sync`.
//!
//! A ratio is the median of rounds in each of which both are measured in turn. What this does not show:
//! locks that are contended by more processors than there are, and the peers with futures, which
//! `benches/peers` has.

mod common;
#[path = "common/contention.rs"]
mod contention;

use common::median;
use std::hint::black_box;
use std::time::Instant;
use volt::runtime::{Builder, Runtime};

const ROUNDS: usize = 15;

/// Prints the medians of `ours` and `theirs`, which return nanoseconds per operation, and their ratio.
fn compare(
    name: &str,
    peer: &str,
    bar: f64,
    mut ours: impl FnMut() -> f64,
    mut theirs: impl FnMut() -> f64,
) {
    let (mut our_times, mut their_times, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (our, their) = (ours(), theirs());
        our_times.push(our);
        their_times.push(their);
        ratios.push(our / their);
    }
    let (our, their, ratio) = (median(our_times), median(their_times), median(ratios));
    let verdict = if ratio <= bar { "met" } else { "not met" };
    println!(
        "{name:<34} {our:>8.2} ns  {peer:<12} {their:>8.2} ns  ratio {ratio:>5.2}  bar {bar}: {verdict}"
    );
}

fn time(count: u32, f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_nanos() as f64 / f64::from(count)
}

const LOCKS: u32 = 2_000_000;

macro_rules! uncontended {
    ($mutex:expr, $lock:expr) => {{
        let mutex = $mutex;
        let lock = $lock;
        move || {
            time(LOCKS, || {
                for _ in 0..LOCKS {
                    *lock(black_box(&mutex)) += 1;
                }
            })
        }
    }};
}

fn volt_lock(mutex: &volt::sync::Mutex<u64>) -> volt::sync::MutexGuard<'_, u64> {
    mutex.lock().unwrap()
}

fn std_lock(mutex: &std::sync::Mutex<u64>) -> std::sync::MutexGuard<'_, u64> {
    mutex.lock().unwrap()
}

fn parking_lot_lock(mutex: &parking_lot::Mutex<u64>) -> parking_lot::MutexGuard<'_, u64> {
    mutex.lock()
}

fn locks() {
    let ours = || uncontended!(volt::sync::Mutex::new(0), volt_lock);
    let parking_lot = uncontended!(parking_lot::Mutex::new(0), parking_lot_lock);
    compare("lock and unlock, free", "parking_lot", 1.2, ours(), parking_lot);
    let std = uncontended!(std::sync::Mutex::new(0), std_lock);
    compare("lock and unlock, free", "std", 1.2, ours(), std);
}

/// `fibers` that each lock, yield and unlock: the lock goes from hand to hand.
fn hand_over(runtime: &Runtime, fibers: u32) -> f64 {
    const TIMES: u32 = 20_000;
    runtime.run(move || {
        let mutex = volt::sync::Arc::new(volt::sync::Mutex::new(0u32));
        let each = TIMES / fibers;
        let nanos = time(TIMES, || {
            let fibers: Vec<_> = (0..fibers)
                .map(|_| {
                    let mutex = volt::sync::Arc::clone(&mutex);
                    volt::go(move || {
                        for _ in 0..each {
                            let mut count = mutex.lock().unwrap();
                            volt::yield_now();
                            *count += 1;
                        }
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        assert_eq!(*mutex.lock().unwrap(), each * fibers);
        nanos
    })
}

fn hand_overs() {
    let runtime = Builder::new().workers(1).build().unwrap();
    for fibers in [2, 100] {
        let name = format!("lock handed over among {fibers} fibers");
        common::report(&name, 60.0, || hand_over(&runtime, fibers));
    }
}

/// The longest wait for a lock that nobody leaves alone.
fn fairness() {
    type Ours = volt::sync::Mutex<contention::Inside>;
    longest_waits::<Ours>("8 fibers, 1 worker", 1, [8, 0]);
    longest_waits::<Ours>("8 fibers, 2 workers", 2, [8, 0]);
    longest_waits::<Ours>("4 fibers, 2 threads", 1, [4, 2]);
    longest_waits::<Ours>("4 threads", 1, [0, 4]);
    longest_waits::<std::sync::Mutex<_>>("4 threads, std", 1, [0, 4]);
    longest_waits::<parking_lot::Mutex<_>>("4 threads, parking_lot", 1, [0, 4]);
}

/// In hand-overs to a fiber or to a thread. What the machine does to whoever has the lock, or has been told to
/// come, is part of it, so this is the middle one of several runs.
fn longest_waits<M: contention::Mutex>(name: &str, workers: usize, counts: [usize; 2]) {
    const BAR: f64 = 1_000.0;
    let runtime = Builder::new().workers(workers).build().unwrap();
    let [fibers, threads] = counts;
    let time = std::time::Duration::from_millis(200);
    let runs: Vec<_> =
        (0..9).map(|_| contention::contend::<M>(&runtime, fibers, threads, time)).collect();
    let turn = median(runs.iter().map(|run| run.turn as f64).collect());
    for (kind, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let mut waits: Vec<_> = runs.iter().map(|run| &run.waits[kind]).collect();
        waits.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        let waits = waits[waits.len() / 2];
        let who = ["fiber", "thread"][kind];
        let verdict = if waits.ratio() <= BAR { "met" } else { "not met" };
        println!(
            "{name:<22} longest wait of {count} {who:<6} {:>7.1} us, {:>7.1} while others got through  \
             hand-over {:>5} ns  ratio {:>6.0}, {:>6.0}  overtaken {:>5} times  {turn:>5} ns a turn  bar {BAR}: {verdict}",
            waits.longest as f64 / 1e3,
            waits.longest_passed as f64 / 1e3,
            waits.hand_over(),
            waits.longest as f64 / waits.hand_over() as f64,
            waits.ratio(),
            waits.overtaken,
        );
    }
}

const VALUES: u32 = 400_000;

/// One thread sends, this one receives.
macro_rules! stream {
    ($channel:expr) => {
        || {
            time(VALUES, || {
                let (sender, receiver) = $channel;
                let thread = std::thread::spawn(move || {
                    (0..VALUES).for_each(|n| sender.send(n).unwrap());
                });
                assert_eq!(receiver.iter().count(), VALUES as usize);
                thread.join().unwrap();
            })
        }
    };
}

/// Four threads send, this one receives.
macro_rules! merge {
    ($channel:expr) => {
        || {
            time(VALUES, || {
                let (sender, receiver) = $channel;
                let threads = [(); 4].map(|()| {
                    let sender = sender.clone();
                    std::thread::spawn(move || {
                        (0..VALUES / 4).for_each(|n| sender.send(n).unwrap());
                    })
                });
                drop(sender);
                assert_eq!(receiver.iter().count(), VALUES as usize);
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            })
        }
    };
}

/// Sent and received by the same thread.
macro_rules! alone {
    ($channel:expr) => {
        || {
            let (sender, receiver) = $channel;
            time(VALUES, || {
                for n in 0..VALUES {
                    sender.send(n).unwrap();
                    assert_eq!(receiver.recv(), Ok(n));
                }
            })
        }
    };
}

/// A value there and one back, between two threads.
macro_rules! round_trip {
    ($there:expr, $back:expr) => {
        || {
            const TRIPS: u32 = 10_000;
            time(TRIPS, || {
                let ((sender, there), (back, receiver)) = ($there, $back);
                let thread = std::thread::spawn(move || {
                    there.iter().for_each(|n: u32| back.send(n).unwrap());
                });
                for n in 0..TRIPS {
                    sender.send(n).unwrap();
                    assert_eq!(receiver.recv(), Ok(n));
                }
                drop(sender);
                thread.join().unwrap();
            })
        }
    };
}

fn channels() {
    use std::sync::mpsc as theirs;
    use volt::sync::mpsc as ours;
    let row = |name, ours: &dyn Fn() -> f64, theirs: &dyn Fn() -> f64| {
        compare(name, "std", 1.0, ours, theirs);
    };
    row("channel, alone", &alone!(ours::channel()), &alone!(theirs::channel()));
    row("channel, one to one", &stream!(ours::channel()), &stream!(theirs::channel()));
    row("channel, four to one", &merge!(ours::channel()), &merge!(theirs::channel()));
    row(
        "channel, round trip",
        &round_trip!(ours::channel(), ours::channel()),
        &round_trip!(theirs::channel(), theirs::channel()),
    );
    row(
        "sync_channel(128), alone",
        &alone!(ours::sync_channel(128)),
        &alone!(theirs::sync_channel(128)),
    );
    row(
        "sync_channel(128), one to one",
        &stream!(ours::sync_channel(128)),
        &stream!(theirs::sync_channel(128)),
    );
    row(
        "sync_channel(128), four to one",
        &merge!(ours::sync_channel(128)),
        &merge!(theirs::sync_channel(128)),
    );
    row(
        "sync_channel(0), round trip",
        &round_trip!(ours::sync_channel(0), ours::sync_channel(0)),
        &round_trip!(theirs::sync_channel(0), theirs::sync_channel(0)),
    );
}

/// All parts, or those that are named: `cargo bench --bench sync -- fairness`.
fn main() {
    let named: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let parts: [(&str, fn()); 4] = [
        ("locks", locks),
        ("hand_overs", hand_overs),
        ("fairness", fairness),
        ("channels", channels),
    ];
    for (name, part) in parts {
        if named.is_empty() || named.iter().any(|other| other == name) {
            part();
        }
    }
}
