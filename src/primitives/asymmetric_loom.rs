//! The pair of fences under loom, which knows no kernel: both are full.
//!
//! That hides who counts on a heavy fence which another had before the frequent side's store: of that one it sees what was
//! done before, and nothing more. A model with one heavy fence at most says so, and then it is like that.

use super::sync::atomic::{AtomicUsize, Ordering};
use std::sync::atomic::AtomicBool;

loom::lazy_static! {
    static ref ONE_AT_MOST: AtomicBool = AtomicBool::new(false);
    static ref HEAVY: AtomicUsize = AtomicUsize::new(0);
}

/// From now on, in this execution of a model.
#[cfg(test)]
pub(crate) fn one_heavy_at_most() {
    ONE_AT_MOST.store(true, Ordering::Relaxed);
}

fn counts() -> bool {
    ONE_AT_MOST.load(Ordering::Relaxed)
}

pub(crate) fn light() {
    super::sync::full_fence();
}

pub(crate) fn surely_light() {
    light();
}

pub(crate) fn store_lightly(store: impl FnOnce()) {
    let too_late = counts() && HEAVY.fetch_add(0, Ordering::AcqRel) > 0;
    store();
    if !too_late {
        surely_light();
    }
}

/// None: who calls it makes up for it.
pub(crate) fn no_more_than_light() {}

pub(crate) fn is_light() -> bool {
    true
}

pub(crate) fn heavy() {
    if counts() {
        assert_eq!(HEAVY.fetch_add(1, Ordering::AcqRel), 0);
    }
    super::sync::full_fence();
}

pub(crate) fn register() {}
