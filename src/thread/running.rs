//! How many fibers of a scope are left, and its owner's wait until none is.
//!
//! # Ordering
//!
//! Each end is a decrement with Release, and the owner looks with Acquire: the decrements are one release
//! sequence, so whoever reads zero sees what all of them did. Nobody is left behind: the owner looks under
//! the lock of `ended`, which the last fiber takes after its decrement, and so it either finds the owner
//! there, or the owner has found zero.

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
    /// Said by the owner before it waits, or by a fiber that counts itself.
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
