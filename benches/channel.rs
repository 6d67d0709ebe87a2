//! Messages between two fibers on two workers, and selects beside crossbeam-channel's:
//! `cargo bench --bench channel`.
//!
//! The bars are 0.4 of what the better of Tokio and Go took on the machine of the first measurements:
//! 22 ns for an item of a bounded channel, 126 ns for a round trip. The select is compared in this very
//! run, on one fiber: its channels always have messages, so nothing waits.

mod common;

use common::median;
use std::hint::black_box;
use std::time::Instant;
use volt::runtime::{Builder, Runtime};

const ITEMS: u64 = 1_000_000;
const TRIPS: u64 = 200_000;
const SELECTS: u64 = 500_000;
const ROUNDS: usize = 15;

fn nanos(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

/// One sender, one receiver.
fn items(runtime: &Runtime, capacity: Option<usize>) -> f64 {
    runtime.run(move || {
        let (s, r) = match capacity {
            Some(capacity) => volt::channel::bounded(capacity),
            None => volt::channel::unbounded(),
        };
        let start = Instant::now();
        let sender = volt::go(move || (0..ITEMS).for_each(|i| s.send(i).unwrap()));
        let sum: u64 = r.iter().sum();
        let time = nanos(start, ITEMS);
        sender.join().unwrap();
        assert_eq!(sum, ITEMS * (ITEMS - 1) / 2);
        time
    })
}

/// There and back, through two channels without capacity.
fn round_trip(runtime: &Runtime) -> f64 {
    runtime.run(|| {
        let (there, hear) = volt::channel::bounded::<u64>(0);
        let (back, answer) = volt::channel::bounded::<u64>(0);
        let echo = volt::go(move || hear.iter().for_each(|i| back.send(i).unwrap()));
        let start = Instant::now();
        for i in 0..TRIPS {
            there.send(i).unwrap();
            assert_eq!(answer.recv(), Ok(i));
        }
        let time = nanos(start, TRIPS);
        drop(there);
        echo.join().unwrap();
        time
    })
}

/// A select over two channels that both have messages; what it takes is put back, by sends that are
/// counted too, on both sides.
macro_rules! selects {
    ($library:ident $(:: $path:ident)*) => {{
        use $library$(::$path)*::{select, unbounded};
        let ((s1, r1), (s2, r2)) = (unbounded::<u64>(), unbounded::<u64>());
        for i in 0..8 {
            s1.send(i).unwrap();
            s2.send(i).unwrap();
        }
        let start = Instant::now();
        for i in 0..SELECTS {
            select! {
                recv(r1) -> got => { black_box(got.unwrap()); s1.send(i).unwrap(); }
                recv(r2) -> got => { black_box(got.unwrap()); s2.send(i).unwrap(); }
            }
        }
        nanos(start, SELECTS)
    }};
}

/// As `selects`, by one receive without a select: what must be taken off to see the select alone.
macro_rules! receives {
    ($library:ident $(:: $path:ident)*) => {{
        let (s, r) = $library$(::$path)*::unbounded::<u64>();
        (0..8).for_each(|i| s.send(i).unwrap());
        let start = Instant::now();
        for i in 0..SELECTS {
            black_box(r.recv().unwrap());
            s.send(i).unwrap();
        }
        nanos(start, SELECTS)
    }};
}

fn bar(name: &str, bar: f64, mut case: impl FnMut() -> f64) {
    case();
    let time = median((0..ROUNDS).map(|_| case()).collect());
    let verdict = if time <= bar { "met" } else { "not met" };
    println!("{name:<44} {time:>8.1} ns  bar {bar:>5}: {verdict}");
}

fn compare(name: &str, bar: f64, mut ours: impl FnMut() -> f64, mut theirs: impl FnMut() -> f64) {
    ours();
    theirs();
    let (mut times, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (one, two) = (ours(), theirs());
        times.push(one);
        ratios.push(one / two);
    }
    let (time, ratio) = (median(times), median(ratios));
    let verdict = if ratio <= bar { "met" } else { "not met" };
    println!("{name:<44} {time:>8.1} ns  {ratio:>5.2} of crossbeam's, bar {bar}: {verdict}");
}

fn main() {
    let runtime = Builder::new().workers(2).build().unwrap();
    bar("item through bounded(128), two workers", 22.0, || items(&runtime, Some(128)));
    bar("rendezvous round trip, two workers", 126.0, || round_trip(&runtime));
    bar("item through unbounded, two workers", 22.0, || items(&runtime, None));
    compare(
        "select over two ready, on a fiber",
        1.2,
        || runtime.run(|| selects!(volt::channel)),
        || runtime.run(|| selects!(crossbeam_channel)),
    );
    compare(
        "receive and send, on a fiber",
        1.2,
        || runtime.run(|| receives!(volt::channel)),
        || runtime.run(|| receives!(crossbeam_channel)),
    );
}
