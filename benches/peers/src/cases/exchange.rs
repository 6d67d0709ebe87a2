//! Pairs of fibers that exchange messages, while others compute.

use std::time::{Duration, Instant};

use super::{Bar, Case, Part, Row, Unit, computing};
use crate::peer::{Peer, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "exchange",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt::<20, 20>), (Peer::Tokio, tokio::<20, 20>)],
    rows: &[row("exchange beside tasks that compute, per round trip")],
    note: "Twenty pairs exchange 200 messages each over channels of capacity 1, beside eight tasks that \
        compute 20 us and yield, again and again. may did not end within a minute.",
    ..Case::INSIDE
};

pub const BRIEF: Case = Case {
    name: "exchange_brief",
    bodies: &[(Peer::Volt, volt::<1, 1>), (Peer::Tokio, tokio::<1, 1>)],
    rows: &[row("exchange beside tasks that compute for 1 us, per round trip")],
    note: "One pair exchanges 4,000 messages, beside eight tasks that compute 1 us and yield, again and again.",
    ..CASE
};

const fn row(title: &'static str) -> Row {
    Row { key: "figure", title, unit: Unit::Nanos, bar: Bar::NotSlower }
}

/// How many messages each of so many pairs exchanges.
fn each(run: Run, pairs: u32) -> u32 {
    run.scale(4_000, 200) / pairs
}

fn volt<const PAIRS: u32, const MICROS: u64>(run: Run) -> f64 {
    use volt::channel::bounded;

    on_volt(run, move || {
        computing::busy_volt(Duration::from_micros(MICROS));
        let each = each(run, PAIRS);
        let mut sampler = run.sampler(PAIRS * each);
        while sampler.again() {
            let start = Instant::now();
            let pairs: Vec<_> = (0..PAIRS)
                .map(|_| {
                    volt::go(move || {
                        let ((there, inbox), (back, answers)) = (bounded(1), bounded(1));
                        volt::go(move || inbox.iter().for_each(|i: u32| back.send(i).unwrap()));
                        for i in 0..each {
                            there.send(i).unwrap();
                            assert_eq!(answers.recv(), Ok(i));
                        }
                    })
                })
                .collect();
            pairs.into_iter().for_each(|pair| pair.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio<const PAIRS: u32, const MICROS: u64>(run: Run) -> f64 {
    use tokio::sync::mpsc::channel;

    on_tokio(run, async move {
        computing::busy_tokio(Duration::from_micros(MICROS));
        let each = each(run, PAIRS);
        let mut sampler = run.sampler(PAIRS * each);
        while sampler.again() {
            let start = Instant::now();
            let pairs: Vec<_> = (0..PAIRS)
                .map(|_| {
                    tokio::spawn(async move {
                        let ((there, mut inbox), (back, mut answers)) = (channel(1), channel(1));
                        tokio::spawn(async move {
                            while let Some(i) = inbox.recv().await {
                                let _: u32 = i;
                                back.send(i).await.unwrap();
                            }
                        });
                        for i in 0..each {
                            there.send(i).await.unwrap();
                            assert_eq!(answers.recv().await, Some(i));
                        }
                    })
                })
                .collect();
            for pair in pairs {
                pair.await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
