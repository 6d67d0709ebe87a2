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

mod timeout;

use crate::cancel;
use crate::park::{self, Outcome, deadline_after};
use crate::primitives::clock::Moment;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

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

/// A point in time on the runtime's monotonic clock; mirrors [`std::time::Instant`].
///
/// ```
/// use volt::time::{Duration, Instant};
///
/// let start = Instant::now();
/// volt::sleep(Duration::from_millis(2));
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub(crate) Moment);

impl Instant {
    /// The present.
    ///
    /// ```
    /// use volt::time::Instant;
    ///
    /// let earlier = Instant::now();
    /// assert!(Instant::now() >= earlier);
    /// ```
    pub fn now() -> Instant {
        Instant(Moment::now())
    }

    /// The time since `earlier`; zero if that is the later one.
    ///
    /// ```
    /// use volt::time::{Duration, Instant};
    ///
    /// let now = Instant::now();
    /// let later = now + Duration::from_secs(1);
    /// assert_eq!(later.duration_since(now), Duration::from_secs(1));
    /// assert_eq!(now.duration_since(later), Duration::ZERO);
    /// ```
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.0.since(earlier.0)
    }

    /// The time since `earlier`; `None` if that is the later one.
    ///
    /// ```
    /// use volt::time::{Duration, Instant};
    ///
    /// let now = Instant::now();
    /// let later = now + Duration::from_secs(1);
    /// assert_eq!(later.checked_duration_since(now), Some(Duration::from_secs(1)));
    /// assert_eq!(now.checked_duration_since(later), None);
    /// ```
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        (*self >= earlier).then(|| self.0.since(earlier.0))
    }

    /// As [`duration_since`](Instant::duration_since).
    ///
    /// ```
    /// use volt::time::{Duration, Instant};
    ///
    /// let now = Instant::now();
    /// let later = now + Duration::from_secs(1);
    /// assert_eq!(now.saturating_duration_since(later), Duration::ZERO);
    /// ```
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.since(earlier.0)
    }

    /// The time since this instant.
    ///
    /// ```
    /// use volt::time::{Duration, Instant};
    ///
    /// let start = Instant::now();
    /// volt::sleep(Duration::from_millis(1));
    /// assert!(start.elapsed() >= Duration::from_millis(1));
    /// ```
    pub fn elapsed(&self) -> Duration {
        Moment::now().since(self.0)
    }

    /// `self + duration`; `None` past the clock's range.
    ///
    /// ```
    /// use volt::time::{Duration, Instant};
    ///
    /// let now = Instant::now();
    /// assert_eq!(now.checked_add(Duration::ZERO), Some(now));
    /// assert_eq!(now.checked_add(Duration::MAX), None);
    /// ```
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_add(duration).map(Instant)
    }

    /// `self - duration`; `None` before the clock's range.
    ///
    /// ```
    /// use volt::time::{Duration, Instant};
    ///
    /// let (now, second) = (Instant::now(), Duration::from_secs(1));
    /// assert_eq!((now + second).checked_sub(second), Some(now));
    /// assert_eq!(now.checked_sub(Duration::MAX), None);
    /// ```
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.as_nanos().checked_sub(nanos).map(|nanos| Instant(Moment::from_nanos(nanos)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({:?})", Duration::from_nanos(self.0.as_nanos()))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        self.checked_add(duration).expect("overflow when adding a duration to an instant")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        self.checked_sub(duration).expect("overflow when subtracting a duration from an instant")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl From<std::time::Instant> for Instant {
    /// Never earlier than the instant is.
    fn from(instant: std::time::Instant) -> Instant {
        let (there, here) = both_now();
        match instant.checked_duration_since(there) {
            Some(ahead) => Instant(here.saturating_add(ahead)),
            None => {
                Instant(here).checked_sub(there - instant).unwrap_or(Instant(Moment::default()))
            }
        }
    }
}

impl From<Instant> for std::time::Instant {
    /// Never later than the instant is.
    fn from(instant: Instant) -> std::time::Instant {
        let (there, here) = both_now();
        let moved = if instant.0 >= here {
            there.checked_add(instant.0.since(here))
        } else {
            there.checked_sub(here.since(instant.0))
        };
        moved.unwrap_or(there)
    }
}

/// The present on the standard library's clock, and then on the runtime's: the later one is never
/// behind. Looks again if the thread was interrupted between the two.
pub(crate) fn both_now() -> (std::time::Instant, Moment) {
    let mut tries = 8;
    loop {
        let (there, here) = (std::time::Instant::now(), Moment::now());
        tries -= 1;
        if tries == 0 || there.elapsed() < Duration::from_micros(1) {
            return (there, here);
        }
    }
}

/// Waits for `duration`; a fiber leaves its worker to others meanwhile, a plain thread sleeps.
///
/// A deadline is never early. It is late by less than 0.1 ms while workers are busy, and by up to a
/// millisecond more when the process was idle. A zero duration yields, and waits no longer. A cancel ends the sleep,
/// and the fiber [unwinds](crate::cancel).
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
    sleep_to(deadline.into().0.or_past());
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
