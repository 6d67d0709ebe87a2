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
//! All is under one lock, but not the values themselves: they stand in the ring in an `Arc` each, and
//! are cloned and dropped outside. A value leaves the ring with the last receiver that it waited for.

mod error;
mod receiver;

use crate::park::queue::{Queue, Wakes};
use crate::primitives::sync::{Arc, Lock};
use std::collections::VecDeque;
use std::fmt;

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
    let shared = Arc::new(Lock::new(Inner {
        ring: VecDeque::new(),
        capacity,
        next: 0,
        senders: 1,
        receivers: 1,
        queue: Queue::new(),
    }));
    (Sender(Arc::clone(&shared)), Receiver::new(shared, 0))
}

struct Inner<T> {
    /// The latest values; the last one has the number `next - 1`.
    ring: VecDeque<Slot<T>>,
    capacity: usize,
    /// The number of the value that is sent next.
    next: u64,
    senders: usize,
    receivers: usize,
    /// Receivers that have seen all.
    queue: Queue<()>,
}

struct Slot<T> {
    /// Gone when all receivers that it waited for have it.
    value: Option<Arc<T>>,
    /// How many receivers have not got it.
    waiting: usize,
}

/// A value that a receiver has taken, to be cloned or dropped outside of the lock.
enum Taken<T> {
    /// Others wait for it.
    Shared(Arc<T>),
    /// It has left the ring.
    Last(Arc<T>),
}

impl<T: Clone> Taken<T> {
    fn into_value(self) -> T {
        match self {
            Taken::Shared(value) => T::clone(&value),
            // Unless others clone it at this very moment.
            Taken::Last(value) => Arc::try_unwrap(value).unwrap_or_else(|shared| T::clone(&shared)),
        }
    }
}

impl<T> Inner<T> {
    /// The number of the oldest value that may still be there.
    fn first(&self) -> u64 {
        self.next - self.ring.len() as u64
    }

    /// A receiver at `position` takes the value there.
    fn take(&mut self, position: u64) -> Option<Taken<T>> {
        let index = (position - self.first()) as usize;
        let slot = self.ring.get_mut(index)?;
        slot.waiting -= 1;
        if slot.waiting > 0 {
            return slot.value.clone().map(Taken::Shared);
        }
        let value = slot.value.take();
        while self.ring.front().is_some_and(|slot| slot.value.is_none()) {
            self.ring.pop_front();
        }
        value.map(Taken::Last)
    }
}

/// Sends values to all receivers.
///
/// ```
/// let (sender, receiver) = volt::sync::broadcast::channel::<u8>(1);
/// drop(receiver);
/// assert_eq!(sender.send(1).unwrap_err().0, 1);
/// ```
pub struct Sender<T>(Arc<Lock<Inner<T>>>);

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
        // Neither made nor dropped under the lock.
        let value = Arc::new(value);
        let mut wakes = Wakes::new();
        let sent = {
            let mut inner = self.0.lock();
            let waiting = inner.receivers;
            if waiting == 0 {
                Err(value)
            } else {
                let full = inner.ring.len() == inner.capacity;
                let oldest = if full { inner.ring.pop_front() } else { None };
                inner.ring.push_back(Slot { value: Some(value), waiting });
                inner.next += 1;
                inner.queue.wake_all(0, &mut wakes);
                Ok((waiting, oldest))
            }
        };
        wakes.wake();
        match sent {
            Ok((receivers, _oldest)) => Ok(receivers),
            Err(value) => {
                Err(SendError(Arc::try_unwrap(value).ok().expect("it was in nobody else's hands")))
            }
        }
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
        let position = {
            let mut inner = self.0.lock();
            inner.receivers += 1;
            inner.next
        };
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
        self.0.lock().ring.len()
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
        self.0.lock().receivers
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
        self.0.lock().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut wakes = Wakes::new();
        {
            let mut inner = self.0.lock();
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
