//! How who waits knows how long to stay away, and what a bias that was taken leaves behind.

use super::super::biases::{MOST, REST, without_limits};
use super::*;
use std::thread;
use std::time::{Duration, Instant};

/// The caller takes the lock until it has the bias, which others of the process may have taken their share of.
fn becomes_biased(lock: &BiasedLock<()>, caller: Caller) {
    let begin = Instant::now();
    while bias(lock) != caller.0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "never");
        drop(lock.lock(caller));
    }
}

fn bias(lock: &BiasedLock<()>) -> usize {
    lock.raw.bias.load(Ordering::Relaxed)
}

/// A bias of the lock was ended by a heavy fence. Nobody else is there.
fn has_debtor(lock: &BiasedLock<()>) -> bool {
    // SAFETY: the caller's promise.
    lock.raw.history.with_mut(|history| unsafe { (*history).debtor != NOBODY })
}

/// This thread by that seat, where biases are.
fn owner(seat: &usize) -> Option<Caller> {
    asymmetric::register();
    // SAFETY: this thread's, as long as the test.
    asymmetric::is_light().then(|| unsafe { Caller::of(seat) })
}

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
        without_limits(|| _ = turns_after(second, 2 * STREAK));
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
        bias(&lock)
    };
    without_limits(|| {
        assert_eq!(comes(first, 2 * STREAK), first.0);
        assert_eq!(comes(second, 2 * LONG_STREAK), NOBODY, "the first may still come in");
        assert_eq!(comes(first, 1), NOBODY);
        assert_eq!(comes(second, 2 * LONG_STREAK), second.0);
    });
}

/// Who comes to many locks of another's in a row pays for few of them, and afterwards the others earn that first.
#[test]
fn of_many_locks_few_have_to_be_revoked() {
    let seat = 0;
    let Some(owner) = owner(&seat) else { return };
    let comes = |lock: &BiasedLock<()>| (0..2 * STREAK).for_each(|_| drop(lock.lock(owner)));
    let locks: Vec<_> = (0..4 * MOST).map(|_| BiasedLock::new(())).collect();
    becomes_biased(&locks[0], owner);
    locks.iter().for_each(comes);
    locks.iter().for_each(|lock| drop(lock.lock(Caller::NONE)));
    let ended = Instant::now();
    let revoked = locks.iter().filter(|lock| has_debtor(lock)).count();
    assert!((1..=MOST as usize).contains(&revoked), "{revoked}");
    let another = BiasedLock::new(());
    comes(&another);
    assert!(bias(&another) == NOBODY || ended.elapsed() >= REST / 2, "at once");
    becomes_biased(&another, owner);
}

/// One that goes with its lock may be had by another one.
#[test]
fn a_lock_that_goes_leaves_its_bias_to_others() {
    let seat = 0;
    let Some(owner) = owner(&seat) else { return };
    (0..2 * MOST).for_each(|_| becomes_biased(&BiasedLock::new(()), owner));
}
