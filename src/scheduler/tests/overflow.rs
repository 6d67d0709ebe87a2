//! What found no room in a worker's ring is left to that worker where others only slow it down.

use super::hold_off::{LOST, PAID, UNKNOWN, far, long_enough_ago};
use super::*;
use crate::fiber::Batch;
use crate::scheduler::hold_off::Look;
use crate::scheduler::worth::{MEASURED, Mark, Steals, Worth};

fn overflow(bench: &Bench<'_>, core: usize, fibers: impl IntoIterator<Item = usize>) {
    let mut batch = Batch::new();
    fibers.into_iter().for_each(|fiber| batch.push(bench.fibers[fiber]));
    assert!(bench.shared.injector.push_overflow(batch, core).is_empty());
}

fn empty(bench: &Bench<'_>) {
    while bench.shared.injector.pop().is_some() {}
}

/// Worker 0 has robbed core 1 just now, whose fibers take a tenth of a microsecond, and which does so much alone in 100
/// us; the two have done 2,000 since.
fn has_robbed(bench: &Bench<'_>, alone: u64) {
    bench.core(1).pace.store(100, Ordering::Relaxed);
    let [own, theirs] = [0, 1].map(|index| {
        let stats = &bench.core(index).stats;
        let before = stats.work();
        stats.dispatched.add(1_000);
        before
    });
    let at = Moment::from_nanos(1_000_000);
    let mut steals = Steals::new();
    steals.measured(Mark { at, from: 1, work: 0 }, Moment::from_nanos(1_100_000), alone);
    steals.stole(long_enough_ago(), 1, far(theirs), own);
    bench.workers[0].own().steals = steals;
}

/// Faster than whatever two did.
const FAST: u64 = 1_000_000_000;

/// What worker 0 finds, and whether it has looked on before.
fn finds(bench: &Bench<'_>) -> (Option<usize>, bool) {
    let left_out = || bench.workers[0].own().tick.left_out();
    let before = left_out();
    let found = bench.find(0);
    (found, left_out() != before)
}

#[test]
fn it_is_known_whose_it_is_while_it_is_all_of_one() {
    bench(config(2), 4, |bench| {
        let injector = &bench.shared.injector;
        assert_eq!(injector.overflow_of(), None, "nothing is there");
        overflow(bench, 1, [0]);
        overflow(bench, 1, [1]);
        assert_eq!(injector.overflow_of(), Some(1));
        overflow(bench, 0, [2]);
        assert_eq!(injector.overflow_of(), None, "another one's too");
        overflow(bench, 0, [3]);
        assert_eq!(injector.overflow_of(), None, "still");
        empty(bench);
        overflow(bench, 0, [0]);
        assert_eq!(injector.overflow_of(), Some(0));
        bench.fill_injector([1]);
        assert_eq!(injector.overflow_of(), None, "one from outside");
        empty(bench);
        bench.fill_injector([0]);
        overflow(bench, 1, [1]);
        assert_eq!(injector.overflow_of(), None, "it was there before");
        empty(bench);
        assert_eq!(injector.overflow_of(), None);
    });
}

#[test]
fn half_of_a_full_ring_is_its_overflow() {
    bench(config(2), 257, |bench| {
        let worker = &bench.workers[1];
        (0..257).for_each(|fiber| worker.push_quietly(bench.fibers[fiber]));
        assert_eq!(bench.shared.injector.overflow_of(), Some(1));
        assert_eq!(bench.shared.injector.len() + bench.ring(1).len(), 257);
        empty(bench);
    });
}

#[test]
fn it_is_left_to_its_worker_where_the_two_are_slower_than_that_one_alone() {
    bench(config(2), 2, |bench| {
        let taken = |alone| {
            // Where the thread loses its processor for long in between, the steal says nothing.
            (0..1_000).map(move |_| {
                has_robbed(bench, alone);
                overflow(bench, 1, [0]);
                finds(bench)
            })
        };
        assert!(taken(1).all(|found| found == (Some(0), false)), "it pays");
        assert!(
            taken(FAST).any(|found| found == (Some(0), true)),
            "it takes it when the other one does not go on"
        );
        has_robbed(bench, FAST);
        overflow(bench, 1, [0]);
        assert_eq!(bench.find(1), Some(0), "its worker takes it at once");
        // A short steal would say nothing of the fibers.
        let left = |pace: u64| {
            has_robbed(bench, FAST);
            bench.core(1).pace.store(pace, Ordering::Relaxed);
            let start = Moment::now();
            while Moment::now().since(start) < Duration::from_micros(20) {}
            bench.workers[0].leaves_overflow_to(bench.core(1))
        };
        assert!((0..1_000).any(|_| left(100)));
        assert!(!(0..100).any(|_| left(100_000)), "its fibers are long");
    });
}

#[test]
fn who_sleeps_or_is_another_than_the_one_that_was_robbed_is_left_nothing() {
    bench(config(3), 1, |bench| {
        let taken_at_once = |of: usize| {
            // The end of a tick, which comes by the clock too, would wake a sleeper.
            let later = Moment::now().saturating_add(Duration::from_secs(1_000));
            bench.workers[0].own().tick.begin(later, stamp());
            has_robbed(bench, FAST);
            overflow(bench, of, [0]);
            finds(bench) == (Some(0), false)
        };
        bench.lies_down(1);
        assert!((0..100).all(|_| taken_at_once(1)), "it sleeps");
        let _ = bench.shared.idle.unpark(1);
        assert!((0..100).all(|_| taken_at_once(2)), "of that one nothing is known");
        bench.core(1).gate.mark_stalled();
        assert!((0..100).all(|_| taken_at_once(1)), "it has stalled");
        bench.core(1).gate.clear_stalled();
        bench.core(1).call.begin(Location::caller(), Moment::now());
        assert!((0..100).all(|_| taken_at_once(1)), "it is in a call");
        bench.core(1).call.end();
    });
    bench(Config { stealing: false, ..config(2) }, 1, |bench| {
        has_robbed(bench, FAST);
        overflow(bench, 1, [0]);
        assert_eq!(finds(bench), (Some(0), false), "nobody is a thief here");
    });
}

#[test]
fn a_look_that_measures_is_not_cut_short_by_it() {
    bench(config(2), 2, |bench| {
        let better = |worth| bench.workers[0].has_better_to_do(bench.core(1), worth);
        overflow(bench, 1, [0]);
        assert_eq!([PAID, LOST, UNKNOWN].map(better), [true, false, false]);
        assert!(better(Worth { lost: false, ..LOST }), "no faster is not slower");
        bench.fill_injector([1]);
        assert_eq!([LOST, UNKNOWN].map(better), [true, true], "one from outside");
        empty(bench);
    });
}

#[test]
fn a_look_on_ends_when_the_other_is_not_there() {
    bench(config(2), 1, |bench| {
        let core = bench.core(1);
        let leaves = || [PAID, LOST].map(|worth| bench.workers[0].leaves_alone(core, worth));
        assert_eq!(leaves(), [true; 2]);
        core.call.begin(Location::caller(), Moment::now());
        assert_eq!(leaves(), [false; 2], "its fiber is in a call that may block");
        core.call.end();
        core.gate.mark_stalled();
        assert_eq!(leaves(), [false; 2], "its fiber blocks it");
        core.gate.clear_stalled();
        assert_eq!(leaves(), [true; 2]);
        bench.lies_down(1);
        assert_eq!(leaves(), [false; 2], "it sleeps");
        let _ = bench.shared.idle.unpark(1);
        overflow(bench, 1, [0]);
        assert_eq!(leaves(), [false, true], "something to take");
        empty(bench);
    });
}

/// So it is judged what comes of it.
#[test]
fn to_take_it_is_a_steal() {
    bench(config(2), 2, |bench| {
        bench.core(1).pace.store(100, Ordering::Relaxed);
        let robbed = || bench.workers[0].own().steals.robbed();
        bench.fill_injector([0]);
        assert_eq!((bench.find(0), robbed()), (Some(0), 0), "from outside: nobody is robbed");
        overflow(bench, 1, [1]);
        assert_eq!((bench.find(0), robbed()), (Some(1), 1));
    });
}

/// What was looked on at is judged by what is taken then, and not by a look after which there is nothing.
#[test]
fn patience_that_ran_out_is_kept_for_what_is_taken() {
    bench(config(2), 1, |bench| {
        let ended = || bench.workers[0].own().patience.has_ended();
        // A look does not come to its end where one of the two loses its processor.
        let (kept, with_nothing) = beside_one_that_goes_on(bench.core(1), || {
            let kept = (0..1_000).any(|_| {
                has_robbed(bench, FAST);
                overflow(bench, 1, [0]);
                bench.find(0) == Some(0) && ended()
            });
            let with_nothing = (0..100).filter(|_| bench.find(0).is_some() || ended()).count();
            (kept, with_nothing)
        });
        assert_eq!(with_nothing, 0, "it was kept where there was nothing");
        assert!(kept, "it forgot that it had looked on");
    });
}

/// Nothing is counted meanwhile.
#[test]
fn a_look_that_measures_goes_on_while_a_thousand_are_woken() {
    let at = Moment::from_nanos;
    let goes_on = |worth, nanos| {
        let begins = Mark { at: at(0), from: 1, work: 7 };
        Look::new(begins, MEASURED, worth).goes_on(at(nanos), 7)
    };
    for worth in [LOST, UNKNOWN] {
        assert_eq!([79_999, 80_000].map(|now| goes_on(worth, now)), [true, false]);
    }
    for worth in [PAID, Worth { lost: false, ..LOST }] {
        assert_eq!([4_999, 5_000].map(|now| goes_on(worth, now)), [true, false]);
    }
}
