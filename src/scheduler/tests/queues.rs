//! LIFO slot and ring of one worker: who runs next, who is displaced, who is woken for it.

use super::super::worker::Worker;
use super::{Bench, bench, config};
use crate::fiber::{self, Traits};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use crate::scheduler::heirs;
use std::time::Duration;

#[test]
fn the_newest_runs_first_and_displaces_the_one_before() {
    bench(config(1), 3, |bench| {
        let worker = &bench.workers[0];
        bench.fibers.iter().for_each(|fiber| worker.push_woken(*fiber));
        let order: Vec<_> = (0..4).map(|_| bench.find(0)).collect();
        assert_eq!(order, [Some(2), Some(0), Some(1), None]);
        assert_eq!(bench.core(0).stats.lifo_hits.get(), 1);
    });
}

#[test]
fn another_worker_is_woken_only_for_the_one_displaced() {
    bench(config(3), 3, |bench| {
        (1..3).for_each(|index| bench.lies_down(index));
        bench.workers[0].push_woken(bench.fibers[0]);
        assert_eq!(bench.wakes(), 0, "it runs here, next");
        bench.workers[0].push_woken(bench.fibers[1]);
        assert_eq!(bench.wakes(), 1);
        // The one that was woken searches: it will wake the next if it finds something.
        bench.workers[0].push_woken(bench.fibers[2]);
        assert_eq!(bench.wakes(), 1);
    });
}

#[test]
fn after_three_in_a_row_the_slot_is_flushed_behind_the_others() {
    bench(config(1), 6, |bench| {
        let (worker, core) = (&bench.workers[0], bench.core(0));
        bench.fill_ring(0, [5]);
        // Each wakes the next.
        let mut order = Vec::new();
        for newest in 0..5 {
            worker.push_woken(bench.fibers[newest]);
            order.extend(bench.find(0));
        }
        order.extend(bench.find(0));
        // The run of three ends with the ring; a new one begins.
        assert_eq!(order, [0, 1, 2, 5, 4, 3]);
        assert_eq!((core.stats.lifo_hits.get(), core.stats.lifo_flushes.get()), (4, 1));
    });
}

/// In the ring stand 5 to 24. Three from the slot have run and one of the ring, before 3, which stood in the slot.
fn beside_many(urgent: bool, test: impl Fn(&Bench<'_>)) {
    bench(config(2), 25, |bench| {
        bench.fill_ring(0, 5..25);
        // SAFETY: the test holds them all.
        unsafe { bench.fibers[3].note_wait("lock", 0, Traits::new(false, urgent)) };
        let next = |newest: usize| {
            bench.workers[0].push_woken(bench.fibers[newest]);
            bench.find(0)
        };
        assert_eq!([0, 1, 2, 3].map(next), [0, 1, 2, 5].map(Some));
        test(bench);
        bench.ring(0);
    });
}

#[test]
fn beside_many_who_is_urgent_has_its_turn_after_some_of_them() {
    beside_many(true, |bench| {
        assert_eq!([(); 5].map(|()| bench.find(0)), [6, 7, 8, 3, 9].map(Some));
        let stats = &bench.core(0).stats;
        assert_eq!((stats.lifo_hits.get(), stats.lifo_flushes.get()), (4, 1));
    });
    beside_many(false, |bench| assert_eq!(bench.ring(0).last(), Some(&3)));
}

#[test]
fn who_takes_its_place_meanwhile_runs_next() {
    beside_many(true, |bench| {
        bench.workers[0].push_woken(bench.fibers[4]);
        assert_eq!([bench.find(0), bench.find(0)], [4, 6].map(Some));
        assert_eq!(bench.ring(0).last(), Some(&3));
    });
}

#[test]
fn it_has_its_turn_at_once_where_they_were_stolen() {
    beside_many(true, |bench| {
        assert_eq!(bench.ring(0).len(), 19);
        assert_eq!([bench.find(0), bench.find(0)], [Some(3), None]);
    });
}

/// After how many turns of the ring, 20 us each, the three that have run from the slot go on; none of the first hundred
/// if `None`. Between two turns the worker does what it is told to.
fn turns_until_the_slot_goes_on(between: impl Fn(&Worker<'_>)) -> Option<usize> {
    let mut turns = None;
    bench(config(1), 110, |bench| {
        let worker = &bench.workers[0];
        bench.fill_ring(0, [109]);
        turns = (0..100).find(|turn| {
            let found = [0, 1, 2, 3].map(|fiber| {
                worker.push_woken(bench.fibers[fiber]);
                bench.find(0)
            });
            assert_eq!(found[..3], [0, 1, 2].map(Some));
            if found[3] == Some(3) {
                return true;
            }
            // The one of the ring takes its time. Who was flushed has done with it.
            let began = Moment::now();
            while Moment::now().since(began) < Duration::from_micros(20) {}
            between(worker);
            assert_eq!(bench.ring(0), [3]);
            bench.fill_ring(0, [4 + turn]);
            false
        });
        bench.ring(0);
    });
    turns
}

#[test]
fn beside_those_that_take_long_the_slot_goes_on() {
    // The first is not known to be one. (Nor is the second, where the thread loses its processor in a run.)
    assert!((0..100).any(|_| turns_until_the_slot_goes_on(|_| {}) == Some(1)));
}

#[test]
fn a_sleep_is_no_turn_of_the_ring() {
    assert_eq!(turns_until_the_slot_goes_on(|worker| worker.park(&|| true)), None);
}

#[test]
fn three_in_a_row_means_without_one_from_elsewhere() {
    bench(config(1), 20, |bench| {
        let worker = &bench.workers[0];
        // Somebody is always in the ring: behind whom the slot would be flushed.
        bench.fill_ring(0, [19]);
        let mut oldest = 19;
        for round in 0..4 {
            for fiber in 4 * round..4 * round + 2 {
                worker.push_woken(bench.fibers[fiber]);
                assert_eq!(bench.find(0), Some(fiber));
            }
            bench.fill_ring(0, [4 * round + 3]);
            assert_eq!(bench.find(0), Some(oldest));
            oldest = 4 * round + 3;
        }
        assert_eq!(bench.core(0).stats.lifo_flushes.get(), 0);
        assert_eq!(bench.find(0), Some(oldest));
    });
}

#[test]
fn one_that_yields_goes_behind_all_others() {
    bench(config(1), 3, |bench| {
        bench.fill_ring(0, [0, 1]);
        bench.workers[0].push_yielded(bench.fibers[2]);
        assert_eq!(bench.ring(0), [0, 1, 2]);
    });
}

/// A burst wakes workers one after the other: each that finds work wakes the next, if there is more.
#[test]
fn a_burst_wakes_one_worker_at_a_time() {
    bench(config(8), 200, |bench| {
        (1..8).for_each(|index| bench.lies_down(index));
        bench.fibers.iter().for_each(|fiber| bench.workers[0].push_woken(*fiber));
        assert_eq!(bench.wakes(), 1, "as long as the first that was woken searches");
        for index in 1..8 {
            bench.workers[index].leave_bed(false);
            assert!(bench.workers[index].searching.get(), "the lowest parked one was woken");
            assert!(bench.find(index).is_some());
            // The last searcher has found work and wakes the next, if one is left.
            assert_eq!(bench.wakes(), (index as u64 + 1).min(7));
        }
        assert_eq!(bench.shared.idle.counts(), (0, 0));
    });
}

/// To wake one that finds nothing is two system calls and two switches. But somebody is to be in the poller.
#[test]
fn the_last_searcher_wakes_another_for_what_is_there_alone() {
    bench(config(3), 3, |bench| {
        let (worker, shared) = (&bench.workers[0], bench.shared);
        bench.lies_down(2);
        // Or it has such memory in mind itself, at the end of a tick, which is soon on a slow machine.
        worker.own().trim_turn = Moment::NEVER;
        let wakes_for = |queued: usize, sitter: Option<usize>| {
            bench.fill_injector(0..queued);
            sitter.into_iter().for_each(|sitter| shared.poller.sit(sitter));
            let before = bench.wakes();
            worker.stop_searching();
            shared.idle.begin_search_now();
            worker.searching.set(true);
            assert_eq!(bench.find(0), (queued > 0).then_some(0));
            worker.stop_searching();
            shared.poller.rise();
            if bench.wakes() != before {
                bench.workers[2].leave_bed(false);
                bench.workers[2].stop_searching();
                bench.lies_down(2);
            }
            bench.ring(0);
            bench.wakes() != before
        };
        // Until nobody in this process leaves memory meanwhile.
        let wakes_nobody = || {
            let _ = (heirs::has_left(), fiber::has_news());
            shared.stacks_left.store(false, Ordering::Relaxed);
            !wakes_for(1, Some(1))
        };
        assert!((0..1_000).any(|_| wakes_nobody()), "one, which it runs itself");
        assert!(wakes_for(2, Some(1)), "one for itself, one for another");
        assert!(wakes_for(1, None), "nobody is in the poller");
        shared.stacks_left.store(true, Ordering::Relaxed);
        assert!(wakes_for(1, Some(1)), "memory that nobody has in mind");
        let _ = shared.idle.unpark(2);
    });
}

#[test]
fn a_full_ring_takes_256() {
    bench(config(1), 257, |bench| {
        (0..256).for_each(|n| bench.workers[0].push_yielded(bench.fibers[n]));
        assert_eq!(bench.core(0).stats.overflows.get(), 0);
        bench.workers[0].push_yielded(bench.fibers[256]);
        assert_eq!(bench.core(0).stats.overflows.get(), 1);
    });
}

#[test]
fn rings_lie_apart_in_memory() {
    let size = align_of::<super::super::ring::Ring>();
    assert!(size >= 128 || cfg!(not(target_arch = "x86_64")), "{size}");
    bench(config(2), 0, |bench| {
        let address = |index| &raw const bench.core(index).ring as usize;
        assert!(address(0).abs_diff(address(1)) >= 128);
    });
}
