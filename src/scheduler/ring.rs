//! The ring: a worker's own queue of 256 fibers, from which others may steal half.
//!
//! After Tokio's run queue (2019), itself after Go's. One owner pushes and pops; thieves take from
//! the front straight into their own rings.
//!
//! # Protocol
//!
//! `tail` is written by the owner alone. `head` packs two 32-bit indices that wrap: `real`, up to
//! which slots are taken, and `steal`, up to which slots may be overwritten. They differ while a
//! thief copies: it claims by moving `real`, copies, then moves `steal` up to `real`. While they
//! differ no other thief begins; the owner pops by moving `real` alone.
//!
//! - A push stores the slot, then `tail` (Release); a thief loads `tail` (Acquire) before it copies.
//! - A thief moves `steal` (Release) after its copy; a push loads `head` (Acquire) before it writes a
//!   slot, and counts from `steal`, so it never overwrites a slot that is being copied.

use crate::fiber::{Batch, FiberPtr};
use crate::primitives::sync::UnsafeCell;
use crate::primitives::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use std::mem::MaybeUninit;

/// Slots of a ring; small under loom, so that it can wrap.
#[cfg(not(loom))]
pub(crate) const CAPACITY: usize = 256;
#[cfg(loom)]
pub(crate) const CAPACITY: usize = 4;
const MASK: u32 = CAPACITY as u32 - 1;

/// A ring. Methods marked "Owner" are called by the owning worker alone.
#[derive(Debug)]
pub(crate) struct Ring {
    head: CachePadded<AtomicU64>,
    tail: CachePadded<AtomicU32>,
    slots: Box<[UnsafeCell<MaybeUninit<FiberPtr>>]>,
}

// SAFETY: slots are handed over by the protocol above.
unsafe impl Sync for Ring {}
// SAFETY: as above.
unsafe impl Send for Ring {}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Head {
    steal: u32,
    real: u32,
}

impl Head {
    fn unpack(word: u64) -> Head {
        Head { steal: (word >> 32) as u32, real: word as u32 }
    }

    fn pack(self) -> u64 {
        u64::from(self.steal) << 32 | u64::from(self.real)
    }

    fn is_stealing(self) -> bool {
        self.steal != self.real
    }

    /// `real` moved on by `count`, and `steal` with it unless a thief is copying.
    fn advance(self, count: u32) -> Head {
        let real = self.real.wrapping_add(count);
        Head { steal: if self.is_stealing() { self.steal } else { real }, real }
    }
}

impl Ring {
    pub(crate) fn new() -> Ring {
        Ring {
            head: CachePadded::new(AtomicU64::new(0)),
            tail: CachePadded::new(AtomicU32::new(0)),
            slots: (0..CAPACITY).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        }
    }

    /// An empty ring whose next slot has number `index`.
    #[cfg(test)]
    pub(crate) fn at(index: u32) -> Ring {
        let ring = Ring::new();
        let head = Head { steal: index, real: index };
        ring.head.store(head.pack(), Ordering::Relaxed);
        ring.tail.store(index, Ordering::Relaxed);
        ring
    }

    #[inline(always)]
    fn slot(&self, index: u32) -> &UnsafeCell<MaybeUninit<FiberPtr>> {
        // SAFETY: masked to the length of the slice.
        unsafe { self.slots.get_unchecked((index & MASK) as usize) }
    }

    #[inline(always)]
    fn read(&self, index: u32) -> FiberPtr {
        // SAFETY: the caller claimed a slot that was written, by the protocol.
        self.slot(index).with(|slot| unsafe { (*slot).assume_init() })
    }

    #[inline(always)]
    fn write(&self, index: u32, fiber: FiberPtr) {
        // SAFETY: the owner writes slots that are neither queued nor being copied.
        self.slot(index).with_mut(|slot| unsafe { (*slot).write(fiber) });
    }

    /// How many fibers are queued, by anyone. Exact while nobody pushes or takes; never below 0 nor
    /// above the capacity.
    pub(crate) fn len(&self) -> usize {
        let head = Head::unpack(self.head.load(Ordering::Acquire));
        let tail = self.tail.load(Ordering::Acquire);
        // A thief's head and the owner's tail of another moment may lie anywhere.
        (tail.wrapping_sub(head.real) as i32).clamp(0, CAPACITY as i32) as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Owner: the place behind the last that was pushed.
    pub(crate) fn mark(&self) -> u32 {
        self.tail.load(Ordering::Relaxed)
    }

    /// Owner: has everybody been taken who stood before `mark` was made?
    pub(crate) fn has_passed(&self, mark: u32) -> bool {
        let head = Head::unpack(self.head.load(Ordering::Acquire));
        head.real.wrapping_sub(mark) as i32 >= 0
    }

    /// Owner: room left for pushes.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        let head = Head::unpack(self.head.load(Ordering::Acquire));
        let tail = self.tail.load(Ordering::Relaxed);
        CAPACITY - tail.wrapping_sub(head.steal) as usize
    }

    /// Owner: appends `fiber`, or says that the ring is full: `Err` has half of the ring and `fiber`
    /// behind it, linked, for the injector.
    #[inline]
    pub(crate) fn push(&self, fiber: FiberPtr) -> Result<(), Batch> {
        let tail = self.tail.load(Ordering::Relaxed);
        let mut head = Head::unpack(self.head.load(Ordering::Acquire));
        loop {
            if (tail.wrapping_sub(head.steal) as usize) < CAPACITY {
                self.write(tail, fiber);
                self.tail.store(tail.wrapping_add(1), Ordering::Release);
                return Ok(());
            }
            if head.is_stealing() {
                // A thief is making room; only this one fiber goes elsewhere.
                let mut one = Batch::new();
                one.push(fiber);
                return Err(one);
            }
            match self.overflow(head, tail, fiber) {
                Ok(batch) => return Err(batch),
                Err(seen) => head = seen,
            }
        }
    }

    /// Owner: claims the older half of a full ring, in one exchange, and links it.
    #[cold]
    fn overflow(&self, head: Head, tail: u32, fiber: FiberPtr) -> Result<Batch, Head> {
        let half = CAPACITY as u32 / 2;
        debug_assert_eq!(tail.wrapping_sub(head.real), CAPACITY as u32);
        let next = head.advance(half);
        self.head
            .compare_exchange(head.pack(), next.pack(), Ordering::AcqRel, Ordering::Acquire)
            .map_err(Head::unpack)?;
        let mut batch = Batch::new();
        for offset in 0..half {
            batch.push(self.read(head.real.wrapping_add(offset)));
        }
        batch.push(fiber);
        Ok(batch)
    }

    /// Owner: takes the oldest.
    #[inline]
    pub(crate) fn pop(&self) -> Option<FiberPtr> {
        let tail = self.tail.load(Ordering::Relaxed);
        let mut head = Head::unpack(self.head.load(Ordering::Acquire));
        while head.real != tail {
            let next = head.advance(1);
            match self.head.compare_exchange(
                head.pack(),
                next.pack(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(self.read(head.real)),
                Err(seen) => head = Head::unpack(seen),
            }
        }
        None
    }

    /// A thief, which owns `into`: moves the older half there, but for the oldest, which it
    /// returns to run, with the number taken.
    pub(crate) fn steal_into(&self, into: &Ring) -> Option<(FiberPtr, usize)> {
        let into_tail = into.tail.load(Ordering::Relaxed);
        if into.room() < CAPACITY / 2 {
            return None;
        }
        let (claimed, count) = self.claim_half()?;
        let first = claimed.real.wrapping_sub(count);
        let fiber = self.read(first);
        for offset in 1..count {
            let index = into_tail.wrapping_add(offset - 1);
            into.write(index, self.read(first.wrapping_add(offset)));
        }
        self.release_claim(claimed);
        if count > 1 {
            into.tail.store(into_tail.wrapping_add(count - 1), Ordering::Release);
        }
        Some((fiber, count as usize))
    }

    /// A thief that has no ring at hand: takes up to half, linked.
    pub(crate) fn steal_batch(&self) -> Batch {
        let mut batch = Batch::new();
        let Some((claimed, count)) = self.claim_half() else { return batch };
        let first = claimed.real.wrapping_sub(count);
        let mut taken = [const { MaybeUninit::<FiberPtr>::uninit() }; CAPACITY];
        for offset in 0..count {
            taken[offset as usize].write(self.read(first.wrapping_add(offset)));
        }
        self.release_claim(claimed);
        for fiber in &taken[..count as usize] {
            // SAFETY: written just above.
            batch.push(unsafe { fiber.assume_init() });
        }
        batch
    }

    /// Moves `real` over ceil(n/2) slots, which the caller may then copy.
    fn claim_half(&self) -> Option<(Head, u32)> {
        let mut head = Head::unpack(self.head.load(Ordering::Acquire));
        loop {
            if head.is_stealing() {
                return None;
            }
            let tail = self.tail.load(Ordering::Acquire);
            let queued = tail.wrapping_sub(head.real);
            let count = queued.div_ceil(2);
            // The tail may be newer than the head; the exchange below would fail then.
            if count == 0 || queued > CAPACITY as u32 {
                return None;
            }
            let claim = Head { steal: head.steal, real: head.real.wrapping_add(count) };
            match self.head.compare_exchange(
                head.pack(),
                claim.pack(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some((claim, count)),
                Err(seen) => head = Head::unpack(seen),
            }
        }
    }

    /// The copy is done: moves `steal` up to wherever `real` is by now.
    fn release_claim(&self, mut head: Head) {
        loop {
            let next = Head { steal: head.real, real: head.real };
            match self.head.compare_exchange(
                head.pack(),
                next.pack(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(seen) => head = Head::unpack(seen),
            }
        }
    }
}

#[cfg(all(test, loom))]
#[path = "ring_models.rs"]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scheduler::tests::Fibers;

    /// What the owner takes while a thief copies does not free the slots that are being copied.
    #[test]
    fn a_slot_is_not_written_while_a_thief_copies_it() {
        let fibers = Fibers::new(CAPACITY + 1);
        let fiber = |n: usize| fibers.0[n];
        let ring = Ring::at(u32::MAX - 10);
        (0..CAPACITY).for_each(|n| assert!(ring.push(fiber(n)).is_ok()));
        let (claim, count) = ring.claim_half().expect("a full ring");
        assert_eq!(count as usize, CAPACITY / 2);
        assert!(ring.claim_half().is_none(), "one thief at a time");
        assert_eq!(ring.pop(), Some(fiber(CAPACITY / 2)));
        assert_eq!((ring.len(), ring.room()), (CAPACITY / 2 - 1, 0));
        let overflow = ring.push(fiber(CAPACITY)).expect_err("no room yet");
        assert_eq!(overflow.len(), 1, "and nothing to flow over but this one");
        ring.release_claim(claim);
        assert_eq!(ring.room(), CAPACITY / 2 + 1);
    }
}
