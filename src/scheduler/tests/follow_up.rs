//! A worker that was given something from outside, and finds nothing more: how it looks on.

use super::{Bench, bench, config};
use crate::fiber::Batch;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use crate::scheduler::{follow_up::FollowUps, worker::Worker};
use std::time::{Duration, Instant};

const AWAKE: Duration = Duration::from_micros(50);

/// Worker 0 takes fiber 0 from the injector, and finds nothing more.
fn is_given_one(bench: &Bench<'_>) {
    bench.fill_injector([0]);
    assert_eq!(bench.find(0), Some(0));
    assert_eq!(bench.find(0), None);
}

/// One in which the system took the processor away was in vain.
fn forgets_its_odds(worker: &Worker<'_>) {
    worker.own().follow_ups = FollowUps::default();
}

fn never() -> bool {
    unreachable!("it does not look")
}

#[test]
fn who_was_given_something_looks_on_for_a_while_and_sees_to_the_sockets() {
    for workers in [1, 2] {
        bench(config(workers), 1, |bench| {
            let (worker, core) = (&bench.workers[0], bench.core(0));
            assert_eq!(bench.find(0), None);
            assert!(!worker.stays_awake(&never), "nothing came");
            is_given_one(bench);
            let (begin, ticks) = (Instant::now(), core.stats.ticks.get());
            assert!(!worker.stays_awake(&|| false));
            assert!(begin.elapsed() >= AWAKE && core.stats.polls.get() > 0);
            assert_eq!(core.stats.ticks.get(), ticks, "nobody ran");
            assert!(worker.searching.get(), "others count on it until it lies down");
            for _ in 0..2 {
                is_given_one(bench);
                assert!(!worker.stays_awake(&never), "it was in vain");
            }
            is_given_one(bench);
            assert!(worker.stays_awake(&|| true));
            worker.stop_searching();
        });
    }
}

#[test]
fn mail_is_given_from_outside_and_overflow_is_not() {
    bench(config(2), 1, |bench| {
        let worker = &bench.workers[0];
        assert!(bench.core(0).mailbox.push(bench.fibers[0]).is_ok());
        assert!(worker.is_given_something());
        assert_eq!(bench.find(0), Some(0));
        assert_eq!(bench.find(0), None);
        assert!(worker.stays_awake(&|| true));
        let mut batch = Batch::new();
        batch.push(bench.fibers[0]);
        assert!(bench.shared.injector.push_overflow(batch, 1).is_empty());
        assert!(!worker.is_given_something());
        assert_eq!(bench.find(0), Some(0));
        assert_eq!(bench.find(0), None);
        assert!(!worker.stays_awake(&never));
        worker.stop_searching();
    });
}

#[test]
fn what_comes_ends_it_and_it_goes_on_like_that_until_the_worker_sleeps() {
    bench(config(1), 1, |bench| {
        let worker = &bench.workers[0];
        is_given_one(bench);
        for _ in 0..9 {
            bench.fill_injector([0]);
            assert!(worker.stays_awake(&|| false) && worker.searching.get());
            forgets_its_odds(worker);
            assert_eq!(bench.find(0), Some(0));
            assert!(!worker.searching.get());
        }
        worker.ends_vigils(Moment::now());
        assert!(!worker.stays_awake(&never), "it has slept");
    });
}

/// Each ends before sockets and timers would have a turn in it.
#[test]
fn many_short_ones_see_to_sockets_and_idle_memory_too() {
    bench(config(1), 1, |bench| {
        let polls = || bench.core(0).stats.polls.get();
        is_given_one(bench);
        let before = polls();
        let trim_due = &bench.core(0).trim_due;
        trim_due.store(1, Ordering::Relaxed);
        for _ in 0..2_000 {
            bench.fill_injector([0]);
            assert!(bench.workers[0].stays_awake(&|| false));
            forgets_its_odds(&bench.workers[0]);
            assert_eq!(bench.find(0), Some(0));
        }
        // Two thousand of them take a millisecond.
        assert!(polls() > before + 20, "{} turns", polls() - before);
        assert_ne!(trim_due.load(Ordering::Relaxed), 1);
    });
}

/// Else one in vain would be forgiven.
#[test]
fn what_comes_from_elsewhere_has_not_paid() {
    bench(config(2), 2, |bench| {
        let worker = &bench.workers[0];
        // Where the system takes the processor away meanwhile it takes too long to be seen.
        let is_rare = || {
            forgets_its_odds(worker);
            let stolen = (0..4).all(|_| {
                is_given_one(bench);
                bench.fill_ring(1, [1]);
                let found = worker.stays_awake(&|| false);
                assert_eq!(bench.find(0), Some(1));
                found
            });
            is_given_one(bench);
            let in_vain = !worker.stays_awake(&|| false);
            is_given_one(bench);
            stolen && in_vain && !worker.stays_awake(&|| true)
        };
        assert!((0..100).any(|_| is_rare()));
        worker.stop_searching();
    });
}

#[test]
fn none_begins_while_another_one_searches() {
    bench(config(4), 1, |bench| {
        let worker = &bench.workers[0];
        bench.shared.idle.begin_search_now();
        is_given_one(bench);
        assert!(worker.searching.get() && !worker.stays_awake(&never));
        assert!(!bench.shared.idle.end_search());
        is_given_one(bench);
        assert!(worker.stays_awake(&|| true));
        worker.stop_searching();
    });
}
