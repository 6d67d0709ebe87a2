//! Atomics, cells and locks from loom.

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::Arc;
pub(crate) use std::sync::OnceLock;

pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

/// loom's mutex with `parking_lot`'s interface.
#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

pub(crate) type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("a loom mutex is never poisoned here")
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

#[allow(dead_code, reason = "for the rooms that loom sees")]
pub(crate) fn acquire_fence(_word: &atomic::AtomicUsize) {
    atomic::fence(atomic::Ordering::Acquire);
}

pub(crate) fn full_fence() {
    atomic::fence(atomic::Ordering::SeqCst);
}
