//! What AddressSanitizer is told of a flow: the bounds of the stack that runs, so that it can
//! unpoison what a panic unwinds, and whose fake stack (the frames it moves to the heap to see uses
//! after a return) is in force.
//!
//! Beyond that, two things of our own: the memory of a stack whose flow has ended is poisoned until
//! the next flow begins there, so that a pointer to an ended fiber's frame is caught; and the stack
//! of every flow is a root of the leak search, the fake one too, as what a parked fiber holds is not lost.

use super::super::Bounds;
use std::ffi::c_void;
use std::ptr;

unsafe extern "C" {
    fn __sanitizer_start_switch_fiber(save: *mut *mut c_void, bottom: *const c_void, size: usize);
    fn __sanitizer_finish_switch_fiber(
        saved: *mut c_void,
        bottom_left: *mut *const c_void,
        size_left: *mut usize,
    );
    fn __asan_poison_memory_region(start: *const c_void, size: usize);
    fn __asan_unpoison_memory_region(start: *const c_void, size: usize);
    fn __lsan_register_root_region(start: *const c_void, size: usize);
    fn __lsan_unregister_root_region(start: *const c_void, size: usize);
}

pub(super) struct Flow {
    /// The fake stack, while the flow is suspended.
    fake: *mut c_void,
    /// A thread's own are unknown until it is left for the first time: the tool tells them then.
    bottom: *const c_void,
    size: usize,
    /// The fake stack, once it is a root of the leak search. A thread's own never is.
    root: *mut c_void,
    is_fibers: bool,
}

/// What the tool maps for the fake stack of one of `size`: a page, a flag for each 64 bytes, twice, and frames of
/// eleven sizes, as many of each as such a stack would hold. (To search more would run into guards.)
fn fake_size(size: usize) -> usize {
    let size = size.next_power_of_two().clamp(1 << 16, 1 << 20);
    4096 + size / 32 + 11 * size
}

impl Flow {
    /// The running thread's own.
    #[inline(always)]
    pub(super) fn of_thread() -> Flow {
        let (fake, root) = (ptr::null_mut(), ptr::null_mut());
        Flow { fake, bottom: ptr::null(), size: 0, root, is_fibers: false }
    }

    /// # Safety
    ///
    /// `bounds` is memory that nothing else uses until the flow's end.
    pub(super) unsafe fn begin(bounds: Bounds) -> Flow {
        let bottom = bounds.limit.cast_const().cast();
        let size = bounds.top as usize - bounds.limit as usize;
        // SAFETY: changes only what the tool thinks of memory that is the flow's.
        unsafe {
            __asan_unpoison_memory_region(bottom, size);
            __lsan_register_root_region(bottom, size);
        }
        let (fake, root) = (ptr::null_mut(), ptr::null_mut());
        Flow { fake, bottom, size, root, is_fibers: true }
    }

    /// The running flow, `self`, is about to continue `to`.
    ///
    /// # Safety
    ///
    /// The switch follows at once.
    #[inline(always)]
    pub(super) unsafe fn leave(&mut self, to: &Flow) {
        // SAFETY: passed on.
        unsafe { __sanitizer_start_switch_fiber(&mut self.fake, to.bottom, to.size) };
    }

    /// The flow, `self`, was continued by `left`.
    ///
    /// # Safety
    ///
    /// The switch came just before.
    #[inline(always)]
    pub(super) unsafe fn arrive(&mut self, left: &mut Flow) {
        // SAFETY: passed on.
        unsafe {
            __sanitizer_finish_switch_fiber(self.fake, &mut left.bottom, &mut left.size);
        }
        if left.is_fibers && left.root.is_null() && !left.fake.is_null() {
            left.root = left.fake;
            // SAFETY: tells the tool of memory that is its own.
            unsafe { __lsan_register_root_region(left.root, fake_size(left.size)) };
        }
    }

    /// The flow is over.
    ///
    /// # Safety
    ///
    /// Called by another flow; it is never continued.
    pub(super) unsafe fn end(self) {
        // SAFETY: nothing is left on that stack; passed on.
        unsafe {
            if !self.root.is_null() {
                __lsan_unregister_root_region(self.root, fake_size(self.size));
            }
            destroy_fake_stack(self.fake);
            __lsan_unregister_root_region(self.bottom, self.size);
            __asan_poison_memory_region(self.bottom, self.size);
        }
    }
}

/// The tool destroys a fake stack only as its flow leaves for good, but the frames of that leaving
/// may themselves be on it. So another flow does it afterwards, in the dead one's name: two switches
/// that only the tool sees.
///
/// # Safety
///
/// `fake` is of a flow that is never continued, or null.
#[inline(never)]
unsafe fn destroy_fake_stack(fake: *mut c_void) {
    if fake.is_null() {
        return;
    }
    let (mut own, mut bottom, mut size) = (ptr::null_mut(), ptr::null(), 0);
    // SAFETY: nothing runs between the calls; at the end the caller's fake stack and bounds are in
    // force again.
    unsafe {
        __sanitizer_start_switch_fiber(&mut own, ptr::null(), 0);
        __sanitizer_finish_switch_fiber(fake, &mut bottom, &mut size);
        __sanitizer_start_switch_fiber(ptr::null_mut(), bottom, size);
        __sanitizer_finish_switch_fiber(own, ptr::null_mut(), ptr::null_mut());
    }
}
