//! The receiving half of a watch channel.

use super::{CLOSED, List, ONE, RecvError, Ref, Shared};
use crate::cancel;
use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Wait, charge_current};
use crate::primitives::sync::atomic::Ordering::*;
use crate::primitives::sync::{Arc, Lock};
use std::fmt;
use std::mem;

/// Watches the value. On a plain thread its waits block the thread.
///
/// ```
/// let (sender, mut receiver) = volt::sync::watch::channel(1);
/// let mut other = receiver.clone();
/// sender.send(2).unwrap();
/// assert_eq!((*receiver.borrow_and_update(), *other.borrow_and_update()), (2, 2));
/// ```
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that it knows.
    seen: usize,
}

// As the type that it mirrors: the lock inside is never left with a change half made.
impl<T> std::panic::UnwindSafe for Receiver<T> {}
impl<T> std::panic::RefUnwindSafe for Receiver<T> {}
impl<T> Receiver<T> {
    /// One that is counted already, and has seen the present value.
    pub(super) fn new(shared: Arc<Shared<T>>) -> Receiver<T> {
        let seen = shared.version.load(Acquire) & !CLOSED;
        Receiver { shared, seen }
    }

    /// The value, without taking note of it. Waits only while a sender changes it, or waits to.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait.
    ///
    /// ```
    /// let (_sender, receiver) = volt::sync::watch::channel(1);
    /// assert_eq!(*receiver.borrow(), 1);
    /// ```
    pub fn borrow(&self) -> Ref<'_, T> {
        self.shared.borrow(Some(self.seen))
    }

    /// The value, which is seen from now on. Waits as [`borrow`](Receiver::borrow).
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait; nothing is seen then.
    ///
    /// ```
    /// let (sender, mut receiver) = volt::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(*receiver.borrow_and_update(), 2);
    /// assert!(!receiver.has_changed().unwrap());
    /// ```
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let (value, version) = self.shared.read();
        let before = mem::replace(&mut self.seen, version & !CLOSED);
        Ref { value, changed: before != self.seen }
    }

    /// Is there a value that has not been seen?
    ///
    /// # Errors
    ///
    /// If all senders are gone.
    ///
    /// ```
    /// let (sender, receiver) = volt::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(receiver.has_changed(), Ok(true));
    /// ```
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        let version = self.shared.version.load(Acquire);
        if version & CLOSED != 0 { Err(RecvError) } else { Ok(version != self.seen) }
    }

    /// Takes the present value for not seen.
    ///
    /// ```
    /// let (_sender, mut receiver) = volt::sync::watch::channel(1);
    /// receiver.mark_changed();
    /// receiver.changed().unwrap();
    /// ```
    pub fn mark_changed(&mut self) {
        self.seen = self.seen.wrapping_sub(ONE);
    }

    /// Takes the present value for seen.
    ///
    /// ```
    /// let (sender, mut receiver) = volt::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// receiver.mark_unchanged();
    /// assert_eq!(receiver.has_changed(), Ok(false));
    /// ```
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.version.load(Acquire) & !CLOSED;
    }

    /// Waits for a value that has not been seen, and takes it for seen.
    ///
    /// # Errors
    ///
    /// If all senders are gone, and the last value has been seen.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait; nothing is seen then.
    ///
    /// ```
    /// let (sender, mut receiver) = volt::sync::watch::channel(1);
    /// volt::go(move || sender.send(2));
    /// assert!(receiver.changed().is_ok());
    /// assert!(receiver.changed().is_err());
    /// ```
    pub fn changed(&mut self) -> Result<(), RecvError> {
        wait_for_change(&self.shared, &mut self.seen)
    }

    /// Waits until `condition` holds of the value, which it may do already; takes it for seen.
    ///
    /// # Errors
    ///
    /// If all senders are gone, and the condition does not hold of the last value.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait. What the condition has refused is seen.
    ///
    /// # On a panic
    ///
    /// If `condition` panics, the value that it was given is seen.
    ///
    /// ```
    /// let (sender, mut receiver) = volt::sync::watch::channel(1);
    /// volt::go(move || (2..5).for_each(|n| sender.send(n).unwrap()));
    /// assert_eq!(*receiver.wait_for(|value| *value >= 4).unwrap(), 4);
    /// ```
    pub fn wait_for(
        &mut self,
        mut condition: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, RecvError> {
        let (shared, seen) = (&*self.shared, &mut self.seen);
        let before = *seen;
        charge_current();
        loop {
            let (value, version) = shared.read();
            *seen = version & !CLOSED;
            if condition(&value) {
                return Ok(Ref { value, changed: before != *seen });
            }
            drop(value);
            wait_for_change(shared, seen)?;
        }
    }

    /// Do both watch the same value?
    ///
    /// ```
    /// let (_sender, receiver) = volt::sync::watch::channel(1);
    /// assert!(receiver.same_channel(&receiver.clone()));
    /// ```
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

fn wait_for_change<T>(shared: &Shared<T>, seen: &mut usize) -> Result<(), RecvError> {
    charge_current();
    let how = Wait { object: &raw const *shared as usize, ..Wait::cancellable("watch") };
    loop {
        let version = shared.version.load(Acquire);
        if version & !CLOSED != *seen {
            *seen = version & !CLOSED;
            return Ok(());
        }
        if version & CLOSED != 0 {
            return Err(RecvError);
        }
        if wait(Changed { shared, seen: *seen }, Place::Back, (), how) == Waited::Cancelled {
            cancel::unwind();
        }
    }
}

/// A receiver's wait for a version that it has not seen.
struct Changed<'a, T> {
    shared: &'a Shared<T>,
    seen: usize,
}

impl<'a, T> Source<'a> for Changed<'a, T> {
    type Inner = List;
    type Data = ();
    type Ready = ();

    fn lock(&self) -> &'a Lock<List> {
        &self.shared.list
    }

    fn queue<'q>(&self, inner: &'q mut List) -> &'q mut Queue<()> {
        &mut inner.changed
    }

    fn enter(&mut self, _: &mut List) -> Option<()> {
        (self.shared.version.load(Acquire) != self.seen).then_some(())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.shared.list.lock().receivers += 1;
        Receiver { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut wakes = Wakes::new();
        {
            let mut list = self.shared.list.lock();
            list.receivers -= 1;
            if list.receivers == 0 {
                list.closed.wake_all(0, &mut wakes);
            }
        }
        wakes.wake();
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("value", &self.shared.value).finish_non_exhaustive()
    }
}
