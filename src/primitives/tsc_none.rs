//! Where there is no counter that the clock is known to be computed from: the clock itself.

use super::clock::Moment;

/// There is nothing to ask the system for.
pub(crate) fn prepare() {}

/// There is no counter.
pub(super) fn stamp() -> Option<u64> {
    None
}

#[derive(Debug)]
pub(crate) struct TscClock;

impl TscClock {
    pub(crate) const fn new() -> TscClock {
        TscClock
    }

    /// The present.
    pub(crate) fn upper_bound(&self) -> Moment {
        Moment::now()
    }

    /// Is the present before `deadline`?
    pub(crate) fn is_surely_before(&self, deadline: Moment) -> bool {
        Moment::now() < deadline
    }
}
