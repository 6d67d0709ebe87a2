//! The two sides of a channel, and what makes them.

use super::core::Core;
use super::error::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
use super::timed::{self, Once, Ticks, Timed};
use crate::primitives::clock::Moment;
use crate::primitives::sync::Arc;
use crate::primitives::sync::atomic::AtomicBool;
use crate::time::Instant;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

/// A channel without a limit: a send never waits.
///
/// ```
/// use volt::channel::unbounded;
///
/// let (s, r) = unbounded();
/// volt::go(move || s.send(55).unwrap());
/// assert_eq!(r.recv(), Ok(55));
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    pair(None)
}

/// A channel that holds at most `cap` messages: a send to a full one waits.
///
/// With a capacity of zero it holds none: a send waits for a receive, and hands the message over.
///
/// ```
/// use volt::channel::bounded;
///
/// let (s, r) = bounded(1);
/// s.send(1).unwrap();
/// assert!(s.try_send(2).unwrap_err().is_full());
/// assert_eq!(r.recv(), Ok(1));
///
/// let (s, r) = bounded(0);
/// volt::go(move || s.send("by hand").unwrap());
/// assert_eq!(r.recv(), Ok("by hand"));
/// ```
pub fn bounded<T>(cap: usize) -> (Sender<T>, Receiver<T>) {
    pair(Some(cap))
}

fn pair<T>(capacity: Option<usize>) -> (Sender<T>, Receiver<T>) {
    let core = Arc::new(Core::new(capacity));
    (Sender { core: Arc::clone(&core) }, Receiver { flavor: Flavor::Channel(core) })
}

/// A receiver that gets one message, `duration` from now: the time at which it was due.
///
/// The message is the standard library's `Instant`, as `crossbeam-channel`'s is, so that programs need
/// only change the path.
///
/// ```
/// use std::time::Duration;
/// use volt::channel::{after, select, unbounded};
///
/// let (_s, r) = unbounded::<i32>();
/// select! {
///     recv(r) -> _ => unreachable!(),
///     recv(after(Duration::from_millis(5))) -> _ => println!("timed out"),
/// }
/// ```
pub fn after(duration: Duration) -> Receiver<std::time::Instant> {
    match due_in(duration) {
        Some((when, due)) => once(when, due),
        None => never(),
    }
}

/// A receiver that gets one message at `when`, an `Instant` of `volt::time` or of the standard
/// library: the time at which it was due.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let end = Instant::now() + Duration::from_millis(5);
/// assert_eq!(volt::channel::at(end).recv(), Ok(end));
/// assert!(Instant::now() >= end);
/// ```
pub fn at(
    when: impl Into<Instant> + Into<std::time::Instant> + Copy,
) -> Receiver<std::time::Instant> {
    let due: Instant = when.into();
    once(when.into(), due.0)
}

/// A receiver that never gets a message and is never disconnected.
///
/// ```
/// use std::time::Duration;
/// use volt::channel::{after, never, select};
///
/// // A time-out that is there, or not.
/// let patience: Option<Duration> = None;
/// let timeout = patience.map(after).unwrap_or(never());
/// select! {
///     recv(timeout) -> _ => unreachable!(),
///     default => {}
/// }
/// ```
pub fn never<T>() -> Receiver<T> {
    Receiver { flavor: Flavor::Never }
}

/// A receiver that gets a message every `duration`, first after one of them: the time at which it was
/// due. What is not received in time is left out: at most one message waits.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let ticker = volt::channel::tick(Duration::from_millis(2));
/// ticker.recv().unwrap();
/// ticker.recv().unwrap();
/// assert!(start.elapsed() >= Duration::from_millis(4));
/// ```
pub fn tick(duration: Duration) -> Receiver<std::time::Instant> {
    match due_in(duration) {
        Some((when, due)) => timed(Ticks::new(when, due, duration)),
        None => never(),
    }
}

/// The moment `duration` from now, on both clocks. The second is read last, so that no message is
/// received before the time that it names.
fn due_in(duration: Duration) -> Option<(std::time::Instant, Moment)> {
    let when = std::time::Instant::from(Instant::now()).checked_add(duration)?;
    Some((when, Moment::now().checked_add(duration)?))
}

fn once(when: std::time::Instant, due: Moment) -> Receiver<std::time::Instant> {
    timed(Once { when, due, taken: AtomicBool::new(false) })
}

fn timed<T>(clock: impl Timed<T> + 'static) -> Receiver<T> {
    Receiver { flavor: Flavor::Timed(std::sync::Arc::new(clock)) }
}

fn deadline_in(timeout: Duration) -> Option<Moment> {
    Some(Moment::now().saturating_add(timeout))
}

/// The sending side of a channel. Clones send to the same channel; when the last one is dropped, and
/// no message is left, the receivers are told.
///
/// Made by [`bounded`] and [`unbounded`]. Works on fibers, on plain threads and between the two.
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

/// The receiving side of a channel. Clones receive from the same channel, each message once; when the
/// last one is dropped, sends fail and what was not received is dropped.
///
/// Made by [`bounded`], [`unbounded`], [`after`], [`at`], [`tick`] and [`never`]. Works on fibers, on
/// plain threads and between the two.
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
// reference to one.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Sender<T> {}
// SAFETY: as above; clocks are shared by any thread.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Receiver<T> {}

// No message is touched by a panic: it is in the channel, or it is somebody's.
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

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

    /// Sends, and waits for room for `timeout` at most. A zero time-out does not wait.
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
        self.core.send(msg, deadline_in(timeout))
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

impl<T> Receiver<T> {
    /// Receives without waiting.
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

    /// Waits for a message for `timeout` at most. A zero time-out does not wait.
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
        self.recv_until(deadline_in(timeout))
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

    #[inline]
    fn recv_until(&self, deadline: Option<Moment>) -> Result<T, RecvTimeoutError> {
        match &self.flavor {
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
            Flavor::Timed(clock) => usize::from(clock.due() <= Moment::now()),
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

    /// Do both receive from the same channel? All that [`never`] makes do.
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
