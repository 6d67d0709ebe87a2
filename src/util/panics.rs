//! The end of panics that nobody is told of.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a destructor whose panic has nowhere to go: it was printed by the panic hook. A payload
/// whose own destructor panics is leaked.
#[inline]
pub(crate) fn forget_panics(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
    }
}
