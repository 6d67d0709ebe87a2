//! How long who waits stays away, and what a bias that was taken leaves behind.

use super::*;
use std::thread;

/// Who has to wait stays away for longer where another has many turns in a row, and not where each has one.
#[test]
fn who_waits_stays_away_for_what_it_is_worth() {
    let mut history = History::new();
    let mut waits = |turns, times| {
        let mut away = 0;
        (0..times).for_each(|_| {
            history.streak = turns - 1;
            history.before = history.last + 1;
            away = history.waited(Caller(history.before, PhantomData));
        });
        away
    };
    assert_eq!(waits(1, 10), AWAY);
    assert_eq!(waits(100, 1), AWAY, "once says nothing");
    assert_eq!(waits(100, 10), AWAY_LONG);
    assert_eq!(waits(1, 1), AWAY_LONG, "once says nothing");
    assert_eq!(waits(1, 6), AWAY);
    assert_eq!(waits(TURNS - 1, 50), AWAY);
    assert!((1..50).any(|times| waits(TURNS, times) == AWAY_LONG), "it is tried");
    assert!((1..50).any(|times| waits(TURNS, times) == AWAY), "no more come of it");
    assert_eq!(waits(TURNS_BY_THEN, 50), AWAY_LONG);
}

/// Two others with a turn each have more than one turn in a row.
#[test]
fn where_three_come_in_turn_nobody_comes_back_soon() {
    let mut history = History::new();
    let mut comes = |who: usize| {
        let caller = Caller(8 * who, PhantomData);
        let away = history.waited(caller);
        history.came(caller);
        away
    };
    assert!((1..=99).filter(|turn| comes(1 + turn % 2) == AWAY).count() > 90, "two");
    assert!((1..=99).filter(|turn| comes(1 + turn % 3) == AWAY_LONG).count() > 90, "three");
}

/// Threads without a runtime are all one to it: it knows of no turns then.
#[test]
fn two_that_cannot_be_told_apart_teach_nothing() {
    let mut history = History { streak: 1_000, ..History::new() };
    assert!((0..99).all(|_| history.waited(Caller::NONE) == AWAY));
}

/// And that is known of each lock to whoever comes.
#[test]
fn a_lock_knows_how_long_to_stay_away() {
    let seats = [0_usize, 0];
    // SAFETY: this thread's, and the other one's, all the time.
    let [first, second] = [0, 1].map(|seat| unsafe { Caller::of(&raw const seats[seat]) });
    let lock = BiasedLock::new(());
    let waits_behind = |turns| {
        (1..turns).for_each(|_| drop(lock.lock(first)));
        let held = lock.lock(first);
        thread::scope(|scope| {
            scope.spawn(|| drop(lock.lock(Caller(second.0, PhantomData))));
            while !lock.raw.raw.has_sleepers() {
                thread::yield_now();
            }
            drop(held);
        });
        lock.raw.away.load(Ordering::Relaxed)
    };
    (0..10).for_each(|_| _ = waits_behind(10));
    assert_eq!(waits_behind(10), AWAY_LONG);
    (0..10).for_each(|_| _ = waits_behind(1));
    assert_eq!(waits_behind(1), AWAY);
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
