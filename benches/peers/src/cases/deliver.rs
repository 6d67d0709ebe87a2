//! One sends to a hundred others, each in turn: a hub and its connections.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "deliver",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio)],
    rows: &[Row {
        key: "figure",
        title: "one that sends to 100 in turn, per message",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "100 tasks each receive from a bounded(16) channel; one sends them 100,000 messages, each in \
        turn. may has no bounded channel.",
    ..Case::INSIDE
};

const RECEIVERS: u32 = 100;

fn volt(run: Run) -> f64 {
    volt_in_turn(run, |messages| messages.iter().for_each(drop))
}

fn tokio(run: Run) -> f64 {
    tokio_in_turn(run, |mut messages| async move { while messages.recv().await.is_some() {} })
}

/// Nanoseconds for a message to each of a hundred that do so with theirs.
pub fn volt_in_turn(run: Run, receive: fn(volt::channel::Receiver<u32>)) -> f64 {
    on_volt(run, move || {
        let rounds = run.scale(1_000, 10);
        let receivers = (0..RECEIVERS).map(|_| {
            let (sender, messages) = volt::channel::bounded(16);
            volt::go(move || receive(messages));
            sender
        });
        let receivers: Vec<_> = receivers.collect();
        let mut sampler = run.sampler(rounds * RECEIVERS);
        while sampler.again() {
            let start = Instant::now();
            for round in 0..rounds {
                receivers.iter().for_each(|receiver| receiver.send(round).unwrap());
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

/// The same.
pub fn tokio_in_turn<F: Future<Output = ()> + Send + 'static>(
    run: Run,
    receive: impl Fn(tokio::sync::mpsc::Receiver<u32>) -> F + Send + 'static,
) -> f64 {
    on_tokio(run, async move {
        let rounds = run.scale(1_000, 10);
        let receivers = (0..RECEIVERS).map(|_| {
            let (sender, messages) = tokio::sync::mpsc::channel(16);
            tokio::spawn(receive(messages));
            sender
        });
        let receivers: Vec<_> = receivers.collect();
        let mut sampler = run.sampler(rounds * RECEIVERS);
        while sampler.again() {
            let start = Instant::now();
            for round in 0..rounds {
                for receiver in &receivers {
                    receiver.send(round).await.unwrap();
                }
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
