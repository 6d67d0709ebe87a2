//! Why a receiver of a broadcast channel has no value.

use std::fmt;

/// Why [`Receiver::recv`](super::Receiver::recv) has no value.
///
/// ```
/// use volt::sync::broadcast::{RecvError, channel};
///
/// let (sender, mut receiver) = channel::<u8>(1);
/// drop(sender);
/// assert_eq!(receiver.recv(), Err(RecvError::Closed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// All has been received, and all senders are gone.
    Closed,
    /// So many values were overwritten before this receiver came; it goes on with the oldest that is
    /// there.
    Lagged(u64),
}

/// Why [`Receiver::try_recv`](super::Receiver::try_recv) has no value.
///
/// ```
/// use volt::sync::broadcast::{TryRecvError, channel};
///
/// let (_sender, mut receiver) = channel::<u8>(1);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// All that was sent has been received.
    Empty,
    /// And all senders are gone.
    Closed,
    /// As in [`RecvError`].
    Lagged(u64),
}

/// Why [`Receiver::recv_timeout`](super::Receiver::recv_timeout) has no value.
///
/// ```
/// use volt::sync::broadcast::{RecvTimeoutError, channel};
/// use volt::time::Duration;
///
/// let (_sender, mut receiver) = channel::<u8>(1);
/// let result = receiver.recv_timeout(Duration::from_millis(1));
/// assert_eq!(result, Err(RecvTimeoutError::Timeout));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// None came in time.
    Timeout,
    /// As in [`RecvError`].
    Closed,
    /// As in [`RecvError`].
    Lagged(u64),
}

const CLOSED: &str = "receiving on a closed broadcast channel";

fn lagged(f: &mut fmt::Formatter<'_>, missed: u64) -> fmt::Result {
    write!(f, "receiving too slowly on a broadcast channel: missed {missed} values")
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RecvError::Closed => f.write_str(CLOSED),
            RecvError::Lagged(missed) => lagged(f, missed),
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TryRecvError::Empty => f.write_str("receiving on an empty broadcast channel"),
            TryRecvError::Closed => f.write_str(CLOSED),
            TryRecvError::Lagged(missed) => lagged(f, missed),
        }
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RecvTimeoutError::Timeout => f.write_str("timed out waiting on a broadcast channel"),
            RecvTimeoutError::Closed => f.write_str(CLOSED),
            RecvTimeoutError::Lagged(missed) => lagged(f, missed),
        }
    }
}

impl std::error::Error for RecvError {}
impl std::error::Error for TryRecvError {}
impl std::error::Error for RecvTimeoutError {}
