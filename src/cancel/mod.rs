//! Ending a fiber's waits from outside.
//!
//! [`JoinHandle::cancel`](crate::runtime::JoinHandle::cancel) asks a fiber to end. Its current and
//! later I/O waits then return an [`io::Error`] of kind `Other` whose source is [`Cancelled`]: never
//! `Interrupted`, `WouldBlock` or `TimedOut`, which loops retry. What the kernel has not done yet is
//! not done; what it has done is returned as usual, so nothing is lost.
//!
//! | operation | when cancelled |
//! |---|---|
//! | `accept`, `connect`, `read`, `write`, `peek` of `volt::net` | the error, if it would have to wait |
//! | `Signals::recv` | the error |
//! | `send`, `recv`, `select!`, `Select` of `volt::channel` | unwind, if they would have to wait |
//! | `sleep`, `park`, `join`, `yield_now` | go on |
//! | locks and channels of `volt::sync` | unwinds; its table says more |
//! | anything under [`shield`] | goes on |

use crate::fiber::{self, FiberPtr};
use crate::primitives::sync::atomic::Ordering;
use std::fmt;
use std::io;

/// Why an operation of a cancelled fiber failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fiber has been cancelled")
    }
}

impl std::error::Error for Cancelled {}

/// The error that a cancelled fiber's waits return.
pub(crate) fn error() -> io::Error {
    io::Error::other(Cancelled)
}

/// Ends the calling fiber, whose wait was cancelled and has no error to return: unwinds with a payload
/// of its own, without the panic hook.
#[cold]
pub(crate) fn unwind() -> ! {
    if let Some(fiber) = fiber::current() {
        fiber.unwinding.store(true, Ordering::Relaxed);
    }
    std::panic::resume_unwind(Box::new(Cancelled))
}

/// Does the caller unwind because it was cancelled, and not from a panic? What a panic poisons, a
/// cancel does not.
///
/// The mark stays on a fiber whose unwinding somebody caught, until it panics itself.
#[cold]
pub(crate) fn is_unwinding() -> bool {
    let marked = |fiber: FiberPtr| fiber.unwinding.load(Ordering::Relaxed);
    std::thread::panicking() && fiber::current().is_some_and(marked)
}

/// Is `error` there because the fiber was cancelled?
///
/// ```
/// use std::io;
///
/// let stop = |error: &io::Error| volt::cancel::is_cancelled(error);
/// assert!(stop(&io::Error::other(volt::cancel::Cancelled)));
/// assert!(!stop(&io::Error::from(io::ErrorKind::TimedOut)));
/// ```
pub fn is_cancelled(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|source| source.is::<Cancelled>())
}

/// Has the calling fiber been cancelled? Never on a plain thread. A [`shield`] does not hide it.
pub fn cancelled() -> bool {
    fiber::current().is_some_and(|fiber| fiber.state().load().is_cancelled())
}

/// Runs `f`, in which no wait is ended by a cancel; later waits are. Nests. For what must be finished
/// once begun, and around C code that calls back.
///
/// ```
/// let done = volt::run(|| volt::cancel::shield(|| "written whole"));
/// assert_eq!(done, "written whole");
/// ```
pub fn shield<T>(f: impl FnOnce() -> T) -> T {
    let _shield = fiber::current().map(Shield::new);
    f()
}

struct Shield(FiberPtr);

impl Shield {
    fn new(fiber: FiberPtr) -> Shield {
        // SAFETY: the calling fiber's own.
        fiber.shields.with_mut(|depth| unsafe { *depth += 1 });
        Shield(fiber)
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        // SAFETY: as above; a guard on the fiber's stack is dropped by the fiber.
        self.0.shields.with_mut(|depth| unsafe { *depth -= 1 });
    }
}
