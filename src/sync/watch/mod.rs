//! A value that many watch: they see the latest, not each one.
//!
//! ```
//! let (sender, mut receiver) = volt::sync::watch::channel("starting");
//! volt::go(move || sender.send("running"));
//! receiver.changed().unwrap();
//! assert_eq!(*receiver.borrow(), "running");
//! ```
//!
//! # Invariants
//!
//! 1. The version changes only while the value's write lock is held, or, for its flag `CLOSED`, the
//!    list's lock. So whoever holds the value's read lock has the version of that value.
//! 2. Who waits looks at the version under the list's lock, before standing in the queue; who changes
//!    it takes that lock afterwards and wakes the queue. One of them sees the other.

mod receiver;
mod sender;

use super::{RwLock, RwLockReadGuard};
use crate::park::queue::{Queue, Wakes};
use crate::primitives::sync::atomic::{AtomicUsize, Ordering::*};
use crate::primitives::sync::{Arc, Lock};
use std::fmt;
use std::ops::Deref;
use std::sync::PoisonError;

pub use receiver::Receiver;
pub use sender::Sender;
pub use std::sync::mpsc::{RecvError, SendError};

/// All senders are gone.
const CLOSED: usize = 1;
const ONE: usize = 2;

/// A channel that holds `value`, which the receiver has seen.
///
/// ```
/// let (sender, receiver) = volt::sync::watch::channel(1);
/// assert_eq!((*sender.borrow(), *receiver.borrow()), (1, 1));
/// ```
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        value: RwLock::new(value),
        version: AtomicUsize::new(0),
        list: Lock::new(List {
            senders: 1,
            receivers: 1,
            changed: Queue::new(),
            closed: Queue::new(),
        }),
    });
    (Sender::new(Arc::clone(&shared)), Receiver::new(shared))
}

struct Shared<T> {
    value: RwLock<T>,
    /// Grows by `ONE` with each change; and the flag.
    version: AtomicUsize,
    list: Lock<List>,
}

struct List {
    senders: usize,
    receivers: usize,
    /// Receivers that wait for a change.
    changed: Queue<()>,
    /// Senders that wait for the last receiver to go.
    closed: Queue<()>,
}

/// The value, borrowed; senders wait meanwhile, so do not keep it. To borrow it once more beside this
/// one may wait for ever, if a sender came between.
///
/// ```
/// let (_sender, receiver) = volt::sync::watch::channel(String::from("value"));
/// assert_eq!(receiver.borrow().len(), 5);
/// ```
pub struct Ref<'a, T> {
    value: RwLockReadGuard<'a, T>,
    changed: bool,
}

impl<T> Ref<'_, T> {
    /// Had the receiver not seen this value yet when it borrowed it?
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert!(receiver.borrow().has_changed());
    /// ```
    pub fn has_changed(&self) -> bool {
        self.changed
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Shared<T> {
    /// The value with its version (invariant 1). A closure of a sender that panicked leaves what it
    /// made of the value.
    fn read(&self) -> (RwLockReadGuard<'_, T>, usize) {
        let value = self.value.read().unwrap_or_else(PoisonError::into_inner);
        let version = self.version.load(Acquire);
        (value, version)
    }

    fn borrow(&self, seen: Option<usize>) -> Ref<'_, T> {
        let (value, version) = self.read();
        Ref { value, changed: seen.is_some_and(|seen| seen & !CLOSED != version & !CLOSED) }
    }

    fn modify(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        {
            let mut value = self.value.write().unwrap_or_else(PoisonError::into_inner);
            if !modify(&mut value) {
                return false;
            }
            self.version.fetch_add(ONE, AcqRel);
        }
        let mut wakes = Wakes::new();
        self.list.lock().changed.wake_all(0, &mut wakes);
        wakes.wake();
        true
    }

    fn receivers(&self) -> usize {
        self.list.lock().receivers
    }
}

#[cfg(all(test, loom))]
mod models;
