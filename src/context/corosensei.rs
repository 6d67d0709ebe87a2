//! The switch on corosensei's coroutines: every target that it covers.
//!
//! A coroutine can only be resumed by, and suspended to, the flow that resumed it. So a switch from
//! one flow to another goes through the thread's own stack: the flow suspends with a request, and
//! the loop in [`switch`], on the thread's stack, resumes the one asked for.

use super::{Bounds, Entry};
use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::convert::Infallible;

/// A flow's coroutine, or null for a thread's own flow.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Context(*mut Flow);

struct Flow {
    coroutine: Coroutine<usize, Request, Infallible, Borrowed>,
    yielder: *const Yielder<usize, Request>,
}

struct Request {
    to: Context,
    transfer: usize,
}

/// A stack that `stack/` owns.
struct Borrowed {
    base: StackPointer,
    limit: StackPointer,
}

// SAFETY: `prepare`'s caller hands over the bounds of a guarded slot, 16-byte aligned.
unsafe impl Stack for Borrowed {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}

impl Context {
    /// The place where a thread's own flow is stored when it first switches away.
    pub(crate) const fn thread() -> Context {
        Context(std::ptr::null_mut())
    }

    /// Where the frames begin that the flow returns through; null, because that is not known here.
    #[allow(dead_code, reason = "a bench of the switch alone")]
    pub(crate) fn frames(self) -> *const u8 {
        std::ptr::null()
    }
}

/// Makes a flow that has not begun.
///
/// # Safety
///
/// `bounds` must span writable memory that nothing else uses until the flow is retired.
pub(crate) unsafe fn prepare(bounds: Bounds, entry: Entry) -> Context {
    let pointer =
        |p: *mut u8| StackPointer::new(p as usize).expect("a stack is never at address 0");
    let stack = Borrowed { base: pointer(bounds.top), limit: pointer(bounds.limit) };
    let flow = Box::into_raw(Box::<Flow>::new_uninit()).cast::<Flow>();
    let address = flow as usize;
    let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<_, _>, transfer| {
        let flow = address as *mut Flow;
        // SAFETY: the flow lives until `retire`; only the running flow touches its yielder.
        unsafe { (&raw mut (*flow).yielder).write(yielder) };
        control::set_default();
        entry(transfer)
    });
    // SAFETY: `flow` was just allocated for exactly this value.
    unsafe { flow.write(Flow { coroutine, yielder: std::ptr::null() }) };
    Context(flow)
}

/// Ends a flow for good.
///
/// # Safety
///
/// `context` must never be continued again.
pub(crate) unsafe fn retire(context: Context) {
    if context.0.is_null() {
        return;
    }
    // SAFETY: made by `prepare`, ended once; nothing on its stack waits for a destructor, because
    // the entry loop holds nothing when it leaves for good.
    unsafe {
        let mut flow = Box::from_raw(context.0);
        flow.coroutine.force_reset();
    }
}

/// Stores the running flow in `*from`, continues `to`, and returns the word that is handed over by
/// whoever continues the stored flow.
///
/// # Safety
///
/// The room's invariants 1 and 2; the caller keeps invariant 4 after it returns.
#[inline(never)]
pub(crate) unsafe fn switch(from: *mut Context, to: Context, transfer: usize) -> usize {
    // SAFETY: invariant 2: `*from` holds the running flow's own context.
    let running = unsafe { *from };
    let control = control::save();
    let transfer = if running.0.is_null() {
        // SAFETY: passed on from the caller.
        unsafe { drive(to, transfer) }
    } else {
        // SAFETY: the flow is running, so its yielder was set and is in force.
        unsafe { (*(*running.0).yielder).suspend(Request { to, transfer }) }
    };
    control::restore(control);
    transfer
}

/// Runs flows on behalf of the thread until one of them asks for the thread's own.
///
/// # Safety
///
/// Invariant 1 for `to` and for every context that a flow asks for.
unsafe fn drive(mut to: Context, mut transfer: usize) -> usize {
    while !to.0.is_null() {
        // SAFETY: a suspended flow, continued once; no reference to it is held elsewhere. The raw
        // pointer is not kept over the resume.
        match unsafe { (*to.0).coroutine.resume(transfer) } {
            CoroutineResult::Yield(request) => {
                to = request.to;
                transfer = request.transfer;
            }
            CoroutineResult::Return(never) => match never {},
        }
    }
    transfer
}

/// The floating-point control words, which corosensei leaves to its users.
#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    const CONTROL_BITS: u32 = 0xFFC0;

    pub(super) fn save() -> (u32, u16) {
        let (mut mxcsr, mut x87) = (0u32, 0u16);
        // SAFETY: two stores to locals.
        unsafe { asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &mut mxcsr, in(reg) &mut x87) };
        (mxcsr, x87)
    }

    pub(super) fn restore((mxcsr, x87): (u32, u16)) {
        let now = save();
        if (now.0 ^ mxcsr) & CONTROL_BITS == 0 && now.1 == x87 {
            return;
        }
        let mxcsr = (mxcsr & CONTROL_BITS) | (now.0 & !CONTROL_BITS);
        // SAFETY: values that were stored by the same instructions, status flags as they stand.
        unsafe { asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &mxcsr, in(reg) &x87) };
    }

    pub(super) fn set_default() {
        restore((0x1F80, 0x037F));
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod control {
    pub(super) fn save() {}

    pub(super) fn restore(_: ()) {}

    pub(super) fn set_default() {}
}
