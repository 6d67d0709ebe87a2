//! A small, fast generator of numbers nobody may rely on.
//!
//! Used by each worker for itself: the victim to steal from first, and sampling. The algorithm is the
//! "xorshift64+" of Go's `fastrand`: Marsaglia's xorshift ("Xorshift RNGs", 2003) on 64 bits of state
//! in two words of 32, shifts 17, 7 and 16, and the sum of the words as the result. Period 2^64 - 1.
//!
//! Invariant: the state is never all zero, from which it could not leave. Each step is a bijection
//! that maps zero to itself, so it is enough that [`Rng::new`] does not begin there.

/// 2^64 divided by the golden ratio: multiples of it lie far apart.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Debug)]
pub(crate) struct Rng {
    older: u32,
    newer: u32,
}

impl Rng {
    /// The generator number `index` of a family: `seed` is the family's, from the time or the system.
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        let state = seed.wrapping_add(index.wrapping_mul(GOLDEN));
        let state = if state == 0 { GOLDEN } else { state };
        Self { older: (state >> 32) as u32, newer: state as u32 }
    }

    pub(crate) fn next_u32(&mut self) -> u32 {
        let mut mixed = self.older;
        mixed ^= mixed << 17;
        mixed ^= self.newer ^ (mixed >> 7) ^ (self.newer >> 16);
        self.older = self.newer;
        self.newer = mixed;
        self.older.wrapping_add(self.newer)
    }

    /// A number below `n`, by Lemire's multiplication instead of a division. Without his rejection
    /// step, so the numbers are not quite equally likely: by one part in 2^32 / `n`, which does not
    /// matter for the choice of a victim.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        debug_assert!(n > 0, "no number is below zero");
        ((u64::from(self.next_u32()) * u64::from(n)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::{GOLDEN, Rng};
    use proptest::prelude::*;

    /// Go's `fastrand` from the state [1, 2] and from [0xDEAD_BEEF, 0x0123_4567], computed apart.
    #[test]
    fn the_sequence_is_that_of_fastrand() {
        let mut rng = Rng { older: 1, newer: 2 };
        let numbers: Vec<u32> = (0..5).map(|_| rng.next_u32()).collect();
        assert_eq!(numbers, [0x0002_0405, 0x0008_1006, 0x0818_0C11, 0x1834_0415, 0x285E_0C32]);
        let mut rng = Rng::new(0xDEAD_BEEF_0123_4567, 0);
        let numbers: Vec<u32> = (0..5).map(|_| rng.next_u32()).collect();
        assert_eq!(numbers, [0xA439_633D, 0xCD02_3F03, 0xDA53_8259, 0x8B6D_FD50, 0x84E3_F4F0]);
    }

    #[test]
    fn a_seed_that_cancels_the_index_is_not_zero() {
        for index in 0..10u64 {
            let mut rng = Rng::new(index.wrapping_mul(GOLDEN).wrapping_neg(), index);
            assert!((0..10).any(|_| rng.next_u32() != 0), "stuck at zero");
        }
    }

    #[test]
    fn all_victims_are_about_equally_likely() {
        for index in 0..if cfg!(miri) { 2 } else { 64 } {
            let mut rng = Rng::new(1, index);
            let mut hits = [0u32; 7];
            (0..7_000).for_each(|_| hits[rng.below(7) as usize] += 1);
            assert!(hits.iter().all(|hits| (850..1150).contains(hits)), "{index}: {hits:?}");
        }
    }

    proptest! {
        #[test]
        fn below_is_below(seed: u64, index: u64, n in 1..=u32::MAX) {
            let mut rng = Rng::new(seed, index);
            prop_assert!((0..100).all(|_| rng.below(n) < n));
        }

        #[test]
        fn two_workers_go_different_ways(seed: u64, index in 0u64..1000) {
            let (mut one, mut two) = (Rng::new(seed, index), Rng::new(seed, index + 1));
            prop_assert!((0..8).any(|_| one.next_u32() != two.next_u32()));
        }
    }
}
