//! A set of small numbers that many threads change at once, of any width.
//!
//! Used for the slots of a slab that have memory, and by the scheduler's idle set: bit `i` says that worker `i` is
//! parked and may be claimed by whoever has work for it. Lowest first, so that under light load the same few workers
//! stay warm.
//!
//! Invariants:
//! 1. A bit goes from set to clear by one read-modify-write, whose old value says who did it: each
//!    setting of a bit is claimed by exactly one thread.
//! 2. Bits at and above `bits` are never set.
//!
//! Orderings: whoever claims a bit sees what its setter did before (release by `set`, acquire by
//! `clear` and the claims). Each read-modify-write is both, because a claim also publishes to a later
//! setter that finds the bit clear. This orders nothing across *different* locations: a worker that
//! sets its bit and then looks for work, against a producer that publishes work and then looks for a
//! set bit, is a store-load race, and each side needs its own `fence(SeqCst)` between the two steps.
//! With these fences the relaxed first look of a claim is enough.

use crate::primitives::sync::atomic::{AtomicU64, Ordering};

const WORD_BITS: usize = u64::BITS as usize;

#[derive(Debug)]
pub(crate) struct Bitmap {
    words: Box<[AtomicU64]>,
    bits: usize,
}

impl Bitmap {
    /// `bits` bits, all clear.
    pub(crate) fn new(bits: usize) -> Self {
        let words = (0..bits.div_ceil(WORD_BITS)).map(|_| AtomicU64::new(0));
        Self { words: words.collect(), bits }
    }

    /// Sets bit `i`; true if it was clear.
    #[track_caller]
    pub(crate) fn set(&self, i: usize) -> bool {
        let (word, mask) = self.locate(i);
        word.fetch_or(mask, Ordering::AcqRel) & mask == 0
    }

    /// Clears bit `i`; true if it was set, and so the caller is the one who claimed it.
    #[track_caller]
    pub(crate) fn clear(&self, i: usize) -> bool {
        let (word, mask) = self.locate(i);
        word.fetch_and(!mask, Ordering::AcqRel) & mask != 0
    }

    /// Clears the lowest set bit. `None` if no bit was set all the while; a bit that is set during
    /// the search may be missed.
    pub(crate) fn claim_lowest(&self) -> Option<usize> {
        self.claim_where(|_| u64::MAX)
    }

    /// As [`claim_lowest`](Self::claim_lowest), but leaves bit `i` alone.
    pub(crate) fn claim_lowest_except(&self, i: usize) -> Option<usize> {
        self.claim_where(
            |word| {
                if word == i / WORD_BITS { !(1 << (i % WORD_BITS)) } else { u64::MAX }
            },
        )
    }

    #[track_caller]
    pub(crate) fn is_set(&self, i: usize) -> bool {
        let (word, mask) = self.locate(i);
        word.load(Ordering::Acquire) & mask != 0
    }

    /// The bits that are set, lowest first; those of a word as they are when it is come to.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut left = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(index * WORD_BITS + bit)
            })
        })
    }

    #[cfg(test)]
    /// Whether a bit was set when its word was looked at.
    pub(crate) fn any(&self) -> bool {
        self.words.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    #[cfg(test)]
    /// How many bits are set; a snapshot of each word, not of the whole.
    pub(crate) fn count(&self) -> usize {
        let ones = |word: &AtomicU64| word.load(Ordering::Relaxed).count_ones() as usize;
        self.words.iter().map(ones).sum()
    }

    /// Clears the lowest bit that is set and in the mask `wanted` gives for its word.
    fn claim_where(&self, wanted: impl Fn(usize) -> u64) -> Option<usize> {
        self.words.iter().enumerate().find_map(|(index, word)| {
            let bit = claim_in_word(word, wanted(index))?;
            Some(index * WORD_BITS + bit)
        })
    }

    #[track_caller]
    fn locate(&self, i: usize) -> (&AtomicU64, u64) {
        let bits = self.bits;
        assert!(i < bits, "bit {i} of a bitmap of {bits} bits");
        (&self.words[i / WORD_BITS], 1 << (i % WORD_BITS))
    }
}

/// Each time another thread is quicker, its change is in the value that this one got instead.
fn claim_in_word(word: &AtomicU64, wanted: u64) -> Option<usize> {
    let mut seen = word.load(Ordering::Relaxed) & wanted;
    while seen != 0 {
        let lowest = seen & seen.wrapping_neg();
        let old = word.fetch_and(!lowest, Ordering::AcqRel);
        if old & lowest != 0 {
            return Some(lowest.trailing_zeros() as usize);
        }
        seen = old & wanted;
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    #[derive(Clone, Debug)]
    enum Op {
        Set(usize),
        Clear(usize),
        ClaimLowest,
        ClaimLowestExcept(usize),
    }

    /// Miri needs some milliseconds for each look at each bit.
    const WIDEST: usize = if cfg!(miri) { 70 } else { 300 };

    fn width_and_ops() -> impl Strategy<Value = (usize, Vec<Op>)> {
        (1..WIDEST).prop_flat_map(|bits| {
            let op = prop_oneof![
                4 => (0..bits).prop_map(Op::Set),
                1 => (0..bits).prop_map(Op::Clear),
                1 => Just(Op::ClaimLowest),
                1 => (0..bits).prop_map(Op::ClaimLowestExcept),
            ];
            (Just(bits), prop::collection::vec(op, 0..WIDEST))
        })
    }

    proptest! {
        #[test]
        fn behaves_like_a_set((bits, ops) in width_and_ops()) {
            let bitmap = Bitmap::new(bits);
            let mut model = BTreeSet::new();
            for op in ops {
                match op {
                    Op::Set(i) => prop_assert_eq!(bitmap.set(i), model.insert(i)),
                    Op::Clear(i) => prop_assert_eq!(bitmap.clear(i), model.remove(&i)),
                    Op::ClaimLowest => prop_assert_eq!(bitmap.claim_lowest(), model.pop_first()),
                    Op::ClaimLowestExcept(i) => {
                        let lowest = model.iter().copied().find(|&bit| bit != i);
                        lowest.map(|lowest| model.remove(&lowest));
                        prop_assert_eq!(bitmap.claim_lowest_except(i), lowest);
                    }
                }
                prop_assert_eq!(bitmap.count(), model.len());
                prop_assert_eq!(bitmap.any(), !model.is_empty());
                prop_assert!((0..bits).all(|i| bitmap.is_set(i) == model.contains(&i)));
                prop_assert!(bitmap.iter().eq(model.iter().copied()));
            }
        }
    }

    /// Every setting of a bit is claimed once, by the lowest-first claims and by `clear` together.
    #[test]
    fn racing_claimers_share_the_bits() {
        const BITS: usize = 130;
        const ROUNDS: usize = if cfg!(miri) { 100 } else { 50_000 };
        let bitmap = Bitmap::new(BITS);
        let start = Barrier::new(4);
        let (set, claimed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for thread in 0..4 {
                let (bitmap, start, set, claimed) = (&bitmap, &start, &set, &claimed);
                scope.spawn(move || {
                    start.wait();
                    let own = [thread, 63 + thread, BITS - 1 - thread];
                    for round in 0..ROUNDS {
                        let new = own.iter().filter(|&&i| bitmap.set(i)).count();
                        set.fetch_add(new, Ordering::Relaxed);
                        let won = match round % 3 {
                            0 => bitmap.claim_lowest().is_some(),
                            1 => bitmap.claim_lowest_except(thread).is_some(),
                            _ => bitmap.clear(own[round % 2]),
                        };
                        claimed.fetch_add(usize::from(won), Ordering::Relaxed);
                    }
                });
            }
        });
        let rest = bitmap.count();
        assert_eq!(set.into_inner(), claimed.into_inner() + rest);
    }

    /// The last bits are claimed by all at once: one wins, the others learn that there is none.
    #[test]
    fn one_claimer_wins_a_single_bit() {
        let bitmap = Bitmap::new(70);
        for _ in 0..if cfg!(miri) { 10 } else { 200 } {
            bitmap.set(69);
            let winners: usize = thread::scope(|scope| {
                let claim = || usize::from(bitmap.claim_lowest() == Some(69));
                let threads = [scope.spawn(claim), scope.spawn(claim), scope.spawn(claim)];
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(winners, 1);
        }
    }

    #[test]
    #[should_panic(expected = "bit 65 of a bitmap of 65 bits")]
    fn a_bit_beyond_the_width_is_refused() {
        Bitmap::new(65).set(65);
    }

    #[test]
    fn no_bits_at_all() {
        let bitmap = Bitmap::new(0);
        assert_eq!((bitmap.any(), bitmap.count(), bitmap.claim_lowest()), (false, 0, None));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::primitives::sync::Arc;
    use crate::primitives::sync::UnsafeCell;

    /// One claimer wins, and it sees what the setter wrote (a plain cell: loom reports a race).
    #[test]
    fn a_claim_is_exclusive_and_sees_the_setter() {
        struct Shared {
            bitmap: Bitmap,
            cell: UnsafeCell<u32>,
        }
        // SAFETY: the cell is reached only by the setter, before it sets, and by the one winner.
        unsafe impl Sync for Shared {}
        // SAFETY: a number and a bitmap.
        unsafe impl Send for Shared {}

        fn claim(shared: &Shared, won: Option<usize>) -> usize {
            // SAFETY: this thread claimed the bit, so it is alone.
            let read = won.map(|_| shared.cell.with_mut(|cell| unsafe { cell.replace(8) }));
            assert!(read.is_none_or(|value| value == 7));
            usize::from(won.is_some())
        }

        loom::model(|| {
            let shared = Arc::new(Shared { bitmap: Bitmap::new(2), cell: UnsafeCell::new(0) });
            let other = Arc::clone(&shared);
            let thief = loom::thread::spawn(move || claim(&other, other.bitmap.claim_lowest()));
            // SAFETY: nobody looks at the cell before the bit is set.
            shared.cell.with_mut(|cell| unsafe { *cell = 7 });
            assert!(shared.bitmap.set(1));
            let mine = claim(&shared, shared.bitmap.clear(1).then_some(1));
            assert_eq!(mine + thief.join().unwrap(), 1);
        });
    }
}
