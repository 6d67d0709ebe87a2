//! Two fibers compute for 10 ms each, and are joined.

use std::time::{Duration, Instant};

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::{Run, compute_for};

pub const CASE: Case = Case {
    name: "halves",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "two fibers that compute for 10 ms each",
        unit: Unit::Micros,
        bar: Bar::NotSlower,
    }],
    note: "A fiber spawns two that compute for 10 ms each, and joins them: at best 10 ms on two workers.",
    ..Case::INSIDE
};

const HALF: Duration = Duration::from_millis(10);

fn half() {
    compute_for(HALF);
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let mut sampler = run.sampler(1);
        while sampler.again() {
            let start = Instant::now();
            let halves = [(); 2].map(|()| volt::go(half));
            halves.into_iter().for_each(|half| half.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure() / 1e3
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let mut sampler = run.sampler(1);
        while sampler.again() {
            let start = Instant::now();
            for half in [(); 2].map(|()| tokio::spawn(async { half() })) {
                half.await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        sampler.figure() / 1e3
    })
}

fn may(run: Run) -> f64 {
    on_may(run, move || {
        let mut sampler = run.sampler(1);
        while sampler.again() {
            let start = Instant::now();
            let halves = [(); 2].map(|()| may::go!(half));
            halves.into_iter().for_each(|half| half.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure() / 1e3
    })
}

fn threads(run: Run) -> f64 {
    on_threads(run, || {
        let mut sampler = run.sampler(1);
        while sampler.again() {
            let start = Instant::now();
            let halves = [(); 2].map(|()| std::thread::spawn(half));
            halves.into_iter().for_each(|half| half.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure() / 1e3
    })
}
