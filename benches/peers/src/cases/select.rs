//! One receiver takes from two channels, whichever has something.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "select",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio)],
    rows: &[Row {
        key: "figure",
        title: "select over two channels, per item",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "A million numbers from two senders through a bounded(128) channel each, to one receiver \
        that selects. may has no bounded channel.",
    ..Case::INSIDE
};

const EACH: u32 = 500_000;

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let each = run.scale(EACH, 5_000);
        let mut sampler = run.sampler(2 * each);
        while sampler.again() {
            let start = Instant::now();
            let [(one, first), (other, second)] = [(); 2].map(|()| volt::channel::bounded(128));
            for sender in [one, other] {
                volt::go(move || (0..each).for_each(|i| sender.send(i).unwrap()));
            }
            for _ in 0..2 * each {
                let item = volt::channel::select! {
                    recv(first) -> item => item.or_else(|_| second.recv()),
                    recv(second) -> item => item.or_else(|_| first.recv()),
                };
                assert!(item.is_ok());
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let each = run.scale(EACH, 5_000);
        let mut sampler = run.sampler(2 * each);
        while sampler.again() {
            let start = Instant::now();
            let [(one, mut first), (other, mut second)] =
                [(); 2].map(|()| tokio::sync::mpsc::channel(128));
            for sender in [one, other] {
                tokio::spawn(async move {
                    for i in 0..each {
                        sender.send(i).await.unwrap();
                    }
                });
            }
            for _ in 0..2 * each {
                tokio::select! {
                    Some(_) = first.recv() => {}
                    Some(_) = second.recv() => {}
                }
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
