//! Waits that must not be refused once they have begun: for fibers that borrow what the caller's frames own, which must
//! not unwind before these have ended, and for whoever counts on the caller.

use super::{check_process, check_stack, is_on_stack, stays};
use crate::fiber::{self, FiberPtr};
use crate::{primitives, scheduler};
use std::mem;

/// Refuses a wait that is to come, while there is nothing yet that must be waited for.
pub(crate) fn check_wait(reason: &str) {
    check_process();
    if let Some(fiber) = bound_to_stack() {
        check_stack(fiber, reason);
    }
}

/// Would a wait not be refused?
pub(crate) fn may_wait() -> bool {
    !primitives::is_forked() && bound_to_stack().is_none_or(is_on_stack)
}

/// The calling fiber, where it may wait on its own stack only. Who blocks its thread without a core may do so on any.
fn bound_to_stack() -> Option<FiberPtr> {
    // SAFETY: the calling fiber, on its worker.
    fiber::current().filter(|fiber| !stays(*fiber) || unsafe { scheduler::holds_core() })
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
