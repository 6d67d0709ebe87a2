//! The bits of the state word, and what a reader of it can tell.

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
    /// As `Wake`, and the waiter is a thread that counts as asleep: the caller takes it out of the count.
    WakeCounted,
    /// The waiter is a fiber that blocks its thread: the thread must be woken.
    Unblock,
    /// The waiter had not parked yet and will see the result; nothing to do.
    Noted,
    /// The wait was settled by somebody else.
    Late,
}

pub(super) const PHASE: u64 = 0b111;
pub(super) const FRESH: u64 = 0;
pub(super) const ACTIVE: u64 = 1;
pub(super) const PARKED: u64 = 2;
pub(super) const SETTLED: u64 = 3;
pub(super) const DONE: u64 = 4;

/// The user's unpark permit.
pub(super) const PERMIT: u64 = 1 << 3;
/// The fiber was asked to end its waits.
pub(super) const CANCEL: u64 = 1 << 4;
/// A join handle exists: it holds the block and wants the result.
pub(super) const JOIN: u64 = 1 << 5;
/// Counted references have existed: their count decides who frees the block.
pub(super) const SHARED: u64 = 1 << 6;
/// The published wait ends by the permit.
pub(super) const BY_PERMIT: u64 = 1 << 7;
/// The published wait ends by a cancel.
pub(super) const BY_CANCEL: u64 = 1 << 8;
/// From a thing that ends waits, in the word, to the bit that says so of a wait.
pub(super) const CAUSE_SHIFT: u32 = 4;
/// The published wait blocks the fiber's thread.
pub(super) const BLOCKS: u64 = 1 << 9;
/// The fiber's joiner started it, out of turn: the queue entry that was to start it is left over. It
/// holds a reference, and whoever clears this bit takes it over: the worker that takes the entry out
/// and skips it, or a waker, for whom it becomes the entry of the woken fiber. So a fiber never
/// stands in two places.
pub(super) const STALE: u64 = 1 << 12;
/// The turn of the wait that was published or settled last.
pub(super) const TURN: u64 = 1 << 13;
/// A plain thread's word; never changed.
pub(super) const THREAD: u64 = 1 << 14;
/// The published wait is a thread's that counts as asleep (`asleep.rs`).
pub(super) const COUNTED: u64 = 1 << 15;
/// The two bits that tell how a settled wait ended.
pub(super) const OUTCOME_SHIFT: u32 = 10;
pub(super) const OUTCOME: u64 = 0b11 << OUTCOME_SHIFT;
pub(super) const RESULT_SHIFT: u32 = 32;

pub(super) const WAIT: u64 =
    PHASE | BY_PERMIT | BY_CANCEL | BLOCKS | COUNTED | OUTCOME | (u32::MAX as u64) << RESULT_SHIFT;

/// The word read at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot(pub(super) u64);

impl Snapshot {
    #[inline(always)]
    pub(super) fn phase(self) -> u64 {
        self.0 & PHASE
    }

    /// What whoever takes the waiter out of its parked state must do.
    #[inline(always)]
    pub(super) fn how_to_wake(self) -> Settle {
        match self.0 & (BLOCKS | COUNTED) {
            0 => Settle::Wake,
            COUNTED => Settle::WakeCounted,
            _ => Settle::Unblock,
        }
    }

    #[inline(always)]
    pub(super) fn with_phase(self, phase: u64) -> Snapshot {
        Snapshot((self.0 & !WAIT) | phase)
    }

    #[inline(always)]
    pub(super) fn settled(self, outcome: Outcome) -> Snapshot {
        let (code, result) = match outcome {
            Outcome::Woken(result) => (1, result),
            Outcome::TimedOut => (2, 0),
            Outcome::Cancelled => (3, 0),
        };
        let wait = SETTLED | code << OUTCOME_SHIFT | u64::from(result) << RESULT_SHIFT;
        Snapshot((self.0 & !WAIT) | wait)
    }

    /// With `turn`, which is [`TURN`] or 0.
    #[inline(always)]
    pub(super) fn in_turn(self, turn: u64) -> Snapshot {
        Snapshot(self.0 & !TURN | turn)
    }

    /// Has the wait of this turn been settled?
    #[inline(always)]
    pub(super) fn is_settled_in(self, turn: u64) -> bool {
        self.0 & (PHASE | TURN) == SETTLED | turn
    }

    /// A fiber's that is parked and stands in no queue, and whose thread runs on: nearly all that are woken.
    #[inline(always)]
    pub(super) fn is_parked_fiber(self) -> bool {
        self.0 & (PHASE | BLOCKS | COUNTED | THREAD | STALE) == PARKED
    }

    /// How the wait ended; `Woken(0)` for one that a permit ended.
    #[inline(always)]
    pub(crate) fn outcome(self) -> Outcome {
        match (self.0 & OUTCOME) >> OUTCOME_SHIFT {
            2 => Outcome::TimedOut,
            3 => Outcome::Cancelled,
            _ => Outcome::Woken((self.0 >> RESULT_SHIFT) as u32),
        }
    }

    #[inline(always)]
    pub(super) fn is(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[inline(always)]
    pub(crate) fn is_fresh(self) -> bool {
        self.phase() == FRESH
    }

    /// Started, and with no queue entry but the one that the caller has: nearly all are.
    #[inline(always)]
    pub(crate) fn is_plain(self) -> bool {
        self.phase() != FRESH && !self.is(STALE)
    }

    #[inline(always)]
    pub(crate) fn is_stale(self) -> bool {
        self.is(STALE)
    }

    #[inline(always)]
    pub(crate) fn is_parked(self) -> bool {
        self.phase() == PARKED
    }

    /// Parked, with its thread blocked meanwhile.
    pub(crate) fn blocks(self) -> bool {
        self.is(BLOCKS)
    }

    #[inline(always)]
    pub(crate) fn is_done(self) -> bool {
        self.phase() == DONE
    }

    #[inline(always)]
    pub(crate) fn has_join_handle(self) -> bool {
        self.is(JOIN)
    }

    #[inline(always)]
    pub(crate) fn is_cancelled(self) -> bool {
        self.is(CANCEL)
    }

    /// Counted references have existed.
    #[inline(always)]
    pub(crate) fn is_shared(self) -> bool {
        self.is(SHARED)
    }

    /// Nobody but the runtime holds the block.
    #[inline(always)]
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
