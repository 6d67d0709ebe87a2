//! A tree of fibers: each spawns two and joins them.

use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "tree",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may)],
    rows: &[Row {
        key: "figure",
        title: "tree of fibers, per fiber",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "A binary tree, 13 deep: every fiber spawns two, joins both and returns the sum of \
        their counts. Go: a channel of capacity 2 per fiber.",
    ..Case::INSIDE
};

const DEPTH: u32 = 13;
const FIBERS: u32 = (1 << (DEPTH + 1)) - 1;

fn volt(run: Run) -> f64 {
    fn grow(depth: u32) -> u32 {
        if depth == 0 {
            return 1;
        }
        let (left, right) = (volt::go(move || grow(depth - 1)), volt::go(move || grow(depth - 1)));
        1 + left.join().unwrap() + right.join().unwrap()
    }
    on_volt(run, move || {
        let mut sampler = run.sampler(FIBERS);
        while sampler.again() {
            let start = Instant::now();
            assert_eq!(grow(DEPTH), FIBERS);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    // A future that spawns its own kind has to name its type.
    fn grow(depth: u32) -> std::pin::Pin<Box<dyn Future<Output = u32> + Send>> {
        Box::pin(async move {
            if depth == 0 {
                return 1;
            }
            let (left, right) = (tokio::spawn(grow(depth - 1)), tokio::spawn(grow(depth - 1)));
            1 + left.await.unwrap() + right.await.unwrap()
        })
    }
    on_tokio(run, async move {
        let mut sampler = run.sampler(FIBERS);
        while sampler.again() {
            let start = Instant::now();
            assert_eq!(grow(DEPTH).await, FIBERS);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may(run: Run) -> f64 {
    fn grow(depth: u32) -> u32 {
        if depth == 0 {
            return 1;
        }
        let left = may::go!(move || grow(depth - 1));
        let right = may::go!(move || grow(depth - 1));
        1 + left.join().unwrap() + right.join().unwrap()
    }
    on_may(run, move || {
        let mut sampler = run.sampler(FIBERS);
        while sampler.again() {
            let start = Instant::now();
            assert_eq!(grow(DEPTH), FIBERS);
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
