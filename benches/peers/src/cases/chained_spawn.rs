//! A fiber spawns a fiber, which spawns the next: 1,000 deep.

use std::time::Instant;

use super::{Bar, Case, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "chained_spawn",
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "chained_spawn, per fiber",
        unit: Unit::Nanos,
        bar: Bar::OfBest(0.2),
    }],
    note: "A fiber spawns a fiber and ends, 1,000 deep; the last one tells the first through a \
        one-shot channel (may: an mpsc).",
    ..Case::INSIDE
};

const DEPTH: u32 = 1_000;

fn volt(run: Run) -> f64 {
    use volt::sync::oneshot::{Sender, channel};

    fn chain(depth: u32, done: Sender<()>) {
        if depth == 0 {
            done.send(()).unwrap();
        } else {
            drop(volt::go(move || chain(depth - 1, done)));
        }
    }
    on_volt(run, move || {
        let mut sampler = run.sampler(DEPTH);
        while sampler.again() {
            let start = Instant::now();
            let (done, end) = channel();
            chain(DEPTH, done);
            end.recv().unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    use tokio::sync::oneshot::{Sender, channel};

    fn chain(depth: u32, done: Sender<()>) {
        if depth == 0 {
            done.send(()).unwrap();
        } else {
            tokio::spawn(async move { chain(depth - 1, done) });
        }
    }
    on_tokio(run, async move {
        let mut sampler = run.sampler(DEPTH);
        while sampler.again() {
            let start = Instant::now();
            let (done, end) = channel();
            chain(DEPTH, done);
            end.await.unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may(run: Run) -> f64 {
    use may::sync::mpsc::{Sender, channel};

    fn chain(depth: u32, done: Sender<()>) {
        if depth == 0 {
            done.send(()).unwrap();
        } else {
            may::go!(move || chain(depth - 1, done));
        }
    }
    on_may(run, move || {
        let mut sampler = run.sampler(DEPTH);
        while sampler.again() {
            let start = Instant::now();
            let (done, end) = channel();
            chain(DEPTH, done);
            end.recv().unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn threads(run: Run) -> f64 {
    use std::sync::mpsc::{Sender, channel};

    fn chain(depth: u32, done: Sender<()>) {
        if depth == 0 {
            done.send(()).unwrap();
        } else {
            std::thread::spawn(move || chain(depth - 1, done));
        }
    }
    on_threads(run, || {
        let mut sampler = run.sampler(DEPTH);
        while sampler.again() {
            let start = Instant::now();
            let (done, end) = channel();
            chain(DEPTH, done);
            end.recv().unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
