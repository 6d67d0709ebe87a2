//! What a runtime does with stacks over time: memory goes back, and their use is measured.

mod common;

use common::{LONG, child, until, within};
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

/// What of this process is resident, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Waits until at least `count` stacks have been in use and none of them has memory any more.
#[track_caller]
fn until_none_has_memory(count: usize) {
    until("no idle stack has memory", || {
        let stacks = volt::metrics::stacks();
        stacks.handed_out >= count && stacks.trimmed == stacks.handed_out
    });
}

#[test]
fn idle_stacks_give_their_memory_back_by_themselves() {
    const FIBERS: usize = 400;
    let before = resident();
    for workers in [1, 3] {
        within(LONG, move || {
            let age = Duration::from_millis(50);
            let runtime = Builder::new().workers(workers).stack_age(age).build().unwrap();
            let arrived = Arc::new(AtomicUsize::new(0));
            let fibers: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let arrived = Arc::clone(&arrived);
                    runtime.go(move || {
                        black_box(deep(100 << 10));
                        arrived.fetch_add(1, Ordering::Relaxed);
                        volt::thread::park();
                    })
                })
                .collect();
            // Each has a stack of its own, and keeps its memory as long as it lives.
            until("all are parked", || arrived.load(Ordering::Relaxed) == FIBERS);
            let (full, seen) = (before + FIBERS as u64 * 100, resident());
            assert!(seen >= full, "{seen} KiB, {full} expected: nothing was used");
            fibers.iter().for_each(|fiber| fiber.thread().unpark());
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
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

/// Fibers that stall are replaced, and end on threads that have no core any more, or one too many: what
/// these leave behind has no memory either, though nobody comes by to look at it again.
#[test]
fn stalled_fibers_leave_no_memory_behind() {
    const FIBERS: usize = 8;
    let name = "stalled_fibers_leave_no_memory_behind";
    // Alone, because the figures are the process's.
    let left = child(name, &[], || {
        let period = Duration::from_millis(10);
        let builder = Builder::new().workers(2).stall_period(Some(period)).stack_age(period);
        let runtime = builder.force_migrate(false).build().unwrap();
        let fibers: Vec<_> =
            (0..FIBERS).map(|_| runtime.go(move || std::thread::sleep(period * 5))).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        assert!(runtime.handle().stats().total.stalls > 0, "none was replaced");
        until_none_has_memory(FIBERS);
        runtime.shutdown(LONG).unwrap();
    });
    assert!(left.status.success(), "{left:?}");
}

/// A worker that stalls, and lets go of its core, had in mind that many stacks became idle a moment ago.
#[test]
fn a_stalled_worker_leaves_its_duty_to_others() {
    const FIBERS: usize = 200;
    let name = "a_stalled_worker_leaves_its_duty_to_others";
    // Alone, because the figures are the process's.
    let left = child(name, &[], || {
        let period = Duration::from_millis(10);
        let builder = Builder::new().workers(1).stall_period(Some(period)).stack_age(period * 20);
        let runtime = builder.force_migrate(false).build().unwrap();
        runtime.run(move || {
            // All at once, so that each has a stack of its own: more than a worker keeps.
            let fibers: Vec<_> = (0..FIBERS).map(|_| volt::go(volt::thread::park)).collect();
            volt::yield_now();
            fibers.iter().for_each(|fiber| fiber.thread().unpark());
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            std::thread::sleep(period * 5);
        });
        until("it is back, and one too many", || runtime.handle().stats().total.retired > 0);
        until_none_has_memory(FIBERS);
        runtime.shutdown(LONG).unwrap();
    });
    assert!(left.status.success(), "{left:?}");
}

/// Each worker keeps stacks of its own; one that sleeps is woken when they are old, and no memory
/// stays. Again and again, since later times begin with nothing due and, for a single fiber, with a
/// worker that sleeps in the poller already and has to be told.
#[test]
fn sleeping_workers_give_the_memory_of_their_own_stacks_back() {
    const WORKERS: usize = 3;
    let name = "sleeping_workers_give_the_memory_of_their_own_stacks_back";
    // Alone, because the figures are the process's.
    let left = child(name, &[], || {
        let age = Duration::from_millis(20);
        let runtime = Builder::new().workers(WORKERS).stack_age(age).build().unwrap();
        for together in [WORKERS, WORKERS, 1, 1, 1, 1, 1, 1] {
            // None ends before all run, so each ends on a worker of its own.
            let running = Arc::new(AtomicUsize::new(0));
            let fibers: Vec<_> = (0..together)
                .map(|_| {
                    let running = Arc::clone(&running);
                    runtime.go(move || {
                        running.fetch_add(1, Ordering::SeqCst);
                        while running.load(Ordering::SeqCst) < together {
                            std::thread::yield_now();
                        }
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            // Nobody uses the runtime any more.
            until_none_has_memory(WORKERS);
        }
        runtime.shutdown(LONG).unwrap();
    });
    assert!(left.status.success(), "{left:?}");
}
