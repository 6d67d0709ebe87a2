//! Locks and channels with the interface of [`std::sync`]: replace `std::` by `volt::`.
//!
mod barrier;
mod condvar;
mod lazy_lock;
mod mutex;
mod once;
mod once_lock;
mod poison;
mod raw_mutex;
mod raw_once;
mod raw_rwlock;
mod rwlock;
mod rwlock_guards;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub use rwlock::RwLock;
pub use rwlock_guards::{RwLockReadGuard, RwLockWriteGuard};
pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak};

/// The standard library's atomics, which never wait.
pub mod atomic {
    pub use std::sync::atomic::*;
}
