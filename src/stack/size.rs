//! How large a stack is: a power of two, checked once; and its slot, which is one page larger.
//!
//! Callers: everyone in this room; `runtime/` and `fiber/` build sizes from what users ask for.
//!
//! 1. A [`StackSize`] is a power of two from [`StackSize::min`] to [`StackSize::MAX`].
//! 2. The guard of its slot is a multiple of the page size: a quarter of the size at most, and one page.
//!
//! That page is for the translation buffers (TLB) of processors that choose an entry's place by the low bits of the
//! page's number: stacks a power of two apart share a few places, so that a switch among a thousand goes through the
//! page tables. At an odd distance in pages they have all of them: on a Zen 4 bursts of 1,000 wakes took 91 -> 53 ns a
//! wake, a thousand actors that send to each other 73 -> 59 ns a message (measured).

use super::memory;
use std::{fmt, io};

const KIB: usize = 1024;
const GUARD_MAX: usize = 64 * KIB;
const MIN: usize = if cfg!(debug_assertions) { 64 * KIB } else { 32 * KIB };
const MIN_LOG2: u32 = 15;
const MAX_LOG2: u32 = 30;

/// The address space of one stack, its guard included, but for a page of that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StackSize {
    log2: u8,
}

impl StackSize {
    /// How many different sizes there can be.
    pub(super) const CLASSES: usize = (MAX_LOG2 - MIN_LOG2 + 1) as usize;

    pub(crate) const MAX: StackSize = StackSize { log2: MAX_LOG2 as u8 };

    /// Unoptimised frames are several times larger, so builds with debug assertions get more.
    pub(crate) const DEFAULT: StackSize =
        StackSize { log2: if cfg!(debug_assertions) { 20 } else { 18 } };

    /// Rounds `bytes` up to a power of two.
    ///
    /// # Errors
    /// `InvalidInput` if `bytes` is below the least or above the greatest size.
    pub(crate) fn new(bytes: usize) -> io::Result<StackSize> {
        let (min, max) = (Self::min().bytes(), Self::MAX.bytes());
        if bytes < min || bytes > max {
            let message = format!(
                "stack size of {bytes} bytes is out of range: the least is {min} ({}), the greatest {max} ({})",
                Bytes(min),
                Bytes(max),
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(StackSize { log2: bytes.next_power_of_two().trailing_zeros() as u8 })
    }

    /// The least size: four pages at least, so that the guard is a whole number of them.
    pub(crate) fn min() -> StackSize {
        let bytes = MIN.max(4 * memory::page_size());
        StackSize { log2: bytes.next_power_of_two().trailing_zeros() as u8 }
    }

    #[inline]
    pub(crate) const fn bytes(self) -> usize {
        1 << self.log2
    }

    /// From one slot to the next of this size.
    #[inline]
    pub(super) fn slot_bytes(self) -> usize {
        self.bytes() + memory::page_size()
    }

    /// Does `address` lie in the slot of this size whose header is at `top`, below that, and not deep in its guard?
    #[inline]
    pub(crate) const fn holds(self, top: usize, address: usize) -> bool {
        // Fewer than its slot has below the header.
        top.wrapping_sub(address) < self.bytes()
    }

    /// Bytes of the slot, at its low end, that fault when touched.
    #[inline]
    pub(super) fn guard_bytes(self) -> usize {
        self.slot_bytes() - self.usable_bytes()
    }

    /// Bytes that are not guard. The header and the colour take up to 1 KiB of them.
    pub(crate) const fn usable_bytes(self) -> usize {
        let quarter = self.bytes() / 4;
        self.bytes() - if quarter < GUARD_MAX { quarter } else { GUARD_MAX }
    }

    /// The index of this size among all [`CLASSES`](Self::CLASSES).
    pub(super) const fn class(self) -> usize {
        self.log2 as usize - MIN_LOG2 as usize
    }

    /// The next larger size, or this one if it is the greatest: what an overflow report advises.
    pub(super) fn next_larger(self) -> StackSize {
        StackSize { log2: (self.log2 + 1).min(MAX_LOG2 as u8) }
    }
}

impl fmt::Debug for StackSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StackSize({self})")
    }
}

impl fmt::Display for StackSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Bytes(self.bytes()).fmt(f)
    }
}

/// A count of bytes in the largest unit that divides it. Formats without allocating.
pub(super) struct Bytes(pub(super) usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let fits = |&(shift, _): &(u32, &str)| self.0 != 0 && self.0.trailing_zeros() >= shift;
        match units.into_iter().find(fits) {
            Some((shift, unit)) => write!(f, "{} {unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}
