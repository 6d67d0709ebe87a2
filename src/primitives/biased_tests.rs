//! How who waits knows how long to stay away, and what a bias that was taken leaves behind.

use super::*;
use std::thread;

/// What is found for a lock is known to whoever comes.
#[test]
fn who_waits_tells_how_long_to_stay_away() {
    let lock = BiasedLock::new(());
    let away = || lock.raw.away.load(Ordering::Relaxed);
    // SAFETY: nobody else is there.
    let learns_long =
        || lock.raw.history.with_mut(|history| unsafe { (*history).away.learn_long() });
    let waits = || {
        let held = lock.lock(Caller::NONE);
        thread::scope(|scope| {
            scope.spawn(|| drop(lock.lock(Caller::NONE)));
            while !lock.raw.raw.has_sleepers() {
                thread::yield_now();
            }
            drop(held);
        });
    };
    waits();
    let short = away();
    learns_long();
    assert_eq!(away(), short, "nobody has waited since");
    waits();
    assert!(away() > short);
}

/// Turns are counted, but by the bias: then they are no measure.
#[test]
fn turns_are_counted() {
    asymmetric::register();
    let seats = [0_usize, 0];
    // SAFETY: this thread's, all the time.
    let [first, second] = [0, 1].map(|seat| unsafe { Caller::of(&raw const seats[seat]) });
    let lock = BiasedLock::new(());
    let turns_after = |caller, times| {
        (0..times).for_each(|_| drop(lock.lock(caller)));
        // SAFETY: nobody else is there.
        lock.raw.history.with_mut(|history| unsafe { (*history).away.turns() })
    };
    assert_eq!(turns_after(first, 1), 1);
    assert_eq!(turns_after(second, 7), 8);
    if asymmetric::is_light() {
        turns_after(second, 2 * STREAK);
        assert_eq!(turns_after(first, 1), u16::MAX);
    }
}

/// One who lost the bias without seeing it keeps it from others until it comes again, and no longer.
#[test]
fn who_came_again_is_in_no_debt() {
    asymmetric::register();
    if !asymmetric::is_light() {
        return;
    }
    let seats = [0_usize, 0];
    // SAFETY: this thread's, all the time.
    let [first, second] = [0, 1].map(|seat| unsafe { Caller::of(&raw const seats[seat]) });
    let lock = BiasedLock::new(());
    let comes = |caller, times| {
        (0..times).for_each(|_| drop(lock.lock(caller)));
        lock.raw.bias.load(Ordering::Relaxed)
    };
    assert_eq!(comes(first, 2 * STREAK), first.0);
    assert_eq!(comes(second, 2 * LONG_STREAK), NOBODY, "the first may still come in");
    assert_eq!(comes(first, 1), NOBODY);
    assert_eq!(comes(second, 2 * LONG_STREAK), second.0);
}
