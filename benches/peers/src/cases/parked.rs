//! A million fibers that wait: what each takes in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Bar, Case, Kind, Row, Unit};
use crate::peer::{self, Peer};
use crate::run::{Run, say, stage};

pub const CASE: Case = Case {
    name: "parked",
    kind: Kind::Footprint,
    bodies: &[
        (Peer::Volt, volt),
        (Peer::Tokio, tokio),
        (Peer::May, may),
        (Peer::Threads, threads),
        (Peer::Floor, floor),
    ],
    rounds: 2,
    rows: &[Row {
        key: "bytes",
        title: "a million parked fibers, each",
        unit: Unit::Bytes,
        bar: Bar::AtMost(4_900.0),
    }],
    note: "Resident memory and page tables of a million fibers that have run and wait. Stackless \
        tasks hold what they need after the wait, here nothing. may: 20,000, because of \
        vm.max_map_count; threads: 2,000. Floor: a page for each, 256 KiB apart.",
    ..Case::INSIDE
};

const FIBERS: u32 = 1_000_000;

/// Spawns `count` with `spawn` and waits until each has counted itself.
fn park_all(count: u32, spawn: impl Fn(Arc<AtomicU32>)) -> f64 {
    let arrived = Arc::new(AtomicU32::new(0));
    stage("begin");
    for _ in 0..count {
        spawn(Arc::clone(&arrived));
    }
    while arrived.load(Ordering::Relaxed) < count {
        std::thread::sleep(Duration::from_millis(5));
    }
    say("count", count);
    stage("end");
    0.0
}

fn volt(run: Run) -> f64 {
    let runtime = peer::volt(run);
    park_all(run.scale(FIBERS, 10_000), |arrived| {
        drop(runtime.go(move || {
            arrived.fetch_add(1, Ordering::Relaxed);
            loop {
                volt::thread::park();
            }
        }));
    })
}

fn tokio(run: Run) -> f64 {
    let runtime = peer::tokio(run);
    park_all(run.scale(FIBERS, 10_000), |arrived| {
        drop(runtime.spawn(async move {
            arrived.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }));
    })
}

fn may(run: Run) -> f64 {
    peer::may(run);
    park_all(run.scale(20_000, 10_000), |arrived| {
        drop(may::go!(move || {
            arrived.fetch_add(1, Ordering::Relaxed);
            loop {
                may::coroutine::park();
            }
        }));
    })
}

fn threads(run: Run) -> f64 {
    peer::threads(run);
    park_all(run.scale(2_000, 500), |arrived| {
        drop(std::thread::spawn(move || {
            arrived.fetch_add(1, Ordering::Relaxed);
            loop {
                std::thread::park();
            }
        }));
    })
}

fn floor(run: Run) -> f64 {
    const APART: usize = 256 << 10;
    let count = run.scale(FIBERS, 10_000);
    stage("begin");
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a mapping of its own, and every byte that is written lies in it.
    unsafe {
        let len = count as usize * APART;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let base = libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0);
        assert_ne!(base, libc::MAP_FAILED, "no address space");
        libc::madvise(base, len, libc::MADV_NOHUGEPAGE);
        for i in 0..count as usize {
            base.cast::<u8>().add(i * APART).write_volatile(1);
        }
    }
    say("count", count);
    stage("end");
    0.0
}
