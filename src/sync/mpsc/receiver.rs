//! The receiving half.

use super::bounded::Bounded;
use super::unbounded::Unbounded;
use super::{
    IntoIter, Iter, NotReceived, RecvError, RecvTimeoutError, Shared, TryIter, TryRecvError,
};
use crate::cancel;
use crate::park::{charge_current, deadline_after};
use crate::primitives::clock::Moment;
use crate::primitives::sync::Arc;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

/// Receives from a [`channel`](super::channel) or [`sync_channel`](super::sync_channel); mirrors
/// [`std::sync::mpsc::Receiver`]. On a plain thread its waits block the thread.
///
/// ```
/// let (sender, receiver) = volt::sync::mpsc::channel();
/// volt::go(move || sender.send(1));
/// assert_eq!(receiver.recv(), Ok(1));
/// assert!(receiver.recv().is_err());
/// ```
pub struct Receiver<T> {
    flavor: Flavor<T>,
    /// Not `Sync`, like the standard library's: there is one receiver, and it has things of its own.
    not_sync: PhantomData<Cell<()>>,
}

enum Flavor<T> {
    Unbounded(Arc<Shared<Unbounded<T>>>),
    Bounded(Arc<Shared<Bounded<T>>>),
}

impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Receiver<T> {
    pub(super) fn unbounded(shared: Arc<Shared<Unbounded<T>>>) -> Receiver<T> {
        Receiver { flavor: Flavor::Unbounded(shared), not_sync: PhantomData }
    }

    pub(super) fn bounded(shared: Arc<Shared<Bounded<T>>>) -> Receiver<T> {
        Receiver { flavor: Flavor::Bounded(shared), not_sync: PhantomData }
    }

    #[inline]
    fn wait(&self, deadline: Option<Moment>) -> Result<T, NotReceived> {
        let result = match &self.flavor {
            // SAFETY: this is the receiver, borrowed by one fiber or thread at a time.
            Flavor::Unbounded(shared) => unsafe { shared.flavor.recv(deadline) },
            // SAFETY: as above.
            Flavor::Bounded(shared) => unsafe { shared.flavor.recv(deadline) },
        };
        match result {
            Err(NotReceived::Cancelled) => cancel::unwind(),
            result => result,
        }
    }

    /// Waits for the next value.
    ///
    /// # Errors
    ///
    /// If all has been received, and all senders are gone.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::mpsc::channel();
    /// sender.send(1).unwrap();
    /// drop(sender);
    /// assert_eq!(receiver.recv(), Ok(1));
    /// assert!(receiver.recv().is_err());
    /// ```
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.wait(None).map_err(|_| RecvError)
    }

    /// Waits for the next value for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`recv`](Receiver::recv), or if the time is over.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait.
    ///
    /// ```
    /// use volt::sync::mpsc::{RecvTimeoutError, channel};
    /// use volt::time::Duration;
    ///
    /// let (_sender, receiver) = channel::<u8>();
    /// let result = receiver.recv_timeout(Duration::from_millis(1));
    /// assert_eq!(result, Err(RecvTimeoutError::Timeout));
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        charge_current();
        // Without a look at the clock if the value is there.
        match self.try_recv() {
            Ok(value) => return Ok(value),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => {}
        }
        self.wait(Some(deadline_after(timeout))).map_err(|error| match error {
            NotReceived::Disconnected => RecvTimeoutError::Disconnected,
            _ => RecvTimeoutError::Timeout,
        })
    }

    /// The next value, if it is there.
    ///
    /// # Errors
    ///
    /// If there is none, and whether there may be one later.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::mpsc::channel();
    /// assert!(receiver.try_recv().is_err());
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let result = match &self.flavor {
            // SAFETY: this is the receiver, borrowed by one fiber or thread at a time.
            Flavor::Unbounded(shared) => unsafe { shared.flavor.try_recv() },
            // SAFETY: as above.
            Flavor::Bounded(shared) => unsafe { shared.flavor.try_recv() },
        };
        result.map_err(|error| match error {
            NotReceived::Disconnected => TryRecvError::Disconnected,
            _ => TryRecvError::Empty,
        })
    }

    /// All values, until all senders are gone; waits for each.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait, as [`recv`](Receiver::recv); what was not received stays.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::mpsc::channel();
    /// volt::go(move || (0..3).for_each(|n| sender.send(n).unwrap()));
    /// assert_eq!(receiver.iter().sum::<i32>(), 3);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::new(self)
    }

    /// The values that are there; never waits.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::mpsc::channel();
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter::new(self)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        match &self.flavor {
            // SAFETY: this is the receiver.
            Flavor::Unbounded(shared) => unsafe { shared.flavor.abandon() },
            // SAFETY: as above.
            Flavor::Bounded(shared) => unsafe { shared.flavor.abandon() },
        }
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter::new(self)
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
