//! How many plain threads sleep until somebody wakes them: without a deadline, and nobody has yet.
//!
//! A thread is counted once it is parked, and taken out by whoever ends its wait: it learns from the
//! compare-and-swap that ends it whether the wait counts ([`Settle::WakeCounted`](super::word::Settle)). A note
//! beside the word would be of another wait by the time it is read, since the thread may go on at once.
//!
//! At times less than there are. More only while whoever has ended a wait is about to say so: it is awake
//! itself, and not counted.

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
