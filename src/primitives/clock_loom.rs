//! The clock of a model's execution: it stands still, but for those who wait until a deadline.

use std::sync::atomic::{AtomicU64, Ordering};

loom::lazy_static! {
    static ref NANOS: AtomicU64 = AtomicU64::new(1);
}

pub(super) fn now() -> u64 {
    NANOS.load(Ordering::Relaxed)
}

/// Somebody has waited until `deadline`.
pub(super) fn pass(deadline: u64) {
    NANOS.fetch_max(deadline, Ordering::Relaxed);
}
