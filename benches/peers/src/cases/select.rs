//! One receiver takes from two channels, whichever has something.

use std::time::{Duration, Instant};

use super::deliver::{tokio_in_turn, volt_in_turn};
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

pub const TICK: Case = Case {
    name: "select_tick",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt_tick), (Peer::Tokio, tokio_tick)],
    rows: &[Row {
        key: "figure",
        title: "select over messages and a tick, per message",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "100 tasks each select over a bounded(16) channel and a tick of a second, as a connection's \
        task does; one sends them messages, each in turn.",
    ..Case::INSIDE
};

const TICK_PERIOD: Duration = Duration::from_secs(1);

fn volt_tick(run: Run) -> f64 {
    volt_in_turn(run, |messages| {
        let ticks = volt::channel::tick(TICK_PERIOD);
        loop {
            volt::channel::select! {
                recv(messages) -> message => if message.is_err() { break },
                recv(ticks) -> _ => {}
            }
        }
    })
}

fn tokio_tick(run: Run) -> f64 {
    tokio_in_turn(run, |mut messages| async move {
        let mut ticks = tokio::time::interval(TICK_PERIOD);
        loop {
            tokio::select! {
                message = messages.recv() => if message.is_none() { break },
                _ = ticks.tick() => {}
            }
        }
    })
}
