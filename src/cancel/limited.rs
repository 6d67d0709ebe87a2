//! Running a closure whose waits something can end: what timeouts and tokens have in common.

use super::Cancelled;
use crate::fiber::{Limit, Owner};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs `f` within `limit`. `None` if that has ended a wait in it: `f` has unwound, or its value, the
/// result of something that was cut off, is dropped. A panic passes through, and so does a cancel from
/// further out.
pub(crate) fn limited<T>(limit: Limit<'_>, f: impl FnOnce() -> T) -> Option<T> {
    let owner = Owner::here();
    let (result, fired, over, over_outside) = owner.within(limit, |scope| {
        let result = catch_unwind(AssertUnwindSafe(f));
        let over = scope.has_fired() || scope.has_passed();
        (result, scope.has_fired(), over, over && scope.is_over_outside(&owner))
    });
    match result {
        Ok(value) => (!fired).then_some(value),
        Err(payload) if over && !over_outside && payload.is::<Cancelled>() => {
            owner.marks().set_unwinding(false);
            None
        }
        Err(payload) => resume_unwind(payload),
    }
}
