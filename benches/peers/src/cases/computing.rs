//! Messages to an echo server whose workers are busy: the servers of `echo`, beside tasks that compute.

use std::time::Duration;

use super::{Bar, Case, Kind, Part, Row, Unit, echo};
use crate::peer::{self, Peer};
use crate::run::{Run, compute_for};

pub const CASE: Case = Case {
    name: "computing",
    part: Part::Beside,
    kind: Kind::Paced { connections: 10 },
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::Threads, threads)],
    rows: &[
        Row {
            key: "p50",
            title: "echo beside tasks that compute, p50",
            unit: Unit::Micros,
            bar: Bar::NotSlower,
        },
        Row {
            key: "p99",
            title: "echo beside tasks that compute, p99",
            unit: Unit::Micros,
            bar: Bar::Shown,
        },
    ],
    note: "The messages of `paced`, to a server with eight tasks that compute 200 us and yield, again \
        and again. The client has to share the processors with them. may did not answer within two \
        minutes.",
    ..Case::INSIDE
};

const TASKS: usize = 8;
const PIECE: Duration = Duration::from_micros(200);

/// Starts fibers that compute one such piece after the other, and yield after each.
pub fn busy_volt(piece: Duration) {
    for _ in 0..TASKS {
        volt::go(move || {
            loop {
                compute_for(piece);
                volt::yield_now();
            }
        });
    }
}

pub fn busy_tokio(piece: Duration) {
    for _ in 0..TASKS {
        tokio::spawn(async move {
            loop {
                compute_for(piece);
                tokio::task::yield_now().await;
            }
        });
    }
}

pub fn busy_threads(piece: Duration) {
    for _ in 0..TASKS {
        std::thread::spawn(move || {
            loop {
                compute_for(piece);
                std::thread::yield_now();
            }
        });
    }
}

fn volt(run: Run) -> f64 {
    peer::on_volt(run, move || {
        busy_volt(PIECE);
        echo::on_volt(run)
    })
}

fn tokio(run: Run) -> f64 {
    peer::on_tokio(run, async move {
        busy_tokio(PIECE);
        echo::on_tokio(run).await
    })
}

fn threads(run: Run) -> f64 {
    peer::threads(run);
    busy_threads(PIECE);
    echo::threads(run)
}
