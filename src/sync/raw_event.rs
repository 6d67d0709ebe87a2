//! Something that is the case or not: a flag for those who look, a queue for those who wait for it.
//!
//! The flag changes under the queue's lock, and a waiter looks once more under it before it stands in
//! the queue: so it sees the flag set, or is seen by who sets it. Those who only look read it without
//! the lock; Acquire there pairs with Release of who sets it.

use crate::park::Wait;
use crate::park::queue::{Node, Queue, Waited, Wakes, wait_unless};
use crate::primitives::const_unless_loom;
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicBool, Ordering::*};
use std::ptr::NonNull;

#[derive(Debug)]
pub(crate) struct RawEvent {
    set: AtomicBool,
    queue: Lock<Queue<()>>,
}

impl RawEvent {
    const_unless_loom! {
        pub(crate) fn new() -> RawEvent {
            RawEvent { set: AtomicBool::new(false), queue: Lock::new(Queue::new()) }
        }
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Acquire)
    }

    pub(crate) fn set(&self) {
        let mut wakes = Wakes::new();
        {
            let mut queue = self.queue.lock();
            self.set.store(true, Release);
            queue.wake_all(0, &mut wakes);
        }
        wakes.wake();
    }

    /// Was it set?
    pub(crate) fn reset(&self) -> bool {
        let _queue = self.queue.lock();
        self.set.swap(false, AcqRel)
    }

    /// Waits until it has been set.
    pub(crate) fn wait(&self, how: Wait) -> Waited<()> {
        if self.is_set() {
            return Waited::Ready(());
        }
        let how = Wait { object: &raw const *self as usize, ..how };
        wait_unless(&self.queue, how, || self.is_set())
    }
}

// The nodes of selects.
impl RawEvent {
    /// Links `node` unless it has been set; false if so.
    ///
    /// # Safety
    ///
    /// As for [`Queue::link`].
    pub(crate) unsafe fn link(&self, node: NonNull<Node<()>>) -> bool {
        let mut queue = self.queue.lock();
        if self.is_set() {
            return false;
        }
        // SAFETY: passed on.
        unsafe { queue.link(node) };
        true
    }

    /// # Safety
    ///
    /// As for [`Queue::unlink`].
    pub(crate) unsafe fn unlink(&self, node: NonNull<Node<()>>) {
        // SAFETY: passed on.
        unsafe { self.queue.lock().unlink(node) };
    }
}

#[cfg(all(test, loom))]
#[path = "raw_event_models.rs"]
mod models;
