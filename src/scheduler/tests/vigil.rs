//! A worker that was woken for a share, and finds nothing more: how it looks on.

use super::{Bench, bench, config};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use std::cell::Cell;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_micros(100);
const AWAKE: Duration = Duration::from_micros(50);

/// As after one that has paid.
#[test]
fn a_call_outlives_a_short_sleep_and_no_long_one() {
    for (slept, stays) in [(Duration::ZERO, true), (Duration::from_secs(1), false)] {
        bench(config(2), 1, |bench| {
            let worker = &bench.workers[1];
            shares(bench, Duration::ZERO);
            worker.searching.set(false);
            worker.has_slept(slept);
            worker.searching.set(true);
            assert_eq!(worker.stays_awake(&|| true), stays);
        });
    }
}

/// It would be taken by whoever wakes next, for whatever reason.
#[test]
fn a_call_that_wakes_nobody_is_taken_back() {
    bench(config(2), 0, |bench| {
        let is_called = || bench.shared.called.load(Ordering::Relaxed);
        bench.shared.call();
        assert!(bench.wakes() == 0 && !is_called());
        bench.lies_down(1);
        bench.shared.call();
        assert!(bench.wakes() == 1 && is_called());
        bench.workers[1].leave_bed(false);
    });
}

/// Worker 0 wakes fiber 0 for worker 1, which has slept for so long, and runs it.
fn shares(bench: &Bench<'_>, slept: Duration) {
    bench.fibers_ran_for(0, LONG);
    bench.lies_down(1);
    bench.workers[0].push_woken(bench.fibers[0]);
    bench.workers[1].leave_bed(false);
    assert!(bench.workers[1].searching.get(), "it was claimed");
    bench.workers[1].is_called(slept);
    assert_eq!(bench.find(1), Some(0));
    assert_eq!(bench.find(1), None);
}

#[test]
fn who_was_woken_for_a_share_looks_on_for_a_while_and_sees_to_the_sockets() {
    bench(config(2), 1, |bench| {
        shares(bench, Duration::ZERO);
        let (core, begin) = (bench.core(1), Instant::now());
        assert!(!bench.workers[1].stays_awake(&|| false));
        assert!(begin.elapsed() >= AWAKE && core.stats.polls.get() > 0);
        // In vain: not the next time.
        assert!(!bench.workers[1].stays_awake(&|| unreachable!("it does not look")));
    });
}

#[test]
fn it_is_no_fiber_s_time() {
    bench(config(2), 1, |bench| {
        shares(bench, Duration::ZERO);
        bench.fibers_ran_for(1, Duration::from_micros(1));
        for _ in 0..60 {
            bench.workers[1].own().vigil = Default::default();
            bench.shared.called.store(true, Ordering::Relaxed);
            bench.workers[1].is_called(Duration::ZERO);
            let tick = &mut bench.workers[1].own().tick;
            tick.injector_looked(Moment::now());
            assert!(tick.dispatch());
            assert!(!bench.workers[1].stays_awake(&|| false));
        }
        let average = bench.workers[1].own().tick.average();
        assert!(average < 5_000, "{average} ns, as if the fibers had run for that long");
    });
}

#[test]
fn whatever_turns_up_ends_it() {
    bench(config(2), 2, |bench| {
        shares(bench, Duration::ZERO);
        let asked = Cell::new(0);
        let third = || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        };
        let both_end_it = || {
            asked.set(0);
            bench.workers[1].own().vigil = Default::default();
            bench.workers[1].own().vigil.call();
            let begin = Instant::now();
            let who_is_done = bench.workers[1].stays_awake(&third);
            bench.core(1).stats.dispatched.add(1);
            let (waited, worked) = (begin.elapsed(), Instant::now());
            while worked.elapsed() < waited {}
            bench.fill_ring(0, [1]);
            let something_to_steal = bench.workers[1].stays_awake(&|| false);
            assert_eq!(bench.find(1), Some(1));
            who_is_done && something_to_steal
        };
        // One ends unasked where the thread loses its processor for that long.
        assert!((0..100).any(|_| both_end_it()));
    });
}

#[test]
fn none_begins_after_a_long_sleep_or_another_wake_or_without_the_search() {
    bench(config(2), 2, |bench| {
        let never = || unreachable!("it does not look");
        shares(bench, Duration::from_millis(1));
        assert!(!bench.workers[1].stays_awake(&never), "a long sleep");
        bench.workers[1].is_called(Duration::ZERO);
        assert!(!bench.workers[1].stays_awake(&never), "the share was for the sleep before");
        bench.shared.called.store(true, Ordering::Relaxed);
        bench.workers[1].is_called(Duration::ZERO);
        bench.workers[1].stop_searching();
        assert!(!bench.workers[1].stays_awake(&never), "others search");
    });
}
