//! Atomics, cells and locks from loom.

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::Arc;
pub(crate) use std::sync::OnceLock;

#[path = "atomic_loom.rs"]
pub(crate) mod atomic;

/// For hints, upon which every decision is sound: how stale they are is not explored.
pub(crate) mod hint {
    pub(crate) use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
}

/// loom's mutex with `parking_lot`'s interface.
#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

/// Its own models look at its protocol; here it is a mutex like others.
pub(crate) use Mutex as Lock;

pub(crate) use super::biased::Caller;
pub(crate) use MutexGuard as BiasedGuard;
pub(crate) use MutexGuard as Held;

/// As [`Lock`].
#[derive(Debug)]
pub(crate) struct BiasedLock<T>(Mutex<T>);

impl<T> BiasedLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self, _: Caller) -> BiasedGuard<'_, T> {
        self.0.lock()
    }

    pub(crate) fn lock_after(&self, caller: Caller, _: impl FnOnce()) -> BiasedGuard<'_, T> {
        self.lock(caller)
    }

    pub(crate) fn lock_by_bias(&self, caller: Caller) -> Option<BiasedGuard<'_, T>> {
        Some(self.lock(caller))
    }

    pub(crate) unsafe fn guard<'a>(&'a self, held: Held<'a, T>) -> BiasedGuard<'a, T> {
        held
    }
}

impl<'a, T> MutexGuard<'a, T> {
    pub(crate) fn is_by_bias(&self) -> bool {
        true
    }

    pub(crate) fn hold(self) -> Held<'a, T> {
        self
    }
}

/// Empty only inside `Condvar::wait`.
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

const NEVER_POISONED: &str = "a loom mutex is never poisoned here";

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().expect(NEVER_POISONED)))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().expect(NEVER_POISONED)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect(NEVER_POISONED)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }
}

#[allow(dead_code, reason = "for the rooms that loom sees")]
pub(crate) fn acquire_fence(_word: &atomic::AtomicUsize) {
    atomic::fence(atomic::Ordering::Acquire);
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> std::ops::Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("not waiting")
    }
}

impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("not waiting")
    }
}

/// loom's condition variable with `parking_lot`'s interface.
#[derive(Debug)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let waiting = guard.0.take().expect("not waiting");
        guard.0 = Some(self.0.wait(waiting).expect(NEVER_POISONED));
    }

    /// As `wait`: loom has no time. A model of a timeout is a thread that settles the wait with it.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: std::time::Duration) {
        self.wait(guard);
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
}

/// A sequentially consistent fence.
pub(crate) fn full_fence() {
    atomic::fence(atomic::Ordering::SeqCst);
}

/// A full fence: loom's exchanges are none.
pub(crate) fn fence_after_exchange() {
    full_fence();
}
