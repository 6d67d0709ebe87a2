//! The monotonic clock. Nothing outside this file reads one.

use std::time::Duration;

/// The system's clock begins as the machine starts. Ours has begun 36 years before, so that whoever reckons back, an
/// hour before now, say, comes to a time that there is, as with the standard library.
const BEFORE: u64 = 1 << 60;

/// A point on the monotonic clock, in nanoseconds since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Later than every deadline.
    pub(crate) const NEVER: Moment = Moment(u64::MAX);
    /// A deadline that has passed, as can be seen without a look at the clock.
    pub(crate) const PAST: Moment = Moment(0);

    #[cfg(loom)]
    pub(crate) fn now() -> Moment {
        Moment(super::clock_loom::now())
    }

    /// Somebody has waited until then.
    #[cfg(loom)]
    pub(crate) fn pass(self) {
        super::clock_loom::pass(self.0);
    }

    #[cfg(not(loom))]
    pub(crate) fn now() -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Moment(BEFORE + time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// On the system's clock; its beginning for what is earlier.
    #[cfg(all(not(loom), any(target_os = "linux", target_os = "android")))]
    pub(super) fn for_the_system(self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(BEFORE))
    }

    pub(crate) const fn from_nanos(nanos: u64) -> Moment {
        Moment(nanos)
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `self + duration`, or `None` if that is past the clock's range (548 years).
    #[inline]
    pub(crate) fn checked_add(self, duration: Duration) -> Option<Moment> {
        let nanos = duration.as_secs().checked_mul(1_000_000_000)?;
        let later = self.0.checked_add(nanos)?;
        later.checked_add(duration.subsec_nanos().into()).map(Moment)
    }

    /// `self + duration`, or [`Moment::NEVER`].
    #[inline]
    pub(crate) fn saturating_add(self, duration: Duration) -> Moment {
        self.checked_add(duration).unwrap_or(Moment::NEVER)
    }

    /// The same deadline, or [`PAST`](Moment::PAST) if it has passed.
    pub(crate) fn or_past(self) -> Moment {
        if self <= Moment::now() { Moment::PAST } else { self }
    }

    /// The time from `earlier` to `self`, zero if `earlier` is the later one.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// How many stamps make a nanosecond, about: a processor's cycles.
const STAMPS: u64 = 3;

/// A rough measure of short times, for hints: the processor's counter where the clock is computed from it, which costs
/// a third of what the clock does and counts one to five times a nanosecond. Two that are not of one thread need not be
/// in order.
#[inline]
pub(crate) fn stamp() -> u64 {
    #[cfg(not(loom))]
    if let Some(stamp) = super::tsc::stamp() {
        return stamp;
    }
    Moment::now().as_nanos().wrapping_mul(STAMPS)
}

/// What `time` is in stamps, about.
pub(crate) const fn in_stamps(time: Duration) -> u64 {
    time.as_nanos() as u64 * STAMPS
}

/// What so many stamps are, about.
pub(crate) const fn from_stamps(stamps: u64) -> Duration {
    Duration::from_nanos(stamps / STAMPS)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// No slower than a processor of some hundred megahertz; and a test may be kept waiting.
    #[test]
    fn stamps_go_with_the_clock() {
        super::super::tsc::prepare();
        let (time, before) = (Duration::from_millis(20), stamp());
        std::thread::sleep(time);
        let passed = stamp() - before;
        assert!(passed >= in_stamps(time) / 8, "{passed}");
        assert!(passed < in_stamps(Duration::from_secs(100)), "{passed}");
    }
}
