//! The receiving side.

use super::core::Core;
use super::error::{RecvError, RecvTimeoutError, TryRecvError};
use super::timed::{self, Timed};
use crate::park::{deadline_after, has_passed};
use crate::primitives::clock::Moment;
use crate::primitives::sync::Arc;
use crate::time::Instant;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

/// The receiving side of a channel. Clones receive from the same channel, each message once; when the
/// last one is dropped, sends fail and what was not received is dropped.
///
/// Made by [`bounded`], [`unbounded`], [`after`], [`at`], [`tick`] and [`never`]. Works on fibers, on
/// plain threads and between the two.
///
/// [`bounded`]: super::bounded
/// [`unbounded`]: super::unbounded
/// [`after`]: super::after
/// [`at`]: super::at
/// [`tick`]: super::tick
/// [`never`]: super::never
///
/// ```
/// use volt::channel::bounded;
///
/// let (s, r) = bounded(10);
/// s.send(1).unwrap();
/// drop(s);
/// assert_eq!(r.recv(), Ok(1));
/// assert!(r.recv().is_err());
/// ```
pub struct Receiver<T> {
    pub(super) flavor: Flavor<T>,
}

pub(super) enum Flavor<T> {
    Channel(Arc<Core<T>>),
    Timed(std::sync::Arc<dyn Timed<T>>),
    Never,
}

// SAFETY: a handle shares a channel, which moves its messages between threads and never hands out a
// reference to one; clocks are shared by any thread.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Receiver<T> {}

// No message is touched by a panic: it is in the channel, or it is somebody's.
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Receiver<T> {
    /// Receives without waiting, with one exception: if a select waits to send to a rendezvous channel, it is
    /// chosen, and this waits until it has made its value. No cancel ends that. (So whoever alone drives a
    /// current-thread runtime must not receive so from a fiber of that.)
    ///
    /// # Errors
    ///
    /// [`Empty`](TryRecvError::Empty) if there is no message,
    /// [`Disconnected`](TryRecvError::Disconnected) if there will be none either.
    ///
    /// ```
    /// use volt::channel::{TryRecvError, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    /// s.send(5).unwrap();
    /// drop(s);
    /// assert_eq!(r.try_recv(), Ok(5));
    /// assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
    /// ```
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match &self.flavor {
            Flavor::Channel(core) => core.try_recv(),
            Flavor::Timed(clock) => timed::try_recv(&**clock),
            Flavor::Never => Err(TryRecvError::Empty),
        }
    }

    /// Waits for a message.
    ///
    /// A cancel of the fiber unwinds it if it would have to wait; no message is lost by that.
    ///
    /// # Errors
    ///
    /// There is no message, and every sender is gone.
    ///
    /// ```
    /// use volt::channel::{RecvError, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// volt::go(move || s.send(5).unwrap());
    /// assert_eq!(r.recv(), Ok(5));
    /// assert_eq!(r.recv(), Err(RecvError));
    /// ```
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        match self.recv_until(None) {
            Ok(message) => Ok(message),
            Err(_) => Err(RecvError),
        }
    }

    /// Waits for a message for `timeout` at most. A zero time-out does not sleep.
    /// The one exception is that of [`try_recv`](Receiver::try_recv).
    ///
    /// A cancel of the fiber unwinds it if it would have to wait; no message is lost by that.
    ///
    /// # Errors
    ///
    /// [`Timeout`](RecvTimeoutError::Timeout), or there is no message and every sender is gone.
    ///
    /// ```
    /// use std::time::Duration;
    /// use volt::channel::{RecvTimeoutError, unbounded};
    ///
    /// let (_s, r) = unbounded::<u8>();
    /// let late = r.recv_timeout(Duration::from_millis(1));
    /// assert_eq!(late, Err(RecvTimeoutError::Timeout));
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(Some(deadline_after(timeout)))
    }

    /// Waits for a message until `deadline`, an `Instant` of `volt::time` or of the standard library.
    ///
    /// A cancel of the fiber unwinds it if it would have to wait; no message is lost by that.
    ///
    /// # Errors
    ///
    /// [`Timeout`](RecvTimeoutError::Timeout), or there is no message and every sender is gone.
    ///
    /// ```
    /// use std::time::Instant;
    /// use volt::channel::{RecvTimeoutError, unbounded};
    ///
    /// let (_s, r) = unbounded::<u8>();
    /// assert_eq!(r.recv_deadline(Instant::now()), Err(RecvTimeoutError::Timeout));
    /// ```
    pub fn recv_deadline(&self, deadline: impl Into<Instant>) -> Result<T, RecvTimeoutError> {
        self.recv_until(Some(deadline.into().0))
    }

    /// In line, so that the message is not moved once more.
    #[inline(always)]
    fn recv_until(&self, deadline: Option<Moment>) -> Result<T, RecvTimeoutError> {
        match &self.flavor {
            Flavor::Channel(core) => core.recv(deadline),
            flavor => Self::recv_of_clock(flavor, deadline),
        }
    }

    #[inline(never)]
    fn recv_of_clock(flavor: &Flavor<T>, deadline: Option<Moment>) -> Result<T, RecvTimeoutError> {
        match flavor {
            Flavor::Channel(core) => core.recv(deadline),
            Flavor::Timed(clock) => timed::recv(&**clock, deadline),
            Flavor::Never => Err(timed::never(deadline)),
        }
    }

    /// Is there no message? Always so for a rendezvous channel.
    ///
    /// ```
    /// let (s, r) = volt::channel::unbounded();
    /// assert!(r.is_empty());
    /// s.send(0).unwrap();
    /// assert!(!r.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Is there no room? Always so for a rendezvous channel, never for an unbounded one.
    ///
    /// ```
    /// let (s, r) = volt::channel::bounded(1);
    /// assert!(!r.is_full());
    /// s.send(0).unwrap();
    /// assert!(r.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        match &self.flavor {
            Flavor::Channel(core) => core.is_full(),
            Flavor::Timed(_) => !self.is_empty(),
            Flavor::Never => true,
        }
    }

    /// How many messages there are.
    ///
    /// ```
    /// let (s, r) = volt::channel::unbounded();
    /// s.send(1).unwrap();
    /// assert_eq!(r.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        match &self.flavor {
            Flavor::Channel(core) => core.len(),
            Flavor::Timed(clock) => usize::from(has_passed(clock.due())),
            Flavor::Never => 0,
        }
    }

    /// How many there can be; `None` for an unbounded channel.
    ///
    /// ```
    /// use volt::channel::{bounded, never, tick};
    /// use std::time::Duration;
    ///
    /// assert_eq!(bounded::<u8>(5).1.capacity(), Some(5));
    /// assert_eq!(tick(Duration::from_secs(1)).capacity(), Some(1));
    /// assert_eq!(never::<u8>().capacity(), Some(0));
    /// ```
    pub fn capacity(&self) -> Option<usize> {
        match &self.flavor {
            Flavor::Channel(core) => core.capacity(),
            Flavor::Timed(_) => Some(1),
            Flavor::Never => Some(0),
        }
    }

    /// Do both receive from the same channel? All that [`never`](super::never) makes do.
    ///
    /// ```
    /// let (_s, r) = volt::channel::unbounded::<u8>();
    /// assert!(r.same_channel(&r.clone()));
    /// assert!(!r.same_channel(&volt::channel::never()));
    /// ```
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        match (&self.flavor, &other.flavor) {
            (Flavor::Channel(one), Flavor::Channel(two)) => Arc::ptr_eq(one, two),
            (Flavor::Timed(one), Flavor::Timed(two)) => std::sync::Arc::ptr_eq(one, two),
            (Flavor::Never, Flavor::Never) => true,
            _ => false,
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        let flavor = match &self.flavor {
            Flavor::Channel(core) => {
                core.add_receiver();
                Flavor::Channel(Arc::clone(core))
            }
            Flavor::Timed(clock) => Flavor::Timed(std::sync::Arc::clone(clock)),
            Flavor::Never => Flavor::Never,
        };
        Receiver { flavor }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if let Flavor::Channel(core) = &self.flavor {
            core.drop_receiver();
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Receiver { .. }")
    }
}
