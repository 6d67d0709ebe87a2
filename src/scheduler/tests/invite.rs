//! When a worker that does it all wakes another one.

use super::{Bench, bench, config};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use std::time::Duration;

const FLEETING: Duration = Duration::from_nanos(300);
const BRIEF: Duration = Duration::from_micros(2);

/// Worker 0 has run fibers for so long each, for a tick; says how many others it has woken since the beginning.
fn wakes(bench: &Bench<'_>, each: Duration) -> u64 {
    bench.fibers_ran_for(0, each);
    bench.workers[0].invites(Moment::now());
    bench.wakes()
}

#[test]
fn one_that_sleeps_is_invited_where_fibers_are_no_fleeting_ones() {
    bench(config(2), 0, |bench| {
        assert_eq!(wakes(bench, BRIEF), 0, "the other one runs");
        bench.lies_down(1);
        assert_eq!(wakes(bench, FLEETING), 0);
        assert_eq!(wakes(bench, BRIEF), 1);
        bench.workers[1].leave_bed(false);
        assert!(bench.workers[1].searching.get());
    });
    bench(config(1), 0, |bench| assert_eq!(wakes(bench, BRIEF), 0));
}

/// Whom others have woken, say, for a flow of work of their own.
#[test]
fn one_that_sleeps_is_invited_beside_others_that_run() {
    bench(config(3), 0, |bench| {
        bench.lies_down(1);
        let start = Moment::now();
        // The other one has to stay for a while first.
        while wakes(bench, BRIEF) == 0 {
            assert!(Moment::now().since(start) < Duration::from_secs(30), "nobody was invited");
        }
        bench.workers[1].leave_bed(false);
        bench.workers[1].stop_searching();
    });
}

#[test]
fn who_is_woken_then_is_shared_with_one_who_searches() {
    bench(config(2), 1, |bench| {
        let is_shared = || {
            bench.workers[0].push_woken(bench.fibers[0]);
            let shared = bench.core(0).slot.is_empty();
            assert_eq!(bench.find(0), Some(0));
            shared
        };
        bench.lies_down(1);
        bench.fibers_ran_for(0, BRIEF);
        assert!(!is_shared());
        assert_eq!(wakes(bench, BRIEF), 1);
        assert!(is_shared() && is_shared(), "whatever came of it");
        bench.fill_ring(0, [0]);
        assert!(bench.core(0).pays(Default::default()), "nobody holds off");
        assert_eq!(bench.ring(0), [0]);
        bench.workers[1].leave_bed(false);
        bench.workers[1].stop_searching();
        assert!(!is_shared(), "nobody searches");
        // The tick is over.
        assert_eq!(wakes(bench, BRIEF), 1);
        bench.shared.idle.begin_search_now();
        assert!(!is_shared());
        let _ = bench.shared.idle.end_search();
    });
}

#[test]
fn a_sleep_ends_it() {
    bench(config(2), 0, |bench| {
        let (worker, core) = (&bench.workers[0], bench.core(0));
        let average = || worker.own().tick.average();
        bench.lies_down(1);
        assert_eq!(wakes(bench, BRIEF), 1);
        assert!(worker.own().invites.are_open());
        assert!(core.pace.load(Ordering::Relaxed) > average(), "nobody holds off");
        worker.park(&|| true);
        assert!(!worker.own().invites.are_open());
        assert_eq!(core.pace.load(Ordering::Relaxed), average());
        worker.stop_searching();
    });
}
