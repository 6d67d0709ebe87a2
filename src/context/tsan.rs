//! What ThreadSanitizer is told of a flow: that it is a thread of control of its own, which goes on
//! upon any thread.
//!
//! A switch counts as synchronisation from the flow that is left to the one that is continued: both
//! use what belongs to the worker without further ado. So two fibers that race are seen when they
//! run on different workers, and not where one follows the other on the same one.

use super::super::Bounds;
use std::ffi::{c_uint, c_void};

unsafe extern "C" {
    fn __tsan_get_current_fiber() -> *mut c_void;
    fn __tsan_create_fiber(flags: c_uint) -> *mut c_void;
    fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: c_uint);
    fn __tsan_destroy_fiber(fiber: *mut c_void);
}

pub(super) struct Flow(*mut c_void);

impl Flow {
    /// The running thread's own.
    #[inline(always)]
    pub(super) fn of_thread() -> Flow {
        // SAFETY: only asks.
        Flow(unsafe { __tsan_get_current_fiber() })
    }

    /// # Safety
    ///
    /// `_bounds` is memory that nothing else uses until the flow's end.
    pub(super) unsafe fn begin(_bounds: Bounds) -> Flow {
        // SAFETY: destroyed in `end`.
        Flow(unsafe { __tsan_create_fiber(0) })
    }

    /// The running flow, `self`, is about to continue `to`.
    ///
    /// # Safety
    ///
    /// The switch follows at once.
    #[inline(always)]
    pub(super) unsafe fn leave(&mut self, to: &Flow) {
        // SAFETY: passed on.
        unsafe { __tsan_switch_to_fiber(to.0, 0) };
    }

    /// The flow, `self`, was continued by `_left`.
    ///
    /// # Safety
    ///
    /// The switch came just before.
    #[inline(always)]
    pub(super) unsafe fn arrive(&mut self, _left: &mut Flow) {}

    /// The flow is over.
    ///
    /// # Safety
    ///
    /// Called by another flow; it is never continued.
    pub(super) unsafe fn end(self) {
        // SAFETY: passed on.
        unsafe { __tsan_destroy_fiber(self.0) };
    }
}
