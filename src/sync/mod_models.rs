//! What of this room has models: all but what only wraps a protocol of `raw_*` (`Once` and the cells upon
//! it, `Event`, `Notify`, `Semaphore`).

#[path = "barrier.rs"]
mod barrier;
#[path = "broadcast/mod.rs"]
mod broadcast;
#[path = "condvar.rs"]
mod condvar;
#[path = "mutex.rs"]
mod mutex;
#[path = "oneshot.rs"]
mod oneshot;
#[path = "poison.rs"]
mod poison;
#[path = "rwlock.rs"]
mod rwlock;
#[path = "rwlock_guards.rs"]
mod rwlock_guards;
#[path = "wait_group.rs"]
mod wait_group;
#[path = "watch/mod.rs"]
mod watch;

pub use mutex::{Mutex, MutexGuard};
pub use rwlock::RwLock;
pub use rwlock_guards::{RwLockReadGuard, RwLockWriteGuard};

mod handing;
#[path = "mpsc/mod_models.rs"]
mod mpsc;
mod plain;
mod raw_event;
mod raw_mutex;
mod raw_notify;
mod raw_once;
mod raw_rwlock;
mod raw_semaphore;
mod rwlock_word;
mod turns;
mod whereabouts;

#[cfg(test)]
use crate::primitives::models::check;

/// Runs `f` as one who is cancelled: what it came to, or `None` if the cancel ended it.
#[cfg(test)]
fn cancelled<R>(f: impl FnOnce() -> R) -> Option<R> {
    crate::park::cancelled(|| crate::cancel::caught(f))
}
