//! Deadlines for whatever a closure waits for.

use super::{Duration, Instant};
use crate::cancel::limited;
use crate::fiber::Limit;
use crate::park::{self, deadline_after};
use crate::primitives::clock::Moment;
use std::fmt;
use std::io;

/// The time of a [`timeout`] was over before what it was for.
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use std::time::Duration;
///
/// let elapsed = volt::timeout(Duration::from_millis(1), volt::thread::park).unwrap_err();
/// assert_eq!(Error::from(elapsed).kind(), ErrorKind::TimedOut);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time for the operation is over")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}

/// Runs `f` right here, on the calling fiber or thread, and ends what it waits for when `duration` is
/// over: its current wait and all later ones end as [`volt::cancel`](crate::cancel) says, those of all
/// functions that it calls included.
///
/// Timeouts may be nested; the nearest deadline counts. The time is looked at by waits only: a closure
/// that computes is not interrupted, and whatever has been done without being cut off is returned,
/// however late. So `Duration::ZERO` means: as far as it goes without waiting. `Duration::MAX` is no
/// timeout.
///
/// On a plain thread it ends the waits of that thread in the same way, those of `volt::net` included.
///
/// While the caller unwinds, in a destructor, nothing ends its waits, and a timeout does not either.
///
/// The deadline is not handed on to fibers that `f` spawns. A scope, [`join`](crate::join()) or
/// [`race`](crate::race()) that the timeout ends cancels its own fibers and waits for them.
///
/// Setting it costs a look at the processor's counter, or at the clock where there is none that will do;
/// each wait inside arms a timer. It is never early, and as late as [`sleep`](crate::sleep) says.
///
/// # Errors
///
/// [`Elapsed`] if a wait in `f` was ended: then `f` has unwound up to here, or has returned with the
/// error that it got (a `read` of `volt::net` fails), and what it returned is dropped.
///
/// # Panics
///
/// With the payload of `f`, if `f` panics.
///
/// # Cancel
///
/// A cancel of the calling fiber, or a timeout further out, passes through.
///
/// # Where panics abort
///
/// With `panic = "abort"` nothing can be unwound: only operations that return an error are ended. A
/// sleep, a lock or a receive runs to its end, however late, and if nothing else was cut off the
/// result is `Ok`.
///
/// ```
/// use std::time::Duration;
///
/// let mut rounds = 0;
/// let result = volt::timeout(Duration::from_millis(5), || {
///     loop {
///         volt::sleep(Duration::from_millis(1));
///         rounds += 1;
///     }
/// });
/// assert!(result.is_err());
/// assert_eq!(volt::timeout(Duration::from_secs(5), || 7), Ok(7));
/// ```
pub fn timeout<T>(duration: Duration, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    until(deadline_after(duration), f)
}

/// As [`timeout`], with a point in time; one that has passed means: as far as it goes without waiting.
///
/// # Errors
///
/// [`Elapsed`], as [`timeout`].
///
/// # Panics
///
/// With the payload of `f`, if `f` panics.
///
/// # Cancel
///
/// A cancel of the calling fiber, or a timeout further out, passes through.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let deadline = Instant::now() + Duration::from_millis(5);
/// let result = volt::time::timeout_at(deadline, || volt::thread::park());
/// assert!(result.is_err());
/// ```
pub fn timeout_at<T>(deadline: impl Into<Instant>, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    let deadline = deadline.into().0.or_past();
    park::note_if_close(deadline);
    until(deadline, f)
}

fn until<T>(deadline: Moment, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    if deadline == Moment::NEVER {
        return Ok(f());
    }
    limited(Limit::Deadline(deadline), f).ok_or(Elapsed(()))
}

/// The deadline that bounds the caller's waits: that of the nearest [`timeout`] around it. A
/// [`shield`](crate::cancel::shield) hides those outside of it. Inside one that had passed from the start it is some
/// moment long ago.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(volt::time::deadline(), None);
/// let inside = volt::timeout(Duration::from_secs(1), volt::time::deadline);
/// assert!(inside.unwrap().is_some());
/// ```
pub fn deadline() -> Option<Instant> {
    let nearest = park::bound().deadline;
    (nearest != Moment::NEVER).then_some(Instant(nearest))
}
