//! How many plain threads sleep until somebody wakes them: without a deadline, and nobody has yet.
//!
//! At times less than there are, never more: a thread is counted once it is parked, and taken out by
//! whoever ends its wait, before that one does anything else.

use crate::primitives::sync::atomic::{AtomicIsize, Ordering};

static ASLEEP: AtomicIsize = AtomicIsize::new(0);

pub(super) fn one_more() {
    ASLEEP.fetch_add(1, Ordering::AcqRel);
}

pub(super) fn one_less() {
    ASLEEP.fetch_sub(1, Ordering::AcqRel);
}

pub(crate) fn asleep() -> usize {
    ASLEEP.load(Ordering::Acquire).try_into().unwrap_or(0)
}
