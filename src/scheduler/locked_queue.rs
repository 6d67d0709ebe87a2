//! A queue that anyone may push to: fibers linked through their control blocks, under one lock.
//!
//! The injector is one of these, and each worker's mailbox is. The length stands beside the lock, so
//! that an empty queue is seen without taking it.

use crate::fiber::{Batch, FiberPtr};
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(crate) struct LockedQueue {
    /// Written under the lock, read by anyone.
    len: AtomicUsize,
    inner: Lock<Inner>,
}

#[derive(Debug)]
struct Inner {
    fibers: Batch,
    /// Nobody will take from it any more.
    closed: bool,
}

impl LockedQueue {
    pub(crate) fn new() -> LockedQueue {
        LockedQueue {
            len: AtomicUsize::new(0),
            inner: Lock::new(Inner { fibers: Batch::new(), closed: false }),
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
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(fiber);
        }
        inner.fibers.push(fiber);
        self.len.store(inner.fibers.len(), Ordering::Release);
        Ok(())
    }

    /// Appends all of `batch` under one lock; gives it back if the queue has been closed.
    pub(crate) fn push_batch(&self, mut batch: Batch) -> Batch {
        if batch.is_empty() {
            return batch;
        }
        let mut inner = self.inner.lock();
        if !inner.closed {
            inner.fibers.append(&mut batch);
            self.len.store(inner.fibers.len(), Ordering::Release);
        }
        batch
    }

    /// Takes up to `count` of the oldest under one lock.
    pub(crate) fn take(&self, count: usize) -> Batch {
        if self.is_empty() {
            return Batch::new();
        }
        let mut inner = self.inner.lock();
        let taken = inner.fibers.take_front(count);
        self.len.store(inner.fibers.len(), Ordering::Release);
        taken
    }

    /// Takes everything, and lets nothing more in by [`push`](Self::push).
    pub(crate) fn close(&self) -> Batch {
        let mut inner = self.inner.lock();
        inner.closed = true;
        self.len.store(0, Ordering::Release);
        std::mem::take(&mut inner.fibers)
    }
}

#[cfg(all(test, loom))]
#[path = "locked_queue_models.rs"]
mod models;
