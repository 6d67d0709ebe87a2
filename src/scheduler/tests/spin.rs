//! When a worker spins for a fiber that waits, or on one that finds a lock taken.

use super::{Bench, bench, config, fresh};
use crate::fiber::{self, Ends, FiberPtr, Outcome};
use crate::primitives::sync::atomic::Ordering;
use crate::scheduler::config::{Config, Migrate};
use crate::scheduler::switch::Post;
use std::cell::Cell;
use std::time::{Duration, Instant};

const AWHILE: Duration = Duration::from_micros(5);

/// Worker 0 spins until it was asked so often; says whether it did.
fn spins(bench: &Bench<'_>, looks: u32) -> bool {
    let left = Cell::new(looks);
    let (worker, core) = (&bench.workers[0], bench.core(0));
    let looks = || {
        left.set(left.get() - 1);
        left.get() > 0
    };
    worker.begins_to_spin(core) && worker.spins_while(core, looks)
}

/// Worker 0 spins in vain; says for how long.
fn spins_in_vain(bench: &Bench<'_>) -> Option<Duration> {
    let (worker, core) = (&bench.workers[0], bench.core(0));
    let begun = Instant::now();
    worker.begins_to_spin(core).then(|| {
        assert!(!worker.spins_while(core, || true));
        begun.elapsed()
    })
}

/// It has enough to do.
fn goes_on() {
    let begun = Instant::now();
    while begun.elapsed() < AWHILE {}
}

#[test]
fn it_spins_for_a_while_and_not_the_next_time() {
    bench(config(2), 0, |bench| {
        // Unless the system takes the processor away just then.
        let took = (0..100).filter_map(|_| spins_in_vain(bench)).min().expect("the first at least");
        assert!(took >= AWHILE / 2 && took < AWHILE * 4, "{took:?}");
        assert_eq!(spins_in_vain(bench), None);
    });
}

/// Unless the system takes the processor away just then, each time.
fn at_best(bench: &Bench<'_>, so: impl Fn() -> bool) -> bool {
    (0..100).any(|_| {
        bench.shared.invitations.fetch_add(1, Ordering::Relaxed);
        so()
    })
}

/// It spins so often, and that pays.
fn spins_well(bench: &Bench<'_>, times: u32) -> bool {
    (0..times).all(|_| {
        let spun = spins(bench, 2);
        goes_on();
        spun
    })
}

#[test]
fn it_spins_again_and_again_where_that_pays() {
    bench(config(2), 0, |bench| {
        let forgiven = || spins_in_vain(bench).is_some() && spins(bench, 2);
        assert!(at_best(bench, || spins_well(bench, 9) && forgiven()));
        assert!(!(0..100).any(|_| {
            bench.shared.invitations.fetch_add(1, Ordering::Relaxed);
            forgiven()
        }));
    });
}

/// So many times it does not spin, until it does again.
fn left_out(bench: &Bench<'_>) -> usize {
    (0..100).take_while(|_| spins_in_vain(bench).is_none()).count()
}

/// Else a sleep, a search, or what another thread has counted would look like work.
#[test]
fn it_judges_a_spin_only_by_what_it_has_run_since() {
    bench(config(2), 0, |bench| {
        let worker = &bench.workers[0];
        let left_out_after = |then: &dyn Fn()| {
            bench.shared.invitations.fetch_add(1, Ordering::Relaxed);
            assert!(spins_in_vain(bench).is_some() && spins_in_vain(bench).is_none());
            let spun = spins(bench, 2);
            then();
            worker.stop_searching();
            goes_on();
            spun.then(|| (left_out(bench), left_out(bench)))
        };
        // Unless the system takes the processor away just then.
        let mostly = |gaps, then: &dyn Fn()| {
            (0..100).filter(|_| left_out_after(then) == Some(gaps)).count() > 50
        };
        assert!(mostly((0, 1), &|| ()), "it has paid, and so the next failure is the first");
        assert!(mostly((0, 3), &|| worker.park(&|| true)), "the next failure is the second");
        assert!(mostly((0, 3), &|| _ = worker.search()));
        assert!(mostly((0, 3), &|| worker.attach(0)));
    });
}

#[test]
fn nor_does_it_where_it_has_something_to_do_or_nobody_is_to_end_the_wait() {
    bench(config(2), 2, |bench| {
        let worker = &bench.workers[0];
        let may_spin = || worker.may_spin(bench.core(0));
        assert!(may_spin());
        bench.fill_ring(0, [0]);
        assert!(!may_spin(), "one to run");
        assert_eq!(bench.ring(0), [0]);
        bench.fill_injector([1]);
        assert!(!may_spin(), "one from outside");
        assert_eq!(bench.find(0), Some(1));
        bench.shared.idle.begin_search_now();
        assert!(!may_spin(), "the other one searches");
        let _ = bench.shared.idle.end_search();
        assert!(may_spin());
        bench.shared.spinning.store(1, Ordering::Relaxed);
        assert!(!may_spin(), "the other one spins");
        bench.shared.spinning.store(0, Ordering::Relaxed);
        worker.next.set(Some(bench.fibers[0]));
        assert!(!may_spin(), "one is to run that needs a stack first");
        worker.next.set(None);
        bench.lies_down(1);
        assert!(!may_spin(), "the other one sleeps");
        bench.workers[1].leave_bed(false);
    });
    bench(config(1), 0, |bench| assert!(!bench.workers[0].may_spin(bench.core(0))));
}

#[test]
fn no_more_workers_spin_than_run() {
    bench(config(6), 0, |bench| {
        let may_spin = |already| {
            bench.shared.spinning.store(already, Ordering::Relaxed);
            bench.workers[0].may_spin(bench.core(0))
        };
        assert_eq!([0, 1, 2, 3, 4, 5].map(may_spin), [true, true, true, false, false, false]);
        bench.shared.spinning.store(0, Ordering::Relaxed);
    });
}

#[test]
fn what_turns_up_ends_it() {
    bench(config(2), 1, |bench| {
        let core = bench.core(0);
        let asked = Cell::new(0);
        assert!(!bench.workers[0].spins_while(core, || {
            asked.set(asked.get() + 1);
            bench.fill_injector([0]);
            true
        }));
        assert_eq!(asked.get(), 1);
        assert_eq!(bench.find(0), Some(0));
        assert!(bench.workers[0].begins_to_spin(core), "it was not in vain");
    });
}

#[test]
fn whose_spin_was_in_vain_after_some_that_paid_stays_awake() {
    bench(config(2), 0, |bench| {
        let worker = &bench.workers[0];
        worker.searching.set(true);
        let stays = || spins_in_vain(bench).is_some() && worker.stays_awake(&|| true);
        assert!(!at_best(bench, stays), "none has paid");
        assert!(at_best(bench, || spins_well(bench, 5) && stays()));
        worker.searching.set(false);
    });
}

/// A fiber that worker 0 has left, and whose wait is over already.
struct Left(FiberPtr);

impl Left {
    fn new(bench: &Bench<'_>) -> Left {
        let fiber = fresh((&raw const *bench.shared).cast(), || ());
        assert!(fiber.state().start());
        Left(fiber)
    }

    fn leaves(&self, bench: &Bench<'_>) {
        self.0.state().begin_wait();
        // SAFETY: it waits, and nobody but the test knows it.
        let wake = unsafe { self.0.as_waiter().offer(Outcome::Woken(0)) };
        assert!(matches!(wake, Ok(None)), "it has not left yet");
        bench.workers[0].post.set(Post::Park(self.0, Ends::CANCEL));
        bench.workers[0].spins_for_who_waits();
    }

    /// Its next wait is over before worker 0 has gone on. Says what that runs next.
    fn waits(&self, bench: &Bench<'_>) -> Option<FiberPtr> {
        self.leaves(bench);
        bench.workers[0].run_post();
        bench.workers[0].find()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        // SAFETY: started, never run, and in no queue any more.
        assert!(unsafe { matches!(fiber::fail(self.0, Box::new(())), fiber::Woken::Nobody) });
    }
}

#[test]
fn whose_wait_ends_meanwhile_is_the_next_to_run() {
    bench(config(2), 0, |bench| {
        let left = Left::new(bench);
        left.leaves(bench);
        assert!(bench.core(0).slot.holds(left.0), "before its wait is published");
        assert_eq!(bench.workers[0].find(), Some(left.0));
        for _ in 0..9 {
            assert_eq!(left.waits(bench), Some(left.0), "whether it spins or not");
        }
    });
}

#[test]
fn who_may_not_move_goes_home_all_the_same() {
    let config = Config { migrate: Migrate::BeforeStart, ..config(2) };
    bench(config, 0, |bench| {
        let left = Left::new(bench);
        left.0.home.store(1, Ordering::Relaxed);
        left.leaves(bench);
        let mailbox = &bench.core(0).mailbox;
        assert!(bench.core(0).slot.is_empty());
        assert_eq!(mailbox.pop(), Some(left.0));
    });
}

#[test]
fn sockets_and_timers_have_their_turn_though_a_worker_spins() {
    bench(config(2), 0, |bench| {
        let left = Left::new(bench);
        // Where they run for long the clock ends a tick.
        bench.fibers_ran_for(0, Duration::from_micros(1));
        let turns_after = |time: Duration| {
            let begun = Instant::now();
            while begun.elapsed() < time {}
            let before = bench.core(0).stats.polls.get();
            left.waits(bench);
            bench.core(0).stats.polls.get() - before
        };
        turns_after(Duration::ZERO);
        assert_eq!(turns_after(Duration::from_micros(500)), 1);
    });
}
