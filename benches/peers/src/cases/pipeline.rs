//! Two stages that compute, with a channel of one place between them.

use std::time::{Duration, Instant};

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_threads, on_tokio, on_volt};
use crate::run::{Run, compute_for};

pub const SHORT: Case = Case {
    name: "pipeline_short",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt::<10>), (Peer::Tokio, tokio::<10>), (Peer::Threads, threads::<10>)],
    rows: &[Row {
        key: "figure",
        title: "a pipeline of two stages of 10 us, per item",
        unit: Unit::Micros,
        bar: Bar::NotSlower,
    }],
    note: "One fiber computes for 10 us and sends, another receives and computes for as long: at best 10 us an \
        item on two workers. may has no bounded channel.",
    ..Case::INSIDE
};

pub const BRIEF: Case = Case {
    name: "pipeline_brief",
    bodies: &[(Peer::Volt, volt::<2>), (Peer::Tokio, tokio::<2>), (Peer::Threads, threads::<2>)],
    rows: &[Row {
        key: "figure",
        title: "a pipeline of two stages of 2 us, per item",
        unit: Unit::Micros,
        bar: Bar::NotSlower,
    }],
    note: "The same with stages of 2 us.",
    ..SHORT
};

pub const LONG: Case = Case {
    name: "pipeline_long",
    bodies: &[
        (Peer::Volt, volt::<100>),
        (Peer::Tokio, tokio::<100>),
        (Peer::Threads, threads::<100>),
    ],
    rows: &[Row {
        key: "figure",
        title: "a pipeline of two stages of 100 us, per item",
        unit: Unit::Micros,
        bar: Bar::NotSlower,
    }],
    note: "The same with stages of 100 us.",
    ..SHORT
};

fn stage<const MICROS: u64>() {
    compute_for(Duration::from_micros(MICROS));
}

/// 50 milliseconds of work for each stage.
fn items<const MICROS: u64>(run: Run) -> u32 {
    run.scale(50_000 / MICROS as u32, 100)
}

fn volt<const MICROS: u64>(run: Run) -> f64 {
    on_volt(run, move || {
        let items = items::<MICROS>(run);
        let mut sampler = run.sampler(items);
        while sampler.again() {
            let start = Instant::now();
            let (sender, receiver) = volt::channel::bounded(1);
            volt::go(move || {
                for i in 0..items {
                    stage::<MICROS>();
                    sender.send(i).unwrap();
                }
            });
            let done = volt::go(move || receiver.iter().inspect(|_| stage::<MICROS>()).count());
            assert_eq!(done.join().unwrap(), items as usize);
            sampler.add(start.elapsed());
        }
        sampler.figure() / 1e3
    })
}

fn tokio<const MICROS: u64>(run: Run) -> f64 {
    on_tokio(run, async move {
        let items = items::<MICROS>(run);
        let mut sampler = run.sampler(items);
        while sampler.again() {
            let start = Instant::now();
            let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
            tokio::spawn(async move {
                for i in 0..items {
                    stage::<MICROS>();
                    sender.send(i).await.unwrap();
                }
            });
            let done = tokio::spawn(async move {
                let mut count = 0;
                while receiver.recv().await.is_some() {
                    stage::<MICROS>();
                    count += 1;
                }
                count
            });
            assert_eq!(done.await.unwrap(), items);
            sampler.add(start.elapsed());
        }
        sampler.figure() / 1e3
    })
}

fn threads<const MICROS: u64>(run: Run) -> f64 {
    on_threads(run, || {
        let items = items::<MICROS>(run);
        let mut sampler = run.sampler(items);
        while sampler.again() {
            let start = Instant::now();
            let (sender, receiver) = std::sync::mpsc::sync_channel(1);
            std::thread::spawn(move || {
                for i in 0..items {
                    stage::<MICROS>();
                    sender.send(i).unwrap();
                }
            });
            assert_eq!(receiver.iter().inspect(|_| stage::<MICROS>()).count(), items as usize);
            sampler.add(start.elapsed());
        }
        sampler.figure() / 1e3
    })
}
