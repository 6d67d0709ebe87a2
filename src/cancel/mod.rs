//! Ending waits from outside: of a fiber, of what runs under a token, of what takes too long.
//!
//! [`JoinHandle::cancel`](crate::runtime::JoinHandle::cancel) asks a fiber to end: its current wait and
//! all later ones end. [`Token::run`] does so with the waits of one closure when the token is
//! cancelled, and [`volt::timeout`](crate::timeout) when the time is over. How a wait ends then depends
//! on the operation, and not on who asked:
//!
//! - Operations that return an [`io::Result`] fail with an error of kind `Other` whose source is
//!   [`Cancelled`]: never `Interrupted`, `WouldBlock` or `TimedOut`, which loops retry.
//!   [`is_cancelled`] tells it from others. A loop that ignores errors ends all the same: after 16 of
//!   them the next one unwinds instead.
//! - All others unwind: destructors run, as after a panic, but the panic hook is not called. The
//!   payload is [`Cancelled`]; [`join`](crate::runtime::JoinHandle::join) of a fiber that ended so
//!   returns it. Code that catches it (`catch_unwind`) goes on up to its next wait, which unwinds again.
//!
//! What the kernel or another fiber has not done yet is not done; what has been done is returned as
//! usual. So nothing is lost: a value is either received or still in its channel.
//!
//! | operation | when cancelled |
//! |---|---|
//! | `accept`, `connect`, `read`, `write`, `peek` of `volt::net` | the error, if it would have to wait |
//! | the look-up of a host name by `connect` or `bind` | goes on, and blocks the thread |
//! | `Signals::recv...`, `ctrl_c` | the error, if it would have to wait |
//! | `JoinHandle::join`, `ScopedJoinHandle::join` | unwind; the joined fiber goes on by itself |
//! | `sleep`, `sleep_until`, `Interval::tick` | unwind |
//! | `thread::park`, `thread::park_timeout` | unwind; a permit that is there is taken first |
//! | `Token::cancelled` | unwinds |
//! | `send...`, `recv...`, `select!` and `Select` of `volt::channel` and `volt::sync`, iterators of receivers | unwind; the value that was not sent is dropped, one that was not received stays |
//! | a receive from a rendezvous channel that was paired with the chosen `send` of a select | goes on until that select has made its value, or has given up |
//! | `Mutex::lock`, `RwLock::read`, `write`, `Semaphore::acquire...` | unwind; what was handed over goes on to the next |
//! | `Condvar::wait...` | takes the lock back, a wait that goes on; then unwinds, and frees the lock |
//! | `Barrier::wait` | unwinds, and has not arrived; the others wait on |
//! | `Once::call_once...`, `wait...`, uses of `OnceLock` and `LazyLock` | unwind while they wait for another |
//! | `WaitGroup::wait` | unwinds, and has left the group |
//! | `Notify::notified...`, `Event::wait...` | unwind; a notification goes to another, or is kept |
//! | `watch`: `changed`, `wait_for`, `borrow...`, `send...`, `closed` | unwind; nothing was sent |
//! | the end of `volt::scope`, `join`, `try_join`, `race`, `join!`, `race!` | its fibers are cancelled and waited for; then unwinds |
//! | `volt::run`, `Runtime::run` | the fiber is cancelled and waited for; then unwinds, or returns what the fiber did |
//! | `JoinSet::join_next` | unwinds; the set stays as it is, and as it is dropped cancels its fibers |
//! | `JoinSet::join_all`, `try_join_all` | unwind; the set is dropped, which cancels its fibers and does not wait for them |
//! | `volt::blocking`, `thread::pinned` | go on, also while they wait for room; waits inside as everywhere, but for those of the kernel (see below) |
//! | `yield_now` | goes on |
//! | `Runtime::shutdown`, `shutdown_now` | go on |
//! | `Handle::fibers`, where it waits for its turn | goes on, at once |
//! | anything under [`shield`] | goes on |
//! | anything while the caller unwinds, from a panic or a cancel | goes on |
//! | destructors of `fiber_local!` values and of results that nobody takes, initialisers of `Once`, `LazyLock` | go on |
//!
//! A wait for no time, or until a moment that has passed, is a wait: it does as the table says if a cancel is there.
//! What is called `try_...` is none, but for those above, nor a select with a plain `default`: a loop of nothing else
//! notices no cancel, unless it asks [`cancelled`]. (Where such a one receives from a select that sends to a channel
//! without places, it waits for its message, and goes on.)
//!
//! To unwind takes a fiber some microseconds of processor time, a sixth of one for each function on its stack (the
//! smallest there is took 1.0 to 1.5 on a Zen 4); an error takes next to nothing.
//!
//! With `panic = "abort"` there is no unwinding: operations that return an error do so, all others
//! go on. Locks of volt are not poisoned by a cancel; those of the standard library are, since they
//! cannot tell it from a panic. C code that calls back should do so under [`shield`]: an unwinding must
//! not pass through it.
//!
//! On a plain thread there is nobody to cancel it, but timeouts and tokens work, with one exception: a
//! token does not end a wait for the kernel that has begun, of `volt::net`, `Signals::recv` or `ctrl_c`. (It
//! does end a select of a socket's `readable` or `writable`.)
//!
//! A fiber that keeps its thread, in [`volt::blocking`](crate::blocking) or
//! [`thread::pinned`](crate::thread::pinned), waits for the kernel as a plain thread does: neither a cancel
//! nor a token ends such a wait once it has begun. A timeout does.
//!
//! ```
//! use volt::cancel::Cancelled;
//!
//! let fiber = volt::go(|| {
//!     volt::thread::park(); // nobody unparks it
//!     unreachable!("the wait unwinds");
//! });
//! fiber.cancel();
//! let ended: Result<(), _> = fiber.join();
//! assert!(ended.unwrap_err().is::<Cancelled>());
//! ```

mod limited;
mod token;

use crate::fiber::{self, Limit, Owner};
use crate::park;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::primitives::thread;
use std::any::Any;
use std::io;
use std::panic::resume_unwind;

pub use crate::fiber::Cancelled;
pub(crate) use limited::limited;
pub use token::Token;

/// A cancel has unwound somewhere in this process: there may be marks of some that were caught.
static HAS_UNWOUND: AtomicBool = AtomicBool::new(false);

/// Errors that tell of a cancel before the next operation unwinds.
const PATIENCE: u8 = 16;

/// The error that a cancelled fiber's waits return. Unwinds if that was not heeded for too long.
pub(crate) fn error() -> io::Error {
    let ignored = Owner::here().marks().refuse();
    if ignored >= PATIENCE && cfg!(panic = "unwind") && !thread::panicking() {
        unwind();
    }
    io::Error::other(Cancelled)
}

/// Ends what the caller does, whose wait was cancelled and has no error to return: unwinds without the
/// panic hook.
#[cold]
pub(crate) fn unwind() -> ! {
    resume(Box::new(Cancelled))
}

/// The caller's wait, which was just cancelled, has had its effect after all: timeouts and tokens that have ended
/// nothing else hand out what comes of it.
pub(crate) fn took_effect() {
    Owner::here().scopes().pardon();
}

/// Goes on with an unwinding that was caught, of whichever kind, on the caller or on a fiber beside it.
// Inline: an unwinding walks through each frame twice.
#[inline(always)]
pub(crate) fn resume(payload: Box<dyn Any + Send>) -> ! {
    mark_unwinding(payload.is::<Cancelled>());
    resume_unwind(payload)
}

fn mark_unwinding(is_cancel: bool) {
    let owner = Owner::here();
    owner.marks().set_unwinding(is_cancel);
    if !is_cancel {
        return;
    }
    if !HAS_UNWOUND.load(Ordering::Relaxed) {
        HAS_UNWOUND.store(true, Ordering::Relaxed);
    }
    owner.marks().count_unwinding();
}

/// The caller is handed what became of a fiber. If it goes on with a panic of that, no hook tells volt so.
#[inline]
pub(crate) fn hands_out<T>(ended: std::thread::Result<T>) -> std::thread::Result<T> {
    if let Err(payload) = &ended {
        note_panic(payload);
    }
    ended
}

#[cold]
fn note_panic(payload: &Box<dyn Any + Send>) {
    if !thread::panicking() && !payload.is::<Cancelled>() {
        Owner::here().marks().set_unwinding(false);
    }
}

/// How many cancels have unwound the caller by now, of all that count; one that was caught and goes on is
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unwound(u16);

#[inline(always)]
pub(crate) fn unwound() -> Unwound {
    Unwound(if HAS_UNWOUND.load(Ordering::Relaxed) { count_unwound() } else { 0 })
}

#[cold]
fn count_unwound() -> u16 {
    let mut count = 0;
    fiber::with_marks_if_any(|marks| count = marks.unwindings());
    count
}

/// Does the caller unwind because of a cancel that came after `then`, and not from a panic? What a panic poisons, a
/// cancel does not.
///
/// The mark stays on a fiber whose unwinding its own code caught, until it panics, and then too if the program's
/// hook does not tell volt. But one that was caught before `then` is not what unwinds now.
#[cold]
pub(crate) fn is_unwinding_since(then: Unwound) -> bool {
    thread::panicking() && Owner::here().marks().is_unwinding() && unwound() != then
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

/// Should the caller come to an end: was its fiber cancelled, or a token that it runs under, or is a
/// timeout around it over? For long computations, which do not wait. A [`shield`] does not hide it. On a plain
/// thread tokens and timeouts count.
///
/// ```
/// let fiber = volt::go(|| {
///     let mut rounds = 0_u64;
///     while !volt::cancelled() {
///         rounds += 1;
///     }
///     rounds
/// });
/// fiber.cancel();
/// assert!(fiber.join().is_ok());
/// ```
pub fn cancelled() -> bool {
    fiber::current().is_some_and(|fiber| fiber.state().load().is_cancelled())
        || park::is_any_scope_over()
}

/// Runs `f`, in which no wait is ended by a cancel, a token or a timeout from outside; later waits are.
/// Timeouts and tokens inside work. Nests. For what must be finished once begun, and around C code that
/// calls back. On a plain thread the same, of tokens and timeouts. A panic of `f` ends it and goes on.
///
/// ```
/// let done = volt::run(|| volt::cancel::shield(|| "written whole"));
/// assert_eq!(done, "written whole");
/// ```
pub fn shield<T>(f: impl FnOnce() -> T) -> T {
    Owner::here().within(Limit::Shield, |_| f())
}
