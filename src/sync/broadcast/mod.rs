//! A channel in which every receiver gets every value; one that is too slow is told how many it
//! missed.
//!
//! ```
//! let (sender, mut one) = volt::sync::broadcast::channel(16);
//! let mut two = sender.subscribe();
//! sender.send("to all").unwrap();
//! assert_eq!((one.recv(), two.recv()), (Ok("to all"), Ok("to all")));
//! ```
//!
//! Senders are one at a time, under a lock, which a receiver takes only where it finds no value: to wait, or
//! to learn how many it missed. The values stand in a ring, where receivers find them without it, each in
//! an entry that knows how many have still to get it. Values are cloned and dropped outside of the lock;
//! the last one that a value waited for gets the value itself.
//!
//! The memory for a value, once there, is kept for others until the channel goes.

mod entry;
mod error;
mod receiver;
mod ring;

use crate::park::queue::{Queue, Wakes};
use crate::primitives::sync::{Arc, Lock};
use std::fmt;

use entry::MOST_SHARES;
use ring::{Ring, Spare};

pub use error::{RecvError, RecvTimeoutError, TryRecvError};
pub use receiver::{Iter, Receiver};
pub use std::sync::mpsc::SendError;

/// A channel that keeps up to `capacity` values for those who have not received them yet.
///
/// # Panics
///
/// If `capacity` is zero.
///
/// ```
/// use volt::sync::broadcast::{RecvError, channel};
///
/// let (sender, mut receiver) = channel(2);
/// (1..=5).for_each(|n| drop(sender.send(n)));
/// assert_eq!(receiver.recv(), Err(RecvError::Lagged(3)));
/// assert_eq!(receiver.recv(), Ok(4));
/// ```
#[track_caller]
pub fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a broadcast channel needs a capacity above zero");
    let (ring, spare) = Ring::new(capacity);
    let inner = Inner { senders: 1, receivers: 1, spare, queue: Queue::new() };
    let shared = Arc::new(Shared { ring, lock: Lock::new(inner) });
    (Sender(Arc::clone(&shared)), Receiver::new(shared, 0))
}

#[derive(Debug)]
struct Shared<T> {
    ring: Ring<T>,
    lock: Lock<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    senders: usize,
    receivers: usize,
    spare: Spare<T>,
    /// Receivers that have seen all.
    queue: Queue<()>,
}

impl<T> Shared<T> {
    /// Counts one more receiver, and says what it gets first.
    fn join(&self) -> u64 {
        let mut inner = self.lock.lock();
        assert!(inner.receivers < MOST_SHARES, "a broadcast channel has {MOST_SHARES} receivers");
        inner.receivers += 1;
        self.ring.tail()
    }
}

/// Sends values to all receivers.
///
/// ```
/// let (sender, receiver) = volt::sync::broadcast::channel::<u8>(1);
/// drop(receiver);
/// assert_eq!(sender.send(1).unwrap_err().0, 1);
/// ```
pub struct Sender<T>(Arc<Shared<T>>);

// As the type that it mirrors: the lock inside is never left with a change half made.
impl<T> std::panic::UnwindSafe for Sender<T> {}
impl<T> std::panic::RefUnwindSafe for Sender<T> {}

impl<T> Sender<T> {
    /// Sends a value; never waits. Returns how many receivers there are.
    ///
    /// If the channel is full the oldest value goes, and receivers that had not got it are told.
    ///
    /// # Errors
    ///
    /// The value, if there is no receiver.
    ///
    /// ```
    /// let (sender, _receiver) = volt::sync::broadcast::channel(1);
    /// assert_eq!(sender.send("value").unwrap(), 1);
    /// ```
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let mut wakes = Wakes::new();
        let (receivers, _evicted) = {
            let mut inner = self.0.lock.lock();
            let receivers = inner.receivers;
            if receivers == 0 {
                return Err(SendError(value));
            }
            let evicted = self.0.ring.push(&mut inner.spare, value, receivers);
            inner.queue.wake_all(0, &mut wakes);
            (receivers, evicted)
        };
        wakes.wake();
        Ok(receivers)
    }

    /// A receiver of all that is sent from now on.
    ///
    /// ```
    /// let (sender, _) = volt::sync::broadcast::channel(1);
    /// let mut receiver = sender.subscribe();
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv(), Ok(1));
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        let position = self.0.join();
        Receiver::new(Arc::clone(&self.0), position)
    }

    /// How many values somebody has not received yet.
    ///
    /// ```
    /// let (sender, _receiver) = volt::sync::broadcast::channel(2);
    /// sender.send(1).unwrap();
    /// assert_eq!(sender.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.0.ring.len(&mut self.0.lock.lock().spare)
    }

    /// Has every receiver got every value?
    ///
    /// ```
    /// let (sender, _receiver) = volt::sync::broadcast::channel::<u8>(2);
    /// assert!(sender.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many receivers there are.
    ///
    /// ```
    /// let (sender, _) = volt::sync::broadcast::channel::<u8>(2);
    /// assert_eq!(sender.receiver_count(), 0);
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.0.lock.lock().receivers
    }

    /// Do both send to the same receivers?
    ///
    /// ```
    /// let (sender, _) = volt::sync::broadcast::channel::<u8>(2);
    /// assert!(sender.same_channel(&sender.clone()));
    /// ```
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.lock.lock().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut wakes = Wakes::new();
        {
            let mut inner = self.0.lock.lock();
            inner.senders -= 1;
            if inner.senders == 0 {
                inner.queue.wake_all(0, &mut wakes);
            }
        }
        wakes.wake();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the last half is gone.
        unsafe { self.lock.lock().spare.free() };
    }
}

#[cfg(all(test, loom))]
mod models;
