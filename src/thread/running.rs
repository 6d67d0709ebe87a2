//! How many fibers of a scope are left, and its owner's wait until none is.
//!
//! # Ordering
//!
//! Each end is a decrement with Release, and the owner looks with Acquire: all changes of the count are
//! read-modify-writes, so those before the one that it reads are in the release sequences that it ends, and
//! whoever reads zero sees what all did who have ended. Nobody is left behind: the owner looks under
//! the lock of `ended`, which whoever has come to zero takes after that, and so he either finds the owner
//! there, or the owner has found zero.
//!
//! The owner may be gone by then: whoever ends holds what this stands in. And while the owner is still in
//! its closure the count may come to zero several times.

use super::waiting::{self, Outcome, Wait};
use crate::fiber::Waiters;
use crate::primitives::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// See the module.
pub(super) struct Running {
    count: AtomicUsize,
    panicked: AtomicBool,
    ended: Waiters,
}

impl Default for Running {
    fn default() -> Running {
        Running {
            count: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            ended: Waiters::default(),
        }
    }
}

impl Running {
    /// Said while the owner is in its closure, or by what something that counts waits for.
    pub(super) fn one_more(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The last act of one that counts.
    pub(super) fn one_ended(&self, panicked: bool) {
        if panicked {
            self.panicked.store(true, Ordering::Relaxed);
        }
        if self.count.fetch_sub(1, Ordering::Release) == 1 {
            self.ended.settle_all().into_iter().for_each(waiting::wake);
        }
    }

    /// Waits until none is left; says how, if `wait` was not long enough.
    pub(super) fn wait(&self, wait: Wait) -> Outcome {
        waiting::wait_until(&self.ended, wait, || self.count.load(Ordering::Acquire) == 0)
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Has one of those panicked that have ended?
    pub(super) fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
#[path = "running_models.rs"]
mod models;
