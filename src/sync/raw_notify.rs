//! Notifications: one that is kept, or those who wait for one.
//!
//! A notification goes to the first of the queue whose wait it settles. One whose wait had ended
//! otherwise (by its deadline, a cancel, another case of its select) is passed over in the same critical
//! section: so nobody has to hand on what came too late for him. Whoever only wants to know that there is
//! one is woken on the way and gets none; if nobody takes it, it is kept, where he finds it.

use crate::park::Wait;
use crate::park::queue::{Node, Place, Queue, Source, Waited, Wakes, wait};
use crate::primitives::const_unless_loom;
use crate::primitives::sync::Lock;
use std::ptr::NonNull;

/// What one who waits wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Permit,
    /// To look whether there is one.
    News,
}

#[derive(Debug)]
pub(crate) struct RawNotify(Lock<Inner>);

#[derive(Debug)]
struct Inner {
    /// A notification that nobody waited for; only while nobody waits for one.
    permit: bool,
    queue: Queue<Wants>,
}

impl RawNotify {
    const_unless_loom! {
        pub(crate) fn new() -> RawNotify {
            RawNotify(Lock::new(Inner { permit: false, queue: Queue::new() }))
        }
    }

    pub(crate) fn notify_one(&self) {
        let mut wakes = Wakes::new();
        {
            let mut inner = self.0.lock();
            let mut given = false;
            while let (false, Some(wants)) = (given, inner.queue.front()) {
                if let Some(Ok(wake)) = inner.queue.offer_front(0) {
                    wakes.extend(wake);
                    given = wants == Wants::Permit;
                }
            }
            inner.permit |= !given;
        }
        wakes.wake();
    }

    pub(crate) fn notify_waiters(&self) {
        let mut wakes = Wakes::new();
        {
            let queue = &mut self.0.lock().queue;
            while !queue.is_empty() {
                // So a select knows that there is none to give back.
                queue.mark_front(Wants::News);
                if let Some(Ok(wake)) = queue.offer_front(0) {
                    wakes.extend(wake);
                }
            }
        }
        wakes.wake();
    }

    pub(crate) fn has_permit(&self) -> bool {
        self.0.lock().permit
    }

    /// Takes the notification that is kept, if there is one.
    pub(crate) fn take(&self) -> bool {
        std::mem::take(&mut self.0.lock().permit)
    }

    /// Waits for a notification, and takes it.
    pub(crate) fn wait(&self, how: Wait) -> Waited<()> {
        let how = Wait { object: &raw const *self as usize, ..how };
        wait(Enter { notify: self }, Place::Back, Wants::Permit, how)
    }

    /// Links the node of a select, unless a notification is kept; false if so.
    ///
    /// # Safety
    ///
    /// As for [`Queue::link`].
    pub(crate) unsafe fn link(&self, node: NonNull<Node<Wants>>) -> bool {
        let mut inner = self.0.lock();
        if inner.permit {
            return false;
        }
        // SAFETY: passed on.
        unsafe { inner.queue.link(node) };
        true
    }

    /// # Safety
    ///
    /// As for [`Queue::unlink`].
    pub(crate) unsafe fn unlink(&self, node: NonNull<Node<Wants>>) {
        // SAFETY: passed on.
        unsafe { self.0.lock().queue.unlink(node) };
    }
}

struct Enter<'a> {
    notify: &'a RawNotify,
}

impl<'a> Source<'a> for Enter<'a> {
    type Inner = Inner;
    type Data = Wants;
    type Ready = ();

    fn lock(&self) -> &'a Lock<Inner> {
        &self.notify.0
    }

    fn queue<'q>(&self, inner: &'q mut Inner) -> &'q mut Queue<Wants> {
        &mut inner.queue
    }

    fn enter(&mut self, inner: &mut Inner) -> Option<()> {
        std::mem::take(&mut inner.permit).then_some(())
    }
}

#[cfg(all(test, loom))]
#[path = "raw_notify_models.rs"]
mod models;
