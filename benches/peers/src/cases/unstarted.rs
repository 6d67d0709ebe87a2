//! A million fibers that were spawned and have not run yet: what each takes in memory.

use super::{Bar, Case, Kind, Row, Unit};
use crate::peer::Peer;
use crate::run::{Run, say, stage};

pub const CASE: Case = Case {
    name: "unstarted",
    kind: Kind::Footprint,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio)],
    go: false,
    rounds: 2,
    rows: &[Row {
        key: "bytes",
        title: "a million unstarted fibers, each",
        unit: Unit::Bytes,
        bar: Bar::AtMost(300.0),
    }],
    note: "A million spawned on a runtime of the calling thread, which does not run it. may and \
        Go start what is spawned; theirs have their stacks from the beginning, as in the line \
        above.",
    ..Case::INSIDE
};

const FIBERS: u32 = 1_000_000;

fn volt(run: Run) -> f64 {
    let runtime = volt::runtime::Builder::new_current_thread().build().unwrap();
    let count = run.scale(FIBERS, 10_000);
    stage("begin");
    (0..count).for_each(|_| drop(runtime.go(|| ())));
    say("count", count);
    stage("end");
    std::mem::forget(runtime);
    0.0
}

fn tokio(run: Run) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let count = run.scale(FIBERS, 10_000);
    stage("begin");
    (0..count).for_each(|_| drop(runtime.spawn(async {})));
    say("count", count);
    stage("end");
    std::mem::forget(runtime);
    0.0
}
