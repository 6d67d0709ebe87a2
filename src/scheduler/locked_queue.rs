//! A queue that anyone may push to, under one lock.
//!
//! The injector is one of these, and each worker's mailbox is. The length stands beside the lock, so
//! that an empty queue is seen without taking it. An array, not a chain through the control blocks:
//! those that another thread has made are in no cache, and to follow a chain of them under the lock
//! keeps everybody waiting for one miss after the other.

use crate::fiber::{Batch, FiberPtr};
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;

/// The most that one [`LockedQueue::take`] takes.
pub(crate) const MOST: usize = 64;
/// Room for so many stays when the queue is empty.
const ROOM: usize = 4096;

#[derive(Debug)]
pub(crate) struct LockedQueue {
    /// Written under the lock, read by anyone.
    len: AtomicUsize,
    /// The core from whose full ring all come that stand here, plus one; 0 where some do not. Written under the lock; a
    /// hint to anyone, and out of date where the queue is empty.
    from: AtomicUsize,
    inner: Lock<Inner>,
}

#[derive(Debug)]
struct Inner {
    fibers: VecDeque<FiberPtr>,
    /// Nobody will take from it any more.
    closed: bool,
}

impl LockedQueue {
    pub(crate) fn new() -> LockedQueue {
        LockedQueue {
            len: AtomicUsize::new(0),
            from: AtomicUsize::new(0),
            inner: Lock::new(Inner { fibers: VecDeque::new(), closed: false }),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends `fiber`; gives it back if the queue has been closed.
    pub(crate) fn push(&self, fiber: FiberPtr) -> Result<(), FiberPtr> {
        self.push_and(fiber, || ())
    }

    /// As [`push`](Self::push), and does `also`, a few instructions, under the lock.
    #[inline]
    pub(crate) fn push_and(&self, fiber: FiberPtr, also: impl FnOnce()) -> Result<(), FiberPtr> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(fiber);
        }
        inner.fibers.push_back(fiber);
        self.from.store(0, Ordering::Relaxed);
        self.len.store(inner.fibers.len(), Ordering::Release);
        also();
        Ok(())
    }

    /// Appends all of `batch` under one lock; gives it back if the queue has been closed.
    pub(crate) fn push_batch(&self, batch: Batch) -> Batch {
        self.push_batch_of(batch, 0)
    }

    /// As [`push_batch`](Self::push_batch), for what finds no room in the ring of `core`.
    pub(crate) fn push_overflow(&self, batch: Batch, core: usize) -> Batch {
        self.push_batch_of(batch, core + 1)
    }

    /// The core from whose full ring all come that stand here, if it is one.
    pub(crate) fn overflow_of(&self) -> Option<usize> {
        self.from.load(Ordering::Acquire).checked_sub(1).filter(|_| !self.is_empty())
    }

    fn push_batch_of(&self, batch: Batch, from: usize) -> Batch {
        if batch.is_empty() {
            return batch;
        }
        let mut inner = self.inner.lock();
        if inner.closed {
            return batch;
        }
        if !inner.fibers.is_empty() && self.from.load(Ordering::Relaxed) != from {
            self.from.store(0, Ordering::Relaxed);
        } else {
            // Release: who reads it reads there that the core exists.
            self.from.store(from, Ordering::Release);
        }
        inner.fibers.extend(batch);
        self.len.store(inner.fibers.len(), Ordering::Release);
        Batch::new()
    }

    /// Takes the oldest.
    pub(crate) fn pop(&self) -> Option<FiberPtr> {
        if self.is_empty() {
            return None;
        }
        let mut inner = self.inner.lock();
        let taken = inner.fibers.pop_front();
        self.set_len(&mut inner);
        taken
    }

    /// Takes up to `count` of the oldest, at most [`MOST`], under one lock.
    pub(crate) fn take(&self, count: usize) -> Batch {
        let mut batch = Batch::new();
        if self.is_empty() {
            return batch;
        }
        // Linked when the lock is free again: that is where their memory is touched.
        let mut taken = [None; MOST];
        let mut inner = self.inner.lock();
        let count = count.min(inner.fibers.len()).min(MOST);
        taken.iter_mut().zip(inner.fibers.drain(..count)).for_each(|(to, fiber)| *to = Some(fiber));
        self.set_len(&mut inner);
        drop(inner);
        batch.extend(taken.into_iter().flatten());
        batch
    }

    /// Takes everything.
    pub(crate) fn take_all(&self) -> Batch {
        let mut batch = Batch::new();
        if !self.is_empty() {
            let mut inner = self.inner.lock();
            let taken = std::mem::take(&mut inner.fibers);
            self.set_len(&mut inner);
            drop(inner);
            batch.extend(taken);
        }
        batch
    }

    fn set_len(&self, inner: &mut Inner) {
        let fibers = &mut inner.fibers;
        if fibers.is_empty() && fibers.capacity() > ROOM {
            *fibers = VecDeque::new();
        }
        self.len.store(fibers.len(), Ordering::Release);
    }

    /// Takes everything, and lets nothing more in by [`push`](Self::push).
    pub(crate) fn close(&self) -> Batch {
        self.inner.lock().closed = true;
        self.take_all()
    }
}

#[cfg(all(test, loom))]
#[path = "locked_queue_models.rs"]
mod models;
