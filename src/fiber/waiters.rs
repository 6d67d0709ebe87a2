//! A set of waiters for rare events, such as the end of a scope or of a runtime.

use super::waiter::{WaiterPtr, Wake};
use super::word::Outcome;
use crate::primitives::sync::Mutex;

/// Those who wait for one event, which wakes them all.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Vec<(WaiterPtr, u32)>>);

impl Waiters {
    /// Links `waiter` unless `over` says, under the lock, that there is nothing to wait for.
    ///
    /// The caller unlinks it before its wait returns.
    #[must_use]
    pub(crate) fn link(&self, waiter: WaiterPtr, over: impl FnOnce() -> bool) -> bool {
        self.link_as(waiter, 0, over)
    }

    /// As [`link`](Waiters::link), for one whose wait is to end with `result`. It may be linked several
    /// times, with a result for each.
    #[must_use]
    pub(crate) fn link_as(
        &self,
        waiter: WaiterPtr,
        result: u32,
        over: impl FnOnce() -> bool,
    ) -> bool {
        let mut waiters = self.0.lock();
        let waits = !over();
        if waits {
            waiters.push((waiter, result));
        }
        waits
    }

    /// Nobody waits.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Unlinks `waiter`, which was linked, when what is returned goes: by a panic too.
    pub(crate) fn linked(&self, waiter: WaiterPtr) -> Linked<'_> {
        Linked { waiters: self, waiter }
    }

    /// Unlinks `waiter` if it still is linked.
    pub(crate) fn unlink(&self, waiter: WaiterPtr) {
        self.unlink_as(waiter, 0);
    }

    /// As [`unlink`](Waiters::unlink), of what was linked with `result`.
    pub(crate) fn unlink_as(&self, waiter: WaiterPtr, result: u32) {
        self.0.lock().retain(|other| *other != (waiter, result));
    }

    /// The event has come, and what `over` looks at says so: settles all. The wakes are the caller's.
    #[must_use]
    pub(crate) fn settle_all(&self) -> Vec<Wake> {
        let mut waiters = self.0.lock();
        let settle = |(waiter, result): (WaiterPtr, u32)| {
            // SAFETY: it was linked, and the lock is held.
            unsafe { waiter.settle(Outcome::Woken(result)) }
        };
        waiters.drain(..).filter_map(settle).collect()
    }
}

/// See [`Waiters::linked`].
#[must_use]
pub(crate) struct Linked<'a> {
    waiters: &'a Waiters,
    waiter: WaiterPtr,
}

impl Drop for Linked<'_> {
    fn drop(&mut self) {
        self.waiters.unlink(self.waiter);
    }
}

#[cfg(all(test, loom))]
#[path = "waiters_models.rs"]
mod models;
