//! The running fibers of a scope, to cancel them.
//!
//! A fiber links itself when it starts and unlinks itself at its end, so that spawning costs nothing
//! more; one that starts after the cancel cancels itself.

use super::waiting;
use crate::fiber::FiberPtr;
use crate::primitives::sync::Mutex;
use crate::util::list::{Linked, Links, List};
use std::pin::{Pin, pin};
use std::ptr::NonNull;

/// See the module.
pub(super) struct Children(Mutex<Inner>);

struct Inner {
    cancelled: bool,
    running: List<Child>,
}

/// A running fiber; stands on its stack.
struct Child {
    links: Links<Child>,
    fiber: FiberPtr,
}

// SAFETY: always the same field, by a raw borrow.
unsafe impl Linked for Child {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: alive by the caller.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

impl Default for Children {
    fn default() -> Children {
        Children(Mutex::new(Inner { cancelled: false, running: List::new() }))
    }
}

impl Children {
    /// Cancels those that run, and those that will.
    pub(super) fn cancel(&self) {
        let mut wakes = Vec::new();
        {
            let mut inner = self.0.lock();
            inner.cancelled = true;
            while let Some(child) = inner.running.pop_front() {
                // SAFETY: linked until now, so its fiber has not left `within`, for which it would need
                // this lock.
                let fiber = unsafe { child.as_ref() }.fiber;
                let settle = fiber.state().cancel();
                // SAFETY: from this waiter's state just now; alive as above.
                wakes.extend(unsafe { fiber.as_waiter().wake(settle) });
            }
        }
        wakes.into_iter().for_each(waiting::wake);
    }

    /// Runs `f`, the code of `fiber`, which is one of the scope's and the caller.
    pub(super) fn within<T>(&self, fiber: FiberPtr, f: impl FnOnce() -> T) -> T {
        let child = pin!(Child { links: Links::new(), fiber });
        let linked = Entered { children: self, child: child.into_ref() };
        linked.link();
        f()
    }
}

/// Takes a child out of the list.
struct Entered<'a> {
    children: &'a Children,
    child: Pin<&'a Child>,
}

impl Entered<'_> {
    fn link(&self) {
        let mut inner = self.children.0.lock();
        if inner.cancelled {
            // It runs, so there is no wait to end.
            let _ = self.child.fiber.state().cancel();
        } else {
            // SAFETY: pinned, in no list, and removed before it goes.
            unsafe { inner.running.push_back(NonNull::from(self.child.get_ref())) };
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut inner = self.children.0.lock();
        // SAFETY: in this list or in none.
        unsafe { inner.running.remove(NonNull::from(self.child.get_ref())) };
    }
}

#[cfg(all(test, loom))]
#[path = "children_models.rs"]
mod models;
