//! The contract once more, around the backend: a sanitizer is told of every flow and every switch.
//!
//! Chosen by `--cfg volt_asan` or `--cfg volt_tsan`, which `.ci/sanitize` sets; without them this
//! file is not compiled, and the rooms above never see a difference. It stands here and not in the
//! scheduler because what the tools know are stacks, not fibers: a fresh fiber that starts where
//! another has ended goes on in the same flow.
//!
//! 1. A [`Flow`] lives from [`prepare`] to [`retire`]; a thread's own stands in the frame of its
//!    [`switch`], as long as that is suspended.
//! 2. Between what `leave` and `arrive` tell the tool and the backend's switch itself nothing is
//!    called and nothing is touched that the tool looks at.

use super::{Bounds, Entry, backend};
use std::ptr;

#[cfg(volt_asan)]
#[path = "asan.rs"]
mod tool;
#[cfg(volt_tsan)]
#[path = "tsan.rs"]
mod tool;

/// A suspended flow; null for a thread's own that runs.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Context(*mut Flow);

impl Context {
    /// The place where a thread's own flow is stored when it first switches away.
    pub(crate) const fn thread() -> Context {
        Context(ptr::null_mut())
    }

    /// Where the frames begin that the flow returns through; null, because that is not known here.
    #[allow(dead_code, reason = "a bench of the switch alone")]
    pub(crate) fn frames(self) -> *const u8 {
        std::ptr::null()
    }
}

struct Flow {
    inner: backend::Context,
    tool: tool::Flow,
    /// What the flow is handed when it is continued, and by whom; written by that one.
    transfer: usize,
    left: *mut Flow,
    /// `None` for a thread's own.
    entry: Option<Entry>,
}

impl Flow {
    fn new(inner: backend::Context, tool: tool::Flow, entry: Option<Entry>) -> Flow {
        Flow { inner, tool, transfer: 0, left: ptr::null_mut(), entry }
    }
}

/// As the backend's.
///
/// # Safety
///
/// As the backend's.
pub(crate) unsafe fn prepare(bounds: Bounds, entry: Entry) -> Context {
    // SAFETY: the memory is the new flow's; nothing runs there before the tool knows.
    let (tool, inner) = unsafe { (tool::Flow::begin(bounds), backend::prepare(bounds, begin)) };
    Context(Box::into_raw(Box::new(Flow::new(inner, tool, Some(entry)))))
}

/// As the backend's.
///
/// # Safety
///
/// As the backend's.
pub(crate) unsafe fn retire(context: Context) {
    // SAFETY: made by `prepare`, ended once (invariant 1).
    unsafe {
        let flow = Box::from_raw(context.0);
        backend::retire(flow.inner);
        flow.tool.end();
    }
}

/// As the backend's.
///
/// # Safety
///
/// As the backend's.
#[inline(never)]
pub(crate) unsafe fn switch(from: *mut Context, to: Context, transfer: usize) -> usize {
    // SAFETY: the room's invariant 2: the running flow's own place.
    let own = unsafe { *from };
    let mut thread = Flow::new(backend::Context::thread(), tool::Flow::of_thread(), None);
    let running = if own.0.is_null() { &raw mut thread } else { own.0 };
    // SAFETY: the room's invariant 1: `to` is suspended and held by the caller. The flow that is
    // left, `left` after the switch, stays at least until the one that runs then retires it.
    unsafe {
        *from = Context(running);
        (*to.0).transfer = transfer;
        (*to.0).left = running;
        let inner = (*to.0).inner;
        (*running).tool.leave(&(*to.0).tool);
        backend::switch(&raw mut (*running).inner, inner, to.0 as usize);
        (*running).tool.arrive(&mut (*(*running).left).tool);
        if own.0.is_null() {
            *from = own;
        }
        (*running).transfer
    }
}

/// The first function of every flow: the tool's part of an arrival, then the flow's own entry.
extern "C" fn begin(transfer: usize) -> ! {
    let flow = transfer as *mut Flow;
    // SAFETY: `switch` hands over the flow that it continues, and has filled it.
    unsafe {
        (*flow).tool.arrive(&mut (*(*flow).left).tool);
        let entry = (*flow).entry.expect("a flow that was prepared has an entry");
        entry((*flow).transfer)
    }
}
