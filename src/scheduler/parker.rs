//! How one worker sleeps: on its thread, or in the poller if nobody else waits there.

use crate::driver::Driver;
use crate::primitives::sync::Mutex;
use crate::primitives::sync::atomic::{AtomicU32, Ordering};
use crate::primitives::thread::{self, Thread};
use std::time::Duration;

const AWAKE: u32 = 0;
const ON_THREAD: u32 = 1;
const IN_POLLER: u32 = 2;
const NOTIFIED: u32 = 3;

/// A worker's bed. Written by the worker (to sleep) and by whoever unparks it.
#[derive(Debug)]
pub(crate) struct Parker {
    state: AtomicU32,
    thread: Mutex<Option<Thread>>,
}

impl Parker {
    pub(crate) fn new() -> Parker {
        Parker { state: AtomicU32::new(AWAKE), thread: Mutex::new(None) }
    }

    /// Names the thread that sleeps here from now on.
    pub(crate) fn set_thread(&self) {
        *self.thread.lock() = Some(thread::current());
    }

    /// Announces a sleep of the given kind; `false` if an unpark has come, which is then taken.
    fn announce(&self, kind: u32) -> bool {
        if self.state.compare_exchange(AWAKE, kind, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return true;
        }
        // Acquire: what the unparker did before is seen.
        self.state.swap(AWAKE, Ordering::AcqRel);
        false
    }

    /// Sleeps until an unpark, or for `timeout`.
    pub(crate) fn sleep_on_thread(&self, timeout: Option<Duration>) {
        if !self.announce(ON_THREAD) {
            return;
        }
        match timeout {
            Some(timeout) => thread::park_timeout(timeout),
            None => {
                // A permit of the thread's that somebody else made ends one of these too early.
                while self.state.load(Ordering::Acquire) != NOTIFIED {
                    thread::park();
                }
            }
        }
        self.state.swap(AWAKE, Ordering::AcqRel);
    }

    /// Runs `wait`, which returns early when the driver is interrupted; not at all if an unpark has
    /// come.
    pub(crate) fn sleep_in_poller(&self, wait: impl FnOnce()) {
        if self.announce(IN_POLLER) {
            wait();
            self.state.swap(AWAKE, Ordering::AcqRel);
        }
    }

    /// Wakes the worker, or keeps its next sleep from happening.
    pub(crate) fn unpark(&self, driver: &Driver) {
        match self.state.swap(NOTIFIED, Ordering::AcqRel) {
            ON_THREAD => {
                if let Some(thread) = &*self.thread.lock() {
                    thread.unpark();
                }
            }
            IN_POLLER => driver.interrupt(),
            _ => {}
        }
    }
}

#[cfg(all(test, not(loom)))]
impl Parker {
    /// Has it announced its sleep, and not been unparked since?
    pub(crate) fn is_asleep(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), ON_THREAD | IN_POLLER)
    }
}

#[cfg(all(test, loom))]
#[path = "parker_models.rs"]
mod models;
