//! A runtime that has worked and has nothing to do: its CPU time and wakeups.

use std::time::Duration;

use super::{Bar, Case, Kind, Row, Unit};
use crate::peer::{self, Peer};
use crate::run::{Run, stage};

pub const CASE: Case = Case {
    name: "idle",
    kind: Kind::Idle,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may)],
    rounds: 2,
    rows: &[
        Row {
            key: "wakeups",
            title: "idle runtime, wakeups",
            unit: Unit::Wakeups,
            bar: Bar::NotSlower,
        },
        Row { key: "load", title: "idle runtime, CPU", unit: Unit::Load, bar: Bar::NotSlower },
    ],
    note: "1,000 fibers have slept for 1 to 10 ms; from three seconds later on, the context \
        switches and the CPU time of the process.",
    ..Case::INSIDE
};

const FIBERS: u64 = 1_000;

fn nap(i: u64) -> Duration {
    Duration::from_millis(1 + i % 10)
}

fn volt(run: Run) -> f64 {
    peer::on_volt(run, || {
        let all: Vec<_> = (0..FIBERS).map(|i| volt::go(move || volt::sleep(nap(i)))).collect();
        all.into_iter().for_each(|one| one.join().unwrap());
    });
    stage("idle");
    0.0
}

fn tokio(run: Run) -> f64 {
    peer::on_tokio(run, async {
        let all: Vec<_> = (0..FIBERS).map(|i| tokio::spawn(tokio::time::sleep(nap(i)))).collect();
        for one in all {
            one.await.unwrap();
        }
    });
    stage("idle");
    0.0
}

fn may(run: Run) -> f64 {
    peer::on_may(run, || {
        let all: Vec<_> =
            (0..FIBERS).map(|i| may::go!(move || may::coroutine::sleep(nap(i)))).collect();
        all.into_iter().for_each(|one| one.join().unwrap());
    });
    stage("idle");
    0.0
}
