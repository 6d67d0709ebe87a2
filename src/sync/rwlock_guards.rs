//! The guards of [`RwLock`].

use super::poison::{Before, Flag};
use super::raw_rwlock::RawRwLock;
use super::rwlock::RwLock;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;

/// Shared access to an [`RwLock`]'s value; mirrors [`std::sync::RwLockReadGuard`].
///
/// ```
/// let lock = volt::sync::RwLock::new(String::from("shared"));
/// let guard = lock.read().unwrap();
/// assert_eq!(guard.len(), 6);
/// ```
#[must_use = "the lock is freed at once if its guard is not kept"]
pub struct RwLockReadGuard<'a, T: ?Sized + 'a> {
    /// The value, and not its lock: so the guard is covariant, and not `Send`, like the standard library's.
    data: NonNull<T>,
    raw: &'a RawRwLock,
}

// SAFETY: a shared guard gives shared access to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}

// As the type that it mirrors: of the lock it only gives back its share.
impl<T: ?Sized + RefUnwindSafe> UnwindSafe for RwLockReadGuard<'_, T> {}
impl<T: ?Sized + RefUnwindSafe> RefUnwindSafe for RwLockReadGuard<'_, T> {}

/// Exclusive access to an [`RwLock`]'s value; mirrors [`std::sync::RwLockWriteGuard`].
///
/// ```
/// let lock = volt::sync::RwLock::new(String::new());
/// lock.write().unwrap().push('x');
/// assert_eq!(*lock.read().unwrap(), "x");
/// ```
#[must_use = "the lock is freed at once if its guard is not kept"]
pub struct RwLockWriteGuard<'a, T: ?Sized + 'a> {
    lock: &'a RwLock<T>,
    before: Before,
    /// Not `Send`, like the standard library's.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// # Safety
    ///
    /// The caller owns a share of the lock and has no guard of it.
    #[inline]
    pub(super) unsafe fn new(lock: &'a RwLock<T>) -> RwLockReadGuard<'a, T> {
        // SAFETY: a place of the lock's is not null.
        let data = lock.data.with(|data| unsafe { NonNull::new_unchecked(data.cast_mut()) });
        RwLockReadGuard { data, raw: &lock.raw }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// # Safety
    ///
    /// The caller owns the lock and has no guard of it.
    #[inline]
    pub(super) unsafe fn new(lock: &'a RwLock<T>) -> RwLockWriteGuard<'a, T> {
        RwLockWriteGuard { lock, before: Flag::enter(), not_send: PhantomData }
    }

    /// Turns the write lock into a read lock; no other writer comes between. Readers that wait ahead
    /// of the next writer go on.
    ///
    /// ```
    /// use volt::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let mut guard = lock.write().unwrap();
    /// *guard = 2;
    /// let guard = RwLockWriteGuard::downgrade(guard);
    /// assert_eq!((*guard, *lock.read().unwrap()), (2, 2));
    /// ```
    pub fn downgrade(s: RwLockWriteGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        let s = ManuallyDrop::new(s);
        let lock = s.lock;
        lock.raw.downgrade();
        // SAFETY: the share that the write lock became; its guard is never dropped.
        unsafe { RwLockReadGuard::new(lock) }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard owns a share of the lock, so nobody writes, and borrows it, so it stays.
        unsafe { self.data.as_ref() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard owns the lock.
        self.lock.data.with(|data| unsafe { &*data })
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard owns the lock, and is borrowed exclusively.
        self.lock.data.with_mut(|data| unsafe { &mut *data })
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.raw.read_unlock();
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.poison.leave(self.before);
        self.lock.raw.write_unlock();
    }
}

macro_rules! format_as_value {
    ($($guard:ident)*) => {$(
        impl<T: ?Sized + fmt::Debug> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    )*};
}

format_as_value! { RwLockReadGuard RwLockWriteGuard }
