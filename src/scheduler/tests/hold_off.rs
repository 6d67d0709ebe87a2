//! A thief leaves alone what is done sooner where it is, and nothing else.

use super::worth::measured;
use super::*;
use crate::driver::Direction;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::scheduler::hold_off::{Look, PAYS, Patience, TALKS, TRUSTED};
use crate::scheduler::worth::{ENOUGH, FLOWING, MEASURED, Mark, Progress, Steals, Worth};
use std::os::fd::AsRawFd;

pub(super) const PATIENCE: Duration = Duration::from_micros(20);
pub(super) const PAID: Worth = Worth { short: false, slow: false, lost: false, unknown: false };
pub(super) const SHORT: Worth = Worth { short: true, ..PAID };
pub(super) const SLOW: Worth = Worth { slow: true, ..PAID };
pub(super) const LOST: Worth = Worth { lost: true, ..SLOW };
pub(super) const UNKNOWN: Worth = Worth { unknown: true, ..PAID };

pub(super) fn at(micros: u64) -> Moment {
    Moment::from_nanos(1_000_000_000 + micros * 1_000)
}

pub(super) fn mark(micros: u64, from: usize, work: u64) -> Mark {
    Mark { at: at(micros), from, work }
}

/// One that has done so much, and stolen nothing.
pub(super) fn far(work: u64) -> Progress {
    Progress { work, stolen: 0 }
}

/// A steal then is judged by now.
pub(super) fn long_enough_ago() -> Moment {
    Moment::from_nanos(Moment::now().as_nanos() - ENOUGH.as_nanos() as u64)
}

fn set_pace(core: &Core, nanos: u64) {
    core.pace.store(nanos, Ordering::Relaxed);
}

/// Does worker 0 hold off?
fn holds_off(bench: &Bench<'_>) -> bool {
    let tick = || &bench.workers[0].own().tick;
    let trusted = || bench.workers[0].own().patience.trusted();
    let (before, began, trust) = (tick().left_out(), tick().began(), trusted());
    bench.workers[0].hold_off();
    assert_eq!(tick().began(), began, "sockets and timers have their turn no later for it");
    let trusts = trust != 0 && trusted() == trust - 1;
    tick().left_out() != before && !trusts
}

#[test]
fn a_look_tells_who_stands_still() {
    bench(config(2), 1, |bench| {
        bench.fill_ring(1, [0]);
        set_pace(bench.core(1), TALKS - 1);
        let patience = || &mut bench.workers[0].own().patience;
        let trusted = |_| {
            *patience() = Patience::new();
            assert!(holds_off(bench));
            let left_out = || bench.workers[0].own().tick.left_out();
            let needs_no_look = |_: &_| {
                let (before, looks) = (left_out(), holds_off(bench));
                assert!(left_out() != before, "it gives way, which is no time of a fiber's");
                !looks
            };
            (0..99).take_while(needs_no_look).count()
        };
        // None, where the thread loses its processor in the look.
        assert!((0..1_000).map(trusted).any(|steals| steals == TRUSTED as usize));
        *patience() = Patience::new();
        let look = Look::new(mark(0, 1, 7), PATIENCE, PAID);
        bench.workers[0].has_looked_on(&look, at(4), 7);
        assert!(holds_off(bench), "something else came up");
        bench.ring(1);
    });
}

#[test]
fn a_long_look_that_came_to_its_end_measures() {
    let judge = |patience: Duration, until: u64| {
        let mut worth = None;
        bench(config(2), 1, |bench| {
            let thief = &bench.workers[0];
            thief.has_looked_on(&Look::new(mark(0, 1, 0), patience, PAID), at(until), until);
            let steals = &mut thief.own().steals;
            steals.stole(at(until), 1, far(0), 0);
            worth = Some(steals.judge(at(until + 100), far(50), 50));
        });
        worth.unwrap()
    };
    let long = MEASURED.as_micros() as u64;
    assert_eq!(judge(MEASURED, long), SLOW, "as fast as one alone");
    assert_eq!(judge(MEASURED, long - 1), PAID, "not to its end");
    assert_eq!(judge(PATIENCE, long), PAID, "too short");
}

#[test]
fn who_may_not_search_does_not_judge_after_its_sleep() {
    bench(config(2), 1, |bench| {
        let thief = &bench.workers[0];
        let judge = |may_search: bool| {
            let steals = &mut thief.own().steals;
            *steals = measured();
            steals.stole(at(100), 1, far(0), 0);
            if !may_search {
                bench.shared.idle.begin_search_now();
                assert!(thief.search().is_none());
                let _ = bench.shared.idle.end_search();
            }
            thief.own().steals.judge(at(200), far(50), 50)
        };
        assert_eq!([true, false].map(judge), [SLOW, PAID]);
    });
}

/// Does worker 0 hold off from core 1, which it has robbed so often, if that one alone is that fast, and the two
/// have done a thousand each since then, dispatches or operations? Its ring is worth a steal by its length.
fn holds_off_after(bench: &Bench<'_>, often: u32, alone: u64) -> bool {
    bench.core(0).stats.dispatched.add(1_000);
    bench.core(1).stats.operations.add(1_000);
    // Where the thread loses its processor for long in between, that was not much.
    (0..1_000).any(|_| {
        let mut steals = Steals::new();
        steals.measured(mark(0, 1, 0), at(1), alone);
        (0..often).for_each(|_| steals.stole(long_enough_ago(), 1, far(0), 0));
        bench.workers[0].own().steals = steals;
        holds_off(bench)
    })
}

#[test]
fn a_thief_holds_off_where_the_two_are_slow_and_to_measure() {
    bench(config(2), 201, |bench| {
        bench.fill_ring(1, 0..201);
        for pace in [PAYS / 201 + 1, TALKS, FLOWING - 1] {
            set_pace(bench.core(1), pace);
            assert!(!holds_off_after(bench, 1, 0), "it pays");
            assert!(holds_off_after(bench, 1, 1_000_000_000), "however much is queued");
            let is_unknown =
                || bench.workers[0].own().steals.judge(Moment::now(), far(0), 0).unknown;
            assert!(!is_unknown());
            assert!(holds_off_after(bench, 32, 0), "to measure");
            assert!(!is_unknown(), "and not again at once");
        }
        bench.ring(1);
    });
}

#[test]
fn a_long_queue_or_long_fibers_pay() {
    bench(config(2), 201, |bench| {
        let core = bench.core(1);
        assert!(!core.pays(PAID), "empty");
        bench.fill_ring(1, 0..200);
        set_pace(core, PAYS / 201);
        let pays = || [PAID, SHORT, SLOW, UNKNOWN].map(|worth| core.pays(worth));
        assert_eq!(pays(), [false; 4]);
        set_pace(core, PAYS / 200);
        assert_eq!(
            pays(),
            [true, true, false, false],
            "that much is queued says nothing where steals are slow"
        );
        bench.ring(1);
        bench.fill_ring(1, [200]);
        set_pace(core, TALKS - 1);
        assert_eq!(pays(), [false; 4]);
        for pace in [TALKS, FLOWING - 1] {
            set_pace(core, pace);
            assert_eq!(pays(), [true, false, false, false], "it may be slow by what steals cost");
        }
        set_pace(core, FLOWING);
        assert_eq!(pays(), [true, false, true, true], "whatever it is, but not again and again");
        assert!(!core.pays(Worth { short: true, ..SLOW }));
        set_pace(core, PAYS);
        assert_eq!(pays(), [true; 4]);
        bench.ring(1);
    });
}

#[test]
fn a_thief_holds_off_from_a_worker_that_flows() {
    bench(config(2), 1, |bench| {
        let core = bench.core(1);
        bench.fill_ring(1, [0]);
        assert!(!holds_off(bench), "nothing is known of its fibers yet");
        set_pace(core, TALKS - 1);
        let start = Moment::now();
        assert!(holds_off(bench));
        assert!(Moment::now().since(start) >= Duration::from_micros(5));
        assert!(!bench.shared.holding_off.load(Ordering::Relaxed), "others may");
        assert_eq!(bench.find(0), Some(0), "it stood still");
    });
}

/// Both threads have one processor, as the system may decide: the other one goes on as soon as the thief looks.
#[cfg(target_os = "linux")]
#[test]
fn a_thief_does_not_keep_the_processor_from_the_one_it_looks_on_at() {
    // SAFETY: plain data, and this thread's own affinity, which those that it starts inherit.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu().unsigned_abs() as usize, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &raw const one), 0);
    }
    bench(config(2), 1, |bench| {
        bench.fill_ring(1, [0]);
        set_pace(bench.core(1), TALKS - 1);
        let (core, stop) = (bench.core(1), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    core.stats.dispatched.add_shared(1);
                }
            });
            let patience = || &mut bench.workers[0].own().patience;
            let goes_on = |_: &_| {
                *patience() = Patience::new();
                holds_off(bench) && patience().has_ended()
            };
            // Not each time: the system lets the thief go on while the other one has had more than its share, and that
            // may be for longer than a hundred of them take.
            let five = |goes_on: &dyn Fn(&i32) -> bool| {
                let mut hundreds = (0..100).map(|_| (0..100).filter(goes_on).count());
                hundreds.any(|count| count >= 5)
            };
            let looks = five(&goes_on);
            let goes_on_before_a_steal = |_: &_| {
                let work = core.stats.work();
                patience().has_stood(1, work);
                !holds_off(bench) && core.stats.work() != work
            };
            let steals = five(&goes_on_before_a_steal);
            stop.store(true, Ordering::Relaxed);
            assert!(looks, "it seemed to stand still in nearly all looks");
            assert!(steals, "it had no processor before nearly all steals");
        });
        bench.ring(1);
    });
}

/// What did not keep it busy is not taken at once again, though the other worker does not flow.
#[test]
fn a_thief_holds_off_after_a_short_steal() {
    bench(config(2), 1, |bench| {
        set_pace(bench.core(1), FLOWING);
        let steals = || {
            bench.fill_ring(1, [0]);
            assert_eq!(bench.find(0), Some(0));
        };
        let was_short = || bench.workers[0].own().steals.judge(Moment::now(), far(0), 0).short;
        // Where the thread loses its processor in between the steal was a long one.
        let again = (0..1_000).any(|_| {
            steals();
            holds_off(bench)
        });
        assert!(again, "it goes for the next at once");
        while was_short() {
            std::hint::spin_loop();
        }
        assert!(!holds_off(bench), "it was busy");
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let registered = bench.shared.driver.register(near.as_raw_fd(), Direction::Read).unwrap();
        let with_sockets = (0..1_000).any(|_| {
            steals();
            holds_off(bench)
        });
        assert!(!with_sockets, "nobody would be in the poller");
        drop(registered);
    });
}

/// It is that worker that it looks on at, and no other that does not flow.
#[test]
fn a_thief_looks_on_at_the_one_that_it_has_robbed() {
    bench(config(3), 2, |bench| {
        (1..3).for_each(|index| set_pace(bench.core(index), FLOWING));
        let thief = &bench.workers[0];
        let better = |victim, worth| thief.has_better_to_do(bench.core(victim), worth);
        bench.fill_ring(2, [0]);
        assert!(better(2, PAID) && better(1, SHORT), "its queue, and it does not flow");
        assert!(!better(2, SHORT), "it was robbed in vain");
        bench.fill_ring(1, [1]);
        assert!(better(2, SHORT), "the other one's queue");
        bench.ring(1);
        let whom = |robbed, worth| {
            thief.whom_to_leave_alone(robbed, worth).map(|(core, worth)| (core.index, worth))
        };
        assert_eq!([0, 1, 2].map(|robbed| whom(robbed, PAID)), [None; 3]);
        assert_eq!([1, 2].map(|robbed| whom(robbed, SLOW)), [None; 2]);
        let short = |robbed| whom(robbed, SHORT);
        assert_eq!([1, 2].map(short), [1, 2].map(|core| Some((core, SHORT))));
        set_pace(bench.core(1), TALKS - 1);
        let both = [Some((1, PAID)), Some((2, SHORT))];
        assert_eq!([whom(1, PAID), short(2)], both);
        assert_eq!([1, 2].map(|robbed| whom(robbed, SLOW)), [Some((1, SLOW)), Some((1, PAID))]);
        bench.ring(2);
    });
}

#[test]
fn it_does_not_look_on_at_those_who_sleep_or_beside_another() {
    bench(config(2), 1, |bench| {
        set_pace(bench.core(1), 100);
        bench.shared.holding_off.store(true, Ordering::Relaxed);
        assert!(!holds_off(bench));
        assert!(bench.shared.holding_off.load(Ordering::Relaxed), "that is the other's");
        bench.shared.holding_off.store(false, Ordering::Relaxed);
        assert!(holds_off(bench));
        bench.lies_down(1);
        assert!(!holds_off(bench));
        let _ = bench.shared.idle.unpark(1);
    });
}

#[test]
fn other_work_comes_first() {
    bench(config(3), 3, |bench| {
        let better = || bench.workers[0].has_better_to_do(bench.core(1), PAID);
        assert!(!better());
        bench.fill_injector([0]);
        assert!(better(), "the injector");
        bench.shared.injector.pop();
        bench.core(0).mailbox.push(bench.fibers[1]).unwrap();
        assert!(better(), "mail");
        bench.core(0).mailbox.pop();
        bench.core(1).mailbox.push(bench.fibers[1]).unwrap();
        assert!(better(), "mail that any worker may run");
        bench.core(1).mailbox.pop();
        bench.fill_ring(2, [2]);
        assert!(better(), "somebody else");
        bench.ring(2);
        assert!(!better());
    });
}

/// The thief's patience is told when it ran out, and forgets it where there was nothing to steal.
#[test]
fn patience_that_ran_out_is_judged_by_what_was_stolen() {
    bench(config(2), 1, |bench| {
        let core = bench.core(1);
        set_pace(core, 100);
        let ended = || bench.workers[0].own().patience.has_ended();
        // Patience does not end where the other one seems to stand still, so there are several looks.
        let (with_nothing, with_something) = beside_one_that_goes_on(core, || {
            let start = Moment::now();
            let in_time = || Moment::now().since(start) < Duration::from_secs(20);
            let with_nothing = (0..1_000).filter(|_| bench.find(0).is_some() || ended()).count();
            let mut with_something = false;
            while !with_something && in_time() {
                bench.fill_ring(1, [0]);
                with_something = bench.find(0) == Some(0) && ended();
            }
            (with_nothing, with_something)
        });
        assert_eq!(with_nothing, 0, "nothing was there to steal: that says nothing");
        assert!(with_something, "patience ran out, and nobody told it");
    });
}

/// What a worker publishes is what it has measured. Once in a hundred times: where its thread loses the processor that
/// is longer than what it thought before.
#[test]
fn the_pace_is_that_of_the_last_tick() {
    let is_shorter = |_| {
        let mut shorter = false;
        bench(config(2), 256, |bench| {
            let before = bench.core(0).pace.load(Ordering::Relaxed);
            bench.fill_ring(0, 0..256);
            let tick = &mut bench.workers[0].own().tick;
            tick.begin(Moment::now(), stamp());
            (0..256).for_each(|_| assert!(bench.find(0).is_some()));
            let now = bench.core(0).pace.load(Ordering::Relaxed);
            assert_eq!(now, bench.workers[0].own().tick.average());
            shorter = now < before;
        });
        shorter
    };
    assert!((0..100).any(is_shorter));
}
