//! A plain thread has one fiber after the other do something, or the same one again and again, and waits for it.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{self, Peer};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "outside_join",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "spawn from outside and join, one after the other",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "A thread outside the runtime spawns a fiber that does nothing and joins it, 5,000 times; everything sleeps \
        in between. Go has no outside.",
    go: false,
    ..Case::INSIDE
};

pub const EXCHANGE: Case = Case {
    name: "outside_exchange",
    bodies: &[
        (Peer::Volt, volt_exchanges),
        (Peer::Tokio, tokio_exchanges),
        (Peer::May, may_exchanges),
        (Peer::Threads, threads_exchange),
    ],
    rows: &[Row {
        key: "figure",
        title: "message from outside and its answer, one after the other",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "A thread outside the runtime sends a message to a fiber, which sends it back, 5,000 times; everything sleeps \
        in between. Go has no outside.",
    ..CASE
};

fn measure(run: Run, mut one: impl FnMut()) -> f64 {
    let times = run.scale(5_000, 500);
    let mut sampler = run.sampler(times);
    while sampler.again() {
        let start = Instant::now();
        (0..times).for_each(|_| one());
        sampler.add(start.elapsed());
    }
    sampler.figure()
}

fn volt(run: Run) -> f64 {
    let runtime = peer::volt(run);
    measure(run, || runtime.go(|| ()).join().unwrap())
}

fn tokio(run: Run) -> f64 {
    let runtime = peer::tokio(run);
    measure(run, || runtime.block_on(runtime.spawn(async {})).unwrap())
}

fn may(run: Run) -> f64 {
    peer::may(run);
    measure(run, || may::go!(|| ()).join().unwrap())
}

fn threads(run: Run) -> f64 {
    peer::threads(run);
    measure(run, || std::thread::spawn(|| ()).join().unwrap())
}

fn volt_exchanges(run: Run) -> f64 {
    use volt::channel::unbounded;

    let runtime = peer::volt(run);
    let ((there, inbox), (back, answers)) = (unbounded(), unbounded());
    runtime.go(move || inbox.iter().for_each(|i: u32| back.send(i).unwrap()));
    measure(run, || {
        there.send(1).unwrap();
        assert_eq!(answers.recv(), Ok(1));
    })
}

fn tokio_exchanges(run: Run) -> f64 {
    use tokio::sync::mpsc::unbounded_channel;

    let runtime = peer::tokio(run);
    let ((there, mut inbox), (back, mut answers)) = (unbounded_channel(), unbounded_channel());
    runtime.spawn(async move {
        while let Some(i) = inbox.recv().await {
            let _: u32 = i;
            back.send(i).unwrap();
        }
    });
    measure(run, || {
        there.send(1).unwrap();
        assert_eq!(answers.blocking_recv(), Some(1));
    })
}

fn may_exchanges(run: Run) -> f64 {
    use may::sync::mpsc::channel;

    peer::may(run);
    let ((there, inbox), (back, answers)) = (channel(), channel());
    may::go!(move || inbox.iter().for_each(|i: u32| back.send(i).unwrap()));
    measure(run, || {
        there.send(1).unwrap();
        assert_eq!(answers.recv(), Ok(1));
    })
}

fn threads_exchange(run: Run) -> f64 {
    use std::sync::mpsc::channel;

    peer::threads(run);
    let ((there, inbox), (back, answers)) = (channel(), channel());
    std::thread::spawn(move || inbox.iter().for_each(|i: u32| back.send(i).unwrap()));
    measure(run, || {
        there.send(1).unwrap();
        assert_eq!(answers.recv(), Ok(1));
    })
}
