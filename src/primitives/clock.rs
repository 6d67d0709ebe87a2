//! The monotonic clock. Nothing outside this file reads one.

#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A point on the monotonic clock, in nanoseconds since an epoch of the system's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Later than every deadline.
    pub(crate) const NEVER: Moment = Moment(u64::MAX);

    pub(crate) fn now() -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Moment(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// Not before the present, and after it by at most the time between two of the system's ticks, 1 to
    /// 10 ms: a look at the clock for a quarter of the price, where that does not matter.
    #[cfg(target_os = "linux")]
    #[inline]
    pub(crate) fn soon() -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        let tick = Moment(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
        Moment(tick.0 + coarse_resolution())
    }

    /// As on Linux, but exact, where the system has no cheaper clock.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn soon() -> Moment {
        Moment::now()
    }

    pub(crate) const fn from_nanos(nanos: u64) -> Moment {
        Moment(nanos)
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `self + duration`, or `None` if that is past the clock's range (584 years).
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

    /// The time from `earlier` to `self`, zero if `earlier` is the later one.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Nanoseconds between two of the system's ticks.
#[cfg(target_os = "linux")]
#[inline]
fn coarse_resolution() -> u64 {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let step = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
            let step = step.tv_sec as u64 * 1_000_000_000 + step.tv_nsec as u64;
            KNOWN.store(step, Ordering::Relaxed);
            step
        }
        step => step,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn soon_is_not_early_and_hardly_late() {
        for _ in 0..10_000 {
            let (before, soon, after) = (Moment::now(), Moment::soon(), Moment::now());
            assert!(soon >= before, "early by {:?}", before.since(soon));
            assert!(soon.since(after) <= Duration::from_millis(10));
        }
    }
}
