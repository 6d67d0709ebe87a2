//! Two million numbers from one fiber to another, through a channel without a bound.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "unbounded",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "stream without a bound, per item",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "2 million numbers through an unbounded channel; the sender yields (threads do not) after each \
        1,000. Go has none: one of capacity 65,536.",
    ..Case::INSIDE
};

const ITEMS: u32 = 2_000_000;

fn is_turn(i: u32) -> bool {
    i % 1_000 == 999
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let items = run.scale(ITEMS, 20_000);
        let mut sampler = run.sampler(items);
        while sampler.again() {
            let start = Instant::now();
            let (sender, receiver) = volt::channel::unbounded();
            volt::go(move || {
                for i in 0..items {
                    sender.send(i).unwrap();
                    if is_turn(i) {
                        volt::yield_now();
                    }
                }
            });
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
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            tokio::spawn(async move {
                for i in 0..items {
                    sender.send(i).unwrap();
                    if is_turn(i) {
                        tokio::task::yield_now().await;
                    }
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

fn may(run: Run) -> f64 {
    on_may(run, move || {
        let items = run.scale(ITEMS, 20_000);
        let mut sampler = run.sampler(items);
        while sampler.again() {
            let start = Instant::now();
            let (sender, receiver) = may::sync::mpsc::channel();
            may::go!(move || {
                for i in 0..items {
                    sender.send(i).unwrap();
                    if is_turn(i) {
                        may::coroutine::yield_now();
                    }
                }
            });
            assert_eq!(receiver.iter().count(), items as usize);
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
            let (sender, receiver) = std::sync::mpsc::channel();
            std::thread::spawn(move || (0..items).for_each(|i| sender.send(i).unwrap()));
            assert_eq!(receiver.iter().count(), items as usize);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
