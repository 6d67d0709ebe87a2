//! The LIFO slot: the fiber that a worker woke last, which it runs next while the cache is warm.
//!
//! After Go's `runnext` and Tokio's LIFO slot. The owner puts in and takes out, inside its core's
//! gate; so does the supervisor, as a visitor, when the slot has aged behind a fiber that does not
//! stop. Plain loads and stores do, since the gate orders them. Others only look whether something is
//! there.

use crate::fiber::{FiberPtr, Header};
use crate::primitives::sync::atomic::{AtomicPtr, Ordering};
use std::ptr::{self, NonNull};

#[derive(Debug)]
pub(crate) struct LifoSlot(AtomicPtr<Header>);

impl LifoSlot {
    pub(crate) fn new() -> LifoSlot {
        LifoSlot(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    fn get(&self) -> Option<FiberPtr> {
        NonNull::new(self.0.load(Ordering::Relaxed)).map(FiberPtr::from_non_null)
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.get().is_none()
    }

    /// Inside the gate: puts `fiber` in and returns the one that was there.
    #[inline(always)]
    #[must_use]
    pub(crate) fn put(&self, fiber: FiberPtr) -> Option<FiberPtr> {
        let before = self.get();
        self.0.store(fiber.as_ptr(), Ordering::Release);
        before
    }

    /// Inside the gate: takes what is there.
    #[inline(always)]
    pub(crate) fn take(&self) -> Option<FiberPtr> {
        let fiber = self.get()?;
        self.0.store(ptr::null_mut(), Ordering::Relaxed);
        Some(fiber)
    }

    /// Is it `fiber` that waits here?
    #[inline(always)]
    pub(crate) fn holds(&self, fiber: FiberPtr) -> bool {
        self.get() == Some(fiber)
    }
}
