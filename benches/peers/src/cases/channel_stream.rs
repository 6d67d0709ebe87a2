//! Two million numbers from one fiber to another, through a channel of capacity 128.

use std::time::Instant;

use super::channel_round_trip::compare_and_swap_pair;
use super::{Bar, Case, Row, Unit};
use crate::peer::{Peer, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "channel_stream",
    bodies: &[
        (Peer::Volt, volt),
        (Peer::Tokio, tokio),
        (Peer::Threads, threads),
        (Peer::Floor, compare_and_swap_pair),
    ],
    rows: &[Row {
        key: "figure",
        title: "channel stream, per item",
        unit: Unit::Nanos,
        bar: Bar::OfBest(0.4),
    }],
    note: "2 million numbers through bounded(128), one sender, one receiver. may has no bounded \
        channel. Floor: an uncontended pair of compare-and-swap.",
    ..Case::INSIDE
};

const ITEMS: u32 = 2_000_000;

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let items = run.scale(ITEMS, 20_000);
        let mut sampler = run.sampler(items);
        while sampler.again() {
            let start = Instant::now();
            let (sender, receiver) = volt::channel::bounded(128);
            volt::go(move || (0..items).for_each(|i| sender.send(i).unwrap()));
            assert_eq!(receiver.iter().count(), items as usize);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let items = run.scale(ITEMS, 20_000);
        let mut sampler = run.sampler(items);
        while sampler.again() {
            let start = Instant::now();
            let (sender, mut receiver) = tokio::sync::mpsc::channel(128);
            tokio::spawn(async move {
                for i in 0..items {
                    sender.send(i).await.unwrap();
                }
            });
            let mut count = 0;
            while receiver.recv().await.is_some() {
                count += 1;
            }
            assert_eq!(count, items);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn threads(run: Run) -> f64 {
    on_threads(run, || {
        let items = run.scale(ITEMS, 20_000);
        let mut sampler = run.sampler(items);
        while sampler.again() {
            let start = Instant::now();
            let (sender, receiver) = std::sync::mpsc::sync_channel(128);
            std::thread::spawn(move || (0..items).for_each(|i| sender.send(i).unwrap()));
            assert_eq!(receiver.iter().count(), items as usize);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
