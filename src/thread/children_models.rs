//! Under loom: the cancel of a scope reaches each of its fibers, and touches none that is gone.

use super::*;
use crate::fiber::{Ends, Outcome, ThreadBlock};
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use loom::thread::{JoinHandle, spawn};

/// A fiber of the scope that runs `f`, and is gone then. Whether it was cancelled by its end.
fn fiber(children: &Arc<Children>, f: fn(FiberPtr)) -> (FiberPtr, JoinHandle<bool>) {
    let fiber = FiberPtr::fresh();
    assert!(fiber.state().start());
    let children = Arc::clone(children);
    let ends = spawn(move || {
        children.within(fiber, || f(fiber));
        let cancelled = fiber.state().load().is_cancelled();
        // SAFETY: nobody may use it any more, which is what the model checks.
        unsafe { fiber.free() };
        cancelled
    });
    (fiber, ends)
}

/// `f` in two fibers beside a cancel: were they cancelled?
fn two_beside_a_cancel(f: fn(FiberPtr)) -> [bool; 2] {
    let children = Arc::<Children>::default();
    let fibers = [fiber(&children, f), fiber(&children, f)];
    children.cancel();
    let cancelled = fibers.map(|(fiber, ends)| {
        let cancelled = ends.join().unwrap();
        // SAFETY: its thread has ended.
        unsafe { fiber.destroy() };
        cancelled
    });
    assert!(children.0.lock().running.is_empty());
    cancelled
}

/// Waits for ever, but for a cancel; it blocks its thread for that.
fn waits(fiber: FiberPtr) {
    let thread = ThreadBlock::new();
    fiber.state().begin_wait();
    fiber.block_thread(&thread);
    let ends = Ends::CANCEL.or(Ends::BLOCKS);
    assert_eq!(thread.wait(fiber.state(), ends, None), Outcome::Cancelled);
}

#[test]
fn those_who_leave() {
    check(3, || {
        two_beside_a_cancel(|_| ());
    });
}

#[test]
fn those_who_wait() {
    check(3, || assert_eq!(two_beside_a_cancel(waits), [true; 2]));
}

/// Who enters after the cancel is cancelled too.
#[test]
fn one_who_enters_late() {
    check(3, || {
        let children = Arc::<Children>::default();
        children.cancel();
        let (fiber, ends) = fiber(&children, waits);
        children.cancel();
        assert!(ends.join().unwrap());
        // SAFETY: its thread has ended.
        unsafe { fiber.destroy() };
    });
}
