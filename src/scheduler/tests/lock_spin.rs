//! When a worker spins at a lock that one of its fibers finds taken.

use super::{Bench, bench, config};
use crate::primitives::sync::atomic::Ordering;
use std::cell::Cell;
use std::time::{Duration, Instant};

const AWHILE: Duration = Duration::from_micros(3);
const LOCK: usize = 0x7f00_1000;

/// Worker 0 finds the lock taken; says whether it spins.
fn begins(bench: &Bench<'_>) -> bool {
    bench.workers[0].begins_to_spin_at(bench.core(0), LOCK)
}

/// Worker 0 spins in vain; says for how long.
fn spins_in_vain(bench: &Bench<'_>) -> Option<Duration> {
    begins(bench).then(|| {
        let begun = Instant::now();
        assert!(!bench.workers[0].spins_at(bench.core(0), LOCK, || false));
        begun.elapsed()
    })
}

/// Worker 0 spins until it has asked three times, and then has more to do.
fn spins_well(bench: &Bench<'_>) -> bool {
    let asked = Cell::new(0);
    let is_free = || {
        asked.set(asked.get() + 1);
        asked.get() == 3
    };
    let taken = begins(bench) && bench.workers[0].spins_at(bench.core(0), LOCK, is_free);
    let begun = Instant::now();
    while begun.elapsed() < AWHILE {}
    taken
}

#[test]
fn it_spins_for_a_while_and_not_the_next_times() {
    bench(config(2), 0, |bench| {
        // Unless the system takes the processor away just then.
        let took = (0..1_000).filter_map(|_| spins_in_vain(bench)).min().expect("the first");
        assert!(took >= AWHILE / 2 && took < AWHILE * 4, "{took:?}");
        assert!((0..100).filter_map(|_| spins_in_vain(bench)).count() <= 2);
    });
}

#[test]
fn though_it_has_others_to_run() {
    bench(config(2), 1, |bench| {
        bench.fill_ring(0, [0]);
        // Unless the system takes the processor away, each time.
        assert!((0..1_000).any(|_| (0..9).all(|_| spins_well(bench))));
        assert_eq!(bench.ring(0), [0]);
        assert_eq!(bench.shared.spinning.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn but_not_if_nobody_runs_elsewhere_who_could_free_it() {
    bench(config(2), 0, |bench| {
        assert!(begins(bench));
        bench.shared.idle.begin_search_now();
        assert!(!begins(bench), "the other one searches");
        let _ = bench.shared.idle.end_search();
        assert!(begins(bench));
        bench.shared.spinning.store(1, Ordering::Relaxed);
        assert!(!begins(bench), "the other one spins");
        bench.shared.spinning.store(0, Ordering::Relaxed);
        bench.lies_down(1);
        assert!(!begins(bench), "the other one sleeps");
        bench.workers[1].leave_bed(false);
    });
    bench(config(1), 0, |bench| assert!(!begins(bench)));
}

#[test]
fn while_it_spins_it_counts_as_one_that_does() {
    bench(config(2), 0, |bench| {
        let spinning = || bench.shared.spinning.load(Ordering::Relaxed) == 1;
        assert!(bench.workers[0].spins_at(bench.core(0), LOCK, spinning));
    });
}
