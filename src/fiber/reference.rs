//! Counted references to control blocks: what outlives a wait (`Thread`, wakers) holds one.

use super::header::FiberPtr;
use super::state::{Holders, Settle};
use super::waiter::Wake;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering, fence};

/// Holds a fiber's control block, also after the fiber's end.
pub(crate) struct FiberRef(FiberPtr);

impl std::fmt::Debug for FiberRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FiberRef {
    /// The first reference brings a base count along, which the fiber gives back at its end: so the
    /// count does not touch zero while the fiber lives, and `SHARED` is set once and cleared once.
    pub(super) fn new(fiber: FiberPtr) -> FiberRef {
        let done = fiber.state().load().is_done();
        let first = if done { 1 } else { 2 };
        let count = &fiber.references;
        if count.load(Ordering::Relaxed) == 0 {
            // First, and alone: made by the fiber itself or under its join lock.
            count.store(first, Ordering::Relaxed);
            fiber.state().share();
        } else {
            count.fetch_add(1, Ordering::Relaxed);
        }
        FiberRef(fiber)
    }

    /// Makes the permit available; the wake, if there is one, is the caller's to carry out.
    #[must_use]
    pub(crate) fn unpark(&self) -> Option<Wake> {
        match self.0.state().unpark() {
            Settle::Wake => Some(Wake::Fiber(self.0)),
            Settle::Noted | Settle::Late => None,
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Unique in the process, never used again.
    pub(crate) fn id(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let id = self.0.id.load(Ordering::Relaxed);
        if id != 0 {
            return id;
        }
        let fresh = NEXT.fetch_add(1, Ordering::Relaxed);
        match self.0.id.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(earlier) => earlier,
        }
    }
}

impl Clone for FiberRef {
    fn clone(&self) -> FiberRef {
        let before = self.0.references.fetch_add(1, Ordering::Relaxed);
        assert!(before < isize::MAX as usize, "a fiber has more than isize::MAX references");
        FiberRef(self.0)
    }
}

impl Drop for FiberRef {
    fn drop(&mut self) {
        // SAFETY: this reference holds the block.
        unsafe { release(self.0) };
    }
}

/// Gives back one count; the last one ends the shared hold on the block.
///
/// # Safety
///
/// The caller owns the count, and does not touch the block afterwards on its account.
unsafe fn release(fiber: FiberPtr) {
    if fiber.references.fetch_sub(1, Ordering::Release) != 1 {
        return;
    }
    fence(Ordering::Acquire);
    if fiber.state().unshare() == Holders::None {
        // SAFETY: invariant 1 of the room: this transition made the last hold false.
        unsafe { fiber.free() };
    }
}

/// Gives back the base count, at the fiber's end and before it is done.
///
/// # Safety
///
/// Called once, by the fiber, while no first reference can be made: under the join lock, or where
/// no join handle exists.
pub(super) unsafe fn release_base(fiber: FiberPtr) {
    if fiber.references.load(Ordering::Relaxed) != 0 {
        // SAFETY: a count that is not zero includes the base. The fiber is not done, so this frees
        // nothing.
        unsafe { release(fiber) };
    }
}
