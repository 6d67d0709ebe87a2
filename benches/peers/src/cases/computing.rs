//! Messages to an echo server whose workers are busy: the servers of `echo`, beside tasks that compute.

use std::time::{Duration, Instant};

use super::{Bar, Case, Kind, Part, Row, Unit, echo};
use crate::peer::{self, Peer};
use crate::run::Run;

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

fn compute() {
    let start = Instant::now();
    while start.elapsed() < PIECE {}
}

fn volt(run: Run) -> f64 {
    peer::on_volt(run, move || {
        for _ in 0..TASKS {
            volt::go(|| {
                loop {
                    compute();
                    volt::yield_now();
                }
            });
        }
        echo::on_volt(run)
    })
}

fn tokio(run: Run) -> f64 {
    peer::on_tokio(run, async move {
        for _ in 0..TASKS {
            tokio::spawn(async {
                loop {
                    compute();
                    tokio::task::yield_now().await;
                }
            });
        }
        echo::on_tokio(run).await
    })
}

fn threads(run: Run) -> f64 {
    peer::threads(run);
    for _ in 0..TASKS {
        std::thread::spawn(|| {
            loop {
                compute();
                std::thread::yield_now();
            }
        });
    }
    echo::threads(run)
}
