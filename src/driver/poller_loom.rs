//! A stand-in for the poller: what is left of it for whoever only interrupts it.

use crate::primitives::sync::{Condvar, Mutex};

/// Keeps an interrupt until somebody has waited for it, as the kernel does.
#[derive(Debug)]
pub(crate) struct Driver {
    interrupted: Mutex<bool>,
    changed: Condvar,
}

impl Driver {
    pub(crate) fn new() -> Driver {
        Driver { interrupted: Mutex::new(false), changed: Condvar::new() }
    }

    pub(crate) fn interrupt(&self) {
        *self.interrupted.lock() = true;
        self.changed.notify_one();
    }

    /// Waits for an interrupt and nothing else, and takes it.
    pub(crate) fn wait(&self) {
        let mut interrupted = self.interrupted.lock();
        while !*interrupted {
            self.changed.wait(&mut interrupted);
        }
        *interrupted = false;
    }

    /// Takes the interrupt if there is one.
    pub(crate) fn was_interrupted(&self) -> bool {
        std::mem::take(&mut *self.interrupted.lock())
    }
}
