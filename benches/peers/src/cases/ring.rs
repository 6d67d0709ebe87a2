//! 503 fibers in a ring pass a token on.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "ring",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "ring of 503, per pass",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "503 fibers in a ring pass one token, over rendezvous channels. Tokio: mpsc of capacity \
        1; may: its unbounded mpsc.",
    ..Case::INSIDE
};

const FIBERS: u32 = 503;
const PASSES: u32 = FIBERS * 100;

fn passes(run: Run) -> u32 {
    run.scale(PASSES, FIBERS)
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let (first, mut last) = volt::channel::bounded::<u32>(0);
        let (done, end) = volt::channel::bounded(0);
        for i in 0..FIBERS {
            let (done, first) = (done.clone(), first.clone());
            let (mut next, receiver) = volt::channel::bounded(0);
            let token = std::mem::replace(&mut last, receiver);
            volt::go(move || {
                if i == FIBERS - 1 {
                    next = first;
                }
                for left in token {
                    match left {
                        0 => done.send(()).unwrap(),
                        left => next.send(left - 1).unwrap(),
                    }
                }
            });
        }
        let mut sampler = run.sampler(passes(run));
        while sampler.again() {
            let start = Instant::now();
            first.send(passes(run)).unwrap();
            end.recv().unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    use tokio::sync::mpsc::channel;

    on_tokio(run, async move {
        let (first, mut last) = channel::<u32>(1);
        let (done, mut end) = channel(1);
        for i in 0..FIBERS {
            let (done, first) = (done.clone(), first.clone());
            let (mut next, receiver) = channel(1);
            let mut token = std::mem::replace(&mut last, receiver);
            tokio::spawn(async move {
                if i == FIBERS - 1 {
                    next = first;
                }
                while let Some(left) = token.recv().await {
                    match left {
                        0 => done.send(()).await.unwrap(),
                        left => next.send(left - 1).await.unwrap(),
                    }
                }
            });
        }
        let mut sampler = run.sampler(passes(run));
        while sampler.again() {
            let start = Instant::now();
            first.send(passes(run)).await.unwrap();
            end.recv().await.unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may(run: Run) -> f64 {
    use may::sync::mpsc::channel;

    on_may(run, move || {
        let (first, mut last) = channel::<u32>();
        let (done, end) = channel();
        for i in 0..FIBERS {
            let (done, first) = (done.clone(), first.clone());
            let (mut next, receiver) = channel();
            let token = std::mem::replace(&mut last, receiver);
            may::go!(move || {
                if i == FIBERS - 1 {
                    next = first;
                }
                for left in token {
                    match left {
                        0 => done.send(()).unwrap(),
                        left => next.send(left - 1).unwrap(),
                    }
                }
            });
        }
        let mut sampler = run.sampler(passes(run));
        while sampler.again() {
            let start = Instant::now();
            first.send(passes(run)).unwrap();
            end.recv().unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn threads(run: Run) -> f64 {
    use std::sync::mpsc::sync_channel;

    on_threads(run, || {
        let (first, mut last) = sync_channel::<u32>(0);
        let (done, end) = sync_channel(0);
        for i in 0..FIBERS {
            let (done, first) = (done.clone(), first.clone());
            let (mut next, receiver) = sync_channel(0);
            let token = std::mem::replace(&mut last, receiver);
            std::thread::spawn(move || {
                if i == FIBERS - 1 {
                    next = first;
                }
                for left in token {
                    match left {
                        0 => done.send(()).unwrap(),
                        left => next.send(left - 1).unwrap(),
                    }
                }
            });
        }
        let mut sampler = run.sampler(passes(run));
        while sampler.again() {
            let start = Instant::now();
            first.send(passes(run)).unwrap();
            end.recv().unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
