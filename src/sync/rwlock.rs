//! [`RwLock`].

use super::poison::{self, Flag};
use super::raw_rwlock::RawRwLock;
use super::rwlock_guards::{RwLockReadGuard, RwLockWriteGuard};
use crate::cancel;
use crate::primitives::const_unless_loom;
use crate::primitives::sync::UnsafeCell;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

/// A lock for many readers or one writer; mirrors [`std::sync::RwLock`].
///
/// Nearly first come, first served: while a writer waits, new readers do not join those that read, and
/// all readers up to the next writer are woken together. A lock that has become free may be taken past those
/// that were woken for it, as at a [`Mutex`](super::Mutex): for four microseconds, and 8 times at least, until the next
/// of them comes. Then they have their turn, or, where something keeps them from running, those behind them, after 64
/// times at least. Tries make way for nobody: a loop of nothing else may keep out those who wait.
///
/// To read twice on one fiber may wait for ever, if a writer waits, be it one that came before the first.
/// On a plain thread its waits block the thread.
///
/// A panic while the write lock is held poisons it, as with `std`. A cancel that unwinds does not, and
/// neither does a panic under a read lock.
///
/// ```
/// use volt::sync::RwLock;
///
/// let lock = RwLock::new(5);
/// {
///     let (one, two) = (lock.read().unwrap(), lock.read().unwrap());
///     assert_eq!(*one + *two, 10);
/// }
/// *lock.write().unwrap() += 1;
/// assert_eq!(*lock.read().unwrap(), 6);
/// ```
pub struct RwLock<T: ?Sized> {
    pub(super) raw: RawRwLock,
    pub(super) poison: Flag,
    pub(super) data: UnsafeCell<T>,
}

// SAFETY: the data moves between threads with the write lock.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: as above, and readers share it.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}
// A panic inside leaves the poison mark.
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

impl<T> RwLock<T> {
    const_unless_loom! {
        /// A free lock around `value`.
        ///
        /// ```
        /// static LIMIT: volt::sync::RwLock<u32> = volt::sync::RwLock::new(10);
        /// assert_eq!(*LIMIT.read().unwrap(), 10);
        /// ```
        pub fn new(value: T) -> RwLock<T> {
            RwLock { raw: RawRwLock::new(), poison: Flag::new(), data: UnsafeCell::new(value) }
        }
    }

    /// The value, of a lock that nobody can hold any more.
    ///
    /// # Errors
    ///
    /// The value inside the error if the lock is poisoned.
    ///
    /// ```
    /// assert_eq!(volt::sync::RwLock::new(1).into_inner().unwrap(), 1);
    /// ```
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.poison.get();
        let value = self.data.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer has the lock and none came before, and takes it for reading.
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
    /// let lock = volt::sync::RwLock::new(1);
    /// assert_eq!(*lock.read().unwrap(), 1);
    /// ```
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        if self.raw.read().is_err() {
            cancel::unwind();
        }
        // SAFETY: locked just now.
        self.poison.wrap(unsafe { RwLockReadGuard::new(self) })
    }

    /// Takes the lock for reading if no writer has it and nobody stands before the caller, or if it is free and
    /// those who wait for it have been woken and not come yet.
    ///
    /// # Errors
    ///
    /// `WouldBlock` otherwise, also while the lock is just being handed on, or a reader has just come that must wait;
    /// `Poisoned` with the guard if the lock is poisoned.
    ///
    /// ```
    /// let lock = volt::sync::RwLock::new(1);
    /// let guard = lock.write().unwrap();
    /// assert!(lock.try_read().is_err());
    /// # drop(guard);
    /// ```
    #[inline]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if !self.raw.try_read() {
            return Err(TryLockError::WouldBlock);
        }
        // SAFETY: locked just now.
        Ok(self.poison.wrap(unsafe { RwLockReadGuard::new(self) })?)
    }

    /// Waits until nobody has the lock and nobody came before, and takes it for writing.
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
    /// let lock = volt::sync::RwLock::new(1);
    /// *lock.write().unwrap() = 2;
    /// assert_eq!(*lock.read().unwrap(), 2);
    /// ```
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        if self.raw.write().is_err() {
            cancel::unwind();
        }
        // SAFETY: locked just now.
        self.poison.wrap(unsafe { RwLockWriteGuard::new(self) })
    }

    /// Takes the lock for writing if nobody has it.
    ///
    /// # Errors
    ///
    /// `WouldBlock` otherwise, also while the lock is just being handed on, or a reader has just come that must wait;
    /// `Poisoned` with the guard if the lock is poisoned.
    ///
    /// ```
    /// let lock = volt::sync::RwLock::new(1);
    /// let guard = lock.read().unwrap();
    /// assert!(lock.try_write().is_err());
    /// # drop(guard);
    /// ```
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if !self.raw.try_write() {
            return Err(TryLockError::WouldBlock);
        }
        // SAFETY: locked just now.
        Ok(self.poison.wrap(unsafe { RwLockWriteGuard::new(self) })?)
    }

    /// Has a panic poisoned the lock?
    ///
    /// ```
    /// assert!(!volt::sync::RwLock::new(1).is_poisoned());
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Takes the poison mark away.
    ///
    /// ```
    /// let lock = volt::sync::RwLock::new(1);
    /// lock.clear_poison();
    /// assert!(!lock.is_poisoned());
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
    /// let mut lock = volt::sync::RwLock::new(1);
    /// *lock.get_mut().unwrap() = 2;
    /// assert_eq!(lock.into_inner().unwrap(), 2);
    /// ```
    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.wrap(self.data.get_mut())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        poison::fmt_lock(f, "RwLock", self.try_read(), self.is_poisoned())
    }
}
