//! A bell, of a lock and a condition variable: where there is no `timerfd`, or none is allowed, and under loom. Set to
//! a later time, it wakes the sleeper at the former one, and that sleeps on.

use super::clock::Moment;
use super::sync::{Condvar, Mutex};
use std::io;

#[derive(Debug)]
pub(crate) struct Bell {
    at: Mutex<Moment>,
    changed: Condvar,
}

impl Bell {
    /// Never fails.
    pub(crate) fn new() -> io::Result<Bell> {
        Ok(Bell { at: Mutex::new(Moment::NEVER), changed: Condvar::new() })
    }

    /// Rings at `at` and not before, at once if that has passed, never at [`Moment::NEVER`]. A ring that nobody
    /// has waited for yet is taken back.
    pub(crate) fn set(&self, at: Moment) {
        let mut before = self.at.lock();
        let earlier = at < *before;
        *before = at;
        if earlier {
            self.changed.notify_one();
        }
    }

    /// Sleeps until it rings.
    pub(crate) fn wait(&self) {
        let mut at = self.at.lock();
        loop {
            let now = Moment::now();
            match *at {
                Moment::NEVER => self.changed.wait(&mut at),
                due if due > now => drop(self.changed.wait_for(&mut at, due.since(now))),
                _ => break *at = Moment::NEVER,
            }
        }
    }

    /// When it rings.
    #[cfg(loom)]
    pub(crate) fn is_set_to(&self) -> Moment {
        *self.at.lock()
    }
}
