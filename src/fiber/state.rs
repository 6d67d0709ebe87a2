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
//! # Orderings
//!
//! Every transition is an AcqRel read-modify-write, so what a waker wrote before it settled is seen
//! by the fiber that reads the settled word (Acquire), and what a fiber wrote before it was
//! published (its saved context above all) is seen by whoever takes it out of `Parked`.

use crate::primitives::sync::atomic::{AtomicU64, Ordering};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A source settled the wait, with its result word.
    Woken(u32),
    /// The deadline passed.
    TimedOut,
    /// The fiber was cancelled.
    Cancelled,
}

/// What a settler must do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Settle {
    /// The waiter was parked: the caller alone must make it run.
    Wake,
    /// The waiter is a fiber that blocks its thread: the thread must be woken.
    Unblock,
    /// The waiter had not parked yet and will see the result; nothing to do.
    Noted,
    /// The wait was settled by somebody else.
    Late,
}

/// How a published wait may end, besides by its sources.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    /// By the unpark permit.
    pub(crate) permit: bool,
    /// By a cancel.
    pub(crate) cancel: bool,
    /// The waiting fiber keeps its thread meanwhile.
    pub(crate) blocks: bool,
}

const PHASE: u64 = 0b111;
const FRESH: u64 = 0;
const ACTIVE: u64 = 1;
const PARKED: u64 = 2;
const SETTLED: u64 = 3;
const DONE: u64 = 4;

/// The user's unpark permit.
const PERMIT: u64 = 1 << 3;
/// The fiber was asked to end its waits.
const CANCEL: u64 = 1 << 4;
/// A join handle exists: it holds the block and wants the result.
const JOIN: u64 = 1 << 5;
/// Counted references have existed: their count decides who frees the block.
const SHARED: u64 = 1 << 6;
/// The published wait ends by the permit.
const BY_PERMIT: u64 = 1 << 7;
/// The published wait ends by a cancel.
const BY_CANCEL: u64 = 1 << 8;
/// The published wait blocks the fiber's thread.
const BLOCKS: u64 = 1 << 9;
/// The fiber's joiner started it, out of turn: the queue entry that was to start it is left over. It
/// holds a reference, and whoever clears this bit takes it over: the worker that takes the entry out
/// and skips it, or a waker, for whom it becomes the entry of the woken fiber. So a fiber never
/// stands in two places.
const STALE: u64 = 1 << 12;
/// The two bits that tell how a settled wait ended.
const OUTCOME_SHIFT: u32 = 10;
const OUTCOME: u64 = 0b11 << OUTCOME_SHIFT;
const RESULT_SHIFT: u32 = 32;

const WAIT: u64 =
    PHASE | BY_PERMIT | BY_CANCEL | BLOCKS | OUTCOME | (u32::MAX as u64) << RESULT_SHIFT;

/// The word read at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot(u64);

impl Snapshot {
    fn phase(self) -> u64 {
        self.0 & PHASE
    }

    /// What whoever takes the waiter out of its parked state must do.
    fn how_to_wake(self) -> Settle {
        if self.is(BLOCKS) { Settle::Unblock } else { Settle::Wake }
    }

    fn with_phase(self, phase: u64) -> Snapshot {
        Snapshot((self.0 & !WAIT) | phase)
    }

    fn settled(self, outcome: Outcome) -> Snapshot {
        let (code, result) = match outcome {
            Outcome::Woken(result) => (1, result),
            Outcome::TimedOut => (2, 0),
            Outcome::Cancelled => (3, 0),
        };
        let wait = SETTLED | code << OUTCOME_SHIFT | u64::from(result) << RESULT_SHIFT;
        Snapshot((self.0 & !WAIT) | wait)
    }

    /// How the wait ended; `Woken(0)` for one that a permit ended.
    pub(crate) fn outcome(self) -> Outcome {
        match (self.0 & OUTCOME) >> OUTCOME_SHIFT {
            2 => Outcome::TimedOut,
            3 => Outcome::Cancelled,
            _ => Outcome::Woken((self.0 >> RESULT_SHIFT) as u32),
        }
    }

    fn is(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn is_fresh(self) -> bool {
        self.phase() == FRESH
    }

    /// Started, and with no queue entry but the one that the caller has: nearly all are.
    #[inline(always)]
    pub(crate) fn is_plain(self) -> bool {
        self.phase() != FRESH && !self.is(STALE)
    }

    pub(crate) fn is_stale(self) -> bool {
        self.is(STALE)
    }

    pub(crate) fn is_parked(self) -> bool {
        self.phase() == PARKED
    }

    /// Parked, with its thread blocked meanwhile.
    pub(crate) fn blocks(self) -> bool {
        self.is(BLOCKS)
    }

    pub(crate) fn is_done(self) -> bool {
        self.phase() == DONE
    }

    pub(crate) fn has_join_handle(self) -> bool {
        self.is(JOIN)
    }

    pub(crate) fn is_cancelled(self) -> bool {
        self.is(CANCEL)
    }

    /// Counted references have existed.
    pub(crate) fn is_shared(self) -> bool {
        self.is(SHARED)
    }

    /// Nobody but the runtime holds the block.
    pub(crate) fn is_exclusive(self) -> bool {
        !self.is(JOIN | SHARED)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let phase = ["Fresh", "Active", "Parked", "Settled", "Done"]
            .get(self.phase() as usize)
            .unwrap_or(&"invalid");
        write!(f, "{phase}({:#x})", self.0)
    }
}

/// The state word.
#[derive(Debug)]
pub(crate) struct State(AtomicU64);

impl State {
    /// A fiber that has not started; its join handle exists.
    pub(crate) fn fresh() -> State {
        State(AtomicU64::new(FRESH | JOIN))
    }

    /// A plain thread: always started, held by a count of its own.
    pub(crate) fn thread() -> State {
        State(AtomicU64::new(ACTIVE | SHARED))
    }

    #[inline]
    pub(crate) fn load(&self) -> Snapshot {
        Snapshot(self.0.load(Ordering::Acquire))
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
            match self.0.compare_exchange_weak(now.0, next.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(next),
                Err(seen) => now = Snapshot(seen),
            }
        }
    }

    /// Fresh to active: exactly one caller gets `true` and runs the fiber.
    #[inline]
    #[must_use]
    pub(crate) fn start(&self) -> bool {
        let now = self.load();
        if now.is_exclusive() {
            // Only the runtime, which holds the one queue entry, can reach the word.
            debug_assert!(now.is_fresh(), "{now:?}");
            self.0.store(now.with_phase(ACTIVE).0, Ordering::Relaxed);
            return true;
        }
        self.update(|now| now.is_fresh().then(|| now.with_phase(ACTIVE))).is_ok()
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
        self.0.fetch_and(!STALE, Ordering::AcqRel) & STALE != 0
    }

    /// Opens a wait: forgets how the one before ended. Called by the owner, with no node linked.
    #[inline]
    pub(crate) fn begin_wait(&self) -> Snapshot {
        let now = self.load();
        if now.phase() != SETTLED {
            return now;
        }
        match self.update(|now| Some(now.with_phase(ACTIVE))) {
            Ok(now) | Err(now) => now,
        }
    }

    /// Active to parked. Called when the owner's context is saved and it no longer runs.
    ///
    /// `Err` says how the wait has already ended: the owner goes on.
    #[inline]
    pub(crate) fn publish(&self, ends: Ends) -> Result<(), Snapshot> {
        let mut flags = PARKED;
        flags |= if ends.permit { BY_PERMIT } else { 0 };
        flags |= if ends.cancel { BY_CANCEL } else { 0 };
        flags |= if ends.blocks { BLOCKS } else { 0 };
        let stored = self.update(|now| {
            debug_assert!(matches!(now.phase(), ACTIVE | SETTLED), "{now:?}");
            Some(match now.phase() {
                SETTLED => return None,
                _ if ends.permit && now.is(PERMIT) => Snapshot(now.with_phase(ACTIVE).0 & !PERMIT),
                _ if ends.cancel && now.is(CANCEL) => now.settled(Outcome::Cancelled),
                _ => now.with_phase(flags),
            })
        });
        match stored {
            Ok(next) if next.is_parked() => Ok(()),
            Ok(next) | Err(next) => Err(next),
        }
    }

    /// Ends the current wait with `outcome`, if nobody else did.
    ///
    /// The caller holds the lock of a source that has a node of this waiter linked (or is the
    /// waiter's own timer), so that the wait cannot be another one than it means.
    #[inline]
    pub(crate) fn settle(&self, outcome: Outcome) -> Settle {
        let mut settle = Settle::Late;
        let _ = self.update(|now| {
            settle = match now.phase() {
                PARKED => now.how_to_wake(),
                ACTIVE => Settle::Noted,
                _ => Settle::Late,
            };
            (settle != Settle::Late).then(|| now.settled(outcome))
        });
        settle
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
                return Some(now.with_phase(ACTIVE));
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
        self.load().is(PERMIT) && self.0.fetch_and(!PERMIT, Ordering::AcqRel) & PERMIT != 0
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

    /// From now on the count of references decides. Called once, under the join lock.
    pub(crate) fn share(&self) {
        self.0.fetch_or(SHARED, Ordering::AcqRel);
    }
}

#[cfg(all(test, loom))]
#[path = "state_models.rs"]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PLAIN: Ends = Ends { permit: false, cancel: false, blocks: false };

    fn active() -> State {
        let state = State::fresh();
        assert!(state.start());
        state
    }

    #[test]
    fn a_fiber_is_started_once() {
        let state = State::fresh();
        assert!(state.start());
        assert!(!state.start());
    }

    #[test]
    fn a_wake_before_the_park_is_kept() {
        let state = active();
        state.begin_wait();
        assert_eq!(state.settle(Outcome::Woken(7)), Settle::Noted);
        let seen = state.publish(PLAIN).unwrap_err();
        assert_eq!(seen.outcome(), Outcome::Woken(7));
    }

    #[test]
    fn a_wait_is_settled_once() {
        let state = active();
        state.begin_wait();
        state.publish(PLAIN).unwrap();
        assert_eq!(state.settle(Outcome::TimedOut), Settle::Wake);
        assert_eq!(state.settle(Outcome::Woken(1)), Settle::Late);
        assert_eq!(state.load().outcome(), Outcome::TimedOut);
        assert!(!state.begin_wait().is_parked());
        state.publish(PLAIN).unwrap();
        assert_eq!(state.settle(Outcome::Woken(u32::MAX)), Settle::Wake);
        assert_eq!(state.load().outcome(), Outcome::Woken(u32::MAX));
    }

    #[test]
    fn two_unparks_are_one_permit() {
        let state = active();
        assert_eq!(state.unpark(), Settle::Noted);
        assert_eq!(state.unpark(), Settle::Noted);
        assert!(state.take_permit());
        assert!(!state.take_permit());
        state.publish(Ends { permit: true, ..PLAIN }).unwrap();
        assert_eq!(state.unpark(), Settle::Wake);
        assert!(!state.take_permit(), "the wait consumed it");
    }

    #[test]
    fn an_unpark_does_not_end_other_waits() {
        let state = active();
        state.publish(PLAIN).unwrap();
        assert_eq!(state.unpark(), Settle::Noted);
        assert!(state.load().is_parked());
        assert_eq!(state.settle(Outcome::Woken(0)), Settle::Wake);
        assert!(state.take_permit());
    }

    #[test]
    fn a_cancel_ends_only_waits_that_allow_it() {
        let state = active();
        state.publish(PLAIN).unwrap();
        assert_eq!(state.cancel(), Settle::Noted);
        assert_eq!(state.settle(Outcome::Woken(0)), Settle::Wake);
        state.begin_wait();
        let seen = state.publish(Ends { cancel: true, ..PLAIN }).unwrap_err();
        assert_eq!(seen.outcome(), Outcome::Cancelled);
    }

    #[test]
    fn a_detached_result_is_noticed() {
        let state = active();
        assert!(state.detach().is_ok());
        assert!(state.finish(true).is_err());
        assert!(state.finish(false).unwrap().is_exclusive());
        assert!(state.detach().is_err());
    }
}
