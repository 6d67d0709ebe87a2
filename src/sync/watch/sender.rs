//! The sending half of a watch channel.

use super::{CLOSED, List, Receiver, Ref, SendError, Shared};
use crate::cancel;
use crate::park::Wait;
use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::primitives::sync::atomic::Ordering::*;
use crate::primitives::sync::{Arc, Lock};
use std::fmt;
use std::mem;

/// Changes the value. On a plain thread its waits block the thread.
///
/// ```
/// let (sender, receiver) = volt::sync::watch::channel(1);
/// sender.send_modify(|value| *value += 1);
/// assert_eq!(*receiver.borrow(), 2);
/// ```
pub struct Sender<T>(Arc<Shared<T>>);

// As the type that it mirrors: the lock inside is never left with a change half made.
impl<T> std::panic::UnwindSafe for Sender<T> {}
impl<T> std::panic::RefUnwindSafe for Sender<T> {}

impl<T> Sender<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Sender<T> {
        Sender(shared)
    }

    /// Puts `value` in the place of the one that is there. Waits only while somebody borrows that.
    ///
    /// # Errors
    ///
    /// The value, if there is no receiver.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait for a borrow to end; nothing is sent then. So do the other
    /// operations.
    ///
    /// # On a panic
    ///
    /// If the destructor of the former value panics, `value` is in its place and was sent.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// drop(receiver);
    /// assert!(sender.send(3).is_err());
    /// ```
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.0.receivers() == 0 {
            return Err(SendError(value));
        }
        drop(self.send_replace(value));
        Ok(())
    }

    /// As `send`, also without receivers; returns the former value.
    ///
    /// ```
    /// let (sender, _) = volt::sync::watch::channel(1);
    /// assert_eq!(sender.send_replace(2), 1);
    /// ```
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|place| mem::swap(place, &mut value));
        value
    }

    /// Changes the value in place.
    ///
    /// # On a panic
    ///
    /// If `modify` panics, the value stays as it has left it, and whoever looks sees that; but receivers
    /// are not told, and take it for the former one until something is sent. Nothing is poisoned.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::watch::channel(vec![1]);
    /// sender.send_modify(|list| list.push(2));
    /// assert_eq!(*receiver.borrow(), [1, 2]);
    /// ```
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.0.modify(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value in place; receivers are told only if `modify` returns true. Returns that.
    ///
    /// # On a panic
    ///
    /// As [`send_modify`](Sender::send_modify).
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::watch::channel(1);
    /// assert!(!sender.send_if_modified(|_| false));
    /// assert!(!receiver.has_changed().unwrap());
    /// ```
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        self.0.modify(modify)
    }

    /// The value. Waits only while another sender changes it, or waits to.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait.
    ///
    /// ```
    /// let (sender, _) = volt::sync::watch::channel(1);
    /// assert_eq!(*sender.borrow(), 1);
    /// ```
    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.borrow(None)
    }

    /// A receiver that has seen the present value.
    ///
    /// ```
    /// let (sender, _) = volt::sync::watch::channel(1);
    /// let receiver = sender.subscribe();
    /// assert!(!receiver.has_changed().unwrap());
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        self.0.list.lock().receivers += 1;
        Receiver::new(Arc::clone(&self.0))
    }

    /// How many receivers there are.
    ///
    /// ```
    /// let (sender, _receiver) = volt::sync::watch::channel(1);
    /// assert_eq!(sender.receiver_count(), 1);
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.0.receivers()
    }

    /// Is there no receiver?
    ///
    /// ```
    /// let (sender, _) = volt::sync::watch::channel(1);
    /// assert!(sender.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.0.receivers() == 0
    }

    /// Waits until there is no receiver.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::watch::channel(1);
    /// volt::go(move || drop(receiver));
    /// sender.closed();
    /// ```
    pub fn closed(&self) {
        let object = Arc::as_ptr(&self.0) as usize;
        let how = Wait { object, ..Wait::cancellable("watch receivers") };
        // Who is told may come late, when somebody has subscribed again.
        while !self.is_closed() {
            if wait(Closed { shared: &*self.0 }, Place::Back, (), how) == Waited::Cancelled {
                cancel::unwind();
            }
        }
    }
}

/// A sender's wait for the last receiver to go.
struct Closed<'a, T> {
    shared: &'a Shared<T>,
}

impl<'a, T> Source<'a> for Closed<'a, T> {
    type Inner = List;
    type Data = ();
    type Ready = ();

    fn lock(&self) -> &'a Lock<List> {
        &self.shared.list
    }

    fn queue<'q>(&self, inner: &'q mut List) -> &'q mut Queue<()> {
        &mut inner.closed
    }

    fn enter(&mut self, inner: &mut List) -> Option<()> {
        (inner.receivers == 0).then_some(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.list.lock().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut wakes = Wakes::new();
        {
            let mut list = self.0.list.lock();
            list.senders -= 1;
            if list.senders == 0 {
                self.0.version.fetch_or(CLOSED, AcqRel);
                list.changed.wake_all(0, &mut wakes);
            }
        }
        wakes.wake();
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("value", &self.0.value).finish_non_exhaustive()
    }
}
