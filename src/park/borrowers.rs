//! Waits for fibers that borrow what the caller's frames own, which must not unwind before these have ended.

use super::{check_process, check_stack, stays};
use crate::{fiber, primitives, scheduler};
use std::mem;

/// Refuses a wait that is to come, while there is nothing yet that must be waited for.
pub(crate) fn check_wait(reason: &str) {
    check_process();
    let Some(fiber) = fiber::current() else { return };
    // Who blocks its thread without a core may do so on any stack.
    // SAFETY: the calling fiber, on its worker.
    if !stays(fiber) || unsafe { scheduler::holds_core() } {
        check_stack(fiber, reason);
    }
}

/// Carries out `wait`, for fibers that borrow from the caller: if it unwinds the process ends.
pub(crate) fn wait_for_borrowers<T>(wait: impl FnOnce() -> T) -> T {
    struct Borrowers;
    impl Drop for Borrowers {
        fn drop(&mut self) {
            primitives::abort_with(
                "\nvolt: a wait for fibers that borrow from the caller was refused, so the process ends: \
                 they could go on without what they borrow\n",
            );
        }
    }
    let borrowers = Borrowers;
    let ended = wait();
    mem::forget(borrowers);
    ended
}
