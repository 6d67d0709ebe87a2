//! tmp
use crate::primitives::sync::atomic::{AtomicU64, Ordering};
#[derive(Debug)]
pub(crate) struct Bitmap { words: Box<[AtomicU64]> }
impl Bitmap {
    pub(crate) fn new(bits: usize) -> Self { Self { words: (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() } }
    pub(crate) fn set(&self, i: usize) -> bool { self.words[i / 64].fetch_or(1 << (i % 64), Ordering::AcqRel) & (1 << (i % 64)) == 0 }
    pub(crate) fn clear(&self, i: usize) -> bool { self.words[i / 64].fetch_and(!(1 << (i % 64)), Ordering::AcqRel) & (1 << (i % 64)) != 0 }
    pub(crate) fn is_set(&self, i: usize) -> bool { self.words[i / 64].load(Ordering::Acquire) & (1 << (i % 64)) != 0 }
    pub(crate) fn claim_lowest(&self) -> Option<usize> { self.claim_lowest_except(usize::MAX) }
    pub(crate) fn claim_lowest_except(&self, except: usize) -> Option<usize> {
        for (w, word) in self.words.iter().enumerate() {
            loop {
                let mut v = word.load(Ordering::Acquire);
                if except / 64 == w { v &= !(1 << (except % 64)); }
                if v == 0 { break; }
                let i = w * 64 + v.trailing_zeros() as usize;
                if self.clear(i) { return Some(i); }
            }
        }
        None
    }
}
