//! A channel for one value.
//!
//! ```
//! let (sender, receiver) = volt::sync::oneshot::channel();
//! volt::go(move || sender.send(6 * 7));
//! assert_eq!(receiver.recv(), Ok(42));
//! ```

use crate::cancel;
use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Wait, deadline_after};
use crate::primitives::clock::Moment;
use crate::primitives::sync::{Arc, Lock};
use std::fmt;
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError};

/// A channel for one value.
///
/// ```
/// let (sender, receiver) = volt::sync::oneshot::channel();
/// sender.send("value").unwrap();
/// assert_eq!(receiver.recv(), Ok("value"));
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let inner = Inner { value: None, sender: true, receiver: true, queue: Queue::new() };
    let shared = Arc::new(Lock::new(inner));
    (Sender(Some(Arc::clone(&shared))), Receiver(Some(shared)))
}

struct Inner<T> {
    value: Option<T>,
    /// Each side is still there.
    sender: bool,
    receiver: bool,
    /// The receiver, while it waits.
    queue: Queue<()>,
}

/// Sends the value. Dropped without that, by a panic say, it tells the receiver.
///
/// ```
/// let (sender, receiver) = volt::sync::oneshot::channel::<u8>();
/// drop(sender);
/// assert!(receiver.recv().is_err());
/// ```
pub struct Sender<T>(Option<Arc<Lock<Inner<T>>>>);

// As the type that it mirrors: the lock inside is never left with a change half made.
impl<T> std::panic::UnwindSafe for Sender<T> {}
impl<T> std::panic::RefUnwindSafe for Sender<T> {}

/// Receives the value. Dropped before, by a panic say, it drops a value that was sent already. On a plain
/// thread its waits block the thread.
///
/// ```
/// let (sender, receiver) = volt::sync::oneshot::channel();
/// drop(receiver);
/// assert_eq!(sender.send(1).unwrap_err().0, 1);
/// ```
pub struct Receiver<T>(Option<Arc<Lock<Inner<T>>>>);

// As the type that it mirrors: the lock inside is never left with a change half made.
impl<T> std::panic::UnwindSafe for Receiver<T> {}
impl<T> std::panic::RefUnwindSafe for Receiver<T> {}

/// A handle is empty only on its way out.
const THERE: &str = "a handle that is used has its channel";

impl<T> Sender<T> {
    /// Sends the value; never waits.
    ///
    /// # Errors
    ///
    /// The value, if the receiver is gone.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::oneshot::channel();
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    #[inline]
    pub fn send(mut self, value: T) -> Result<(), SendError<T>> {
        // It goes in the critical section in which it sends, not in another.
        let shared = self.0.take().expect(THERE);
        let mut wakes = Wakes::new();
        {
            let mut inner = shared.lock();
            if !inner.receiver {
                return Err(SendError(value));
            }
            inner.value = Some(value);
            inner.sender = false;
            inner.queue.wake_all(0, &mut wakes);
        }
        wakes.wake();
        Ok(())
    }

    /// Is the receiver gone?
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::oneshot::channel::<u8>();
    /// assert!(!sender.is_closed());
    /// # drop(receiver);
    /// ```
    pub fn is_closed(&self) -> bool {
        !self.0.as_ref().expect(THERE).lock().receiver
    }
}

impl<T> Receiver<T> {
    /// Waits for the value.
    ///
    /// # Errors
    ///
    /// If the sender is gone without having sent one.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait; what is sent from then on comes back to the sender. A value that came just
    /// before is returned, also out of the timeout or the token that was about to end the wait.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::oneshot::channel();
    /// volt::go(move || sender.send(1));
    /// assert_eq!(receiver.recv(), Ok(1));
    /// ```
    #[inline]
    pub fn recv(mut self) -> Result<T, RecvError> {
        let result = self.wait(None, Self::hang_up).map_err(|_| RecvError);
        // The sender has gone, with or without a value: nobody has to be told that this goes too.
        self.0 = None;
        result
    }

    /// Waits for the value for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or the sender is gone without having sent one, or it has been received.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait. A value that comes then stays in the channel.
    ///
    /// ```
    /// use volt::sync::oneshot::{RecvTimeoutError, channel};
    /// use volt::time::Duration;
    ///
    /// let (sender, receiver) = channel::<u8>();
    /// let result = receiver.recv_timeout(Duration::from_millis(1));
    /// assert_eq!(result, Err(RecvTimeoutError::Timeout));
    /// # drop(sender);
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.wait(Some(deadline_after(timeout)), |_| None)
    }

    /// The value, if it has been sent.
    ///
    /// # Errors
    ///
    /// If it has not, or the sender is gone without having sent one, or it has been received.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::oneshot::channel();
    /// assert!(receiver.try_recv().is_err());
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut inner = self.shared().lock();
        match inner.value.take() {
            Some(value) => Ok(value),
            None if inner.sender => Err(TryRecvError::Empty),
            None => Err(TryRecvError::Disconnected),
        }
    }

    #[inline]
    fn shared(&self) -> &Arc<Lock<Inner<T>>> {
        self.0.as_ref().expect(THERE)
    }

    /// Whoever sends from now on gets the value back; one that came before is returned.
    fn hang_up(&self) -> Option<T> {
        let mut inner = self.shared().lock();
        inner.receiver = false;
        inner.value.take()
    }

    /// `cancelled` says whether a cancelled wait has got a value after all.
    #[inline]
    fn wait(
        &self,
        deadline: Option<Moment>,
        cancelled: impl FnOnce(&Self) -> Option<T>,
    ) -> Result<T, RecvTimeoutError> {
        let object = Arc::as_ptr(self.shared()) as usize;
        let how = Wait { object, deadline, ..Wait::cancellable("oneshot") };
        match wait(Enter { receiver: self }, Place::Back, (), how) {
            Waited::Ready(value) => value,
            Waited::Woken(_) => self.try_recv().map_err(|_| RecvTimeoutError::Disconnected),
            Waited::TimedOut => self.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
            Waited::Cancelled => {
                let value = cancelled(self).unwrap_or_else(|| cancel::unwind());
                cancel::took_effect();
                Ok(value)
            }
        }
    }
}

struct Enter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<'a, T> Source<'a> for Enter<'a, T> {
    type Inner = Inner<T>;
    type Data = ();
    type Ready = Result<T, RecvTimeoutError>;

    fn lock(&self) -> &'a Lock<Inner<T>> {
        self.receiver.shared()
    }

    fn queue<'q>(&self, inner: &'q mut Inner<T>) -> &'q mut Queue<()> {
        &mut inner.queue
    }

    fn enter(&mut self, inner: &mut Inner<T>) -> Option<Result<T, RecvTimeoutError>> {
        match inner.value.take() {
            Some(value) => Some(Ok(value)),
            None => (!inner.sender).then_some(Err(RecvTimeoutError::Disconnected)),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        let mut wakes = Wakes::new();
        {
            let mut inner = shared.lock();
            inner.sender = false;
            inner.queue.wake_all(0, &mut wakes);
        }
        wakes.wake();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        let value = {
            let mut inner = shared.lock();
            inner.receiver = false;
            inner.value.take()
        };
        drop(value);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
#[path = "oneshot_models.rs"]
mod models;
