//! Every message goes to each of a hundred receivers.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "fan_out",
    part: Part::Beside,
    go: false,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio)],
    rows: &[Row {
        key: "figure",
        title: "broadcast to 100, per receipt",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "2,000 messages through a broadcast of capacity 16 to 100 receivers; the sender waits \
        until all have the last 16. Go has none.",
    ..Case::INSIDE
};

const RECEIVERS: u32 = 100;
const CAPACITY: usize = 16;

/// How many times the capacity is filled.
fn rounds(run: Run) -> u32 {
    run.scale(125, 3)
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let rounds = rounds(run);
        let mut sampler = run.sampler(RECEIVERS * rounds * CAPACITY as u32);
        while sampler.again() {
            let start = Instant::now();
            let (sender, first) = volt::sync::broadcast::channel(CAPACITY);
            let (got, all_got) = volt::channel::bounded(RECEIVERS as usize);
            for _ in 0..RECEIVERS {
                let (mut receiver, got) = (first.resubscribe(), got.clone());
                volt::go(move || {
                    for i in 0..rounds * CAPACITY as u32 {
                        assert_eq!(receiver.recv().unwrap(), i);
                        if (i + 1) % CAPACITY as u32 == 0 {
                            got.send(()).unwrap();
                        }
                    }
                });
            }
            drop(first);
            for round in 0..rounds {
                for i in 0..CAPACITY as u32 {
                    sender.send(round * CAPACITY as u32 + i).unwrap();
                }
                (0..RECEIVERS).for_each(|_| all_got.recv().unwrap());
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let rounds = rounds(run);
        let mut sampler = run.sampler(RECEIVERS * rounds * CAPACITY as u32);
        while sampler.again() {
            let start = Instant::now();
            let (sender, first) = tokio::sync::broadcast::channel(CAPACITY);
            let (got, mut all_got) = tokio::sync::mpsc::channel(RECEIVERS as usize);
            for _ in 0..RECEIVERS {
                let (mut receiver, got) = (first.resubscribe(), got.clone());
                tokio::spawn(async move {
                    for i in 0..rounds * CAPACITY as u32 {
                        assert_eq!(receiver.recv().await.unwrap(), i);
                        if (i + 1) % CAPACITY as u32 == 0 {
                            got.send(()).await.unwrap();
                        }
                    }
                });
            }
            drop(first);
            for round in 0..rounds {
                for i in 0..CAPACITY as u32 {
                    sender.send(round * CAPACITY as u32 + i).unwrap();
                }
                for _ in 0..RECEIVERS {
                    all_got.recv().await.unwrap();
                }
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
