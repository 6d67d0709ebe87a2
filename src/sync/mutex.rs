//! [`Mutex`] and its guard.

use super::poison::{self, Before, Flag};
use super::raw_mutex::RawMutex;
use crate::cancel;
use crate::primitives::const_unless_loom;
use crate::primitives::sync::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

/// A lock around a value; mirrors [`std::sync::Mutex`].
///
/// A fiber that waits for it leaves its worker to others, if the lock is not freed within three microseconds by one
/// that runs elsewhere; a plain thread sleeps. The guard belongs to the fiber, not to the thread: a fiber may hold it
/// over a wait and go on upon another thread.
///
/// It is fair in the end (*eventual fairness*). Whoever runs may take a free lock past the waiter that was woken for
/// it, for four microseconds, and 8 times at least: a lock that was always handed over would cost a switch each time.
/// Then that waiter has its turn, or, where something keeps it from running, those behind it have theirs, after 64
/// times at least. One that comes and finds the lock taken is the next to be handed it, a plain thread after half a
/// millisecond. So a fiber waits, for every waiter before it, for four microseconds or 8 critical sections, whichever
/// is longer, and up to as many more, but no more than 64, where the first ones were short and those are not; and for
/// as long as its worker is kept from running it, by others that take the lock as well for as long each; a plain thread
/// for as long as the system takes to wake it, too.
///
/// # Poisoning
///
/// A panic while the lock is held poisons it, as with `std`. A cancel that unwinds does not.
///
/// ```
/// use volt::sync::{Arc, Mutex};
///
/// let sum = Arc::new(Mutex::new(0));
/// let fibers: Vec<_> = (0..10)
///     .map(|n| {
///         let sum = Arc::clone(&sum);
///         volt::go(move || {
///             let mut sum = sum.lock().unwrap();
///             volt::yield_now(); // held over a wait: nobody else gets in
///             *sum += n;
///         })
///     })
///     .collect();
/// for fiber in fibers {
///     fiber.join().unwrap();
/// }
/// assert_eq!(*sum.lock().unwrap(), 45);
/// ```
pub struct Mutex<T: ?Sized> {
    pub(super) raw: RawMutex,
    pub(super) poison: Flag,
    data: UnsafeCell<T>,
}

// SAFETY: the data is reached by the one who holds the lock, so it moves between threads like any
// value that is sent.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// A panic inside leaves the poison mark.
impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

/// The right to a [`Mutex`]'s value; dropping it frees the lock. Mirrors [`std::sync::MutexGuard`].
///
/// ```
/// let mutex = volt::sync::Mutex::new(vec![1]);
/// let mut guard = mutex.lock().unwrap();
/// guard.push(2);
/// drop(guard);
/// assert_eq!(mutex.into_inner().unwrap(), [1, 2]);
/// ```
#[must_use = "the lock is freed at once if its guard is not kept"]
pub struct MutexGuard<'a, T: ?Sized + 'a> {
    mutex: &'a Mutex<T>,
    before: Before,
    /// Not `Send`, like the standard library's.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    const_unless_loom! {
        /// A free lock around `value`.
        ///
        /// ```
        /// static COUNT: volt::sync::Mutex<u32> = volt::sync::Mutex::new(0);
        /// *COUNT.lock().unwrap() += 1;
        /// ```
        pub fn new(value: T) -> Mutex<T> {
            Mutex { raw: RawMutex::new(), poison: Flag::new(), data: UnsafeCell::new(value) }
        }
    }

    /// The value, of a lock that nobody can hold any more.
    ///
    /// # Errors
    ///
    /// The value inside the error if the lock is poisoned.
    ///
    /// ```
    /// assert_eq!(volt::sync::Mutex::new("kept").into_inner().unwrap(), "kept");
    /// ```
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.poison.get();
        let value = self.data.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock and takes it.
    ///
    /// To lock it twice on one fiber waits for ever.
    ///
    /// # Errors
    ///
    /// The guard inside the error if the lock is poisoned.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait.
    ///
    /// ```
    /// let mutex = volt::sync::Mutex::new(1);
    /// *mutex.lock().unwrap() += 1;
    /// assert_eq!(*mutex.lock().unwrap(), 2);
    /// ```
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        if self.raw.lock().is_err() {
            cancel::unwind();
        }
        // SAFETY: locked just now.
        unsafe { self.guard() }
    }

    /// Takes the lock if it is free, past whoever waits for it.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if it is taken, `Poisoned` with the guard if it is poisoned.
    ///
    /// ```
    /// let mutex = volt::sync::Mutex::new(1);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(mutex.try_lock().is_err());
    /// # drop(guard);
    /// ```
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if !self.raw.try_lock() {
            return Err(TryLockError::WouldBlock);
        }
        // SAFETY: locked just now.
        Ok(unsafe { self.guard() }?)
    }

    /// # Safety
    ///
    /// The caller owns the lock and has no guard of it.
    #[inline]
    pub(super) unsafe fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = MutexGuard { mutex: self, before: Flag::enter(), not_send: PhantomData };
        self.poison.wrap(guard)
    }

    /// Has a panic poisoned the lock?
    ///
    /// ```
    /// assert!(!volt::sync::Mutex::new(1).is_poisoned());
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Takes the poison mark away.
    ///
    /// ```
    /// use volt::sync::{Arc, Mutex};
    ///
    /// let mutex = Arc::new(Mutex::new(0));
    /// let theirs = Arc::clone(&mutex);
    /// let _ = volt::go(move || {
    ///     let _guard = theirs.lock();
    ///     std::panic::resume_unwind(Box::new("halfway"));
    /// })
    /// .join();
    /// assert!(mutex.is_poisoned());
    /// mutex.clear_poison();
    /// assert!(mutex.lock().is_ok());
    /// ```
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The value, by an exclusive borrow: no lock is needed.
    ///
    /// # Errors
    ///
    /// The borrow inside the error if the lock is poisoned.
    ///
    /// ```
    /// let mut mutex = volt::sync::Mutex::new(1);
    /// *mutex.get_mut().unwrap() = 2;
    /// assert_eq!(mutex.into_inner().unwrap(), 2);
    /// ```
    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.wrap(self.data.get_mut())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        poison::fmt_lock(f, "Mutex", self.try_lock(), self.is_poisoned())
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard owns the lock.
        self.mutex.data.with(|data| unsafe { &*data })
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        self.mutex.data.with_mut(|data| unsafe { &mut *data })
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.poison.leave(self.before);
        self.mutex.raw.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
