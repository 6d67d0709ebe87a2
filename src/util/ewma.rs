//! A running estimate of how long a fiber runs between two scheduling points.
//!
//! Used by each worker for itself, to set how many dispatches may pass before it looks into the
//! injector. An exponentially weighted moving average: one dispatch weighs 0.1, all earlier ones
//! together 0.9. A batch of `n` dispatches is measured by one pair of clock reads, and counts as `n`
//! samples of its mean: the old estimate keeps 0.9^n.
//!
//! Invariants:
//! 1. The estimate stays between the lowest and the highest of the first estimate and the samples.
//! 2. A sample counts as at most [`OUTLIER`] times the old estimate (or 1 us, if that is more: below
//!    it the estimate makes no difference, and from zero it could not rise). So one batch, however
//!    long it took, at most quadruples the estimate, and five ordinary batches of eight dispatches,
//!    the fewest that [`injector_interval`] allows, bring it back to within 5% (3 x 0.9^40 = 4.4%).
//!    A change of a thousandfold that lasts still arrives within ten batches.

/// 50 us, in nanoseconds.
const FIRST_ESTIMATE: u64 = 50_000;

/// How many times the old estimate a sample may be.
const OUTLIER: u64 = 4;

/// Of the old estimate, for the bound on outliers: 1 us.
const SMALLEST: u64 = 1_000;

/// The injector is looked into about this often: 1 ms.
const INJECTOR_PERIOD: u64 = 1_000_000;

/// `KEEP[n]` is 0.9^n as a fraction of 2^32. The last one, 0.1%, stands for all beyond.
const KEEP: [u64; 65] = {
    let mut keep = [1 << 32; 65];
    let mut n = 1;
    while n < keep.len() {
        keep[n] = keep[n - 1] * 9 / 10;
        n += 1;
    }
    keep
};

/// The estimate, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct RunTime {
    average: u64,
}

impl RunTime {
    pub(crate) fn new() -> Self {
        Self { average: FIRST_ESTIMATE }
    }

    pub(crate) fn average(&self) -> u64 {
        self.average
    }

    /// Takes in a batch of `dispatches` that took `elapsed` nanoseconds together. The time must be
    /// that of fibers running, without search, driver turn or sleep.
    pub(crate) fn record(&mut self, elapsed: u64, dispatches: u32) {
        let Some(sample) = elapsed.checked_div(u64::from(dispatches)) else {
            return;
        };
        let sample = sample.min(self.average.max(SMALLEST).saturating_mul(OUTLIER));
        let keep = KEEP[(dispatches as usize).min(KEEP.len() - 1)];
        let kept = |difference: u64| ((u128::from(difference) * u128::from(keep)) >> 32) as u64;
        // From the sample towards the old estimate, rounded to the sample: so that it arrives there.
        self.average = if sample < self.average {
            sample + kept(self.average - sample)
        } else {
            sample - kept(sample - self.average)
        };
    }
}

/// How many dispatches to let pass between two looks into the injector, so that at this `average`
/// (nanoseconds) about 1 ms passes. The caller holds the 1 ms by the clock as well: an average says
/// nothing about the next fiber.
pub(crate) fn injector_interval(average: u64) -> u32 {
    (INJECTOR_PERIOD / average.max(1)).clamp(8, 255) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    fn at(average: u64) -> RunTime {
        RunTime { average }
    }

    #[test]
    fn the_interval_table() {
        let table = [(1, 255), (10, 100), (50, 20), (100, 10), (1_000, 8), (100_000, 8)];
        for (us, interval) in table {
            assert_eq!(injector_interval(us * US), interval, "{us} us");
        }
        assert_eq!((injector_interval(0), injector_interval(u64::MAX)), (255, 8));
    }

    #[test]
    fn one_dispatch_weighs_a_tenth() {
        let mut estimate = RunTime::new();
        assert_eq!(estimate.average(), 50 * US);
        estimate.record(100 * US, 1);
        assert_eq!(estimate.average() / 10, 5_500);
    }

    #[test]
    fn a_batch_weighs_as_much_as_its_dispatches() {
        for n in [2, 7, 30] {
            let (mut batch, mut single) = (RunTime::new(), RunTime::new());
            batch.record(u64::from(n) * 20 * US, n);
            (0..n).for_each(|_| single.record(20 * US, 1));
            assert!(batch.average().abs_diff(single.average()) <= 10, "{n}: {batch:?} {single:?}");
        }
    }

    #[test]
    fn a_change_that_lasts_is_followed() {
        let mut estimate = at(US);
        let batches = (1..).find(|_| {
            let interval = injector_interval(estimate.average());
            estimate.record(u64::from(interval) * MS, interval);
            estimate.average() > 9 * MS / 10
        });
        assert!(batches.unwrap() <= 10, "{batches:?}");
    }

    #[test]
    fn an_estimate_of_zero_can_rise() {
        let mut estimate = at(0);
        (0..20).for_each(|_| estimate.record(8 * MS, 8));
        assert!(estimate.average() > 9 * MS / 10, "{estimate:?}");
    }

    proptest! {
        #[test]
        fn one_outlier_is_forgotten_in_five_batches(
            usual in US..10 * MS,
            outlier in 0..100 * MS,
            size in 8u32..256,
        ) {
            let mut estimate = at(usual);
            estimate.record(u64::from(size) * usual + outlier, size);
            prop_assert!(estimate.average() <= OUTLIER * usual);
            for _ in 0..5 {
                estimate.record(8 * usual, 8);
            }
            prop_assert!(estimate.average() <= usual + usual * 5 / 100);
        }

        #[test]
        fn stays_among_its_samples(
            first in 0..100 * MS,
            batches in prop::collection::vec((0..1_000 * MS, 0u32..300), 1..50),
        ) {
            let mut estimate = at(first);
            let (mut low, mut high) = (first, first);
            for (elapsed, n) in batches {
                if n > 0 {
                    low = low.min(elapsed / u64::from(n));
                    high = high.max(elapsed / u64::from(n));
                }
                estimate.record(elapsed, n);
                prop_assert!((low..=high).contains(&estimate.average()));
            }
        }

        #[test]
        fn arrives_exactly(first in 0..100 * MS, sample in 0..100 * MS, n in 1u32..300) {
            let mut estimate = at(first);
            (0..400).for_each(|_| estimate.record(sample * u64::from(n), n));
            prop_assert_eq!(estimate.average(), sample);
        }

        #[test]
        fn no_batch_overflows(first: u64, elapsed: u64, n: u32) {
            at(first).record(elapsed, n);
        }
    }
}
