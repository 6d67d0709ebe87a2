//! Under loom: the count of one execution of a model.

use crate::primitives::models::TALLY;
use crate::primitives::sync::atomic::Ordering;

pub(super) fn one_more() {
    TALLY.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn one_less() {
    TALLY.fetch_sub(1, Ordering::Relaxed);
}

/// As it is: below zero too.
pub(super) fn asleep() -> isize {
    TALLY.load(Ordering::Relaxed)
}
