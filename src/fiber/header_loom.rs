//! A stand-in for the control block: what several threads touch, and what notices their mistakes.
//!
//! Freeing it only marks it, and each use looks at the mark. The mark is a cell, so that loom reports a
//! use that is not ordered before the free even where it comes first.

use super::end::Join;
use super::reference::FiberRef;
use super::state::State;
use super::thread::ThreadBlock;
use super::waiter::WaiterPtr;
use crate::primitives::sync::atomic::AtomicUsize;
use crate::primitives::sync::{Arc, Mutex, MutexGuard, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

#[repr(C)]
pub(crate) struct Header {
    pub(crate) state: State,
    pub(super) next: UnsafeCell<Option<FiberPtr>>,
    pub(super) references: AtomicUsize,
    join: Mutex<Join>,
    blocks: Mutex<Option<Arc<ThreadBlock>>>,
    /// The result is in its place.
    result: UnsafeCell<bool>,
    freed: UnsafeCell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FiberPtr(NonNull<Header>);

// SAFETY: what the models check.
unsafe impl Send for FiberPtr {}
// SAFETY: as above.
unsafe impl Sync for FiberPtr {}

impl Deref for FiberPtr {
    type Target = Header;

    fn deref(&self) -> &Header {
        // SAFETY: the memory stays until `destroy`, after the model's last use.
        let header = unsafe { self.0.as_ref() };
        header.check();
        header
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state.fmt(f)
    }
}

impl Header {
    fn check(&self) {
        // SAFETY: loom checks that nobody writes meanwhile.
        self.freed.with(|freed| assert!(!unsafe { *freed }, "used after it was freed"));
    }

    pub(super) fn id(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    pub(crate) fn name(&self) -> Option<&str> {
        None
    }
}

/// The join lock; unlocking is a use of the block too.
pub(crate) struct JoinLock(FiberPtr);

impl JoinLock {
    pub(crate) fn lock(&self) -> JoinGuard {
        // SAFETY: as in `deref`.
        let header: &'static Header = unsafe { self.0.0.as_ref() };
        header.check();
        JoinGuard { guard: header.join.lock(), header }
    }
}

pub(crate) struct JoinGuard {
    guard: MutexGuard<'static, Join>,
    header: &'static Header,
}

impl Drop for JoinGuard {
    fn drop(&mut self) {
        self.header.check();
    }
}

impl Deref for JoinGuard {
    type Target = Join;

    fn deref(&self) -> &Join {
        &self.guard
    }
}

impl DerefMut for JoinGuard {
    fn deref_mut(&mut self) -> &mut Join {
        &mut self.guard
    }
}

impl FiberPtr {
    /// A fresh fiber, whose join handle exists.
    pub(crate) fn fresh() -> FiberPtr {
        let header = Header {
            state: State::fresh(),
            next: UnsafeCell::new(None),
            references: AtomicUsize::new(0),
            join: Mutex::new(Join::default()),
            blocks: Mutex::new(None),
            result: UnsafeCell::new(false),
            freed: UnsafeCell::new(false),
        };
        FiberPtr(NonNull::from(Box::leak(Box::new(header))))
    }

    /// Gives the memory back, and says whether the block had been freed and its result dropped.
    ///
    /// # Safety
    ///
    /// Nobody uses the fiber any more, other threads included.
    pub(crate) unsafe fn destroy(self) -> (bool, bool) {
        // SAFETY: from `fresh`, and by the caller's promise.
        let header = unsafe { Box::from_raw(self.0.as_ptr()) };
        // SAFETY: as above.
        unsafe { (header.freed.with(|freed| *freed), !header.result.with(|result| *result)) }
    }

    pub(crate) fn from_non_null(header: NonNull<Header>) -> FiberPtr {
        FiberPtr(header)
    }

    pub(crate) fn as_non_null(self) -> NonNull<Header> {
        self.0
    }

    pub(crate) fn as_ptr(self) -> *mut Header {
        self.0.as_ptr()
    }

    pub(crate) fn as_waiter(self) -> WaiterPtr {
        WaiterPtr::of_fiber(self)
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn join(self) -> JoinLock {
        JoinLock(self)
    }

    /// # Safety
    ///
    /// The caller holds the fiber.
    pub(crate) unsafe fn next(self) -> Option<FiberPtr> {
        // SAFETY: passed on; loom checks it.
        self.next.with(|next| unsafe { *next })
    }

    /// # Safety
    ///
    /// The caller holds the fiber.
    pub(crate) unsafe fn set_next(self, to: Option<FiberPtr>) {
        // SAFETY: passed on; loom checks it.
        self.next.with_mut(|next| unsafe { *next = to });
    }

    /// # Safety
    ///
    /// The fiber's own, at its end.
    pub(crate) unsafe fn put_result(self) {
        // SAFETY: passed on; loom checks it.
        self.result.with_mut(|result| unsafe { *result = true });
    }

    /// # Safety
    ///
    /// The caller owns the result and it is there.
    pub(crate) unsafe fn drop_result(self) {
        // SAFETY: passed on; loom checks it.
        let was_there = self.result.with_mut(|result| unsafe { std::mem::take(&mut *result) });
        assert!(was_there, "a result was dropped twice");
    }

    /// # Safety
    ///
    /// Nobody uses the block after it.
    pub(crate) unsafe fn free(self) {
        // SAFETY: the memory is there, as in `deref`; loom checks the rest.
        let freed =
            unsafe { self.0.as_ref().freed.with_mut(|freed| std::mem::replace(&mut *freed, true)) };
        assert!(!freed, "a block was freed twice");
    }

    pub(crate) fn block_thread(self, thread: &Arc<ThreadBlock>) {
        *self.blocks.lock() = Some(Arc::clone(thread));
    }

    pub(super) fn blocked_thread(self) -> Option<Arc<ThreadBlock>> {
        self.blocks.lock().clone()
    }

    pub(crate) fn reference(self) -> FiberRef {
        FiberRef::new(self)
    }
}

/// # Safety
///
/// None: there are no locals here.
pub(super) unsafe fn drop_locals(_: FiberPtr) {}

/// # Safety
///
/// As `FiberPtr::drop_result`.
pub(super) unsafe fn drop_own_result(fiber: FiberPtr) {
    // SAFETY: passed on.
    unsafe { fiber.drop_result() };
}

/// # Safety
///
/// As `FiberPtr::drop_result`.
pub(super) unsafe fn drop_left_result(fiber: FiberPtr) {
    // SAFETY: passed on.
    unsafe { fiber.drop_result() };
}
