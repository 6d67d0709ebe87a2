//! What ends the waits of a scope from anywhere: a source as every other, but one that stays.
//!
//! A wait links itself before it parks and unlinks itself after, under the lock, as with any source. So
//! a raise that comes late, or between two waits, is seen by the next wait and touches nobody.

use super::waiter::{WaiterPtr, Wake};
use super::word::Outcome;
use crate::primitives::sync::Mutex;

/// Ends the waits in the scopes that were entered with it, from anywhere.
#[derive(Debug)]
pub(crate) struct Interrupt(Mutex<Interrupted>);

#[derive(Debug)]
struct Interrupted {
    raised: bool,
    /// The open wait inside, if there is one.
    waiter: Option<WaiterPtr>,
}

impl Interrupt {
    pub(crate) fn new() -> Interrupt {
        Interrupt(Mutex::new(Interrupted { raised: false, waiter: None }))
    }

    /// Links the open wait. False if it was raised: there is nothing to wait for.
    #[must_use]
    pub(crate) fn link(&self, waiter: WaiterPtr) -> bool {
        let mut inner = self.0.lock();
        inner.waiter = (!inner.raised).then_some(waiter);
        !inner.raised
    }

    /// Unlinks the wait; returns whether it was raised.
    pub(crate) fn unlink(&self) -> bool {
        let mut inner = self.0.lock();
        inner.waiter = None;
        inner.raised
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.lock().raised
    }

    /// Ends the wait inside, and all later ones. The wake is the caller's.
    #[must_use]
    pub(crate) fn raise(&self) -> Option<Wake> {
        let mut inner = self.0.lock();
        inner.raised = true;
        // SAFETY: linked here, and this lock is held.
        inner.waiter.take().and_then(|waiter| unsafe { waiter.settle(Outcome::Cancelled) })
    }
}

#[cfg(all(test, loom))]
#[path = "interrupt_models.rs"]
mod models;
