//! Messages from a thread outside the runtime to a fiber beside others that compute.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::computing::{busy_threads, busy_tokio, busy_volt};
use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{self, Peer};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "outside",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "message from outside beside tasks that compute, p50",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "Every 1.5 ms a thread outside the runtime sends a number through an unbounded channel to a \
        task that answers, beside eight tasks that compute 20 us and yield, again and again. Go has no \
        outside.",
    go: false,
    ..Case::INSIDE
};

const PIECE: Duration = Duration::from_micros(20);
const PAUSE: Duration = Duration::from_micros(1500);

/// `send` hands a number to the task, which hands it on to `answers`.
fn measure(run: Run, answers: &mpsc::Receiver<u64>, send: impl Fn(u64)) -> f64 {
    let mut sampler = run.sampler(1);
    let mut number = 0;
    while sampler.again() {
        std::thread::sleep(PAUSE);
        number += 1;
        let start = Instant::now();
        send(number);
        assert_eq!(answers.recv(), Ok(number));
        sampler.add(start.elapsed());
    }
    sampler.figure()
}

fn volt(run: Run) -> f64 {
    let runtime = peer::volt(run);
    let (answer, answers) = mpsc::channel();
    let (sender, receiver) = volt::channel::unbounded();
    runtime.go(|| busy_volt(PIECE)).join().expect("they start");
    runtime.go(move || receiver.iter().for_each(|number| answer.send(number).unwrap()));
    measure(run, &answers, |number| sender.send(number).unwrap())
}

fn tokio(run: Run) -> f64 {
    let runtime = peer::tokio(run);
    let (answer, answers) = mpsc::channel();
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    runtime.spawn(async move {
        busy_tokio(PIECE);
        while let Some(number) = receiver.recv().await {
            answer.send(number).unwrap();
        }
    });
    measure(run, &answers, |number| sender.send(number).unwrap())
}

fn threads(run: Run) -> f64 {
    peer::threads(run);
    let (answer, answers) = mpsc::channel();
    let (sender, receiver) = mpsc::channel();
    busy_threads(PIECE);
    std::thread::spawn(move || receiver.iter().for_each(|number| answer.send(number).unwrap()));
    measure(run, &answers, |number| sender.send(number).unwrap())
}
