//! How many fibers may be in blocking mode at once; those beyond wait in line.

use crate::fiber::{Outcome, WaiterPtr, Wake};
use crate::primitives::sync::Mutex;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Limit(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    free: usize,
    waiting: VecDeque<WaiterPtr>,
    /// Entries so far, and how many of them had to wait.
    entries: u64,
    waits: u64,
    most: usize,
    inside: usize,
}

/// Figures of the blocking mode.
///
/// ```
/// use volt::runtime::{BlockingStats, Handle};
///
/// let stats: BlockingStats = volt::run(|| {
///     volt::blocking(|| "a call that blocks");
///     Handle::current().stats().blocking
/// });
/// assert!(stats.entries >= 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingStats {
    /// Calls of [`blocking`](crate::blocking) so far.
    pub entries: u64,
    /// How many of them had to wait, because as many as the runtime allows were blocking.
    pub waits: u64,
    /// Calls in progress.
    pub inside: usize,
    /// The most at the same time.
    pub most: usize,
    /// Fibers that wait to begin.
    pub waiting: usize,
}

impl Limit {
    pub(crate) fn new(limit: usize) -> Limit {
        Limit(Mutex::new(Inner {
            free: limit,
            waiting: VecDeque::new(),
            entries: 0,
            waits: 0,
            most: 0,
            inside: 0,
        }))
    }

    /// Enters if there is room.
    #[must_use]
    pub(crate) fn try_enter(&self) -> bool {
        self.0.lock().try_enter()
    }

    /// Enters; or, where there is no room, stands in line as `waiter`, who is settled when it has
    /// entered. True if it has entered.
    #[must_use]
    pub(crate) fn enter(&self, waiter: impl FnOnce() -> WaiterPtr) -> bool {
        let mut inner = self.0.lock();
        if inner.try_enter() {
            return true;
        }
        inner.entries += 1;
        inner.waits += 1;
        inner.waiting.push_back(waiter());
        false
    }

    /// Leaves, and lets the first in line enter.
    #[must_use]
    pub(crate) fn leave(&self) -> Option<Wake> {
        let mut inner = self.0.lock();
        inner.inside -= 1;
        match inner.waiting.pop_front() {
            None => {
                inner.free += 1;
                None
            }
            Some(first) => {
                inner.count_in();
                // SAFETY: it stands in line, and the lock is held; nothing else ends its wait.
                unsafe { first.settle(Outcome::Woken(0)) }
            }
        }
    }

    pub(crate) fn stats(&self) -> BlockingStats {
        let inner = self.0.lock();
        BlockingStats {
            entries: inner.entries,
            waits: inner.waits,
            inside: inner.inside,
            most: inner.most,
            waiting: inner.waiting.len(),
        }
    }
}

impl Inner {
    fn try_enter(&mut self) -> bool {
        let enters = self.free > 0;
        if enters {
            self.free -= 1;
            self.entries += 1;
            self.count_in();
        }
        enters
    }

    fn count_in(&mut self) {
        self.inside += 1;
        self.most = self.most.max(self.inside);
    }
}
