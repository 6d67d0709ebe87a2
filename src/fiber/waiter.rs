//! Who waits: a fiber or a plain thread, seen only as a state word to settle, the first field of both.
//!
//! Sources (the wheel, registrations, join cells, later locks and channels) link nodes that carry a
//! [`WaiterPtr`]. Settling gives a [`Wake`] to whoever won, and `scheduler` makes it run.

use super::asleep;
use super::header::{FiberPtr, Header};
use super::state::State;
use super::thread::ThreadBlock;
use super::word::{Outcome, Settle};
use crate::primitives::prefetch;
use crate::primitives::sync::Arc;
use std::ptr::NonNull;

/// A borrowed waiter: valid under the lock of a source that has one of its nodes linked, or in the
/// hands of its owner (the room's invariant 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterPtr(NonNull<State>);

// SAFETY: a waiter is reached from any thread; its state word is atomic and the rest constant.
unsafe impl Send for WaiterPtr {}
// SAFETY: as above.
unsafe impl Sync for WaiterPtr {}

/// A waiter that left its wait and must be made to run, by the holder of this alone.
#[derive(Debug)]
#[must_use]
pub(crate) enum Wake {
    Fiber(FiberPtr),
    Thread(Arc<ThreadBlock>),
}

/// Somebody else had ended the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late;

impl WaiterPtr {
    pub(crate) fn of_fiber(fiber: FiberPtr) -> WaiterPtr {
        WaiterPtr(fiber.as_non_null().cast())
    }

    pub(crate) fn of_thread(thread: &ThreadBlock) -> WaiterPtr {
        WaiterPtr(NonNull::from(thread).cast())
    }

    /// Where it is.
    pub(crate) fn address(self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Its block will be needed soon.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        prefetch(self.0.as_ptr());
    }

    /// Ends the wait with `outcome` if nobody else did.
    ///
    /// # Safety
    ///
    /// The caller holds the lock of a source that has a node of this waiter linked.
    #[inline]
    pub(crate) unsafe fn settle(self, outcome: Outcome) -> Option<Wake> {
        // SAFETY: passed on.
        unsafe { self.offer(outcome) }.unwrap_or(None)
    }

    /// As [`settle`](WaiterPtr::settle), for a source that gives something away with the wake: `Err`
    /// if the wait had ended otherwise, so that it still is the caller's to give.
    ///
    /// # Safety
    ///
    /// As for `settle`.
    #[inline(never)]
    pub(crate) unsafe fn offer(self, outcome: Outcome) -> Result<Option<Wake>, Late> {
        // SAFETY: the block is alive, by the caller's promise and the room's invariant 3.
        if unsafe { self.0.as_ref() }.settle_parked_fiber(outcome) {
            return Ok(Some(Wake::Fiber(self.fiber())));
        }
        // SAFETY: passed on.
        unsafe { self.offer_to_any(outcome) }
    }

    /// Has the wait ended?
    ///
    /// # Safety
    ///
    /// As for `offer`.
    #[inline]
    pub(crate) unsafe fn is_over(self) -> bool {
        // SAFETY: as in `offer`.
        unsafe { self.0.as_ref() }.is_over()
    }

    /// As `offer`, whoever waits, and however.
    ///
    /// # Safety
    ///
    /// As for `offer`.
    #[inline(never)]
    unsafe fn offer_to_any(self, outcome: Outcome) -> Result<Option<Wake>, Late> {
        // SAFETY: as in `offer`.
        let state = unsafe { self.0.as_ref() };
        match state.settle(outcome) {
            Settle::Late => Err(Late),
            // SAFETY: parked or alive as above; see `wake`.
            settle => Ok(unsafe { self.wake(settle) }),
        }
    }

    fn fiber(self) -> FiberPtr {
        FiberPtr::from_non_null(self.0.cast::<Header>())
    }

    /// What a transition asks for; `None` also where the fiber stands in a queue already.
    ///
    /// # Safety
    ///
    /// `settle` came from this waiter's state just now, and the block is still alive: a fiber that
    /// was taken out of its wait is, since nobody but the caller makes it run; a thread is, under
    /// the source's lock.
    #[inline]
    pub(crate) unsafe fn wake(self, settle: Settle) -> Option<Wake> {
        match settle {
            Settle::Noted | Settle::Late => None,
            // Late, it may name a thread that the fiber blocks by now: a wake too many, no harm.
            Settle::Unblock => self.fiber().blocked_thread().map(Wake::Thread),
            // SAFETY: as promised by the caller.
            Settle::Wake if unsafe { self.0.as_ref() }.is_thread() => {
                // SAFETY: it is a thread's.
                Some(Wake::Thread(unsafe { self.thread() }))
            }
            Settle::WakeCounted => {
                asleep::one_less();
                // SAFETY: only threads count, and this is alive as promised by the caller.
                Some(Wake::Thread(unsafe { self.thread() }))
            }
            Settle::Wake => Some(self.fiber()).filter(|fiber| !fiber.has_entry()).map(Wake::Fiber),
        }
    }

    /// # Safety
    ///
    /// A thread's waiter, alive as `wake` says.
    unsafe fn thread(self) -> Arc<ThreadBlock> {
        let thread = self.0.cast::<ThreadBlock>().as_ptr();
        // SAFETY: thread blocks live in an Arc, which the waiting thread holds.
        unsafe {
            Arc::increment_strong_count(thread);
            Arc::from_raw(thread)
        }
    }
}
