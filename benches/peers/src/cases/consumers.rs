//! A million numbers through one channel with as many receivers as senders.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "consumers",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt)],
    rows: &[Row {
        key: "figure",
        title: "4 senders, 4 receivers, per item",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "A million numbers from 4 senders through one bounded(128) to 4 receivers. Tokio has no \
        channel with several receivers that share, may no bounded one.",
    ..Case::INSIDE
};

const SIDES: u32 = 4;
const EACH: u32 = 250_000;

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let each = run.scale(EACH, 2_500);
        let mut sampler = run.sampler(SIDES * each);
        while sampler.again() {
            let start = Instant::now();
            let (sender, receiver) = volt::channel::bounded(128);
            for _ in 0..SIDES {
                let sender = sender.clone();
                volt::go(move || (0..each).for_each(|i| sender.send(i).unwrap()));
            }
            drop(sender);
            let counts = [(); SIDES as usize].map(|()| {
                let receiver = receiver.clone();
                volt::go(move || receiver.iter().count())
            });
            let count: usize = counts.into_iter().map(|count| count.join().unwrap()).sum();
            assert_eq!(count, (SIDES * each) as usize);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
