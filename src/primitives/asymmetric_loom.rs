//! The pair of fences under loom, which knows no kernel.
//!
//! Each light fence lies before or after each heavy one, and nothing more is said of it: with a full fence of
//! somebody else's it makes no pair. So each of the two changes one word; who comes later sees what was done before the other one.
//! (And light ones see each other in order, which the processor does not promise.)

use super::sync::atomic::{AtomicUsize, Ordering};

loom::lazy_static! {
    static ref FENCES: AtomicUsize = AtomicUsize::new(0);
}

fn fence() {
    FENCES.fetch_add(1, Ordering::AcqRel);
}

pub(crate) fn light() {
    fence();
}

pub(crate) fn surely_light() {
    light();
}

/// None: who calls it makes up for it.
pub(crate) fn no_more_than_light() {}

pub(crate) fn is_light() -> bool {
    true
}

pub(crate) fn heavy() {
    super::sync::full_fence();
    fence();
    super::sync::full_fence();
}

pub(crate) fn register() {}
