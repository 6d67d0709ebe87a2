//! When a worker that finds nothing stays awake for a while.
//!
//! To wake one takes 5 us, and tens of them where its processor is a virtual machine's that sleeps. Fibers that run for
//! 2 to 50 us between two waits, and wake each other then, are through before it comes, so that one worker does it all:
//! ten that hold a lock for 20 us and compute for 20 more took 40 us a turn on two workers, and two stages of a
//! pipeline both stages' time.
//!
//! So a worker that was woken for a fiber which was shared (`share.rs`), after a short sleep, and finds nothing more,
//! looks on as a searcher for [`AWAKE`], about as long as that wake took: whoever does not know how long a wait will be
//! waits for at most twice as long as one who knows. If nothing came, or what came kept it busy for less than half the
//! time that it had waited, the vigil was in vain, and it goes to bed at once the next times that it is called, once
//! after the first such vigil, and up to 63 times (`util/back_off.rs`). Sockets and timers get a turn every [`TURN`],
//! since nobody else may be in the poller, also where many short vigils follow each other.
//!
//! Others keep vigils too (`follow_up.rs`).
//!
//! Measured on two workers: that lock 40 -> 23 us a turn (Go 26), with 5 and 5 us 10.2 -> 7.0 (Go 6.9), stages of 5 and
//! 10 us 10.3 -> 5.3 and 15 -> 10.3 us an item (Go 9.5 and 17).

use super::shared::Shared;
use super::worker::Worker;
use crate::primitives::clock::{Moment, stamp};
use crate::primitives::sync::atomic::Ordering;
use crate::primitives::thread;
use crate::util::back_off::BackOff;
use std::time::Duration;

const AWAKE: Duration = Duration::from_micros(50);
/// A sleep was short if it was not much longer than what it took to wake up.
const SHORT: Duration = Duration::from_micros(200);
const TURN: Duration = Duration::from_micros(10);
const FIRST_WAY: Duration = Duration::from_micros(1);
/// Longer than it takes to find that nobody else is to run.
const TAKEN: Duration = Duration::from_micros(3);
/// `spin_loop`s between two looks.
const SPINS: u32 = 16;

/// What a worker knows of its vigils.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vigil {
    /// The last sleep was short and ended by a share, or the last vigil has paid.
    called: bool,
    /// What the last one found to do, until it is known what that was worth.
    found: Option<Found>,
    back_off: BackOff,
    /// When sockets and timers had their last turn in one.
    turn: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    at: Moment,
    /// How long it took.
    waited: Duration,
    /// So many had been dispatched.
    dispatched: u64,
}

impl Vigil {
    /// The worker finds nothing more to do: does it stay awake?
    fn begins(&mut self, now: Moment, dispatched: u64) -> bool {
        self.settle(now, dispatched);
        self.called &= !(self.called && self.back_off.leaves_out());
        self.called
    }

    /// It stays awake the next time, if that has paid of late.
    pub(super) fn call(&mut self) {
        self.called = true;
    }

    /// What it found is done by now, or somebody else has taken it.
    fn settle(&mut self, now: Moment, dispatched: u64) {
        if let Some(found) = self.found.take() {
            let busy = now.since(found.at);
            self.is_over(dispatched != found.dispatched && busy >= found.waited / 2);
        }
    }

    /// It is over, with something to do now, or without.
    fn ends(&mut self, found: Option<Found>) {
        self.found = found;
        if found.is_none() {
            self.is_over(false);
        }
    }

    fn is_over(&mut self, paid: bool) {
        self.called = paid;
        self.back_off.tried(paid);
    }
}

impl Shared {
    /// Wakes one who sleeps, if anybody does and nobody searches, and calls it.
    pub(super) fn call(&self) {
        self.called.store(true, Ordering::Relaxed);
        if !self.notify_one() {
            self.called.store(false, Ordering::Relaxed);
        }
    }
}

impl Worker<'_> {
    /// The worker was claimed after it has slept for so long.
    pub(super) fn is_called(&self, slept: Duration) {
        let called = &self.shared.called;
        if called.load(Ordering::Relaxed) {
            called.store(false, Ordering::Relaxed);
            self.own().vigil.called = slept < SHORT;
        }
    }

    /// Looks on for a while instead of going to bed, if that has paid of late; says whether there is anything to do
    /// now.
    pub(super) fn stays_awake(&self, done: &dyn Fn() -> bool) -> bool {
        if self.has_only_its_mail() {
            return false;
        }
        let dispatched = self.held().stats.dispatched.get();
        let called = self.searching.get() && self.own().vigil.begins(Moment::now(), dispatched);
        let expects = self.own().follow_ups.begin() && self.searches_alone();
        (called || expects) && self.keeps_vigil(called, expects, done)
    }

    /// Searches from now on, if nobody else does. (One that has nobody to steal from did not.)
    fn searches_alone(&self) -> bool {
        let (idle, searches) = (&self.shared.idle, self.searching.get());
        if !idle.is_left_to(searches) {
            return false;
        }
        if !searches {
            idle.begin_search_now();
            self.searching.set(true);
        }
        true
    }

    /// The worker goes to bed, whatever the last vigil has found.
    pub(super) fn ends_vigils(&self, now: Moment) {
        let dispatched = self.held().stats.dispatched.get();
        self.own().vigil.settle(now, dispatched);
        self.own().follow_ups.forget();
    }

    /// It has slept for so long. What was said before a long sleep is no longer so.
    pub(super) fn has_slept(&self, slept: Duration) {
        let vigil = &mut self.own().vigil;
        vigil.called &= slept < SHORT;
        if self.searching.get() {
            self.is_called(slept);
        }
    }

    /// It does what nobody else may do meanwhile, and this worker only on its way to bed.
    fn has_a_turn(&self, now: Moment) {
        self.own().vigil.turn = now;
        self.trim_stacks(now);
        self.look_at_driver(now, false);
    }

    #[cold]
    fn keeps_vigil(&self, called: bool, expects: bool, done: &dyn Fn() -> bool) -> bool {
        let start = Moment::now();
        self.end_tick(self.held(), start);
        self.own().invites.close();
        let (mut now, mut found, mut ways) = (start, false, Ways::new(start));
        while !found && now.since(start) < AWAKE && !self.is_one_too_many() {
            (0..SPINS).for_each(|_| std::hint::spin_loop());
            now = Moment::now();
            // Where one vigil follows the other the last turn is one of those before.
            if now.since(self.own().vigil.turn) >= TURN {
                self.has_a_turn(now);
            }
            found = self.shared.has_work_for(self.held()) || self.shared.is_stopping() || done();
            // Only with nothing to do: what has come would wait for whoever takes the processor.
            if expects && !found {
                ways.give(now);
            }
        }
        let (waited, dispatched) = (now.since(start), self.held().stats.dispatched.get());
        let (given, own) = (self.is_given_something(), self.own());
        if called {
            own.vigil.ends(found.then_some(Found { at: now, waited, dispatched }));
        }
        if expects {
            own.follow_ups.end(given, waited, ways.taken);
        }
        // What it looks on for is no fiber's time.
        own.tick.begin(Moment::now(), stamp());
        found
    }
}

/// When others may have the processor: the thread that the worker waits for may be one of them. (Another worker has its
/// own.)
pub(super) struct Ways {
    next: Moment,
    rest: Duration,
    /// Somebody took it: to sleep would have been as good.
    pub(super) taken: bool,
}

impl Ways {
    pub(super) fn new(start: Moment) -> Ways {
        Ways { next: start.saturating_add(FIRST_WAY), rest: FIRST_WAY, taken: false }
    }

    /// Gives way, if it is time to, after a microsecond at first, then after two, four, and so on.
    pub(super) fn give(&mut self, now: Moment) {
        if now < self.next {
            return;
        }
        thread::yield_now();
        let after = Moment::now();
        self.taken |= after.since(now) >= TAKEN;
        self.rest = TURN.min(2 * self.rest);
        self.next = after.saturating_add(self.rest);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WAITED: Duration = Duration::from_micros(10);

    impl Vigil {
        fn called() -> Vigil {
            Vigil { called: true, ..Vigil::default() }
        }

        /// How often the worker is called until it keeps the next.
        fn calls(&mut self) -> u32 {
            let calls = (1..).find(|_| {
                self.called = true;
                self.begins(Moment::now(), 0)
            });
            calls.expect("some time")
        }

        /// It finds something, that keeps the worker busy for so long. Does it stay awake after that?
        fn pays(&mut self, busy: Duration) -> bool {
            self.finds(busy, 1)
        }

        /// The same, with so many dispatches.
        fn finds(&mut self, busy: Duration, dispatched: u64) -> bool {
            let at = Moment::now();
            self.ends(Some(Found { at, waited: WAITED, dispatched: 0 }));
            self.begins(at.saturating_add(busy), dispatched)
        }
    }

    #[test]
    fn who_was_not_called_goes_to_bed() {
        assert!(!Vigil::default().begins(Moment::now(), 0));
        assert!(Vigil::called().begins(Moment::now(), 0));
    }

    #[test]
    fn those_in_vain_become_rare() {
        let mut vigil = Vigil::called();
        let calls: Vec<_> = (0..8)
            .map(|_| {
                vigil.ends(None);
                assert!(!vigil.begins(Moment::now(), 0), "not called");
                vigil.calls()
            })
            .collect();
        assert_eq!(calls, [2, 4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn who_gets_half_as_much_to_do_as_it_has_waited_stays_awake() {
        let mut vigil = Vigil::called();
        assert!(vigil.begins(Moment::now(), 0));
        assert!((0..3).all(|_| vigil.pays(WAITED / 2)));
        assert!(!vigil.pays(WAITED / 3));
        assert_eq!(vigil.calls(), 2);
        assert!(vigil.pays(WAITED), "it is as good as ever");
        assert!(!vigil.pays(WAITED / 3));
        assert_eq!(vigil.calls(), 2);
    }

    #[test]
    fn what_somebody_else_has_taken_is_nothing() {
        let mut vigil = Vigil::called();
        assert!(!vigil.finds(WAITED, 0));
        assert_eq!(vigil.calls(), 2);
    }
}
