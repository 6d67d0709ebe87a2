//! A million numbers from 64 fibers to one, through a channel of capacity 128.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "many_producers",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "64 producers, one consumer, per item",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "About a million numbers from 64 senders through bounded(128) to one receiver. may has \
        no bounded channel.",
    ..Case::INSIDE
};

const PRODUCERS: u32 = 64;
const EACH: u32 = 16_000;

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let each = run.scale(EACH, 500);
        let mut sampler = run.sampler(PRODUCERS * each);
        while sampler.again() {
            let start = Instant::now();
            let (sender, receiver) = volt::channel::bounded(128);
            for _ in 0..PRODUCERS {
                let sender = sender.clone();
                volt::go(move || (0..each).for_each(|i| sender.send(i).unwrap()));
            }
            drop(sender);
            assert_eq!(receiver.iter().count(), (PRODUCERS * each) as usize);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let each = run.scale(EACH, 500);
        let mut sampler = run.sampler(PRODUCERS * each);
        while sampler.again() {
            let start = Instant::now();
            let (sender, mut receiver) = tokio::sync::mpsc::channel(128);
            for _ in 0..PRODUCERS {
                let sender = sender.clone();
                tokio::spawn(async move {
                    for i in 0..each {
                        sender.send(i).await.unwrap();
                    }
                });
            }
            drop(sender);
            let mut count = 0;
            while receiver.recv().await.is_some() {
                count += 1;
            }
            assert_eq!(count, PRODUCERS * each);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn threads(run: Run) -> f64 {
    on_threads(run, || {
        let each = run.scale(EACH, 500);
        let mut sampler = run.sampler(PRODUCERS * each);
        while sampler.again() {
            let start = Instant::now();
            let (sender, receiver) = std::sync::mpsc::sync_channel(128);
            for _ in 0..PRODUCERS {
                let sender = sender.clone();
                std::thread::spawn(move || (0..each).for_each(|i| sender.send(i).unwrap()));
            }
            drop(sender);
            assert_eq!(receiver.iter().count(), (PRODUCERS * each) as usize);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
