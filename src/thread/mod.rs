//! Fibers with the interface of [`std::thread`]: replace `std::` by `volt::`.
//!
//! Everything here works on fibers and on plain threads alike: [`current`], [`park`] and [`sleep`]
//! mean the fiber where one runs, else the thread.
//!
//! ```
//! use volt::thread;
//!
//! let fiber = thread::spawn(|| {
//!     thread::park();
//!     "woken"
//! });
//! fiber.thread().unpark();
//! assert_eq!(fiber.join().unwrap(), "woken");
//! ```
//!
//! # What differs from `std`
//!
//! - [`park`] does not return without a permit.
//! - [`std::thread::current`] is the worker, whose name code that is not ported shows; [`current`] is the fiber.
//! - A [`JoinHandle`] is `Send` and `Sync` only if the result is `Send`; there it always is. As only such
//!   results can be spawned, this shows in generic code alone.
//! - Instead of `thread_local!` there is [`fiber_local!`](crate::fiber_local), whose [`LocalKey`] mirrors the
//!   standard library's; `set` of a value that was not used yet makes the first one too.
//! - Where nobody joins a scoped fiber, and the destructor of its result panics, the process does not end:
//!   that panic is printed, and goes no further.
//! - Where a scoped fiber that nobody joined has panicked, [`scope`](scope()) panics with "a scoped fiber
//!   panicked"; there with "a scoped thread panicked".
//! - A stack's guard is a part of the size that was asked for, and a size below the least is refused; there it is
//!   raised. `RUST_MIN_STACK` is not read: [`stack_size`](crate::runtime::Builder::stack_size) is the default's place.
//! - `Builder::spawn_unchecked` is not here; nor is what is deprecated there, `sleep_ms` and
//!   `park_timeout_ms`.

mod builder;
mod children;
mod handle;
mod local_key;
mod running;
mod scope;

use crate::cancel;
use crate::park as waiting;
use crate::park::{Outcome, Parking, Wait, deadline_after};
use crate::primitives::clock::Moment;
use std::time::Duration;

pub use crate::fiber::{AccessError, LocalKey, ThreadId};
pub use crate::runtime::{JoinHandle, yield_now};
pub use crate::time::{sleep, sleep_until};
pub use builder::{Builder, spawn};
pub use handle::{Thread, current};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use std::thread::{Result, available_parallelism, panicking};

/// Runs `f` with the thread to itself, as Go's `LockOSThread`: until `f` returns the fiber stays on
/// this thread, which runs nothing else; its waits block the thread. For code that keeps thread-locals
/// across waits, or calls a library that must see one thread only.
///
/// The worker's core goes to another thread meanwhile, as in [`volt::blocking`](crate::blocking), but
/// without its bound on how many may do so. Calls may be nested; a panic of `f` passes through; on a
/// plain thread `f` simply runs. A cancel ends the waits in `f` as it does in `blocking`.
///
/// # Panics
///
/// As [`volt::blocking`](crate::blocking), of which no call is expected to be brief here.
///
/// ```
/// let fiber = volt::go(|| {
///     volt::thread::pinned(|| {
///         let before = std::thread::current().id();
///         volt::sleep(std::time::Duration::from_millis(1));
///         assert_eq!(std::thread::current().id(), before);
///     });
/// });
/// fiber.join().unwrap();
/// ```
pub fn pinned<T>(f: impl FnOnce() -> T) -> T {
    waiting::pinned(f)
}

/// Waits until the calling fiber's (or plain thread's) permit is there, and takes it.
///
/// [`Thread::unpark`] makes the permit available; two of them make one. Unlike the standard
/// library's, it does not return without a permit: a cancelled fiber [unwinds](crate::cancel) instead.
///
/// ```
/// let fiber = volt::go(|| {
///     volt::thread::park();
///     "woken"
/// });
/// fiber.thread().unpark();
/// assert_eq!(fiber.join().unwrap(), "woken");
/// ```
pub fn park() {
    park_until(None);
}

/// As [`park`], but for at most `timeout`, zero included: a permit that is there is taken then too. A
/// cancelled fiber [unwinds](crate::cancel) unless the permit is there.
///
/// ```
/// use volt::time::{Duration, Instant};
///
/// let start = Instant::now();
/// volt::thread::park_timeout(Duration::from_millis(2));
/// assert!(start.elapsed() >= Duration::from_millis(2)); // nobody has unparked it
/// ```
pub fn park_timeout(timeout: Duration) {
    park_until(Some(deadline_after(timeout)));
}

fn park_until(deadline: Option<Moment>) {
    let parking = Parking::begin("park");
    if parking.take_permit() {
        return;
    }
    let wait = Wait { deadline, permit: true, ..Wait::cancellable("park") };
    if parking.park(wait) == Outcome::Cancelled {
        cancel::unwind();
    }
}
