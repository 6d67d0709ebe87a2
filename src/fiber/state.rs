//! The state word: where a fiber (or a waiting plain thread) stands, in one atomic.
//!
//! Written by its owner (the fiber or thread itself), by whoever settles one of its waits, and by
//! those who unpark or cancel it. Everything that must be decided once is decided by one
//! compare-and-swap on this word.
//!
//! ```text
//!   Fresh --start--> Active --publish--> Parked --settle--> Settled --begin_wait--> Active ...
//!                      |  ^                |                  ^
//!                      |  +----unpark------+ (permit wait)    |
//!                      +------------------settle--------------+ (before it was published)
//!   Active/Settled --finish--> Done
//! ```
//!
//! `Active` and `Settled` mean "running or queued": a fiber is in a queue, or running, or parked,
//! never two of them, because only the transition out of `Parked` gives the right to enqueue it.
//!
//! # Turns
//!
//! `begin_wait` costs no read-modify-write. The waits of one waiter take turns, even and odd: a settled
//! word carries the turn of the wait that it settled, and `begin_wait` only notes, beside the word, that
//! the turn is the other one now. From then on the word counts as active. Who settles reads the turn
//! under the lock of a source that has a node linked: linked after the turn was noted, and unlinked,
//! under the same lock, before the next is. So one bit is enough, and it needs no ordering of its own.
//!
//! # Orderings
//!
//! Every transition is an AcqRel read-modify-write, so what a waker wrote before it settled is seen
//! by the fiber that reads the settled word (Acquire), and what a fiber wrote before it was
//! published (its saved context above all) is seen by whoever takes it out of `Parked`.

use super::scopes::Marks;
use super::word::{
    ACTIVE, BLOCKS, BY_CANCEL, BY_PERMIT, CANCEL, CAUSE_SHIFT, COUNTED, DONE, FRESH, JOIN, Outcome,
    PARKED, PERMIT, SETTLED, SHARED, STALE, Settle, Snapshot, THREAD, TURN, WAIT,
};
use crate::primitives::sync::atomic::{AtomicU16, AtomicU64, Ordering};

/// How a published wait may end, besides by its sources: the bits of the word that say so, and one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends(u32);

impl Ends {
    #[cfg(any(test, loom))]
    pub(crate) const BY_SOURCES: Ends = Ends(0);
    /// By the unpark permit.
    pub(crate) const PERMIT: Ends = Ends(BY_PERMIT as u32);
    /// By a cancel.
    pub(crate) const CANCEL: Ends = Ends(BY_CANCEL as u32);
    /// The waiting fiber keeps its thread meanwhile.
    pub(crate) const BLOCKS: Ends = Ends(BLOCKS as u32);
    /// By the kernel. Not in the word.
    pub(crate) const OUTSIDE: Ends = Ends(1 << 31);

    /// Those that are in either.
    #[inline(always)]
    pub(crate) const fn or(self, other: Ends) -> Ends {
        Ends(self.0 | other.0)
    }

    /// Without those of `other`.
    #[inline(always)]
    pub(crate) const fn but(self, other: Ends) -> Ends {
        Ends(self.0 & !other.0)
    }

    /// These, if `so`.
    #[inline(always)]
    pub(crate) const fn only_if(self, so: bool) -> Ends {
        Ends(if so { self.0 } else { 0 })
    }

    /// Is one of those of `other` among them?
    #[inline(always)]
    pub(crate) const fn has(self, other: Ends) -> bool {
        self.0 & other.0 != 0
    }

    /// As they stand in the word.
    #[inline(always)]
    fn bits(self) -> u64 {
        self.but(Ends::OUTSIDE).0.into()
    }

    /// Has what ends such a wait come before?
    #[inline(always)]
    fn are_over(self, now: Snapshot) -> bool {
        const {
            assert!(BY_PERMIT == PERMIT << CAUSE_SHIFT && BY_CANCEL == CANCEL << CAUSE_SHIFT);
            assert!(WAIT & TURN == 0 && TURN <= u16::MAX as u64);
        };
        now.is(self.bits() >> CAUSE_SHIFT & (PERMIT | CANCEL))
    }
}

/// How a wait ends that takes the permit, which whoever comes before the owner runs must not lose.
const BY_UNPARK: Outcome = Outcome::Woken(0);
/// The word after `now` if what came before the wait was published ends it.
#[inline(always)]
fn ended_by(now: Snapshot, ends: Ends) -> Option<Snapshot> {
    ends.are_over(now).then(|| match ends.has(Ends::PERMIT) && now.is(PERMIT) {
        true => Snapshot(now.settled(BY_UNPARK).0 & !PERMIT),
        false => now.settled(Outcome::Cancelled),
    })
}

/// The state word, and what shares its line with it: two words in all.
#[derive(Debug)]
pub(crate) struct State {
    word: AtomicU64,
    /// The turn of the wait that is open or will be next, as it stands in the word; written by the owner alone.
    turn: AtomicU16,
    /// What the owner remembers of its cancels; its own.
    pub(super) marks: Marks,
}

impl State {
    /// A fiber that has not started; its join handle exists.
    pub(crate) fn fresh() -> State {
        State::new(FRESH | JOIN)
    }

    /// A plain thread: always started, held by a count of its own.
    pub(crate) fn thread() -> State {
        State::new(ACTIVE | SHARED | THREAD)
    }

    fn new(word: u64) -> State {
        State { word: AtomicU64::new(word), turn: AtomicU16::new(0), marks: Marks::new() }
    }

    #[inline(always)]
    fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed).into()
    }

    #[inline]
    pub(crate) fn load(&self) -> Snapshot {
        Snapshot(self.word.load(Ordering::Acquire))
    }

    /// Is it a plain thread's?
    #[inline]
    pub(super) fn is_thread(&self) -> bool {
        Snapshot(self.word.load(Ordering::Relaxed)).is(THREAD)
    }

    /// Applies `step` until its result is stored; `None` leaves the word alone.
    #[inline]
    fn update(
        &self,
        mut step: impl FnMut(Snapshot) -> Option<Snapshot>,
    ) -> Result<Snapshot, Snapshot> {
        let mut now = self.load();
        loop {
            let Some(next) = step(now) else { return Err(now) };
            match self.exchange(now, next) {
                Ok(()) => return Ok(next),
                Err(seen) => now = seen,
            }
        }
    }

    #[inline(always)]
    fn exchange(&self, now: Snapshot, next: Snapshot) -> Result<(), Snapshot> {
        let stored = self.word.compare_exchange(now.0, next.0, Ordering::AcqRel, Ordering::Acquire);
        stored.map(|_| ()).map_err(Snapshot)
    }

    /// Fresh to active: exactly one caller gets `true` and runs the fiber.
    #[inline]
    #[must_use]
    pub(crate) fn start(&self) -> bool {
        if self.start_if_exclusive(self.load()) {
            return true;
        }
        self.update(|now| now.is_fresh().then(|| now.with_phase(ACTIVE))).is_ok()
    }

    /// As [`start`](State::start), where `now` says that nobody but the caller, who has the queue entry
    /// of a fiber that is fresh or stale, can reach the word.
    #[inline(always)]
    #[must_use]
    pub(crate) fn start_if_exclusive(&self, now: Snapshot) -> bool {
        // A stale entry holds a reference.
        if now.is_exclusive() {
            debug_assert!(now.is_fresh(), "{now:?}");
            self.word.store(now.with_phase(ACTIVE).0, Ordering::Relaxed);
        }
        now.is_exclusive()
    }

    /// Fresh to active, by the fiber's joiner, while an entry in some queue is still to start it. The
    /// caller has made the reference that the entry holds from now on.
    #[must_use]
    pub(crate) fn start_out_of_turn(&self) -> bool {
        let step = |now: Snapshot| Snapshot(now.with_phase(ACTIVE).0 | STALE);
        self.update(|now| now.is_fresh().then(|| step(now))).is_ok()
    }

    /// Takes over the left-over entry, and the reference that it holds.
    #[must_use]
    pub(crate) fn take_stale(&self) -> bool {
        self.word.fetch_and(!STALE, Ordering::AcqRel) & STALE != 0
    }

    /// Opens a wait: forgets how the one before ended. Called by the owner, with no node linked.
    #[inline]
    pub(crate) fn begin_wait(&self) {
        let turn = self.turn();
        if self.load().is_settled_in(turn) {
            self.turn.store((turn ^ TURN) as u16, Ordering::Relaxed);
        }
    }

    /// Active to parked. Called when the owner's context is saved and it no longer runs.
    ///
    /// `Err` says how the wait has already ended: the owner goes on.
    #[inline]
    pub(crate) fn publish(&self, ends: Ends) -> Result<(), Snapshot> {
        self.publish_as(PARKED, ends)
    }

    /// As `publish`, for a thread that counts as asleep from then on: whoever ends the wait is told so.
    pub(super) fn publish_counted(&self, ends: Ends) -> Result<(), Snapshot> {
        self.publish_as(PARKED | COUNTED, ends)
    }

    #[inline(always)]
    fn publish_as(&self, parked: u64, ends: Ends) -> Result<(), Snapshot> {
        let flags = parked | ends.bits();
        let turn = self.turn();
        let stored = self.update(|now| {
            debug_assert!(matches!(now.phase(), ACTIVE | SETTLED), "{now:?}");
            if now.is_settled_in(turn) {
                return None;
            }
            let now = now.in_turn(turn);
            Some(ended_by(now, ends).unwrap_or_else(|| now.with_phase(flags)))
        });
        match stored {
            Ok(next) if next.is_parked() => Ok(()),
            Ok(next) | Err(next) => Err(next),
        }
    }

    /// Would the owner's wait stay open if it were published now?
    pub(crate) fn stays_open(&self, ends: Ends) -> bool {
        let (now, turn) = (self.load(), self.turn());
        !now.is_settled_in(turn) && ended_by(now.in_turn(turn), ends).is_none()
    }

    /// Ends the owner's open wait, whose deadline has passed before it was published. Returns how it ended.
    pub(crate) fn time_out(&self, ends: Ends) -> Outcome {
        let turn = self.turn();
        let stored = self.update(|now| {
            debug_assert!(matches!(now.phase(), ACTIVE | SETTLED), "{now:?}");
            let open = (!now.is_settled_in(turn)).then(|| now.in_turn(turn))?;
            Some(ended_by(open, ends).unwrap_or_else(|| open.settled(Outcome::TimedOut)))
        });
        let (Ok(ended) | Err(ended)) = stored;
        ended.outcome()
    }

    /// Ends the current wait with `outcome`, if nobody else did.
    ///
    /// The caller holds the lock of a source that has a node of this waiter linked (or is the
    /// waiter's own timer), so that the wait cannot be another one than it means.
    #[inline]
    pub(crate) fn settle(&self, outcome: Outcome) -> Settle {
        let mut settle = Settle::Late;
        let turn = self.turn();
        let _ = self.update(|now| {
            settle = match now.phase() {
                PARKED => now.how_to_wake(),
                ACTIVE | SETTLED if !now.is_settled_in(turn) => Settle::Noted,
                _ => Settle::Late,
            };
            (settle != Settle::Late).then(|| now.in_turn(turn).settled(outcome))
        });
        settle
    }

    /// As [`settle`](State::settle), if it is a fiber that waits parked: then the caller alone must make it
    /// run. False, with nothing done, if it is not, or if somebody else comes at the same time.
    #[inline(always)]
    #[must_use]
    pub(super) fn settle_parked_fiber(&self, outcome: Outcome) -> bool {
        let now = self.load();
        // Its turn stands in the word since it was published.
        now.is_parked_fiber() && self.exchange(now, now.settled(outcome)).is_ok()
    }

    /// Ends the wait of a fiber that nobody will run, if a cancel might end it: nobody makes it run.
    pub(crate) fn give_up(&self) {
        let _ = self.update(|now| {
            let may_end = now.is_parked() && !now.blocks() && now.is(BY_CANCEL);
            may_end.then(|| now.settled(Outcome::Cancelled))
        });
    }

    /// Has the wait ended? The caller holds the lock of a source that has a node of this waiter linked.
    pub(super) fn is_over(&self) -> bool {
        self.load().is_settled_in(self.turn())
    }

    /// Makes the permit available, or ends the wait for it.
    #[inline]
    pub(crate) fn unpark(&self) -> Settle {
        let mut settle = Settle::Late;
        let _ = self.update(|now| {
            if now.is_done() {
                settle = Settle::Late;
                return None;
            }
            if now.is_parked() && now.is(BY_PERMIT) {
                settle = now.how_to_wake();
                return Some(now.settled(BY_UNPARK));
            }
            settle = Settle::Noted;
            Some(Snapshot(now.0 | PERMIT))
        });
        settle
    }

    /// Takes the permit if it is there.
    #[inline]
    #[must_use]
    pub(crate) fn take_permit(&self) -> bool {
        self.load().is(PERMIT) && self.word.fetch_and(!PERMIT, Ordering::AcqRel) & PERMIT != 0
    }

    /// Marks the fiber as cancelled and ends its wait if that allows it.
    pub(crate) fn cancel(&self) -> Settle {
        let mut settle = Settle::Late;
        let _ = self.update(|now| {
            if now.is_done() {
                settle = Settle::Late;
                return None;
            }
            let marked = Snapshot(now.0 | CANCEL);
            if now.is_parked() && now.is(BY_CANCEL) {
                settle = now.how_to_wake();
                return Some(marked.settled(Outcome::Cancelled));
            }
            settle = Settle::Noted;
            Some(marked)
        });
        settle
    }

    /// The owner's end. `with_handle` is what the caller prepared the result for: `Err` if the join
    /// handle went away meanwhile, so that the result must be dropped first.
    pub(crate) fn finish(&self, with_handle: bool) -> Result<Snapshot, Snapshot> {
        self.update(|now| {
            debug_assert!(!now.is_done() && !now.is_parked(), "{now:?}");
            (now.has_join_handle() == with_handle).then(|| now.with_phase(DONE))
        })
    }

    /// The join handle goes away. `Err` if the fiber is done: its result is the caller's to drop.
    #[inline]
    pub(crate) fn detach(&self) -> Result<(), Snapshot> {
        self.update(|now| (!now.is_done()).then_some(Snapshot(now.0 & !JOIN))).map(|_| ())
    }

    /// As [`detach`](State::detach), of a fiber that has not started and that the caller keeps from being
    /// taken out of its queue meanwhile. False, and nothing done, if somebody else may reach the word.
    ///
    /// The join handle, which is the caller's, and that queue are the ways to a fresh fiber's word, where
    /// there are no references: who finds it in the queue later sees the store by way of the queue.
    #[inline(always)]
    #[must_use]
    pub(crate) fn detach_queued(&self) -> bool {
        let now = self.load();
        let alone = now.is_fresh() && !now.is_shared();
        if alone {
            self.word.store(now.0 & !JOIN, Ordering::Relaxed);
        }
        alone
    }

    /// From now on the count of references decides. Called once, under the join lock.
    pub(crate) fn share(&self) {
        self.word.fetch_or(SHARED, Ordering::AcqRel);
    }
}

#[cfg(all(test, loom))]
#[path = "state_models.rs"]
mod models;

#[cfg(all(test, not(loom)))]
#[path = "state_tests.rs"]
mod tests;
