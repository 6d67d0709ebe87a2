//! The sending side.

use super::core::Core;
use super::error::{SendError, SendTimeoutError, TrySendError};
use crate::park::deadline_after;
use crate::primitives::sync::Arc;
use crate::time::Instant;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

/// The sending side of a channel. Clones send to the same channel; when the last one is dropped, and
/// no message is left, the receivers are told.
///
/// Made by [`bounded`](super::bounded) and [`unbounded`](super::unbounded). Works on fibers, on plain threads and
/// between the two.
///
/// ```
/// use volt::channel::unbounded;
///
/// let (s1, r) = unbounded();
/// let s2 = s1.clone();
/// volt::go(move || s1.send(1).unwrap());
/// std::thread::spawn(move || s2.send(2).unwrap());
/// assert_eq!(r.recv().unwrap() + r.recv().unwrap(), 3);
/// ```
pub struct Sender<T> {
    pub(super) core: Arc<Core<T>>,
}

// SAFETY: a handle shares a channel, which moves its messages between threads and never hands out a
// reference to one.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Sender<T> {}

// No message is touched by a panic: it is in the channel, or it is somebody's.
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}

impl<T> Sender<T> {
    /// Sends without waiting.
    ///
    /// # Errors
    ///
    /// [`Full`](TrySendError::Full) if there is no room, [`Disconnected`](TrySendError::Disconnected)
    /// if every receiver is gone; both hold the message.
    ///
    /// ```
    /// use volt::channel::{TrySendError, bounded};
    ///
    /// let (s, r) = bounded(1);
    /// assert_eq!(s.try_send(1), Ok(()));
    /// assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
    /// drop(r);
    /// assert_eq!(s.try_send(3), Err(TrySendError::Disconnected(3)));
    /// ```
    pub fn try_send(&self, msg: T) -> Result<(), TrySendError<T>> {
        self.core.try_send(msg)
    }

    /// Sends, and waits for room; on a rendezvous channel, for a receiver.
    ///
    /// A cancel of the fiber unwinds it if it would have to wait; the message is dropped with it.
    ///
    /// # Errors
    ///
    /// Every receiver is gone; the error holds the message.
    ///
    /// ```
    /// use volt::channel::{SendError, bounded};
    ///
    /// let (s, r) = bounded(1);
    /// assert_eq!(s.send(1), Ok(()));
    /// drop(r);
    /// assert_eq!(s.send(2), Err(SendError(2)));
    /// ```
    #[inline]
    pub fn send(&self, msg: T) -> Result<(), SendError<T>> {
        self.core.send(msg, None).map_err(|error| match error {
            SendTimeoutError::Disconnected(msg) | SendTimeoutError::Timeout(msg) => SendError(msg),
        })
    }

    /// Sends, and waits for room for `timeout` at most. A zero time-out does not sleep.
    ///
    /// A cancel of the fiber unwinds it if it would have to wait; the message is dropped with it.
    ///
    /// # Errors
    ///
    /// [`Timeout`](SendTimeoutError::Timeout), or every receiver is gone; both hold the message.
    ///
    /// ```
    /// use std::time::Duration;
    /// use volt::channel::{SendTimeoutError, bounded};
    ///
    /// let (s, r) = bounded(0);
    /// let late = s.send_timeout(1, Duration::from_millis(1));
    /// assert_eq!(late, Err(SendTimeoutError::Timeout(1)));
    /// # drop(r);
    /// ```
    pub fn send_timeout(&self, msg: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.core.send(msg, Some(deadline_after(timeout)))
    }

    /// Sends, and waits for room until `deadline`, an `Instant` of `volt::time` or of the standard
    /// library.
    ///
    /// A cancel of the fiber unwinds it if it would have to wait; the message is dropped with it.
    ///
    /// # Errors
    ///
    /// [`Timeout`](SendTimeoutError::Timeout), or every receiver is gone; both hold the message.
    ///
    /// ```
    /// use volt::channel::{SendTimeoutError, bounded};
    ///
    /// let (s, r) = bounded(0);
    /// let late = s.send_deadline(1, std::time::Instant::now());
    /// assert_eq!(late, Err(SendTimeoutError::Timeout(1)));
    /// let late = s.send_deadline(1, volt::time::Instant::now());
    /// assert_eq!(late, Err(SendTimeoutError::Timeout(1)));
    /// # drop(r);
    /// ```
    pub fn send_deadline(
        &self,
        msg: T,
        deadline: impl Into<Instant>,
    ) -> Result<(), SendTimeoutError<T>> {
        self.core.send(msg, Some(deadline.into().0))
    }

    /// Is there no message? Always so for a rendezvous channel.
    ///
    /// ```
    /// let (s, _r) = volt::channel::unbounded();
    /// assert!(s.is_empty());
    /// s.send(0).unwrap();
    /// assert!(!s.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.core.len() == 0
    }

    /// Is there no room? Always so for a rendezvous channel, never for an unbounded one.
    ///
    /// ```
    /// let (s, _r) = volt::channel::bounded(1);
    /// assert!(!s.is_full());
    /// s.send(0).unwrap();
    /// assert!(s.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        self.core.is_full()
    }

    /// How many messages there are.
    ///
    /// ```
    /// let (s, _r) = volt::channel::unbounded();
    /// s.send(1).unwrap();
    /// s.send(2).unwrap();
    /// assert_eq!(s.len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// How many there can be; `None` for an unbounded channel.
    ///
    /// ```
    /// use volt::channel::{bounded, unbounded};
    ///
    /// assert_eq!(unbounded::<u8>().0.capacity(), None);
    /// assert_eq!(bounded::<u8>(5).0.capacity(), Some(5));
    /// ```
    pub fn capacity(&self) -> Option<usize> {
        self.core.capacity()
    }

    /// Do both send to the same channel?
    ///
    /// ```
    /// let (s, _r) = volt::channel::unbounded::<u8>();
    /// assert!(s.same_channel(&s.clone()));
    /// ```
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.core.add_sender();
        Sender { core: Arc::clone(&self.core) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.core.drop_sender();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Sender { .. }")
    }
}
