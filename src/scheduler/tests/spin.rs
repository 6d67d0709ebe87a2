//! When a worker spins for a fiber that waits, or on one that finds a lock taken.

use super::{Bench, bench, config};
use std::cell::Cell;
use std::time::{Duration, Instant};

const AWHILE: Duration = Duration::from_micros(5);

/// Worker 0 spins until it was asked so often; says whether it did.
fn spins(bench: &Bench<'_>, looks: u32) -> bool {
    let left = Cell::new(looks);
    let core = bench.core(0);
    bench.workers[0].spins_while(core, || {
        left.set(left.get() - 1);
        left.get() > 0
    })
}

/// Worker 0 spins in vain; says for how long.
fn spins_in_vain(bench: &Bench<'_>) -> Option<Duration> {
    let (begun, asked) = (Instant::now(), Cell::new(false));
    let core = bench.core(0);
    let ended = bench.workers[0].spins_while(core, || {
        asked.set(true);
        true
    });
    assert!(!ended);
    asked.get().then(|| begun.elapsed())
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

#[test]
fn it_spins_again_and_again_where_that_pays() {
    bench(config(2), 0, |bench| {
        for _ in 0..9 {
            assert!(spins(bench, 2));
            goes_on();
        }
        assert!(spins_in_vain(bench).is_some());
        assert!(spins(bench, 2), "forgiven");
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
        bench.lies_down(1);
        assert!(!may_spin(), "the other one sleeps");
        bench.workers[1].leave_bed(false);
    });
    bench(config(1), 0, |bench| assert!(!bench.workers[0].may_spin(bench.core(0))));
}

#[test]
fn what_turns_up_ends_it() {
    bench(config(2), 1, |bench| {
        let core = bench.core(0);
        let asked = Cell::new(0);
        assert!(!bench.workers[0].spins_while(core, || {
            asked.set(asked.get() + 1);
            bench.fill_ring(1, [0]);
            true
        }));
        assert_eq!(asked.get(), 1, "something to steal");
        assert_eq!(bench.ring(1), [0]);
    });
}

#[test]
fn whose_spin_was_in_vain_after_one_that_paid_stays_awake() {
    bench(config(2), 0, |bench| {
        let worker = &bench.workers[0];
        worker.searching.set(true);
        assert!(spins_in_vain(bench).is_some());
        assert!(!worker.stays_awake(&|| true), "nothing has paid");
        worker.own().spins.begin_anew();
        for _ in 0..2 {
            assert!(spins(bench, 2));
            goes_on();
        }
        assert!(spins_in_vain(bench).is_some());
        assert!(worker.stays_awake(&|| true));
        worker.searching.set(false);
    });
}
