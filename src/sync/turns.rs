//! How often a lock was taken past somebody with a *token* (`raw_mutex.rs`), and whether that was often enough.
//!
//! A token may be overtaken for [`LONG`], and [`SOME`] or [`OVERTAKEN`] times at least: to let its owner come costs a
//! switch, some tenth of a microsecond, which turns that are short share better the more they are. The clock may cost
//! more than a turn, so it is asked after `SOME` turns, after twice as many each time until they are `OVERTAKEN`, and
//! after each `OVERTAKEN` more. How long anything else takes is nobody's to say: where processors do not agree about
//! the time, [`LOOKS`] are enough.
//!
//! Where the one with the token runs as soon as others make way, each fiber has turns of its own, as long as nobody
//! waits since it finds the lock taken: those that come before it in their worker's queue run before it whatever they
//! do at the lock, so that to make them wait there holds nobody up less, and costs a switch for each. Else a queue at a
//! lock that is free whenever somebody comes would last for ever once there is one: fifty fibers that put jobs of a
//! microsecond into another queue, on one worker, 1.43 -> 1.23 us a job (measured).
//!
//! Written by owners and by who comes or leaves, of whom one may undo what another has written: hints, upon which every
//! decision is sound. Without a token they mean nothing.

use super::whereabouts::Whereabouts;
use crate::park::running;
use crate::primitives::clock::{in_stamps, stamp};
use crate::primitives::sync::atomic::Ordering::Relaxed;
use crate::primitives::sync::hint::{AtomicU16, AtomicU32, AtomicU64};
use std::time::Duration;

const SOME: u32 = if cfg!(loom) { 1 } else { 8 };
const OVERTAKEN: u32 = if cfg!(loom) { 2 } else { 64 };
/// So many looks are due before there were `OVERTAKEN`.
const EARLY: u16 = (OVERTAKEN / SOME).ilog2() as u16;
const LONG: Duration = Duration::from_micros(4);
const LOOKS: u16 = 16;
/// In stamps: turns of less than that are short.
const SHORT: u64 = in_stamps(Duration::from_nanos(250));

/// The turns are everybody's: no fiber.
const ALL: u16 = u16::MAX;
/// A plain thread's.
const NOBODY: u16 = 0;

#[derive(Debug)]
pub(super) struct Turns {
    /// Until the next look.
    left: AtomicU32,
    /// So many have been due, and turns have come after them.
    looks: AtomicU16,
    /// Whose turns these are: of who gave it out, and then of who asked; or everybody's.
    of: AtomicU16,
    /// When the token was given out: a stamp.
    since: AtomicU64,
}

impl Turns {
    pub(super) const fn new() -> Turns {
        Turns {
            left: AtomicU32::new(0),
            looks: AtomicU16::new(0),
            of: AtomicU16::new(ALL),
            since: AtomicU64::new(0),
        }
    }

    /// The caller has given the token out just now.
    pub(super) fn begin(&self) {
        self.begin_of(caller());
    }

    fn begin_of(&self, fiber: u16) {
        self.of.store(fiber, Relaxed);
        self.since.store(stamp(), Relaxed);
        self.begin_again();
    }

    /// Somebody waits since it has found the lock taken.
    pub(super) fn meet(&self) {
        if self.of.load(Relaxed) != ALL {
            self.of.store(ALL, Relaxed);
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn are_everybodys(&self) -> bool {
        self.of.load(Relaxed) == ALL
    }

    /// Have they been too few, or too short, for more to be asked than the clock?
    #[inline]
    pub(super) fn may_go_on(&self) -> bool {
        !self.is_look_due() || self.are_short_yet()
    }

    #[cold]
    #[inline(never)]
    fn are_short_yet(&self) -> bool {
        let short = !self.are_long();
        if short && self.are_many() {
            self.allow_more();
        }
        short
    }

    /// May who comes overtake this `token` once more, or for the first time?
    pub(super) fn are_left(&self, token: &Whereabouts) -> bool {
        let are_over = self.is_look_due() && self.are_long();
        !are_over || token.is_near() && self.begin_of_another()
    }

    /// The turns so far were long. Were they another fiber's, so that the caller's begin?
    #[cold]
    fn begin_of_another(&self) -> bool {
        let (of, caller) = (self.of.load(Relaxed), caller());
        match of {
            ALL => false,
            // A thread has given the token out: then whoever comes first has had them.
            NOBODY => {
                self.of.store(caller, Relaxed);
                false
            }
            _ if of == caller => false,
            _ => {
                self.begin_of(caller);
                true
            }
        }
    }

    /// The lock was handed to somebody else: who has the token may be overtaken as often again, but has waited already.
    pub(super) fn begin_again(&self) {
        self.left.store(SOME, Relaxed);
        self.looks.store(0, Relaxed);
    }

    /// The caller has taken the lock past the token.
    #[inline]
    pub(super) fn count(&self) {
        match self.left.load(Relaxed) {
            0 => self.go_on_early(),
            left => self.left.store(left - 1, Relaxed),
        }
    }

    /// The first turn after a look: as many as there have been, if that was an early one.
    #[cold]
    fn go_on_early(&self) {
        let looks = self.looks.load(Relaxed);
        if looks < EARLY {
            self.go_on((SOME << looks) - 1);
        }
    }

    fn go_on(&self, turns: u32) {
        self.left.store(turns, Relaxed);
        self.looks.store(self.looks.load(Relaxed).saturating_add(1), Relaxed);
    }

    /// So many turns may come before the next look.
    #[inline]
    pub(super) fn left(&self) -> u32 {
        self.left.load(Relaxed)
    }

    /// As [`count`](Self::count), for who has just seen that one is left.
    #[inline]
    pub(super) fn set_left(&self, left: u32) {
        self.left.store(left, Relaxed);
    }

    /// Does who comes ask whether it may overtake the token once more?
    #[inline]
    pub(super) fn is_look_due(&self) -> bool {
        self.left.load(Relaxed) == 0
    }

    /// Have there been `OVERTAKEN` of them, since the token was given out or the last look?
    #[inline]
    pub(super) fn are_many(&self) -> bool {
        self.is_look_due() && self.looks.load(Relaxed) >= EARLY
    }

    /// Has the token been out for long? In models always: they have no clock.
    pub(super) fn are_long(&self) -> bool {
        if cfg!(loom) || self.looks.load(Relaxed) >= EARLY + LOOKS {
            return true;
        }
        // One that comes from another processor may be ahead of this one's: then it has not been long.
        (in_stamps(LONG)..u64::MAX / 2).contains(&self.out())
    }

    /// How long the token has been out, in stamps.
    fn out(&self) -> u64 {
        stamp().wrapping_sub(self.since.load(Relaxed))
    }

    /// Have there been some, and are they so short that two processors would get on no faster than one, which need not
    /// send the lock to and fro?
    pub(super) fn are_short(&self) -> bool {
        let (left, looks) = (self.left.load(Relaxed), self.looks.load(Relaxed));
        let until_next = match looks.checked_sub(EARLY) {
            None => SOME << looks,
            Some(late) => OVERTAKEN.saturating_mul(u32::from(late) + 1),
        };
        let count = until_next.saturating_sub(left);
        count >= SOME && (cfg!(loom) || self.out() < u64::from(count) * SHORT)
    }

    /// They are many, but not long: `OVERTAKEN` more.
    pub(super) fn allow_more(&self) {
        self.go_on(OVERTAKEN);
    }
}

/// Tells the calling fiber from others, mostly.
fn caller() -> u16 {
    const LINE: usize = 64;
    match running() / LINE {
        0 => NOBODY,
        line => (line % usize::from(ALL - 1)) as u16 + 1,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::runtime::Builder;
    use std::sync::Arc;
    use std::time::Instant;

    /// So many turns until the next look.
    fn turns_to_the_look(turns: &Turns) -> u32 {
        let mut count = 0;
        while !turns.is_look_due() {
            turns.count();
            count += 1;
        }
        count
    }

    #[test]
    fn looks_are_due_after_some_turns_and_after_many() {
        let turns = Turns::new();
        turns.begin();
        assert_eq!(turns_to_the_look(&turns), SOME);
        for so_far in [SOME, 2 * SOME, 4 * SOME] {
            assert!(!turns.are_many(), "{so_far}");
            turns.count();
            assert_eq!(turns_to_the_look(&turns), so_far - 1);
        }
        assert!(turns.are_many());
        turns.count();
        assert!(turns.are_many(), "who tries makes them no fewer");
        turns.allow_more();
        assert_eq!(turns_to_the_look(&turns), OVERTAKEN);
        assert!(turns.are_many());
        turns.begin_again();
        assert_eq!(turns_to_the_look(&turns), SOME);
    }

    /// Stamps of one kind: another test starts a scheduler, and with it the counter, at any time.
    fn prepare() {
        crate::primitives::tsc::prepare();
    }

    /// Do the caller's begin at the next look?
    fn begins(turns: &Turns) -> bool {
        turns_to_the_look(turns);
        turns.begin_of_another()
    }

    #[test]
    fn each_fiber_has_turns_of_its_own_while_nobody_meets_another() {
        Builder::new().workers(1).build().unwrap().run(|| {
            let turns = Arc::new(Turns::new());
            let as_another = |f: fn(&Turns)| {
                let turns = Arc::clone(&turns);
                crate::go(move || f(&turns)).join().unwrap();
            };
            turns.begin();
            assert!(!begins(&turns), "they were its own");
            as_another(|turns| assert!(begins(turns) && !turns.is_look_due()));
            assert!(begins(&turns), "it has had none since");
            turns.meet();
            as_another(|turns| assert!(!begins(turns), "somebody found the lock taken"));
            std::thread::scope(|scope| scope.spawn(|| turns.begin()).join().unwrap());
            as_another(|turns| assert!(!begins(turns) && !begins(turns), "whose else were they?"));
            assert!(begins(&turns));
        });
    }

    #[test]
    fn they_are_long_when_the_time_is_over_whoever_had_them() {
        prepare();
        let (turns, begun) = (Turns::new(), Instant::now());
        turns.begin();
        let were_long = turns.are_long();
        assert!(!were_long || begun.elapsed() >= LONG);
        // Not since `begun`: the thread may have lost its processor before it gave the token out.
        let begun = Instant::now();
        while begun.elapsed() < LONG * 2 {}
        assert!(turns.are_long());
        turns.begin_again();
        assert!(turns.are_long(), "the token has been out all the time");
    }

    #[test]
    fn some_are_short_if_the_token_came_soon() {
        prepare();
        let short_after = |count: u32, time: Duration| {
            let turns = Turns::new();
            turns.begin();
            let begun = Instant::now();
            (0..count).for_each(|_| turns.count());
            while begun.elapsed() < time {}
            turns.are_short()
        };
        // Unless the system takes the processor away just then.
        let at_best = |count| (0..100).any(|_| short_after(count, Duration::ZERO));
        assert!(!at_best(SOME - 1) && at_best(SOME) && at_best(OVERTAKEN));
        assert!(!short_after(SOME, LONG * 10) && !short_after(OVERTAKEN, LONG * 100));
    }

    /// As on a processor whose time is far behind.
    #[test]
    fn so_many_looks_are_enough_whatever_the_clock_says() {
        prepare();
        let turns = Turns::new();
        turns.begin();
        turns.since.store(stamp().wrapping_add(u64::MAX / 4), Relaxed);
        while !turns.are_many() {
            turns.count();
        }
        let mut looks = 0;
        while !turns.are_long() {
            turns_to_the_look(&turns);
            turns.allow_more();
            looks += 1;
        }
        assert_eq!(looks, LOOKS);
    }
}
