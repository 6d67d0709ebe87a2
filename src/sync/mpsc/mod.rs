//! Channels with many senders and one receiver; mirrors [`std::sync::mpsc`], whose error types these
//! are.
//!
//! # Cancellation
//!
//! A wait unwinds. A value is then either received or still in the channel, or still its sender's, and
//! dropped with it.
//!
//! # On a panic
//!
//! A sender that a panic drops is one less; the receiver hears of it when none is left. If the
//! receiver is dropped so, sends fail. A value whose destructor panics as the receiver goes does not
//! keep it from going: the values behind it are leaked.
//!
//! ```
//! use volt::sync::mpsc;
//!
//! let (sender, receiver) = mpsc::channel();
//! for n in 0..3 {
//!     let sender = sender.clone();
//!     volt::go(move || sender.send(n).unwrap());
//! }
//! drop(sender);
//! let mut all: Vec<i32> = receiver.iter().collect();
//! all.sort();
//! assert_eq!(all, [0, 1, 2]);
//! ```

mod apart;
mod blocks;
mod bounded;
mod iter;
mod outcome;
mod parcel;
mod receiver;
mod ring;
mod sender;
mod unbounded;
mod waiting;

use crate::primitives::sync::Arc;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};
use bounded::Bounded;
use outcome::{Gone, NotReceived, NotSent};
use unbounded::Unbounded;

pub use iter::{IntoIter, Iter, TryIter};
pub use receiver::Receiver;
pub use sender::{Sender, SyncSender};
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// A channel that holds any number of values: sending never waits.
///
/// ```
/// let (sender, receiver) = volt::sync::mpsc::channel();
/// sender.send(1).unwrap();
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared { senders: AtomicUsize::new(1), flavor: Unbounded::new() });
    (Sender::new(Arc::clone(&shared)), Receiver::unbounded(shared))
}

/// A channel that holds up to `bound` values: sending waits for room. With a bound of 0 it waits until
/// the value is received.
///
/// ```
/// let (sender, receiver) = volt::sync::mpsc::sync_channel(0);
/// volt::go(move || sender.send(1));
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let shared = Arc::new(Shared { senders: AtomicUsize::new(1), flavor: Bounded::new(bound) });
    (SyncSender::new(Arc::clone(&shared)), Receiver::bounded(shared))
}

/// What both sides hold.
#[derive(Debug)]
struct Shared<F> {
    senders: AtomicUsize,
    flavor: F,
}

impl<F> Shared<F> {
    fn add_sender(self: &Arc<Self>) -> Arc<Self> {
        self.senders.fetch_add(1, Ordering::Relaxed);
        Arc::clone(self)
    }

    /// True for the last one; what the others did comes before.
    fn remove_sender(&self) -> bool {
        self.senders.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
