//! What ThreadSanitizer does not understand, in words that it does.
//!
//! `OnceLock`: std's is completed by code that is compiled into std, without instrumentation, so that
//! every later reader seems to race with the initialisation. This one stands on `parking_lot`'s
//! `Once`, which is compiled with us. Fences: the tool does not model them.
//!
//! 1. The value is written inside the `Once`, once, and constant from then on.

use parking_lot::{Once, OnceState};
use std::cell::UnsafeCell;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};

/// For an acquire fence after an access to `word`: loading it once more means no less.
pub(crate) fn acquire_fence(word: &AtomicUsize) {
    word.load(Ordering::Acquire);
}

pub(crate) struct OnceLock<T> {
    once: Once,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: shared only after the `Once` is done (invariant 1); whichever thread made the value.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> OnceLock<T> {
        OnceLock { once: Once::new(), value: UnsafeCell::new(None) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.once.state() != OnceState::Done {
            return None;
        }
        // SAFETY: invariant 1.
        unsafe { (*self.value.get()).as_ref() }
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("called once"));
        value.map_or(Ok(()), Err)
    }

    pub(crate) fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        // SAFETY: inside the `Once` nobody else touches the place.
        self.once.call_once(|| unsafe { *self.value.get() = Some(f()) });
        self.get().expect("the initialisation is over")
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        mem::replace(self, OnceLock::new()).value.into_inner()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceLock").field(&self.get()).finish()
    }
}
