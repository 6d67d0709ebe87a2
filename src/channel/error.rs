//! What goes wrong with a channel; names and texts are `crossbeam-channel`'s.

use std::error::Error;
use std::fmt;

/// [`send`](super::Sender::send) failed: every receiver is gone. Holds the message.
///
/// ```
/// use volt::channel::{SendError, unbounded};
///
/// let (s, r) = unbounded();
/// drop(r);
/// assert_eq!(s.send("back"), Err(SendError("back")));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// [`try_send`](super::Sender::try_send) failed. Holds the message.
///
/// ```
/// use volt::channel::{TrySendError, bounded};
///
/// let (s, r) = bounded(0);
/// assert_eq!(s.try_send("back"), Err(TrySendError::Full("back")));
/// drop(r);
/// assert_eq!(s.try_send("back"), Err(TrySendError::Disconnected("back")));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There was no room; on a rendezvous channel, no receiver waited.
    Full(T),
    /// Every receiver is gone.
    Disconnected(T),
}

/// [`send_timeout`](super::Sender::send_timeout) failed. Holds the message.
///
/// ```
/// use volt::channel::{SendTimeoutError, bounded};
/// use volt::time::Duration;
///
/// let (s, _r) = bounded(0);
/// let late = s.send_timeout("back", Duration::from_millis(1));
/// assert_eq!(late, Err(SendTimeoutError::Timeout("back")));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// There was no room in time; on a rendezvous channel, no receiver.
    Timeout(T),
    /// Every receiver is gone.
    Disconnected(T),
}

/// [`recv`](super::Receiver::recv) failed: the channel is empty and every sender is gone.
///
/// ```
/// use volt::channel::{RecvError, unbounded};
///
/// let (s, r) = unbounded::<u8>();
/// drop(s);
/// assert_eq!(r.recv(), Err(RecvError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

/// [`try_recv`](super::Receiver::try_recv) failed.
///
/// ```
/// use volt::channel::{TryRecvError, unbounded};
///
/// let (s, r) = unbounded::<u8>();
/// assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
/// drop(s);
/// assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// There was no message; on a rendezvous channel, no sender waited.
    Empty,
    /// The channel is empty and every sender is gone.
    Disconnected,
}

/// [`recv_timeout`](super::Receiver::recv_timeout) failed.
///
/// ```
/// use volt::channel::{RecvTimeoutError, unbounded};
/// use volt::time::Duration;
///
/// let (_s, r) = unbounded::<u8>();
/// let late = r.recv_timeout(Duration::from_millis(1));
/// assert_eq!(late, Err(RecvTimeoutError::Timeout));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// There was no message in time; on a rendezvous channel, no sender.
    Timeout,
    /// The channel is empty and every sender is gone.
    Disconnected,
}

/// [`try_select`](super::Select::try_select) failed: no operation was ready.
///
/// ```
/// use volt::channel::{Select, TrySelectError};
///
/// assert_eq!(Select::new().try_select().err(), Some(TrySelectError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrySelectError;

/// [`select_timeout`](super::Select::select_timeout) failed: no operation was ready in time.
///
/// ```
/// use volt::channel::{Select, SelectTimeoutError};
/// use volt::time::Duration;
///
/// let late = Select::new().select_timeout(Duration::from_millis(1));
/// assert_eq!(late.err(), Some(SelectTimeoutError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectTimeoutError;

/// [`try_ready`](super::Select::try_ready) failed: no operation was ready.
///
/// ```
/// use volt::channel::{Select, TryReadyError};
///
/// assert_eq!(Select::new().try_ready(), Err(TryReadyError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TryReadyError;

/// [`ready_timeout`](super::Select::ready_timeout) failed: no operation was ready in time.
///
/// ```
/// use volt::channel::{ReadyTimeoutError, Select};
/// use volt::time::Duration;
///
/// let late = Select::new().ready_timeout(Duration::from_millis(1));
/// assert_eq!(late, Err(ReadyTimeoutError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyTimeoutError;

/// A text for a type, which may need a bound to be an error. The text keeps to width and alignment.
macro_rules! texts {
    ($([$($generic:ident)?] $type:ty { $($pattern:pat => $text:literal,)+ })+) => {$(
        impl$(<$generic>)? fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $($pattern => $text),+ })
            }
        }

        impl$(<$generic: Send>)? Error for $type {}
    )+};
}

texts! {
    [T] SendError<T> { SendError(_) => "sending on a disconnected channel", }
    [T] TrySendError<T> {
        TrySendError::Full(_) => "sending on a full channel",
        TrySendError::Disconnected(_) => "sending on a disconnected channel",
    }
    [T] SendTimeoutError<T> {
        SendTimeoutError::Timeout(_) => "timed out waiting on send operation",
        SendTimeoutError::Disconnected(_) => "sending on a disconnected channel",
    }
    [] RecvError { RecvError => "receiving on an empty and disconnected channel", }
    [] TryRecvError {
        TryRecvError::Empty => "receiving on an empty channel",
        TryRecvError::Disconnected => "receiving on an empty and disconnected channel",
    }
    [] RecvTimeoutError {
        RecvTimeoutError::Timeout => "timed out waiting on receive operation",
        RecvTimeoutError::Disconnected => "channel is empty and disconnected",
    }
    [] TrySelectError { TrySelectError => "all operations in select would block", }
    [] SelectTimeoutError { SelectTimeoutError => "timed out waiting on select", }
    [] TryReadyError { TryReadyError => "all operations in ready would block", }
    [] ReadyTimeoutError { ReadyTimeoutError => "timed out waiting on ready", }
}

// A message need not have a debug text for its error to be unwrapped.

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SendError(..)")
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if self.is_full() { "Full(..)" } else { "Disconnected(..)" })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SendTimeoutError(..)")
    }
}

impl<T> SendError<T> {
    /// The message.
    ///
    /// ```
    /// let (s, r) = volt::channel::unbounded();
    /// drop(r);
    /// assert_eq!(s.send("back").unwrap_err().into_inner(), "back");
    /// ```
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TrySendError<T> {
    /// The message.
    ///
    /// ```
    /// let (s, _r) = volt::channel::bounded(0);
    /// assert_eq!(s.try_send("back").unwrap_err().into_inner(), "back");
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(message) | TrySendError::Disconnected(message) => message,
        }
    }

    /// Was there no room?
    ///
    /// ```
    /// let (s, _r) = volt::channel::bounded(0);
    /// assert!(s.try_send(1).unwrap_err().is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self, TrySendError::Full(_))
    }

    /// Is every receiver gone?
    ///
    /// ```
    /// let (s, r) = volt::channel::bounded(1);
    /// drop(r);
    /// assert!(s.try_send(1).unwrap_err().is_disconnected());
    /// ```
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TrySendError::Disconnected(_))
    }
}

impl<T> SendTimeoutError<T> {
    /// The message.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (s, _r) = volt::channel::bounded(0);
    /// let error = s.send_timeout("back", Duration::from_millis(1)).unwrap_err();
    /// assert_eq!(error.into_inner(), "back");
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(message) | SendTimeoutError::Disconnected(message) => message,
        }
    }

    /// Did the time run out?
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (s, _r) = volt::channel::bounded(0);
    /// assert!(s.send_timeout(1, Duration::from_millis(1)).unwrap_err().is_timeout());
    /// ```
    pub fn is_timeout(&self) -> bool {
        matches!(self, SendTimeoutError::Timeout(_))
    }

    /// Is every receiver gone?
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (s, r) = volt::channel::bounded(0);
    /// drop(r);
    /// assert!(s.send_timeout(1, Duration::MAX).unwrap_err().is_disconnected());
    /// ```
    pub fn is_disconnected(&self) -> bool {
        matches!(self, SendTimeoutError::Disconnected(_))
    }
}

impl TryRecvError {
    /// Was there no message?
    ///
    /// ```
    /// let (_s, r) = volt::channel::unbounded::<u8>();
    /// assert!(r.try_recv().unwrap_err().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        matches!(self, TryRecvError::Empty)
    }

    /// Is every sender gone?
    ///
    /// ```
    /// let (s, r) = volt::channel::unbounded::<u8>();
    /// drop(s);
    /// assert!(r.try_recv().unwrap_err().is_disconnected());
    /// ```
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TryRecvError::Disconnected)
    }
}

impl RecvTimeoutError {
    /// Did the time run out?
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (_s, r) = volt::channel::unbounded::<u8>();
    /// assert!(r.recv_timeout(Duration::from_millis(1)).unwrap_err().is_timeout());
    /// ```
    pub fn is_timeout(&self) -> bool {
        matches!(self, RecvTimeoutError::Timeout)
    }

    /// Is every sender gone?
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (s, r) = volt::channel::unbounded::<u8>();
    /// drop(s);
    /// assert!(r.recv_timeout(Duration::MAX).unwrap_err().is_disconnected());
    /// ```
    pub fn is_disconnected(&self) -> bool {
        matches!(self, RecvTimeoutError::Disconnected)
    }
}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(error: SendError<T>) -> TrySendError<T> {
        TrySendError::Disconnected(error.0)
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(error: SendError<T>) -> SendTimeoutError<T> {
        SendTimeoutError::Disconnected(error.0)
    }
}

impl From<RecvError> for TryRecvError {
    fn from(RecvError: RecvError) -> TryRecvError {
        TryRecvError::Disconnected
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(RecvError: RecvError) -> RecvTimeoutError {
        RecvTimeoutError::Disconnected
    }
}
