//! Who stands in a LIFO slot behind a fiber that does not stop, and when a thief comes for them.

use super::{bench, config};
use std::sync::atomic::{AtomicBool, Ordering};

/// The owner of the slot runs one fiber all the time, as far as others can tell.
#[test]
fn a_thief_takes_who_stands_in_a_slot_behind_one_that_does_not_stop() {
    bench(config(2), 2, |bench| {
        bench.workers[0].push_woken(bench.fibers[0]);
        assert_eq!(bench.find(1), Some(0));
        assert_eq!((bench.find(0), bench.core(1).stats.stolen.get()), (None, 1));
        assert_eq!(bench.core(0).robbed.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_slot_is_left_to_its_owner_that_goes_on() {
    bench(config(2), 2, |bench| {
        let (worker, goes_on) = (&bench.workers[0], AtomicBool::new(true));
        std::thread::scope(|scope| {
            let core = bench.core(0);
            worker.push_woken(bench.fibers[0]);
            let ends = &goes_on;
            scope.spawn(move || {
                while ends.load(Ordering::Relaxed) {
                    core.stats.dispatched.add(1);
                }
            });
            // Unless the system takes the processor away from it.
            let left = (0..100).any(|_| bench.workers[1].steal_aged().is_none());
            goes_on.store(false, Ordering::Relaxed);
            assert!(left);
        });
    });
}

/// A thief may come just before that: nobody else would come for what stands in the slot.
#[test]
fn who_goes_on_once_and_then_does_not_stop_is_looked_at_again() {
    bench(config(2), 2, |bench| {
        let (core, looks) = (bench.core(0), &bench.shared.holding_off);
        for _ in 0..50 {
            bench.workers[0].push_woken(bench.fibers[0]);
            let taken = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !looks.load(Ordering::Relaxed) && !core.slot.is_empty() {}
                    core.stats.dispatched.add(1);
                });
                bench.workers[1].steal_aged()
            });
            assert_eq!(taken, Some(bench.fibers[0]));
        }
    });
}

#[test]
fn a_thief_has_something_better_to_do_than_to_look_at_a_slot() {
    bench(config(2), 2, |bench| {
        bench.workers[0].push_woken(bench.fibers[0]);
        bench.fill_injector([1]);
        assert!(bench.workers[1].steal_aged().is_none());
        bench.workers[1].stop_searching();
        assert_eq!((bench.find(1), bench.find(0)), (Some(1), Some(0)));
    });
}
