//! A set of waiters for rare events, such as the end of a scope or of a runtime.

use super::waiter::{WaiterPtr, Wake};
use super::word::Outcome;
use crate::primitives::sync::Mutex;

/// Those who wait for one event, which wakes them all.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Vec<WaiterPtr>>);

impl Waiters {
    /// Links `waiter` unless `over` says, under the lock, that there is nothing to wait for.
    ///
    /// The caller unlinks it before its wait returns.
    #[must_use]
    pub(crate) fn link(&self, waiter: WaiterPtr, over: impl FnOnce() -> bool) -> bool {
        let mut waiters = self.0.lock();
        let waits = !over();
        if waits {
            waiters.push(waiter);
        }
        waits
    }

    /// Nobody waits.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Unlinks `waiter` if it still is linked.
    pub(crate) fn unlink(&self, waiter: WaiterPtr) {
        self.0.lock().retain(|other| *other != waiter);
    }

    /// The event has come, and what `over` looks at says so: settles all. The wakes are the caller's.
    #[must_use]
    pub(crate) fn settle_all(&self) -> Vec<Wake> {
        let mut waiters = self.0.lock();
        // SAFETY: each was linked, and the lock is held.
        waiters.drain(..).filter_map(|waiter| unsafe { waiter.settle(Outcome::Woken(0)) }).collect()
    }
}
