//! The sending halves.

use super::bounded::Bounded;
use super::unbounded::Unbounded;
use super::{NotSent, SendError, Shared, TrySendError};
use crate::cancel;
use crate::primitives::sync::Arc;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// Sends into a [`channel`](super::channel); mirrors [`std::sync::mpsc::Sender`].
///
/// ```
/// let (sender, receiver) = volt::sync::mpsc::channel();
/// sender.send("value").unwrap();
/// drop(receiver);
/// assert_eq!(sender.send("back").unwrap_err().0, "back");
/// ```
pub struct Sender<T>(Arc<Shared<Unbounded<T>>>);

/// Sends into a [`sync_channel`](super::sync_channel); mirrors [`std::sync::mpsc::SyncSender`]. On a plain
/// thread its waits block the thread.
///
/// ```
/// let (sender, receiver) = volt::sync::mpsc::sync_channel(1);
/// sender.send(1).unwrap();
/// assert!(sender.try_send(2).is_err());
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
pub struct SyncSender<T>(Arc<Shared<Bounded<T>>>);

// As the standard library's: values are moved whole, and no lock is held over user code.
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for SyncSender<T> {}
impl<T> RefUnwindSafe for SyncSender<T> {}

impl<T> Sender<T> {
    pub(super) fn new(shared: Arc<Shared<Unbounded<T>>>) -> Sender<T> {
        Sender(shared)
    }

    /// Sends a value; never waits.
    ///
    /// # Errors
    ///
    /// The value, if the receiver is gone.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::mpsc::channel();
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv(), Ok(1));
    /// ```
    #[inline]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.flavor.send(value).map_err(|gone| SendError(gone.0))
    }
}

impl<T> SyncSender<T> {
    pub(super) fn new(shared: Arc<Shared<Bounded<T>>>) -> SyncSender<T> {
        SyncSender(shared)
    }

    /// Sends a value; waits for room, or, with a bound of 0, until it is received.
    ///
    /// # Errors
    ///
    /// The value, if the receiver is gone.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait; the value is dropped, and is not received.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::mpsc::sync_channel(1);
    /// volt::go(move || (0..3).for_each(|n| sender.send(n).unwrap()));
    /// assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2]);
    /// ```
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        match self.0.flavor.send(value) {
            Ok(()) => Ok(()),
            Err(NotSent::Disconnected(value)) => Err(SendError(value)),
            Err(NotSent::Cancelled(value) | NotSent::Full(value)) => {
                drop(value);
                cancel::unwind()
            }
        }
    }

    /// Sends a value if there is room, or, with a bound of 0, if the receiver waits for it.
    ///
    /// # Errors
    ///
    /// The value, if there is no room or the receiver is gone.
    ///
    /// ```
    /// let (sender, _receiver) = volt::sync::mpsc::sync_channel(1);
    /// sender.try_send(1).unwrap();
    /// assert!(sender.try_send(2).is_err());
    /// ```
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.0.flavor.try_send(value).map_err(|error| match error {
            NotSent::Disconnected(value) => TrySendError::Disconnected(value),
            NotSent::Full(value) | NotSent::Cancelled(value) => TrySendError::Full(value),
        })
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender(self.0.add_sender())
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> SyncSender<T> {
        SyncSender(self.0.add_sender())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.remove_sender() {
            self.0.flavor.close();
        }
    }
}

impl<T> Drop for SyncSender<T> {
    fn drop(&mut self) {
        if self.0.remove_sender() {
            self.0.flavor.close();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncSender").finish_non_exhaustive()
    }
}
