//! The LIFO slot: the fiber that a worker woke last, which it runs next while the cache is warm.
//!
//! After Go's `runnext` and Tokio's LIFO slot. Only the owner puts a fiber in; owner and thieves
//! take by an exchange, so each fiber is taken once. AcqRel: the taker sees the fiber's context.

use crate::fiber::{FiberPtr, Header};
use crate::primitives::sync::atomic::{AtomicPtr, Ordering};
use std::ptr::{self, NonNull};

#[derive(Debug)]
pub(crate) struct LifoSlot(AtomicPtr<Header>);

impl LifoSlot {
    pub(crate) fn new() -> LifoSlot {
        LifoSlot(AtomicPtr::new(ptr::null_mut()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Owner: puts `fiber` in and returns the one that was there.
    #[inline]
    #[must_use]
    pub(crate) fn put(&self, fiber: FiberPtr) -> Option<FiberPtr> {
        if self.is_empty() {
            // Only the owner fills an empty slot, so nothing is overwritten.
            self.0.store(fiber.as_ptr(), Ordering::Release);
            return None;
        }
        let before = self.0.swap(fiber.as_ptr(), Ordering::AcqRel);
        NonNull::new(before).map(FiberPtr::from_non_null)
    }

    /// Owner or thief: takes what is there.
    #[inline]
    pub(crate) fn take(&self) -> Option<FiberPtr> {
        if self.is_empty() {
            return None;
        }
        let fiber = self.0.swap(ptr::null_mut(), Ordering::AcqRel);
        NonNull::new(fiber).map(FiberPtr::from_non_null)
    }
}
