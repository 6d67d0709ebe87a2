//! Under loom: a cancel unwinds. Who is cancelled, says `park::cancelled`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

struct Unwinding;

/// As the real one, without a mark: nothing else unwinds in a model.
pub(crate) fn unwind() -> ! {
    resume_unwind(Box::new(Unwinding))
}

pub(crate) fn is_unwinding() -> bool {
    true
}

/// What `f` came to, or `None` if a cancel ended it.
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<Unwinding>() => None,
        Err(payload) => resume_unwind(payload),
    }
}
