//! Atomics, cells and locks from `std` and `parking_lot`.

pub(crate) use super::biased::{BiasedGuard, BiasedLock, Caller, Held};
pub(crate) use super::lock::Lock;
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
pub(crate) use std::sync::Arc;

#[cfg(not(volt_tsan))]
pub(crate) use std::sync::OnceLock;
#[cfg(volt_tsan)]
#[path = "sync_tsan.rs"]
mod tsan;
#[cfg(volt_tsan)]
pub(crate) use tsan::{OnceLock, acquire_fence};

/// For hints, upon which every decision is sound.
pub(crate) mod hint {
    pub(crate) use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
}

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
        Ordering, compiler_fence, fence,
    };
}

/// `UnsafeCell` with loom's interface: access by closure, so that loom can see each one.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> UnsafeCell<T> {
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// An acquire fence after an access to `word`: what the value there was released with is seen.
#[cfg(not(volt_tsan))]
#[inline(always)]
pub(crate) fn acquire_fence(_word: &atomic::AtomicUsize) {
    atomic::fence(atomic::Ordering::Acquire);
}

/// A sequentially consistent fence, for store-then-load races between two threads (Dekker).
#[inline(always)]
pub(crate) fn full_fence() {
    // `mfence`, which the standard fence compiles to, also waits for non-temporal stores and costs
    // several times as much as a locked instruction, which orders all that Rust code can write.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: adds zero to the word at the top of this thread's own stack.
    unsafe {
        std::arch::asm!("lock add dword ptr [rsp], 0");
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    atomic::fence(atomic::Ordering::SeqCst);
}

/// A sequentially consistent fence right after a sequentially consistent exchange that has succeeded,
/// which is one itself where it is a locked instruction.
#[inline(always)]
pub(crate) fn fence_after_exchange() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    atomic::compiler_fence(atomic::Ordering::SeqCst);
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    atomic::fence(atomic::Ordering::SeqCst);
}
