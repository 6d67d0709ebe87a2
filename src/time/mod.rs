//! Clock, sleep and intervals; mirrors [`std::time`].
//!
//! ```
//! use volt::time::{Duration, Instant, interval};
//!
//! let start = Instant::now();
//! let mut every = interval(Duration::from_millis(1));
//! for _ in 0..3 {
//!     every.tick();
//! }
//! assert!(start.elapsed() >= Duration::from_millis(2));
//! ```
//!
//! # What differs from `std`
//!
//! [`Instant`] is a type of its own, of the runtime's clock; it is made from the standard library's and
//! becomes one again by `into`, and operations that take a deadline take either. [`SystemTime`] is the standard
//! library's: nothing waits by the time of day.

mod instant;
mod timeout;

use crate::cancel;
use crate::park::{self, Outcome, deadline_after};
use crate::primitives::clock::Moment;

pub use instant::Instant;
pub(crate) use instant::both_now;
pub use std::time::{Duration, SystemTime, SystemTimeError, TryFromFloatSecsError, UNIX_EPOCH};
pub use timeout::{Elapsed, deadline, timeout, timeout_at};

/// The instant when `duration` will have passed; of a select a [case](crate::channel::Selectable). One that
/// is past the clock's range does not come.
///
/// ```
/// use volt::channel::{select, unbounded};
/// use volt::time::{Duration, after};
///
/// let (_s, r) = unbounded::<u8>();
/// let came = select! {
///     recv(r) -> _ => true,
///     wait(after(Duration::from_millis(1))) -> _ => false,
/// };
/// assert!(!came);
/// ```
pub fn after(duration: Duration) -> Instant {
    Instant(Moment::now().saturating_add(duration))
}

/// Waits for `duration`; a fiber leaves its worker to others meanwhile, a plain thread sleeps.
///
/// A deadline is never early, and late by up to a millisecond: by less than 0.1 ms where all workers are busy, and by
/// some 0.15 ms where they sleep and timers are far between, or the wait is for less than half a millisecond. Where
/// fibers compute, the turn of the one that does comes first, and those of some tens where they took far less before;
/// where one that took little before computes for long, it may be 8 ms until another worker looks at timers and
/// sockets. Where another is due within 0.13 ms of it, it may wait for that one. A zero duration yields, and waits no
/// longer. A cancel ends the sleep, and the fiber [unwinds](crate::cancel).
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// volt::sleep(Duration::from_millis(2));
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// ```
pub fn sleep(duration: Duration) {
    if duration.is_zero() {
        park::yield_now();
    }
    sleep_to(deadline_after(duration));
}

/// Waits until `deadline`, which may be an [`Instant`] or the standard library's; a plain thread sleeps.
///
/// As punctual as [`sleep`]. A cancel ends the sleep, and the fiber [unwinds](crate::cancel).
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let deadline = Instant::now() + Duration::from_millis(2);
/// volt::time::sleep_until(deadline);
/// assert!(Instant::now() >= deadline);
/// ```
pub fn sleep_until(deadline: impl Into<Instant>) {
    let deadline = deadline.into().0.or_past();
    park::note_if_close(deadline);
    sleep_to(deadline);
}

fn sleep_to(deadline: Moment) {
    if park::sleep_until(deadline) == Outcome::Cancelled {
        cancel::unwind();
    }
}

/// Ticks once every `period`, first at once.
///
/// # Panics
///
/// If `period` is zero.
///
/// ```
/// use volt::time::{Duration, interval};
///
/// let mut every = interval(Duration::from_millis(1));
/// every.tick();
/// every.tick();
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval needs a period above zero");
    Interval { period, next: Instant::now() }
}

/// See [`interval`].
///
/// ```
/// use volt::time::{Duration, Instant, Interval, interval};
///
/// let mut every: Interval = interval(Duration::from_millis(1));
/// let due = (every.tick(), every.tick());
/// assert_eq!(due.1 - due.0, Duration::from_millis(1));
/// assert!(Instant::now() >= due.1);
/// ```
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    next: Instant,
}

impl Interval {
    /// Waits for the next tick and returns when it was due. Ticks that were missed come at once, one
    /// after the other, so that the count stays right.
    ///
    /// A cancel that ends the wait [unwinds](crate::cancel); the next call waits for the same tick. On a plain
    /// thread the wait blocks the thread.
    ///
    /// ```
    /// use volt::time::{Duration, interval};
    ///
    /// let mut every = interval(Duration::from_millis(1));
    /// let first = every.tick();
    /// volt::sleep(Duration::from_millis(3)); // longer than the period
    /// assert_eq!(every.tick(), first + Duration::from_millis(1));
    /// ```
    pub fn tick(&mut self) -> Instant {
        let due = self.next;
        sleep_until(due);
        self.next = due.checked_add(self.period).unwrap_or(Instant(Moment::NEVER));
        due
    }

    /// The time between two ticks.
    ///
    /// ```
    /// use volt::time::{Duration, interval};
    ///
    /// assert_eq!(interval(Duration::from_secs(1)).period(), Duration::from_secs(1));
    /// ```
    pub fn period(&self) -> Duration {
        self.period
    }
}
