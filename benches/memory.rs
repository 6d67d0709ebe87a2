//! Bytes per fiber, a million of them: `cargo bench --bench memory`.
//!
//! Resident memory plus page tables, read from `/proc/self/status` before and after. What the kernel
//! holds besides (mappings) is some kilobytes, whatever the number of fibers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use volt::runtime::Builder;

const FIBERS: u64 = 1_000_000;

/// Resident bytes and page tables of this process.
fn footprint() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux system");
    let field = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).expect("a field of status");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number of kilobytes")
    };
    (field("VmRSS:") + field("VmPTE:")) * 1024
}

fn show(what: &str, bytes: u64, bar: u64) {
    let each = bytes / FIBERS;
    let verdict = if each <= bar { "met" } else { "not met" };
    println!("{what:<44} {each:>6} bytes each  bar {bar}: {verdict}");
}

fn unstarted() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let before = footprint();
    // Nobody runs the runtime, so nothing starts.
    for _ in 0..FIBERS {
        drop(runtime.go(|| ()));
    }
    show("a million spawned, not yet started", footprint() - before, 300);
    runtime.run(|| ());
}

fn parked() {
    let runtime = Builder::new().workers(2).build().unwrap();
    let before = footprint();
    let arrived = Arc::new(AtomicU64::new(0));
    let fibers: Vec<_> = (0..FIBERS)
        .map(|_| {
            let arrived = Arc::clone(&arrived);
            runtime.go(move || {
                arrived.fetch_add(1, Ordering::Relaxed);
                volt::thread::park();
            })
        })
        .collect();
    while arrived.load(Ordering::Relaxed) < FIBERS {
        std::thread::yield_now();
    }
    while runtime.stats().workers.iter().map(|worker| worker.parked).sum::<u64>() == 0 {
        std::thread::yield_now();
    }
    show("a million parked", footprint() - before, 4_900);
    for fiber in &fibers {
        fiber.thread().unpark();
    }
    for fiber in fibers {
        fiber.join().unwrap();
    }
}

/// Each case in a process of its own, so that none finds memory that another has left.
fn main() {
    match std::env::var("CASE").as_deref() {
        Ok("parked") => parked(),
        Ok(_) => unstarted(),
        Err(_) => {
            let me = std::env::current_exe().expect("the path of this bench");
            for case in ["unstarted", "parked"] {
                let status = std::process::Command::new(&me).env("CASE", case).status();
                assert!(status.expect("this bench again").success());
            }
        }
    }
}
