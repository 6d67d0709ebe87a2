//! Under loom: a cancel unwinds; who is cancelled, says `park::cancelled`. A token's waits are those of
//! the models' `park`; what runs under it are plain threads, as the models of the room `fiber` have them.

#[path = "limited_loom.rs"]
mod limited;
#[path = "park_loom.rs"]
pub(crate) mod park;
mod token;

pub(crate) use token::Token;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancelled;

struct Unwinding;

/// As the real one, without a mark: nothing else unwinds in a model.
pub(crate) fn unwind() -> ! {
    resume_unwind(Box::new(Unwinding))
}

pub(crate) fn took_effect() {}

/// No model has a case of a user's that waits.
pub(crate) fn shield<T>(f: impl FnOnce() -> T) -> T {
    f()
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Unwound;

pub(crate) fn unwound() -> Unwound {
    Unwound
}

pub(crate) fn is_unwinding_since(_: Unwound) -> bool {
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
