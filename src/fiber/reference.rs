//! Counted references to control blocks: what outlives a wait (`Thread`, wakers) holds one.
//!
//! A block that nobody ever referred to has no count: the last of fiber and join handle frees it.
//! The first reference sets `SHARED` for good and makes two counts: its own, and the *base*, which
//! stands for "the fiber is not done, or its join handle exists" and is given back by whichever of
//! the two ends last. From then on the last count frees the block.

use super::header::FiberPtr;
use super::waiter::{WaiterPtr, Wake};
use crate::primitives::sync::acquire_fence;
use crate::primitives::sync::atomic::Ordering;

/// Holds a fiber's control block, also after the fiber's end.
#[repr(transparent)]
pub(crate) struct FiberRef(FiberPtr);

impl std::fmt::Debug for FiberRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FiberRef {
    /// Made by the fiber itself, through its join handle, or by another reference: each holds the base or a
    /// count meanwhile.
    pub(super) fn new(fiber: FiberPtr) -> FiberRef {
        let count = &fiber.references;
        // Relaxed: a count that is not zero stays so while the base is held.
        if count.load(Ordering::Relaxed) == 0 {
            let _lock = fiber.join().lock();
            if count.load(Ordering::Relaxed) == 0 {
                count.store(2, Ordering::Relaxed);
                fiber.state().share();
                return FiberRef(fiber);
            }
        }
        let before = count.fetch_add(1, Ordering::Relaxed);
        assert!(before < isize::MAX as usize, "a fiber has more than isize::MAX references");
        FiberRef(fiber)
    }

    /// What it points at, as a word.
    #[cfg(not(loom))]
    pub(crate) fn as_ptr(&self) -> *const () {
        self.0.as_ptr().cast_const().cast()
    }

    /// The count stays with the queue entry that is left over; see [`FiberPtr::has_entry`].
    fn leave(self) {
        std::mem::forget(self);
    }

    /// Makes the permit available; the wake, if there is one, is the caller's to carry out.
    #[must_use]
    pub(crate) fn unpark(&self) -> Option<Wake> {
        let settle = self.0.state().unpark();
        // SAFETY: from this waiter's state just now; this reference keeps the block.
        unsafe { WaiterPtr::of_fiber(self.0).wake(settle) }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Unique in the process, never used again.
    pub(crate) fn id(&self) -> usize {
        self.0.id()
    }
}

impl Clone for FiberRef {
    fn clone(&self) -> FiberRef {
        FiberRef::new(self.0)
    }
}

impl Drop for FiberRef {
    fn drop(&mut self) {
        // SAFETY: this reference is one count.
        unsafe { release(self.0) };
    }
}

impl FiberPtr {
    /// Was the fiber started out of turn, and is the caller the first to come upon that? Then the
    /// entry that was left over in some queue is the caller's: a worker that has taken it out drops
    /// it; for whoever would enqueue the fiber it is the entry that is needed.
    #[inline]
    #[must_use]
    pub(crate) fn has_entry(self) -> bool {
        self.state().load().is_stale() && self.take_entry()
    }

    /// Takes in a fiber from a queue: starts it if it is fresh. False if there is nothing to run: the
    /// entry was left over.
    #[inline(always)]
    pub(crate) fn admit(self) -> bool {
        let now = self.state().load();
        now.is_plain() || self.state().start_if_exclusive(now) || self.admit_fresh()
    }

    #[inline(never)]
    fn admit_fresh(self) -> bool {
        loop {
            let now = self.state().load();
            if now.is_stale() {
                if self.has_entry() {
                    return false;
                }
            } else if !now.is_fresh() || self.state().start() {
                return true;
            }
        }
    }

    /// Starts a fresh fiber for its joiner, who holds its join handle, and leaves its queue entry
    /// behind. False if it has started.
    #[must_use]
    pub(crate) fn start_out_of_turn(self) -> bool {
        let entry = self.reference();
        let started = self.state().start_out_of_turn();
        if started {
            entry.leave();
        }
        started
    }

    #[cold]
    fn take_entry(self) -> bool {
        let taken = self.state().take_stale();
        if taken {
            // SAFETY: the entry's count came with the bit.
            unsafe { release(self) };
        }
        taken
    }
}

/// Gives back one count; the last one frees the block.
///
/// # Safety
///
/// The caller owns the count, and does not touch the block afterwards on its account. When the last
/// count goes the fiber is done and its result gone.
unsafe fn release(fiber: FiberPtr) {
    if fiber.references.fetch_sub(1, Ordering::Release) == 1 {
        // Pairs with the Release of every other count: all that their holders did is over.
        acquire_fence(&fiber.references);
        // SAFETY: no count is left, the base included.
        unsafe { fiber.free() };
    }
}

/// The last of fiber and join handle lets go of the block.
///
/// # Safety
///
/// The fiber is done, its result gone, and there is no join handle besides the caller.
pub(crate) unsafe fn release_block(fiber: FiberPtr) {
    if fiber.state().load().is_shared() {
        // SAFETY: the base is the caller's.
        unsafe { release(fiber) };
    } else {
        // SAFETY: nobody else ever held it.
        unsafe { fiber.free() };
    }
}
