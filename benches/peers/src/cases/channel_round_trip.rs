//! A message there and one back, over two channels without capacity.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::{Bar, Case, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "channel_round_trip",
    bodies: &[
        (Peer::Volt, volt),
        (Peer::Tokio, tokio),
        (Peer::May, may),
        (Peer::Threads, threads),
        (Peer::Floor, floor),
    ],
    rows: &[Row {
        key: "figure",
        title: "channel round trip",
        unit: Unit::Nanos,
        bar: Bar::OfBest(0.3),
    }],
    note: "A number there and back over two rendezvous channels. Tokio has none, nearest is mpsc \
        of capacity 1; may's mpsc is unbounded. Floor: two uncontended pairs of compare-and-swap.",
    ..Case::INSIDE
};

const TRIPS: u32 = 50_000;

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let trips = run.scale(TRIPS, 1_000);
        let mut sampler = run.sampler(trips);
        let (there, hear) = volt::channel::bounded::<u32>(0);
        let (back, answer) = volt::channel::bounded(0);
        volt::go(move || hear.iter().for_each(|i| back.send(i).unwrap()));
        while sampler.again() {
            let start = Instant::now();
            for i in 0..trips {
                there.send(i).unwrap();
                assert_eq!(answer.recv(), Ok(i));
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let trips = run.scale(TRIPS, 1_000);
        let mut sampler = run.sampler(trips);
        let (there, mut hear) = tokio::sync::mpsc::channel::<u32>(1);
        let (back, mut answer) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(i) = hear.recv().await {
                back.send(i).await.unwrap();
            }
        });
        while sampler.again() {
            let start = Instant::now();
            for i in 0..trips {
                there.send(i).await.unwrap();
                assert_eq!(answer.recv().await, Some(i));
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may(run: Run) -> f64 {
    on_may(run, move || {
        let trips = run.scale(TRIPS, 1_000);
        let mut sampler = run.sampler(trips);
        let (there, hear) = may::sync::mpsc::channel::<u32>();
        let (back, answer) = may::sync::mpsc::channel();
        may::go!(move || hear.iter().for_each(|i| back.send(i).unwrap()));
        while sampler.again() {
            let start = Instant::now();
            for i in 0..trips {
                there.send(i).unwrap();
                assert_eq!(answer.recv(), Ok(i));
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn threads(run: Run) -> f64 {
    on_threads(run, || {
        let trips = run.scale(TRIPS / 10, 1_000);
        let mut sampler = run.sampler(trips);
        let (there, hear) = std::sync::mpsc::sync_channel::<u32>(0);
        let (back, answer) = std::sync::mpsc::sync_channel(0);
        std::thread::spawn(move || hear.iter().for_each(|i| back.send(i).unwrap()));
        while sampler.again() {
            let start = Instant::now();
            for i in 0..trips {
                there.send(i).unwrap();
                assert_eq!(answer.recv(), Ok(i));
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn floor(run: Run) -> f64 {
    2.0 * compare_and_swap_pair(run)
}

/// Nanoseconds for two uncontended compare-and-swaps, there and back.
pub(super) fn compare_and_swap_pair(run: Run) -> f64 {
    const PAIRS: u32 = 1_000_000;
    let word = AtomicU64::new(0);
    let mut sampler = run.sampler(PAIRS);
    while sampler.again() {
        let start = Instant::now();
        for _ in 0..PAIRS {
            let word = black_box(&word);
            let _ = word.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
            let _ = word.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
        sampler.add(start.elapsed());
    }
    sampler.figure()
}
