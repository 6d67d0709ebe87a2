//! The receiving half of a broadcast channel.

use super::entry::Pinned;
use super::{Inner, RecvError, RecvTimeoutError, Shared, TryRecvError};
use crate::cancel;
use crate::park::queue::{Place, Queue, Source, Waited, wait};
use crate::park::{Wait, charge_current, deadline_after};
use crate::primitives::clock::Moment;
use crate::primitives::sync::{Arc, Lock};
use crate::util::drop_all::drop_all;
use std::fmt;
use std::time::Duration;

/// Receives all that is sent while it exists. On a plain thread its waits block the thread.
///
/// # Cancellation
///
/// A wait unwinds, and takes nothing.
///
/// # On a panic
///
/// A value whose `clone` panics counts as received: the next call goes on with the next one. The other
/// receivers get it.
///
/// ```
/// let (sender, mut receiver) = volt::sync::broadcast::channel(4);
/// (1..=3).for_each(|n| drop(sender.send(n)));
/// drop(sender);
/// assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2, 3]);
/// ```
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The number of the value that it gets next.
    position: u64,
}

// As the type that it mirrors: the lock inside is never left with a change half made.
impl<T> std::panic::UnwindSafe for Receiver<T> {}
impl<T> std::panic::RefUnwindSafe for Receiver<T> {}
/// See [`Receiver::iter`].
///
/// ```
/// let (sender, mut receiver) = volt::sync::broadcast::channel(1);
/// sender.send('a').unwrap();
/// drop(sender);
/// let mut values: volt::sync::broadcast::Iter<'_, char> = receiver.iter();
/// assert_eq!((values.next(), values.next()), (Some('a'), None));
/// ```
#[derive(Debug)]
pub struct Iter<'a, T>(&'a mut Receiver<T>);

/// What a receiver finds.
type Found<'a, T> = Result<Pinned<'a, T>, TryRecvError>;

impl<T> Receiver<T> {
    /// One that is counted already.
    pub(super) fn new(shared: Arc<Shared<T>>, position: u64) -> Receiver<T> {
        Receiver { shared, position }
    }

    /// How many values it has not got, the overwritten ones included.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::broadcast::channel(2);
    /// (0..3).for_each(|n| drop(sender.send(n)));
    /// assert_eq!(receiver.len(), 3);
    /// ```
    pub fn len(&self) -> usize {
        (self.shared.ring.tail() - self.position) as usize
    }

    /// Has it got all?
    ///
    /// ```
    /// assert!(volt::sync::broadcast::channel::<u8>(1).1.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A receiver of all that is sent from now on.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::broadcast::channel(2);
    /// sender.send(1).unwrap();
    /// assert!(receiver.resubscribe().is_empty());
    /// ```
    #[must_use]
    pub fn resubscribe(&self) -> Receiver<T> {
        let position = self.shared.join();
        Receiver::new(Arc::clone(&self.shared), position)
    }

    /// Do both get the same values?
    ///
    /// ```
    /// let (_sender, receiver) = volt::sync::broadcast::channel::<u8>(2);
    /// assert!(receiver.same_channel(&receiver.resubscribe()));
    /// ```
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

/// Looks for the value at `position`, under the lock. Moves on to what is there if it was overwritten.
fn look<'a, T>(shared: &'a Shared<T>, inner: &Inner<T>, position: &mut u64) -> Found<'a, T> {
    let oldest = shared.ring.oldest();
    if *position < oldest {
        let missed = oldest - *position;
        *position = oldest;
        return Err(TryRecvError::Lagged(missed));
    }
    if *position == shared.ring.tail() {
        return Err(if inner.senders == 0 { TryRecvError::Closed } else { TryRecvError::Empty });
    }
    Ok(shared.ring.pin(*position).expect("no sender is here to overwrite it"))
}

impl<T: Clone> Receiver<T> {
    /// Waits for the next value.
    ///
    /// # Errors
    ///
    /// `Lagged` if values were overwritten before they were received: the next call goes on with the
    /// oldest that is there. `Closed` when all has been received and all senders are gone.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait, and takes nothing.
    ///
    /// ```
    /// let (sender, mut receiver) = volt::sync::broadcast::channel(1);
    /// volt::go(move || sender.send(1));
    /// assert_eq!(receiver.recv(), Ok(1));
    /// ```
    pub fn recv(&mut self) -> Result<T, RecvError> {
        self.wait(None).map_err(|error| match error {
            TryRecvError::Lagged(missed) => RecvError::Lagged(missed),
            TryRecvError::Closed | TryRecvError::Empty => RecvError::Closed,
        })
    }

    /// Waits for the next value for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`recv`](Receiver::recv), or `Timeout`.
    ///
    /// # Cancellation
    ///
    /// As [`recv`](Receiver::recv).
    ///
    /// ```
    /// use volt::time::Duration;
    ///
    /// let (_sender, mut receiver) = volt::sync::broadcast::channel::<u8>(1);
    /// assert!(receiver.recv_timeout(Duration::ZERO).is_err());
    /// ```
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.wait(Some(deadline_after(timeout))).map_err(|error| match error {
            TryRecvError::Lagged(missed) => RecvTimeoutError::Lagged(missed),
            TryRecvError::Closed => RecvTimeoutError::Closed,
            TryRecvError::Empty => RecvTimeoutError::Timeout,
        })
    }

    /// The next value, if it is there.
    ///
    /// # Errors
    ///
    /// As [`recv`](Receiver::recv), or `Empty`.
    ///
    /// ```
    /// let (sender, mut receiver) = volt::sync::broadcast::channel(1);
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        if let Some(value) = self.take() {
            return Ok(value);
        }
        let found = look(&self.shared, &self.shared.lock.lock(), &mut self.position);
        found.map(|value| value.into_value(&mut self.position))
    }

    /// All values, until all senders are gone; passes over what was missed.
    ///
    /// # Cancellation
    ///
    /// Each step is a [`recv`](Receiver::recv): it unwinds if it would have to wait, and takes nothing.
    ///
    /// ```
    /// let (sender, mut receiver) = volt::sync::broadcast::channel(2);
    /// (0..5).for_each(|n| drop(sender.send(n)));
    /// drop(sender);
    /// assert_eq!(receiver.iter().collect::<Vec<_>>(), [3, 4]);
    /// ```
    pub fn iter(&mut self) -> Iter<'_, T> {
        Iter(self)
    }

    #[inline]
    fn wait(&mut self, deadline: Option<Moment>) -> Result<T, TryRecvError> {
        charge_current();
        if let Some(value) = self.take() {
            return Ok(value);
        }
        self.wait_slowly(deadline)
    }

    /// The next value if it is there, without the lock.
    #[inline]
    fn take(&mut self) -> Option<T> {
        let value = self.shared.ring.pin(self.position)?;
        Some(value.into_value(&mut self.position))
    }

    #[inline(never)]
    fn wait_slowly(&mut self, deadline: Option<Moment>) -> Result<T, TryRecvError> {
        let object = Arc::as_ptr(&self.shared) as usize;
        let how = Wait { object, deadline, ..Wait::cancellable("broadcast") };
        loop {
            let source = Enter { shared: &*self.shared, position: &mut self.position };
            match wait(source, Place::Back, (), how) {
                Waited::Ready(found) => {
                    return found.map(|value| value.into_value(&mut self.position));
                }
                Waited::Woken(_) => {}
                Waited::TimedOut => break,
                Waited::Cancelled => cancel::unwind(),
            }
        }
        self.try_recv()
    }
}

/// A wait for the value at `position`.
struct Enter<'a, 'p, T> {
    shared: &'a Shared<T>,
    position: &'p mut u64,
}

impl<'a, T> Source<'a> for Enter<'a, '_, T> {
    type Inner = Inner<T>;
    type Data = ();
    type Ready = Found<'a, T>;

    fn lock(&self) -> &'a Lock<Inner<T>> {
        &self.shared.lock
    }

    fn queue<'q>(&self, inner: &'q mut Inner<T>) -> &'q mut Queue<()> {
        &mut inner.queue
    }

    fn enter(&mut self, inner: &mut Inner<T>) -> Option<Found<'a, T>> {
        match look(self.shared, inner, self.position) {
            Err(TryRecvError::Empty) => None,
            found => Some(found),
        }
    }
}

impl<T: Clone> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            match self.0.recv() {
                Ok(value) => return Some(value),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let ring = &self.shared.ring;
        let (oldest, tail) = {
            // What is sent from now on, does not wait for this receiver.
            let mut inner = self.shared.lock.lock();
            inner.receivers -= 1;
            (ring.oldest(), ring.tail())
        };
        // What it is the last one to look at is dropped when it has left all, whatever the drops do.
        let left = (self.position.max(oldest)..tail).filter_map(|number| ring.skip(number));
        let mut left = left.collect::<Vec<_>>().into_iter();
        drop_all(|| left.next());
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
