//! [`LazyLock`].

use super::Once;
use crate::primitives::sync::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A value that is computed at its first use; mirrors [`std::sync::LazyLock`].
///
/// Others who use it meanwhile wait, and unwind if they are cancelled; the computation is shielded. A plain
/// thread that waits blocks. If it panics, every later use panics.
///
/// ```
/// static WORDS: volt::sync::LazyLock<Vec<&str>> =
///     volt::sync::LazyLock::new(|| "first use computes it".split(' ').collect());
///
/// assert_eq!(WORDS.len(), 4);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    once: Once,
    data: UnsafeCell<Data<T, F>>,
}

/// The function until `once` is completed, then the value; neither after a panic.
union Data<T, F> {
    function: ManuallyDrop<F>,
    value: ManuallyDrop<T>,
}

// SAFETY: function and value are moved and dropped by whoever comes.
unsafe impl<T: Send, F: Send> Send for LazyLock<T, F> {}
// SAFETY: the value is shared, and made by whoever comes first, who calls `F`.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}

#[cold]
#[track_caller]
fn poisoned() -> ! {
    panic!("LazyLock instance has previously been poisoned: its function has panicked");
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `f` computes when it is first used.
    ///
    /// ```
    /// let lazy = volt::sync::LazyLock::new(|| 6 * 7);
    /// assert_eq!(*lazy, 42);
    /// ```
    pub const fn new(f: F) -> LazyLock<T, F> {
        let data = Data { function: ManuallyDrop::new(f) };
        LazyLock { once: Once::new(), data: UnsafeCell::new(data) }
    }

    /// The value, computed if it has not been; the same as a dereference.
    ///
    /// # Panics
    ///
    /// If the function panics, or has.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait for another's computation.
    ///
    /// ```
    /// use volt::sync::LazyLock;
    ///
    /// assert_eq!(LazyLock::force(&LazyLock::new(|| 1)), &1);
    /// ```
    #[inline]
    #[track_caller]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.once.call_once_force(|state| {
            if state.is_poisoned() {
                poisoned();
            }
            // SAFETY: called once, while nobody reads; the function is moved out here, and not
            // touched again whether it returns or panics.
            unsafe {
                let function = this.data.with_mut(|data| ManuallyDrop::take(&mut (*data).function));
                let value = function();
                this.data.with_mut(|data| data.write(Data { value: ManuallyDrop::new(value) }));
            }
        });
        // SAFETY: completed.
        unsafe { this.value() }
    }

    /// The value by an exclusive borrow, computed if it has not been.
    ///
    /// # Panics
    ///
    /// If the function panics, or has.
    ///
    /// ```
    /// use volt::sync::LazyLock;
    ///
    /// let mut lazy = LazyLock::new(|| 1);
    /// *LazyLock::force_mut(&mut lazy) += 1;
    /// assert_eq!(*lazy, 2);
    /// ```
    #[inline]
    #[track_caller]
    pub fn force_mut(this: &mut LazyLock<T, F>) -> &mut T {
        if this.once.is_poisoned() {
            poisoned();
        }
        LazyLock::force(this);
        // SAFETY: completed.
        unsafe { this.value_mut() }
    }
}

impl<T, F> LazyLock<T, F> {
    /// The value, if it has been computed. Never waits.
    ///
    /// ```
    /// use volt::sync::LazyLock;
    ///
    /// let lazy = LazyLock::new(|| 1);
    /// assert_eq!(LazyLock::get(&lazy), None);
    /// let _ = *lazy;
    /// assert_eq!(LazyLock::get(&lazy), Some(&1));
    /// ```
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        // SAFETY: completed.
        this.once.is_completed().then(|| unsafe { this.value() })
    }

    /// The value by an exclusive borrow, if it has been computed.
    ///
    /// ```
    /// use volt::sync::LazyLock;
    ///
    /// let mut lazy = LazyLock::new(|| 1);
    /// assert_eq!(LazyLock::get_mut(&mut lazy), None);
    /// ```
    pub fn get_mut(this: &mut LazyLock<T, F>) -> Option<&mut T> {
        // SAFETY: completed.
        this.once.is_completed().then(|| unsafe { this.value_mut() })
    }

    /// # Safety
    ///
    /// `once` is completed.
    #[inline]
    unsafe fn value(&self) -> &T {
        // SAFETY: by the caller; nobody writes again while it is borrowed.
        self.data.with(|data| unsafe { &(*data).value })
    }

    /// # Safety
    ///
    /// `once` is completed.
    unsafe fn value_mut(&mut self) -> &mut T {
        // SAFETY: by the caller, and borrowed exclusively.
        unsafe { &mut self.data.get_mut().value }
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        LazyLock::force_mut(self)
    }
}

impl<T, F> Drop for LazyLock<T, F> {
    fn drop(&mut self) {
        let (done, poisoned) = (self.once.is_completed(), self.once.is_poisoned());
        let data = self.data.get_mut();
        // SAFETY: exactly what the state says is there; nothing is used after it.
        unsafe {
            if done {
                ManuallyDrop::drop(&mut data.value);
            } else if !poisoned {
                ManuallyDrop::drop(&mut data.function);
            }
        }
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> LazyLock<T> {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_tuple("LazyLock");
        match LazyLock::get(self) {
            Some(value) => out.field(value),
            None => out.field(&format_args!("<uninit>")),
        };
        out.finish()
    }
}
