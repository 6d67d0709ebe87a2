//! Whom a fiber that runs for long wakes: who else may take it, and who is woken for that.

use super::{Bench, bench, config};
use crate::primitives::sync::atomic::Ordering;
use std::time::Duration;

const SHORT: Duration = Duration::from_micros(1);
const MIDDLE: Duration = Duration::from_micros(8);
const LONG: Duration = Duration::from_micros(100);

/// Worker 0 wakes fiber 0, and says whether others find it.
fn is_shared(bench: &Bench<'_>) -> bool {
    bench.workers[0].push_woken(bench.fibers[0]);
    let shared = bench.core(0).slot.is_empty();
    assert_eq!(bench.find(0), Some(0), "the next here either way");
    shared
}

/// Worker `index` looks for work.
fn searches(bench: &Bench<'_>, index: usize) {
    bench.shared.idle.begin_search_now();
    bench.workers[index].searching.set(true);
}

#[test]
fn where_fibers_run_for_long_another_worker_is_woken_for_the_first_that_waits() {
    bench(config(2), 2, |bench| {
        bench.lies_down(1);
        let wakes_for = |each| {
            bench.fibers_ran_for(0, each);
            (is_shared(bench), bench.wakes())
        };
        assert_eq!(wakes_for(SHORT), (false, 0));
        assert_eq!(wakes_for(MIDDLE), (false, 0), "to wake one takes as long");
        assert_eq!(wakes_for(LONG), (true, 1));
    });
}

#[test]
fn one_that_searches_is_shared_more_than_those_who_sleep() {
    let shared = [SHORT, MIDDLE, LONG].map(|each| {
        let mut shared = false;
        bench(config(2), 1, |bench| {
            searches(bench, 1);
            bench.fibers_ran_for(0, each);
            shared = is_shared(bench);
            assert_eq!(bench.wakes(), 0);
            bench.workers[1].stop_searching();
        });
        shared
    });
    assert_eq!(shared, [false, true, true]);
}

#[test]
fn who_comes_too_late_asleep_may_be_in_time_awake() {
    let comes_too_late = |_| {
        let mut shared = [false; 6];
        bench(config(2), 1, |bench| {
            bench.fibers_ran_for(0, LONG);
            let asleep = [(); 4].map(|()| is_shared(bench));
            searches(bench, 1);
            let awake = is_shared(bench);
            bench.workers[1].stop_searching();
            let [a, b, c, d] = asleep;
            shared = [a, b, c, d, awake, is_shared(bench)];
        });
        shared == [true, false, true, false, true, false]
    };
    // More are shared where the thread loses its processor, and time goes by.
    assert!((0..100).any(comes_too_late));
}

#[test]
fn who_stands_in_a_queue_is_behind_the_one_that_is_woken() {
    bench(config(2), 2, |bench| {
        bench.fibers_ran_for(0, LONG);
        bench.fill_ring(0, [1]);
        bench.workers[0].push_woken(bench.fibers[0]);
        assert_eq!([bench.find(0), bench.find(0)], [Some(0), Some(1)]);
    });
}

#[test]
fn nothing_is_shared_where_nobody_steals() {
    let mut alone = config(2);
    alone.stealing = false;
    for config in [config(1), alone] {
        bench(config, 1, |bench| {
            bench.fibers_ran_for(0, LONG);
            assert!(!is_shared(bench));
        });
    }
}

/// How many of forty are shared whose waker's next scheduling point comes at once, on its own stack or on the worker's
/// flow.
fn shared_of_forty(robbed: bool, on_flow: bool) -> usize {
    let mut shared = 0;
    bench(config(2), 1, |bench| {
        let (worker, core) = (&bench.workers[0], bench.core(0));
        bench.fibers_ran_for(0, LONG);
        for _ in 0..40 {
            worker.push_woken(bench.fibers[0]);
            shared += usize::from(core.slot.is_empty());
            let own = if on_flow { None } else { worker.next_from_own_queues(core) };
            // There too, if something is due.
            let next = own.or_else(|| worker.find());
            assert!(next.is_some());
            core.robbed.fetch_add(robbed.into(), Ordering::Relaxed);
        }
    });
    shared
}

#[test]
fn shares_that_do_not_pay_become_rare() {
    for (robbed, on_flow) in [(false, false), (true, false), (true, true)] {
        // The first, and then after 1, 3, 7, 15. (More, where the thread loses its processor before that point.)
        let become_rare = (0..100).any(|_| shared_of_forty(robbed, on_flow) == 5);
        assert!(become_rare, "robbed: {robbed}, on the worker's flow: {on_flow}");
    }
}
