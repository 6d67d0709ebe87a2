//! Locks and channels with the interface of [`std::sync`]: replace `std::` by `volt::`.
//!
//! Everything here works between fibers, between plain threads, and across the two. Where a thread
//! would block, a fiber leaves its worker to others. What a fiber locks belongs to the fiber: it may
//! hold a guard over a wait, and drop it on another thread.
//!
//! ```
//! use volt::sync::{Arc, Mutex};
//!
//! let count = Arc::new(Mutex::new(0));
//! let theirs = Arc::clone(&count);
//! let fiber = volt::go(move || *theirs.lock().unwrap() += 1);
//! *count.lock().unwrap() += 1;
//! fiber.join().unwrap();
//! assert_eq!(*count.lock().unwrap(), 2);
//! ```
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
//! | `recv...` of every channel | unwinds; the value stays in the channel (`oneshot`'s `recv` takes the channel with it: a value that came just before is returned, a later one comes back to its sender) |
//! | `watch` `changed`, `borrow`, `send...`, `closed` | unwinds; nothing was sent or seen |
//! | `watch` `wait_for` | unwinds; the values that its condition has refused are seen |
//! | `try_...`, guards and permits that are dropped, `notify_...` | never wait |
//!
//! A destructor that locks may so unwind too, unless the fiber is unwinding already: where it must come
//! to its end, it uses `shield`.
//!
//! Who is woken first is not cancelled: that operation returns, and the next wait unwinds. A lock or
//! permit that was to go to a cancelled waiter goes to the next one. The unwinding of a cancel poisons
//! no lock of this module; those of [`std::sync`] cannot know the difference.
//!
//! # On a panic
//!
//! What the panic of one fiber or thread means to the others. As it unwinds, its guards, permits and
//! handles are dropped; but for the locks that have poisoning in [`std::sync`], nothing is poisoned.
//!
//! | what panics | what becomes of it |
//! |---|---|
//! | who holds a `Mutex`, or an `RwLock` to write | the lock is free, and poisoned |
//! | who holds an `RwLock` to read | the lock is free, and not poisoned |
//! | the condition of a `Condvar`'s wait | it holds the lock: as above |
//! | what `Once` or `LazyLock` calls | poisoned: later uses panic, and so do those who wait, but for the `..._force` |
//! | what `OnceLock` calls | the place stays empty, for the next to try |
//! | who has permits of a `Semaphore` | they are given back |
//! | a member of a `WaitGroup` | has left the group; `wait` does not tell |
//! | who would have come to a `Barrier` | does not come: the others wait on |
//! | who would have notified, or set an `Event` | nobody is woken: those who wait wait on |
//! | who has a sender or the receiver of a channel | it is dropped: the last of its side tells the other |
//! | what `watch` `send_modify`, `send_if_modified` call | the value stays as that left it, and counts as the former one until the next send |
//! | the condition of `watch` `wait_for` | the value is seen |
//! | the `clone` of a value in `broadcast` | this receiver goes on with the next one; the others get it |
//! | the destructor of a value that was never received | the panic comes out of what drops it: the drop of a receiver, or a `send` of `broadcast` or `watch`, which has taken effect |
//!
//! The wait of a destructor, while its fiber unwinds, is not ended by a cancel, and
//! [blocks the thread](crate#what-a-fiber-that-migrates-must-not-hold-over-a-wait).
//!
//! # What differs
//!
//! From the standard library:
//!
//! - What is deprecated there is not here: `Condvar::wait_timeout_ms`, `ONCE_INIT`.
//! - A panic does not poison a lock inside which the same fiber has just caught a cancel (`catch_unwind` around a
//!   wait), if volt does not hear of the panic: under a panic hook that the program has set since and that does not
//!   call the former one, or of `resume_unwind` with a payload of the program's own. A cancel does poison what is still
//!   locked when a destructor that it runs panics and catches that itself.
//! - [`WaitTimeoutResult`] is a type of its own.
//! - So are the locks and the ends of channels: what other crates implement for those of the standard library, a log's
//!   writer for a `Mutex`, say, is not there for these. Give such a crate the standard library's.
//! - A lock may be looked at for a moment after it is free: whoever frees its memory by a raw pointer waits until
//!   all that have locked it have returned from that, or dropped the guard, and not just until they have unlocked it.
//!
//! From Tokio, besides that there are no futures:
//!
//! - [`broadcast`] shares its values between receivers: to go to other fibers or threads they need
//!   `Sync` besides `Send`.
//! - [`acquire_many(0)`](Semaphore::acquire_many) needs no permit, so it returns at once even if there is
//!   none. Behind others that wait, it takes its turn.
//! - The permits of a [`Semaphore`] have neither `merge` nor `split`.
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
mod handing;
mod lazy_lock;
pub mod mpsc;
mod mutex;
mod notify;
mod once;
mod once_lock;
pub mod oneshot;
mod plain;
mod poison;
mod raw_event;
mod raw_mutex;
mod raw_notify;
mod raw_once;
mod raw_rwlock;
mod raw_semaphore;
mod rwlock;
mod rwlock_guards;
mod rwlock_word;
mod semaphore;
mod turns;
mod wait_group;
pub mod watch;
mod whereabouts;

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
