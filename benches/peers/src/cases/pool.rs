//! Four things for fifty fibers, in a channel: each takes one, and puts it back.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "pool",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt)],
    rows: &[Row {
        key: "figure",
        title: "a pool of 4 for 50 fibers, per turn",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "50 fibers take one of 4 numbers from a bounded(4) channel and put it back, a million times in all. Tokio and may: \
        as for `consumers`.",
    ..Case::INSIDE
};

const THINGS: u32 = 4;
const FIBERS: u32 = 50;

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let each = run.scale(1_000_000, 10_000) / FIBERS;
        let mut sampler = run.sampler(FIBERS * each);
        while sampler.again() {
            let start = Instant::now();
            let (gives, takes) = volt::channel::bounded(THINGS as usize);
            (0..THINGS).for_each(|thing| gives.send(thing).unwrap());
            let all: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let (gives, takes) = (gives.clone(), takes.clone());
                    volt::go(move || {
                        for _ in 0..each {
                            gives.send(takes.recv().unwrap()).unwrap();
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            assert_eq!(takes.len(), THINGS as usize);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
