//! Many tasks ask one, each for an answer of its own: what actors and connection pools come down to.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "actor",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may)],
    rows: &[Row {
        key: "figure",
        title: "100 tasks ask one, per answer",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "100 tasks send a number and the sender of a oneshot through one channel to a task that \
        answers by it, 200,000 times in all. The channel is a bounded(64); may's is unbounded. \
        Oneshots: may has a channel of one sender for each, Go a channel of capacity 1.",
    ..Case::INSIDE
};

const TASKS: u32 = 100;

/// How often each task asks.
fn each(run: Run) -> u32 {
    run.scale(200_000, 10_000) / TASKS
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let each = each(run);
        let mut sampler = run.sampler(TASKS * each);
        while sampler.again() {
            let start = Instant::now();
            let (ask, questions) =
                volt::channel::bounded::<(u32, volt::sync::oneshot::Sender<u32>)>(64);
            volt::go(move || {
                questions.iter().for_each(|(number, answer)| answer.send(number + 1).unwrap())
            });
            let all: Vec<_> = (0..TASKS)
                .map(|_| {
                    let ask = ask.clone();
                    volt::go(move || {
                        for number in 0..each {
                            let (answer, answered) = volt::sync::oneshot::channel();
                            ask.send((number, answer)).unwrap();
                            assert_eq!(answered.recv(), Ok(number + 1));
                        }
                    })
                })
                .collect();
            drop(ask);
            all.into_iter().for_each(|one| one.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    use tokio::sync::{mpsc, oneshot};
    on_tokio(run, async move {
        let each = each(run);
        let mut sampler = run.sampler(TASKS * each);
        while sampler.again() {
            let start = Instant::now();
            let (ask, mut questions) = mpsc::channel::<(u32, oneshot::Sender<u32>)>(64);
            tokio::spawn(async move {
                while let Some((number, answer)) = questions.recv().await {
                    answer.send(number + 1).unwrap();
                }
            });
            let all: Vec<_> = (0..TASKS)
                .map(|_| {
                    let ask = ask.clone();
                    tokio::spawn(async move {
                        for number in 0..each {
                            let (answer, answered) = oneshot::channel();
                            ask.send((number, answer)).await.unwrap();
                            assert_eq!(answered.await, Ok(number + 1));
                        }
                    })
                })
                .collect();
            drop(ask);
            for one in all {
                one.await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may(run: Run) -> f64 {
    use may::sync::{mpsc, spsc};
    on_may(run, move || {
        let each = each(run);
        let mut sampler = run.sampler(TASKS * each);
        while sampler.again() {
            let start = Instant::now();
            let (ask, questions) = mpsc::channel::<(u32, spsc::Sender<u32>)>();
            may::go!(move || questions
                .iter()
                .for_each(|(number, answer)| answer.send(number + 1).unwrap()));
            let all: Vec<_> = (0..TASKS)
                .map(|_| {
                    let ask = ask.clone();
                    may::go!(move || {
                        for number in 0..each {
                            let (answer, answered) = spsc::channel();
                            ask.send((number, answer)).unwrap();
                            assert_eq!(answered.recv(), Ok(number + 1));
                        }
                    })
                })
                .collect();
            drop(ask);
            all.into_iter().for_each(|one| one.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
