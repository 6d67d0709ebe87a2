//! Where a runnable fiber goes.
//!
//! - Woken or spawned by a fiber of the same scheduler: the LIFO slot of this worker; the fiber that
//!   it displaces goes to the ring, and only then another worker is woken.
//! - Yielded, or flushed: the ring, behind all others.
//! - A full ring: half of it and the new one to the injector.
//! - From anywhere else: the injector, and a worker is woken.
//! - A fiber that must not move: the mailbox of its home worker, which is woken.

use super::shared::Shared;
use super::switch::may_move;
use super::worker::Worker;
use crate::fiber::{FiberPtr, Wake};
use crate::primitives::sync::atomic::Ordering;

/// Makes a settled waiter run.
#[inline]
pub(crate) fn wake(wake: Wake) {
    match wake {
        // SAFETY: a `Wake` is the right to enqueue the fiber, once.
        Wake::Fiber(fiber) => unsafe { schedule(fiber) },
        Wake::Thread(thread) => thread.wake(),
    }
}

/// Enqueues a runnable fiber, from any thread.
///
/// # Safety
///
/// The caller has the right to enqueue it: it just made it, or took it out of its wait.
#[inline]
pub(crate) unsafe fn schedule(fiber: FiberPtr) {
    let shared = Shared::of(fiber);
    let worker = Worker::current();
    // SAFETY: a seat is valid until the next switch, and none comes before `push_woken` returns.
    unsafe {
        if !worker.is_null() && std::ptr::eq((*worker).shared, shared) {
            (*worker).push_woken(fiber);
        } else {
            (*shared).push_from_outside(fiber);
        }
    }
}

impl Worker<'_> {
    /// A woken or new fiber: it runs next.
    #[inline]
    pub(super) fn push_woken(&self, fiber: FiberPtr) {
        if self.send_home(fiber) {
            return;
        }
        if let Some(displaced) = self.core.slot.put(fiber) {
            self.push_back(displaced);
        }
    }

    /// A fiber that let others go first.
    #[inline]
    pub(super) fn push_yielded(&self, fiber: FiberPtr) {
        if !self.send_home(fiber) {
            self.push_back(fiber);
        }
    }

    /// Behind all others of this worker, where thieves find it.
    #[inline]
    pub(super) fn push_back(&self, fiber: FiberPtr) {
        self.push_quietly(fiber);
        if self.shared.cores.len() > 1 {
            self.shared.notify();
        }
    }

    /// As `push_back`, for a caller that wakes others itself.
    #[inline]
    pub(super) fn push_quietly(&self, fiber: FiberPtr) {
        if let Err(batch) = self.core.ring.push(fiber) {
            self.core.stats.overflows.add(1);
            self.shared.injector.push_batch(batch);
        }
    }

    /// Under `Migrate::BeforeStart`, puts a started fiber into its home's mailbox.
    #[inline(always)]
    pub(super) fn send_home(&self, fiber: FiberPtr) -> bool {
        if may_move(self.shared, fiber) {
            return false;
        }
        self.shared.push_home(fiber);
        true
    }
}

impl Shared {
    /// From a thread that is no worker of this scheduler.
    #[cold]
    pub(super) fn push_from_outside(&self, fiber: FiberPtr) {
        if may_move(self, fiber) {
            match self.injector.push(fiber) {
                Ok(()) => self.notify(),
                Err(fiber) => self.abandon(fiber),
            }
        } else {
            self.push_home(fiber);
        }
    }

    #[cold]
    fn push_home(&self, fiber: FiberPtr) {
        let home = fiber.home.load(Ordering::Relaxed) as usize - 1;
        match self.cores[home].mailbox.push(fiber) {
            Ok(()) => self.notify_worker(home),
            Err(fiber) => self.abandon(fiber),
        }
    }
}
