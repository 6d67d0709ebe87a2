//! 1,000 fibers meet at a barrier, again and again: each last arrival wakes all the others at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "wake_bursts",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "bursts of 1,000 wakes, per wake",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "1,001 fibers wait at a barrier, 10 times per sample. Go has none: sync.Cond with a \
        count.",
    ..Case::INSIDE
};

const FIBERS: u32 = 1_000;
const MEETINGS: u32 = 10;

/// One fiber's share: it goes to meetings until the last one, whose number is set before it begins.
macro_rules! attend {
    ($barrier:ident, $last:ident, $($wait:tt)*) => {{
        let mut meeting = 0;
        while meeting != $last.load(Ordering::Relaxed) {
            $barrier $($wait)*;
            meeting += 1;
        }
    }};
}

/// The measuring fiber's share.
macro_rules! lead {
    ($run:ident, $barrier:ident, $last:ident, $($wait:tt)*) => {{
        let mut sampler = $run.sampler(FIBERS * MEETINGS);
        let mut meeting = 0;
        while sampler.again() {
            let start = Instant::now();
            for _ in 0..MEETINGS {
                $barrier $($wait)*;
            }
            sampler.add(start.elapsed());
            meeting += MEETINGS;
        }
        $last.store(meeting + 1, Ordering::Relaxed);
        $barrier $($wait)*;
        sampler.figure()
    }};
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || {
        let barrier = Arc::new(volt::sync::Barrier::new(FIBERS as usize + 1));
        let last = Arc::new(AtomicU32::new(u32::MAX));
        for _ in 0..FIBERS {
            let (barrier, last) = (Arc::clone(&barrier), Arc::clone(&last));
            volt::go(move || attend!(barrier, last, .wait()));
        }
        lead!(run, barrier, last, .wait())
    })
}

fn tokio(run: Run) -> f64 {
    on_tokio(run, async move {
        let barrier = Arc::new(tokio::sync::Barrier::new(FIBERS as usize + 1));
        let last = Arc::new(AtomicU32::new(u32::MAX));
        for _ in 0..FIBERS {
            let (barrier, last) = (Arc::clone(&barrier), Arc::clone(&last));
            tokio::spawn(async move { attend!(barrier, last, .wait().await) });
        }
        lead!(run, barrier, last, .wait().await)
    })
}

fn may(run: Run) -> f64 {
    on_may(run, move || {
        let barrier = Arc::new(may::sync::Barrier::new(FIBERS as usize + 1));
        let last = Arc::new(AtomicU32::new(u32::MAX));
        for _ in 0..FIBERS {
            let (barrier, last) = (Arc::clone(&barrier), Arc::clone(&last));
            may::go!(move || attend!(barrier, last, .wait()));
        }
        lead!(run, barrier, last, .wait())
    })
}

fn threads(run: Run) -> f64 {
    on_threads(run, || {
        let barrier = Arc::new(std::sync::Barrier::new(FIBERS as usize + 1));
        let last = Arc::new(AtomicU32::new(u32::MAX));
        for _ in 0..FIBERS {
            let (barrier, last) = (Arc::clone(&barrier), Arc::clone(&last));
            std::thread::spawn(move || attend!(barrier, last, .wait()));
        }
        lead!(run, barrier, last, .wait())
    })
}
