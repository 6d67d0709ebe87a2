//! Who sleeps, who searches, who is woken.

use super::super::idle::{Idle, Left};
use super::{Bench, Config, bench, config};
use crate::driver::Awake;
use crate::fiber::Batch;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};
use crate::scheduler::bed::rest_after;
use crate::scheduler::deadlock::Looks;
use crate::scheduler::hold_off::TALKS;
use crate::scheduler::hooks::{DeadlockHook, Hooks};
use crate::scheduler::worth::FLOWING;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn any_number_of_workers_lies_down_and_the_lowest_is_woken_first() {
    for workers in [1, 63, 64, 65, 200, 1024] {
        let idle = Idle::new(workers, workers);
        (0..workers).rev().for_each(|index| idle.park(index, false));
        assert_eq!(idle.counts(), (workers as u64, 0));
        for expected in 0..workers {
            assert_eq!(idle.notify(None), Some(expected));
            assert_eq!(idle.counts(), ((workers - expected) as u64 - 1, 1));
            assert_eq!(idle.notify(None), None, "one searches");
            assert_eq!(idle.unpark(expected), Left::Claimed);
            assert!(idle.end_search(), "it was the last searcher");
        }
        assert_eq!((idle.notify(None), idle.counts()), (None, (0, 0)));
    }
}

#[test]
fn at_most_half_of_the_workers_search() {
    for (workers, searchers) in [(1, 1), (2, 1), (3, 2), (4, 2), (8, 4), (9, 5)] {
        let idle = Idle::new(workers, workers);
        let admitted = (0..workers).filter(|_| idle.begin_search()).count();
        assert_eq!(admitted, searchers, "of {workers}");
        assert_eq!((1..searchers).filter(|_| idle.end_search()).count(), 0);
        assert!(idle.end_search(), "only the last is told so");
        assert!(idle.begin_search());
    }
}

#[test]
fn the_one_in_the_poller_is_woken_last() {
    let idle = Idle::new(3, 3);
    (0..3).for_each(|index| idle.park(index, false));
    let woken = (0..3).map(|_| {
        let index = idle.notify(Some(0)).unwrap();
        assert_eq!(idle.unpark(index), Left::Claimed);
        assert!(idle.end_search());
        index
    });
    assert_eq!(woken.collect::<Vec<_>>(), [1, 2, 0]);
}

#[test]
fn a_searcher_that_lies_down_ceases_to_search() {
    let idle = Idle::new(2, 2);
    assert!(idle.begin_search());
    idle.park(0, true);
    assert_eq!(idle.counts(), (1, 0));
    assert_eq!(idle.unpark(0), Left::ByItself);
    assert_eq!(idle.counts(), (0, 0));
}

/// Whatever came before the worker was seen parked is found by its last look.
#[test]
fn the_last_look_sees_every_queue() {
    type Put = fn(&super::Bench<'_>);
    let places: [(&str, Put); 5] = [
        ("slot", |bench| assert!(bench.core(0).slot.put(bench.fibers[0]).is_none())),
        ("ring", |bench| bench.fill_ring(0, [0])),
        ("mailbox", |bench| bench.core(0).mailbox.push(bench.fibers[0]).unwrap()),
        ("injector", |bench| bench.fill_injector([0])),
        ("another's ring", |bench| bench.fill_ring(1, [0])),
    ];
    let own = places.len() - 1;
    for (stealing, places) in [(true, &places[..]), (false, &places[..own])] {
        for (place, put) in places {
            let mut config = config(2);
            config.stealing = stealing;
            bench(config, 1, |bench| {
                put(bench);
                bench.workers[0].park(&|| false);
                let slept = bench.core(0).stats.parked.get();
                assert_eq!(slept, 0, "asleep over work in its {place}");
                assert!(bench.workers[0].searching.get(), "whatever the limit says");
                assert_eq!(bench.find(0), Some(0), "{place}");
                assert_eq!(bench.shared.idle.counts(), (0, 0));
            });
        }
    }
    bench(config(2), 0, |bench| {
        bench.workers[0].park(&|| false);
        assert_eq!(bench.core(0).stats.parked.get(), 1);
    });
}

/// A worker that wakes by itself is no searcher, else nobody would be woken ever after.
#[test]
fn who_wakes_by_itself_does_not_search() {
    bench(config(2), 0, |bench| {
        for _ in 0..5 {
            bench.workers[0].park(&|| false);
            assert!(!bench.workers[0].searching.get());
        }
        assert_eq!(bench.core(0).stats.parked.get(), 5);
        assert_eq!(bench.shared.idle.counts(), (0, 0));
    });
}

#[test]
fn who_is_claimed_searches() {
    let mut config = config(1);
    config.park_timeout = Some(Duration::from_secs(20));
    bench(config, 0, |bench| {
        let shared = bench.shared;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !shared.idle.is_parked(0) {
                    std::thread::yield_now();
                }
                shared.notify();
            });
            bench.workers[0].park(&|| false);
        });
        assert!(bench.workers[0].searching.get());
        assert_eq!((bench.shared.idle.counts(), bench.wakes()), ((0, 1), 1));
    });
}

/// Who has idle stacks that are due and is awake sees to them at its next sleep; the one in the poller does
/// not wake up for them.
#[test]
fn only_sleepers_are_woken_for_their_idle_stacks() {
    bench(config(4), 0, |bench| {
        let due = |index: usize, due: Moment| {
            bench.core(index).trim_due.store(due.as_nanos(), Ordering::Relaxed);
        };
        let (past, future) = (Moment::from_nanos(1), Moment::now().saturating_add(DAY));
        (0..4).for_each(|index| due(index, past));
        let now = Moment::now();
        assert_eq!(bench.shared.next_trim(now), Moment::NEVER, "all are awake");
        (0..3).for_each(|index| bench.lies_down(index));
        assert_eq!(bench.shared.next_trim(now), past);
        due(1, future);
        bench.shared.wake_for_trim(0);
        let parked = [0, 1, 2, 3].map(|index| bench.shared.idle.is_parked(index));
        assert_eq!(parked, [true, true, false, false], "the caller is awake already");
        due(0, future);
        assert_eq!(bench.shared.next_trim(now), future);
        bench.shared.wake_for_trim(3);
        assert_eq!(bench.wakes(), 1, "nothing is due");
    });
}

/// The one in the poller has no time for what is due of workers that are awake, and for what will be due it
/// has: who sleeps again meanwhile need not say so.
#[test]
fn who_is_awake_is_reckoned_with_for_its_idle_stacks() {
    bench(config(2), 0, |bench| {
        let (now, second) = (Moment::now(), Duration::from_secs(1));
        let due = now.saturating_add(second);
        bench.core(1).trim_due.store(due.as_nanos(), Ordering::Relaxed);
        assert_eq!(bench.shared.next_trim(now), due);
        assert_eq!(bench.shared.next_trim(due), Moment::NEVER);
    });
}

/// Who has some in mind for later looks at all of them then, and so has in mind what was left since, too.
#[test]
fn what_was_left_is_in_the_mind_of_whoever_sleeps() {
    let now = Moment::now();
    bench(config(1), 0, |bench| {
        let age = bench.shared.config.stack_age;
        let (soon, late) = (now.saturating_add(age / 2), now.saturating_add(age));
        for (before, after) in [(soon, soon), (Moment::NEVER, late)] {
            bench.shared.stacks_left.store(true, Ordering::Relaxed);
            bench.core(0).trim_due.store(before.as_nanos(), Ordering::Relaxed);
            bench.workers[0].trim_stacks(now);
            assert!(!bench.shared.stacks_left.load(Ordering::Relaxed), "told nobody else");
            let due = bench.core(0).trim_due.load(Ordering::Relaxed);
            assert_eq!(due, after.as_nanos());
        }
    });
}

/// It may never sleep, and others wait for it.
#[test]
fn who_goes_on_gives_memory_back_at_a_hundredth_of_its_time() {
    bench(config(1), 0, |bench| {
        let (worker, trim_due) = (&bench.workers[0], &bench.core(0).trim_due);
        let looks = || {
            trim_due.store(1, Ordering::Relaxed);
            worker.maintain(false);
            trim_due.load(Ordering::Relaxed) != 1
        };
        let start = Moment::now();
        assert!(looks());
        assert!(worker.own().trim_turn >= start.saturating_add(rest_after(Duration::ZERO)));
        worker.own().trim_turn = start.saturating_add(DAY);
        assert!(!looks());
        worker.own().trim_turn = start;
        assert!(looks());
    });
    for took in [1, 10, 1_000].map(Duration::from_micros) {
        assert!(rest_after(took) >= 100 * took && rest_after(took) >= Duration::from_millis(5));
    }
}

/// It comes to its bed many times in a moment then: the few looks for a deadlock come after that.
#[test]
fn who_gives_memory_back_does_not_look_for_a_deadlock_meanwhile() {
    let config = Config {
        hooks: Hooks {
            on_deadlock: Some(DeadlockHook::from(Box::new(|_: &_| ()) as Box<_>)),
            ..Hooks::default()
        },
        ..config(1)
    };
    bench(config, 0, |bench| {
        let (worker, trim_due) = (&bench.workers[0], &bench.core(0).trim_due);
        let looks = |due: Moment| {
            trim_due.store(due.as_nanos(), Ordering::Relaxed);
            worker.own().rest = (0, Looks::NONE);
            worker.park(&|| true);
            worker.own().rest.1 != Looks::NONE
        };
        assert!(!looks(Moment::from_nanos(1)));
        assert!(looks(Moment::NEVER));
    });
}

/// The one in the poller found it due, and this worker awake, which had looked at the clock before that: it
/// says once more what it has in mind.
#[test]
fn who_sleeps_again_is_woken_for_its_idle_stacks() {
    const LIMIT: Duration = Duration::from_secs(20);
    let mut config = config(2);
    config.park_timeout = Some(LIMIT);
    bench(config, 0, |bench| {
        let (shared, looks) = (bench.shared, AtomicUsize::new(0));
        let limit = Moment::now().saturating_add(LIMIT);
        bench.lies_down(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut role = shared.driver.try_role().unwrap();
                let mut slept = false;
                while !slept || shared.idle.is_parked(1) {
                    let now = Moment::now();
                    let until = || {
                        let until = shared.next_trim(now).min(limit);
                        looks.fetch_add(1, Ordering::Release);
                        until
                    };
                    let mut settled = Batch::new();
                    shared.driver.wait(&mut role, now, until, None, &mut settled);
                    slept = shared.idle.is_parked(1) || Moment::now() >= limit;
                    shared.wake_for_trim(0);
                }
            });
            // It has set its alarm, and looked again.
            while looks.load(Ordering::Acquire) < 2 {
                std::thread::yield_now();
            }
            // As if it had been due for it: it does not look again.
            let due = Moment::now().saturating_add(Duration::from_secs(2));
            bench.core(1).trim_due.store(due.as_nanos(), Ordering::Relaxed);
            bench.workers[1].park(&|| false);
        });
        assert!(bench.workers[1].searching.get() && Moment::now() < limit, "nobody woke it");
    });
}

/// By what fibers have taken of late; a single one may take longer.
#[test]
fn for_few_short_fibers_nobody_need_be_woken() {
    bench(config(2), 0, |bench| {
        let are_few = |settled| bench.workers[0].are_few(settled);
        let all = || [0, 1, 3, 10, 300].map(are_few);
        assert_eq!(all(), [false; 5], "nobody knows them yet");
        let take = |nanos| bench.fibers_ran_for(0, Duration::from_nanos(nanos));
        take(300);
        assert_eq!(all(), [false, true, true, true, false], "they flow");
        assert!(are_few(256) && !are_few(257), "as many as the ring has room for");
        take(1_000);
        assert!(are_few(90) && !are_few(110), "a hundred microseconds");
        take(TALKS + 100);
        assert_eq!([8, 9].map(are_few), [true, false], "they talk to the system");
        take(3_100);
        assert_eq!(all(), [false, true, true, false, false], "three microseconds each");
        take(30_000);
        assert_eq!(all(), [false, true, false, false, false], "thirty");
        take(100_000);
        assert_eq!(all(), [false; 5], "a hundred");
    });
}

/// Who sleeps every few fibers never comes to the end of a tick, and was taken for ever for what it was once.
#[test]
fn the_pace_is_published_before_a_sleep_and_a_vigil() {
    type Stop = fn(&Bench<'_>);
    let sleeps: Stop = |bench| bench.workers[0].park(&|| true);
    let looks_on: Stop = |bench| _ = bench.workers[0].stays_awake(&|| true);
    for (what, stop) in [("sleep", sleeps), ("vigil", looks_on)] {
        bench(config(2), 0, |bench| {
            let pace = || bench.core(0).pace.load(Ordering::Relaxed);
            bench.core(0).pace.store(FLOWING / 2, Ordering::Relaxed);
            bench.fibers_ran_for(0, Duration::from_micros(10));
            assert_eq!(pace(), FLOWING / 2);
            bench.workers[0].searching.set(true);
            bench.shared.called.store(true, Ordering::Relaxed);
            bench.workers[0].is_called(Duration::ZERO);
            stop(bench);
            assert_eq!(pace(), bench.workers[0].own().tick.average(), "{what}");
            assert!(pace() > FLOWING, "{what}");
        });
    }
}

#[test]
fn others_are_woken_for_few_but_not_for_one_where_that_has_paid() {
    for workers in [1, 2] {
        bench(config(workers), 2, |bench| {
            let now = Moment::now();
            let is_assisted = |count: usize| {
                let mut settled = Batch::new();
                bench.fibers[..count].iter().for_each(|fiber| settled.push(*fiber));
                let awake =
                    Some(Awake { at: now, by_timer: false, by_sockets: false, looked: true });
                let is_assisted = bench.workers[0].is_assisted(&settled, awake, now);
                while settled.pop().is_some() {}
                is_assisted
            };
            assert_eq!([1, 2].map(is_assisted), [false, false]);
            bench.shared.assist.lock().pays(now);
            assert_eq!([1, 2].map(is_assisted), [false, workers > 1]);
        });
    }
}

/// The poller's worker, 0, has been woken by sockets for the bench's fibers: is another one woken to help?
fn brings_few(bench: &Bench<'_>, now: Moment) -> bool {
    let mut settled = Batch::new();
    bench.fibers.iter().for_each(|fiber| settled.push(*fiber));
    let awake = Awake { at: now, by_timer: false, by_sockets: true, looked: false };
    let is_assisted = bench.workers[0].is_assisted(&settled, Some(awake), now);
    while settled.pop().is_some() {}
    is_assisted
}

/// Both are measured by what gets done meanwhile: each would be credited with what the other brings.
#[test]
fn nobody_is_woken_for_few_while_vigils_are_measured() {
    for measured in [false, true] {
        bench(config(2), 2, |bench| {
            (0..2).for_each(|index| bench.lies_down(index));
            let mut now = Moment::now();
            let mut window = || {
                now = now.saturating_add(Duration::from_millis(1));
                bench.core(0).stats.dispatched.add(1_000);
                if measured {
                    bench.workers[0].own().socket_vigils.are_tried();
                }
                brings_few(bench, now)
            };
            assert_eq!((0..9).any(|_| window()), !measured);
            (0..2).for_each(|index| bench.workers[index].leave_bed(false));
        });
    }
}

/// Two windows in which the poller's worker does all that the poller brings, and a third one runs fibers of its own.
#[test]
fn one_that_sleeps_is_woken_for_few_beside_one_that_runs() {
    for sleepers in [1, 2] {
        bench(config(3), 2, |bench| {
            (0..sleepers).for_each(|index| bench.lies_down(index));
            let mut now = Moment::now();
            let mut window = || {
                now = now.saturating_add(Duration::from_millis(1));
                bench.core(0).stats.dispatched.add(1_000);
                brings_few(bench, now)
            };
            assert_eq!((0..9).any(|_| window()), sleepers == 2, "of which one is the poller's");
            (0..sleepers).for_each(|index| bench.workers[index].leave_bed(false));
        });
    }
}

#[test]
fn who_neither_sleeps_nor_searches_is_busy() {
    bench(config(2), 0, |bench| {
        let idle = &bench.shared.idle;
        assert!(idle.is_anybody_busy());
        bench.lies_down(0);
        assert!(idle.is_anybody_busy() && !idle.are_others_busy(0), "the other one");
        bench.lies_down(1);
        assert!(!idle.is_anybody_busy());
        bench.workers[1].leave_bed(true);
        assert!(!idle.is_anybody_busy(), "it searches");
        bench.workers[1].stop_searching();
        assert!(idle.is_anybody_busy());
        bench.workers[0].leave_bed(false);
    });
}
