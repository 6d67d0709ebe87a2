//! [`OnceLock`].

use super::Once;
use crate::primitives::sync::UnsafeCell;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A place that is written once; mirrors [`std::sync::OnceLock`]. A plain thread blocks while it waits.
///
/// ```
/// static CONFIG: volt::sync::OnceLock<String> = volt::sync::OnceLock::new();
///
/// let config = CONFIG.get_or_init(|| "read from somewhere".to_owned());
/// assert_eq!(CONFIG.get(), Some(config));
/// ```
pub struct OnceLock<T> {
    once: Once,
    /// There once `once` is completed. (No destructor is needed besides the compiler's, so what `T` borrows
    /// need not outlive this, as in the standard library.)
    value: UnsafeCell<Option<T>>,
}

// SAFETY: whoever writes the value may be another than the one who reads or drops it.
unsafe impl<T: Send> Send for OnceLock<T> {}
// SAFETY: as above, and readers share it.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// An empty place.
    ///
    /// ```
    /// static PLACE: volt::sync::OnceLock<u32> = volt::sync::OnceLock::new();
    /// assert_eq!(PLACE.get(), None);
    /// ```
    #[must_use]
    pub const fn new() -> OnceLock<T> {
        OnceLock { once: Once::new(), value: UnsafeCell::new(None) }
    }

    /// The value, if it has been written. Never waits.
    ///
    /// ```
    /// assert_eq!(volt::sync::OnceLock::from(1).get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: completed.
        self.once.is_completed().then(|| unsafe { self.written() })
    }

    /// The value by an exclusive borrow, if it has been written.
    ///
    /// ```
    /// let mut place = volt::sync::OnceLock::from(1);
    /// *place.get_mut().unwrap() += 1;
    /// assert_eq!(place.into_inner(), Some(2));
    /// ```
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    /// Waits until the value has been written.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait.
    ///
    /// ```
    /// use volt::sync::{Arc, OnceLock};
    ///
    /// let place = Arc::new(OnceLock::new());
    /// let theirs = Arc::clone(&place);
    /// volt::go(move || theirs.set(5));
    /// assert_eq!(place.wait(), &5);
    /// ```
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        // SAFETY: completed.
        unsafe { self.written() }
    }

    /// Writes the value, if nobody has; waits while somebody else does.
    ///
    /// # Errors
    ///
    /// `value` comes back if another was there first.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait; `value` is dropped then.
    ///
    /// ```
    /// let place = volt::sync::OnceLock::new();
    /// assert_eq!(place.set(1), Ok(()));
    /// assert_eq!(place.set(2), Err(2));
    /// ```
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("called once"));
        value.map_or(Ok(()), Err)
    }

    /// The value; written by `f` if nobody has done so. Waits while somebody else does.
    ///
    /// # Panics
    ///
    /// If `f` does; the place stays empty then, and the next caller tries.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait; `f` is not called then. `f` itself is shielded.
    ///
    /// ```
    /// let place = volt::sync::OnceLock::new();
    /// assert_eq!(place.get_or_init(|| 1), &1);
    /// assert_eq!(place.get_or_init(|| 2), &1);
    /// ```
    #[inline]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        if !self.once.is_completed() {
            self.init(f);
        }
        // SAFETY: completed.
        unsafe { self.written() }
    }

    #[cold]
    fn init(&self, f: impl FnOnce() -> T) {
        self.once.call_once_force(|_| {
            let value = f();
            self.value.with_mut(|place| {
                // SAFETY: `once` calls one at a time, and nobody reads before it is completed.
                unsafe { *place = Some(value) };
            });
        });
    }

    /// The value, if it has been written.
    ///
    /// ```
    /// assert_eq!(volt::sync::OnceLock::from(1).into_inner(), Some(1));
    /// ```
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Takes the value out, if it has been written; the place is empty again.
    ///
    /// ```
    /// let mut place = volt::sync::OnceLock::from(1);
    /// assert_eq!(place.take(), Some(1));
    /// assert_eq!(place.get(), None);
    /// ```
    pub fn take(&mut self) -> Option<T> {
        let value = self.value.get_mut().take();
        if value.is_some() {
            self.once = Once::new();
        }
        value
    }

    /// # Safety
    ///
    /// `once` is completed.
    #[inline]
    unsafe fn written(&self) -> &T {
        // SAFETY: by the caller; nobody writes again while it is borrowed.
        self.value.with(|place| unsafe { (*place).as_ref().unwrap_unchecked() })
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        let place = OnceLock::new();
        let _ = place.set(value);
        place
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        self.get().cloned().map_or_else(OnceLock::new, OnceLock::from)
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &OnceLock<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => out.field(value),
            None => out.field(&format_args!("<uninit>")),
        };
        out.finish()
    }
}
