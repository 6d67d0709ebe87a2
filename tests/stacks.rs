//! What a runtime does with stacks over time: memory goes back, and their use is measured.

mod common;

use common::{LONG, until, within};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use volt::runtime::Builder;

/// Uses about `bytes` of stack.
#[inline(never)]
fn deep(bytes: usize) -> u8 {
    let frame = black_box([1u8; 1024]);
    if bytes <= 1024 { frame[0] } else { deep(bytes - 1024).wrapping_add(frame[7]) }
}

/// A figure of this process in KiB.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn resident() -> u64 {
    status("VmRSS:")
}

/// The most that was ever resident.
fn high_water() -> u64 {
    status("VmHWM:")
}

#[test]
fn idle_stacks_give_their_memory_back_by_themselves() {
    const FIBERS: usize = 400;
    for workers in [1, 3] {
        within(LONG, move || {
            let age = Duration::from_millis(50);
            let runtime = Builder::new().workers(workers).stack_age(age).build().unwrap();
            let before = resident();
            let arrived = Arc::new(AtomicUsize::new(0));
            let fibers: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let arrived = Arc::clone(&arrived);
                    runtime.go(move || {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        volt::thread::park();
                        deep(100 << 10)
                    })
                })
                .collect();
            // Each has a stack of its own.
            until("all have started", || arrived.load(Ordering::Relaxed) == FIBERS);
            fibers.iter().for_each(|fiber| fiber.thread().unpark());
            let deepest = fibers.into_iter().map(|fiber| fiber.join().unwrap()).max();
            black_box(deepest);
            let full = before + FIBERS as u64 * 100;
            let high = high_water();
            assert!(high >= full, "{high} KiB at most, {full} expected: nothing was used");
            // Nobody uses the runtime any more; it does this on its own.
            until("the memory went back", || resident() < before + (FIBERS as u64 * 100) / 4);
            runtime.shutdown(LONG).unwrap();
        });
    }
}

#[test]
fn the_use_of_stacks_is_told_by_spawn_site() {
    const USED: usize = 60 << 10;
    within(LONG, || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let line = runtime.run(|| {
            let (fiber, line) = (volt::go(|| deep(USED)), line!());
            fiber.join().unwrap();
            line
        });
        let usage = volt::metrics::stack_usage();
        let site = usage
            .iter()
            .find(|usage| usage.site.file().ends_with("stacks.rs") && usage.site.line() == line)
            .expect("the first fiber of a site is measured");
        assert!(site.samples >= 1);
        assert!(site.max_bytes >= USED, "{site:?}");
        assert!(site.max_bytes < USED * 4, "{site:?}");
        runtime.shutdown(LONG).unwrap();
    });
}
