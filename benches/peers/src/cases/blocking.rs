//! Tasks that call what blocks a thread for a moment.

use std::time::{Duration, Instant};

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "blocking",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio)],
    rows: &[Row {
        key: "figure",
        title: "50 tasks that block for 50 us each time, per call",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "50 tasks sleep for 50 us in the kernel, 5,000 times in all: volt in `blocking`, Tokio in \
        `spawn_blocking`, Go in a system call. In Tokio's `block_in_place` it is 3 to 5 us: a task goes on \
        with no worker's place until its next await, and here none comes. may has no such thing.",
    ..Case::INSIDE
};

const TASKS: u32 = 50;
const SLEEP: Duration = Duration::from_micros(50);

/// How often each task calls.
fn each(run: Run) -> u32 {
    run.scale(5_000, 500) / TASKS
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let each = each(run);
        let mut sampler = run.sampler(TASKS * each);
        while sampler.again() {
            let start = Instant::now();
            let calls =
                move || (0..each).for_each(|_| volt::blocking(|| std::thread::sleep(SLEEP)));
            let all: Vec<_> = (0..TASKS).map(|_| volt::go(calls)).collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let each = each(run);
        let mut sampler = run.sampler(TASKS * each);
        while sampler.again() {
            let start = Instant::now();
            let all: Vec<_> = (0..TASKS)
                .map(|_| {
                    tokio::spawn(async move {
                        for _ in 0..each {
                            tokio::task::spawn_blocking(|| std::thread::sleep(SLEEP))
                                .await
                                .unwrap();
                        }
                    })
                })
                .collect();
            for one in all {
                one.await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
