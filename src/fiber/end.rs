//! The end of a fiber, between the fiber and its join handle: who drops the result, who wakes the
//! joiner, who frees the block.
//!
//! # Protocol
//!
//! `finish` and `detach` are transitions of one word, so one of them comes first. The fiber first: the
//! result is the handle's. The handle first: it is the fiber's own.
//!
//! A joiner links itself under the join lock, unless the fiber is done; the fiber becomes done under
//! that lock and takes the joiner out. Having seen the end, the handle takes the lock once more before
//! it lets go of the block, so that the fiber has let go of the lock by then.

use super::header::FiberPtr;
use super::reference::release_block;
use super::waiter::{WaiterPtr, Wake};
use super::word::Outcome;
use super::{drop_locals, drop_own_result, forget_panics};

/// Keeps those who look at a running fiber from outside away from its end.
pub(crate) trait Seen {
    /// The fiber's end is about to be published: from here on nobody outside may look at it, until
    /// the scheduler is told that it has finished.
    ///
    /// # Safety
    ///
    /// Called by the fiber itself.
    unsafe fn before_end(fiber: FiberPtr);

    /// The end was put off: the fiber's code runs on.
    ///
    /// # Safety
    ///
    /// Called by the fiber itself.
    unsafe fn not_yet(fiber: FiberPtr);
}

/// A fiber that has never run: nobody looks at it.
pub(super) struct Unseen;

impl Seen for Unseen {
    unsafe fn before_end(_: FiberPtr) {}

    unsafe fn not_yet(_: FiberPtr) {}
}

/// Publishes the end of a fiber and frees its block if nobody holds it. The block is not the
/// caller's any more after it, and nobody outside sees it.
///
/// # Safety
///
/// The result is in its place; called once.
pub(super) unsafe fn complete<S: Seen>(fiber: FiberPtr) -> Option<Wake> {
    if fiber.state().load().has_join_handle() {
        let mut join = fiber.join().lock();
        // SAFETY: called by the fiber, or by whoever ends it in its place.
        unsafe { S::before_end(fiber) };
        // After this the block is touched only to unlock: the handle takes that lock before it lets
        // go of the block.
        if fiber.state().finish(true).is_ok() {
            let joiner = join.joiner.take();
            // SAFETY: the joiner is linked here, under this lock.
            return joiner.and_then(|joiner| unsafe { joiner.settle(Outcome::Woken(0)) });
        }
        // SAFETY: as above.
        unsafe { S::not_yet(fiber) };
    }
    // The join handle is gone for good: the result is the fiber's own to drop.
    // SAFETY: the result is there.
    unsafe { drop_own_result(fiber) };
    // SAFETY: at its end; the result's destructor may have made some.
    unsafe { drop_locals(fiber) };
    // SAFETY: as above.
    unsafe { S::before_end(fiber) };
    if !fiber.state().load().is_exclusive() {
        fiber.state().finish(false).expect("a join handle does not come back");
    }
    // SAFETY: done, and no join handle. One that is exclusive is not even marked: nobody can look.
    unsafe { release_block(fiber) };
    None
}

/// Has the fiber of this join handle ended, and let go of its join lock?
pub(crate) fn has_ended(fiber: FiberPtr) -> bool {
    let done = fiber.state().load().is_done();
    if done {
        drop(fiber.join().lock());
    }
    done
}

/// Links the waiter of this join handle's holder, unless the fiber has ended.
///
/// The fiber's end unlinks it and settles its wait, and the holder asks [`has_ended`] after it; where
/// something else has ended the wait, the holder calls [`unlink_joiner`].
#[must_use]
pub(crate) fn link_joiner(fiber: FiberPtr, waiter: WaiterPtr) -> bool {
    let mut join = fiber.join().lock();
    let lives = !fiber.state().load().is_done();
    if lives {
        join.joiner = Some(waiter);
    }
    lives
}

/// The wait of this join handle's holder has ended otherwise than by the fiber's end: unlinks it.
pub(crate) fn unlink_joiner(fiber: FiberPtr) {
    fiber.join().lock().joiner = None;
}

/// The join handle goes away, its result not taken.
///
/// # Safety
///
/// The caller is the join handle and does not use the fiber afterwards.
#[inline]
pub(crate) unsafe fn drop_handle(fiber: FiberPtr) {
    if fiber.state().detach().is_err() {
        // SAFETY: passed on; the fiber was done first.
        unsafe { drop_finished(fiber) };
    }
}

/// The fiber was done first: its result is the handle's to drop. A panic of its destructor ends here,
/// as it would have on the fiber, whoever is first.
///
/// # Safety
///
/// As `drop_handle`, and the fiber is done.
#[cold]
unsafe fn drop_finished(fiber: FiberPtr) {
    drop(fiber.join().lock());
    // SAFETY: the fiber is done and the handle owns its result; the join lock was taken since.
    unsafe {
        forget_panics(|| fiber.drop_result());
        release_block(fiber);
    }
}
