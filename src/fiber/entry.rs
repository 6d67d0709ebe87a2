//! The entry loop: what runs at the base of every fiber's stack.
//!
//! The stack belongs to this loop, not to a fiber. When a fiber ends, and the next one chosen is a
//! fresh one with a stack of the same size, that one starts right here, without a switch.

use super::block::Payload;
use super::end::{Left, Seen, Unseen, Woken, complete};
use super::header::FiberPtr;
use super::scopes::{Limit, Owner};
use crate::context::Context;
use crate::stack::SlotHeader;
use crate::util::forget_panics;
use std::ptr::NonNull;

/// What the loop asks of the scheduler.
pub(crate) trait Host: Seen {
    /// The first act after a switch to a fresh stack: carries out the post-switch step, and returns
    /// the fiber to run.
    ///
    /// # Safety
    ///
    /// `transfer` is the word that the switch brought.
    unsafe fn arrive(transfer: usize) -> FiberPtr;

    /// The fiber's code is over, its end is not yet published: reads what the loop needs of it.
    ///
    /// # Safety
    ///
    /// Called by the fiber itself.
    unsafe fn ended(fiber: FiberPtr) -> Flow;

    /// The fiber is done, and not to be touched again. Returns the next one to run on this stack,
    /// or leaves the stack for good and does not return.
    ///
    /// # Safety
    ///
    /// Called at the base of a fiber's stack; nothing there waits for a destructor.
    unsafe fn finished(flow: Flow, woken: Woken) -> FiberPtr;
}

/// What the loop runs on: it outlives each of its fibers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) context: Context,
    pub(crate) stack: NonNull<SlotHeader>,
}

/// The first function on a fresh stack.
pub(crate) extern "C" fn entry<H: Host>(transfer: usize) -> ! {
    // SAFETY: this is the first act after the switch.
    let mut fiber = unsafe { H::arrive(transfer) };
    loop {
        // SAFETY: the host hands over a fiber that it has just started, and whose stack this is.
        let result = unsafe { run(fiber) };
        // SAFETY: the fiber's code is over; result and locals are settled.
        let (flow, woken) = unsafe { (H::ended(fiber), complete::<H>(fiber, result)) };
        // SAFETY: at the base, with nothing left that needs a drop.
        fiber = unsafe { H::finished(flow, woken) };
    }
}

/// Runs a fiber's code, its locals' destructors included.
///
/// # Safety
///
/// The fiber was started, once, by the caller, which runs on its stack.
#[inline]
unsafe fn run(fiber: FiberPtr) -> Left {
    // SAFETY: started once.
    let owns = unsafe { (fiber.vtable.run)(fiber.as_non_null()) };
    // SAFETY: at its end.
    unsafe { drop_locals(fiber) };
    if owns { Left::Result } else { Left::Nothing }
}

/// # Safety
///
/// Called by the fiber itself, at its end.
#[inline]
pub(super) unsafe fn drop_locals(fiber: FiberPtr) {
    // SAFETY: the fiber's own.
    if fiber.locals.with(|locals| unsafe { (*locals).has_had_any() }) {
        // SAFETY: passed on.
        unsafe { drop_some_locals(fiber) };
    }
}

/// # Safety
///
/// As `drop_locals`.
#[cold]
unsafe fn drop_some_locals(fiber: FiberPtr) {
    // SAFETY: the fiber's own; the reference ends before a destructor runs.
    let mut pop = || fiber.locals.with_mut(|locals| unsafe { (*locals).pop() });
    let Some(first) = pop() else { return };
    // What they wait for is waited for, cancelled or not.
    let mut first = Some(first);
    Owner::Fiber(fiber).within(Limit::Shield, |_| {
        super::locals::drop_all(|| first.take().or_else(&mut pop));
    });
}

/// Ends a fiber that cannot run: its join gets `payload`.
///
/// # Safety
///
/// The caller started the fiber and has not run it.
pub(crate) unsafe fn fail(fiber: FiberPtr, payload: Payload) -> Woken {
    // SAFETY: passed on.
    unsafe { fail_as::<Unseen>(fiber, payload) }
}

/// As [`fail`], where `S` is told if the join handle has gone in the last moment.
///
/// # Safety
///
/// As `fail`.
pub(crate) unsafe fn fail_as<S: Seen>(fiber: FiberPtr, payload: Payload) -> Woken {
    // SAFETY: started, not run.
    unsafe {
        // As with a result that nobody takes.
        Owner::here().within(Limit::Shield, |_| {
            (fiber.vtable.fail)(fiber.as_non_null(), payload);
        });
        complete::<S>(fiber, Left::Result)
    }
}

/// Drops the result, which nobody will take; a panic of its destructor ends here. What the destructor
/// waits for is waited for, cancelled or not.
///
/// # Safety
///
/// Called by the fiber itself, at its end; the result is there and its own.
#[inline]
pub(super) unsafe fn drop_own_result(fiber: FiberPtr) {
    // SAFETY: passed on.
    unsafe { drop_result(fiber, &Owner::Fiber(fiber)) };
}

/// As `drop_own_result`, of a fiber that is done, on behalf of whoever calls.
///
/// # Safety
///
/// The result is there and the caller's own.
pub(super) unsafe fn drop_left_result(fiber: FiberPtr) {
    // SAFETY: passed on.
    unsafe { drop_result(fiber, &Owner::here()) };
}

/// # Safety
///
/// The result is there and its `owner`'s, who calls.
#[inline]
unsafe fn drop_result(fiber: FiberPtr, owner: &Owner) {
    // A cancel may come while the destructor waits, and would be lost with the panics.
    owner.within(Limit::Shield, |_| {
        // SAFETY: passed on.
        forget_panics(|| unsafe { fiber.drop_result() });
    });
}
