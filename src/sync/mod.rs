//! Locks and channels with the interface of [`std::sync`]: replace `std::` by `volt::`.
//!
//! Everything here works between fibers, between plain threads, and across the two. Where a thread
//! would block, a fiber leaves its worker to others. What a fiber locks belongs to the fiber: it may
//! hold a guard over a wait, and drop it on another thread.
//!
//! Beyond the standard library's there are [`Semaphore`], [`WaitGroup`], [`Notify`], [`Event`], and the
//! channels [`oneshot`], [`watch`] and [`broadcast`].
//!
//! # On cancel
//!
//! What happens to a fiber that is [cancelled](crate::runtime::JoinHandle::cancel) while it would have
//! to wait. What need not wait goes on as usual, and so does all under
//! [`cancel::shield`](crate::cancel::shield). Where panics abort, nothing here is cancelled.
//!
//! | operation | when cancelled |
//! |---|---|
//! | `Mutex::lock`, `RwLock::read`, `write` | unwinds, without the lock |
//! | `Condvar::wait...` | takes the lock back, then unwinds; the guard is dropped, nothing is poisoned |
//! | `Barrier::wait` | unwinds, and has not arrived; the others wait on |
//! | `Once::call_once`, `wait`, `OnceLock`, `LazyLock` | unwinds while it waits for another; what it calls itself is shielded |
//! | `Semaphore::acquire...` | unwinds, without a permit |
//! | `WaitGroup::wait` | unwinds, and has left the group |
//! | `Notify::notified`, `Event::wait` | unwinds; a notification goes to another, or is kept |
//! | `mpsc` `SyncSender::send` | unwinds; the value is dropped, and was not received |
//! | `recv...` of every channel | unwinds; the value stays in the channel |
//! | `watch` `changed`, `wait_for`, `borrow`, `send...`, `closed` | unwinds; nothing was sent or seen |
//! | `try_...`, guards and permits that are dropped, `notify_...` | never wait |
//!
//! A destructor that locks may so unwind too, unless the fiber is unwinding already: where it must come
//! to its end, it uses `shield`.
//!
//! Who is woken first is not cancelled: that operation returns, and the next wait unwinds. A lock or
//! permit that was to go to a cancelled waiter goes to the next one. The unwinding of a cancel poisons
//! no lock of this module; those of [`std::sync`] cannot know the difference.
//!
//! # How it is built
//!
//! A word that those who need not wait change by one atomic operation, and a queue of waiters under an
//! inner lock for the others (the files `raw_*.rs`, each with its argument and its model). `oneshot` is
//! entirely under its lock, the value of a `watch` is under an `RwLock`; `mpsc` has queues of its own, and a
//! lock only for those who wait; `broadcast` has one for senders and those who wait, and receivers take what
//! is there without it.

mod barrier;
pub mod broadcast;
mod condvar;
mod event;
mod lazy_lock;
pub mod mpsc;
mod mutex;
mod notify;
mod once;
mod once_lock;
pub mod oneshot;
mod poison;
mod raw_event;
mod raw_mutex;
mod raw_notify;
mod raw_once;
mod raw_rwlock;
mod raw_semaphore;
mod rwlock;
mod rwlock_guards;
mod semaphore;
mod wait_group;
pub mod watch;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use event::Event;
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
pub use notify::Notify;
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub(crate) use raw_notify::Wants;
pub use rwlock::RwLock;
pub use rwlock_guards::{RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{
    AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};
pub use wait_group::WaitGroup;
