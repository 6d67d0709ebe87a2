//! The pair of fences under loom, which knows no kernel.
//!
//! Each light fence lies before or after each heavy one, and nothing more is said of it: with a full fence of somebody
//! else's, or another light one, it makes no pair. So each leaves word for those of the other kind, and takes theirs:
//! of a light and a heavy one whoever comes later sees what was done before the other one.

use super::sync::atomic::{AtomicUsize, Ordering};

loom::lazy_static! {
    static ref LIGHT: AtomicUsize = AtomicUsize::new(0);
    static ref HEAVY: AtomicUsize = AtomicUsize::new(0);
}

pub(crate) fn light() {
    LIGHT.fetch_add(1, Ordering::Release);
    HEAVY.fetch_add(0, Ordering::Acquire);
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
    HEAVY.fetch_add(1, Ordering::Release);
    LIGHT.fetch_add(0, Ordering::Acquire);
    super::sync::full_fence();
}

pub(crate) fn register() {}
