//! [`Instant`].

use crate::park::has_passed;
use crate::primitives::clock::Moment;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

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

    /// Is it the present, or earlier? As `Instant::now() >= *self`, but where milliseconds are left that mostly takes a
    /// look at the processor's counter only, for some nanoseconds: for what is asked each time and seldom so.
    ///
    /// ```
    /// use volt::time::{Duration, Instant};
    ///
    /// let now = Instant::now();
    /// assert!(now.has_passed());
    /// assert!(!(now + Duration::from_secs(3600)).has_passed());
    /// ```
    pub fn has_passed(&self) -> bool {
        has_passed(self.0)
    }

    /// `self + duration`; `None` where [`std::time`] has none. What is further away than the clock's range, 548 years,
    /// is taken for the end of it, and is no further away from there on.
    ///
    /// ```
    /// use volt::time::{Duration, Instant};
    ///
    /// let now = Instant::now();
    /// assert_eq!(now.checked_add(Duration::ZERO), Some(now));
    /// assert_eq!(now.checked_add(Duration::MAX), None);
    /// let millennium = Duration::from_secs(1_000 * 365 * 86_400);
    /// assert!(now + millennium > now + millennium / 10);
    /// ```
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        let seconds = (self.0.as_nanos() / 1_000_000_000).checked_add(duration.as_secs())?;
        i64::try_from(seconds).ok().map(|_| Instant(self.0.saturating_add(duration)))
    }

    /// `self - duration`; `None` before the clock's range, which begins 36 years before the machine has started (that
    /// of [`std::time`] begins earlier on most systems).
    ///
    /// ```
    /// use volt::time::{Duration, Instant};
    ///
    /// let (now, second) = (Instant::now(), Duration::from_secs(1));
    /// assert_eq!((now + second).checked_sub(second), Some(now));
    /// // The machine need not have run for so long.
    /// assert_eq!((now - 86_400 * 365 * second).elapsed().as_secs(), 86_400 * 365);
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
