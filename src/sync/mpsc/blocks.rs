//! A queue without a bound and without a lock: any number of senders, one receiver.
//!
//! Values stand in blocks of [`CAPACITY`] slots, each linked to the next. `tail` numbers the places. A
//! sender claims the next place by one compare-and-swap on `tail`, writes the value there and marks the
//! slot; the receiver takes the values in the order of the places, with plain loads and stores. Blocks
//! with a spare number at their end, at which all others wait while one links the next block, are the
//! idea of crossbeam's `SegQueue`; with one receiver nothing more is needed to know when a block is done.
//!
//! # Invariants
//!
//! 1. A slot is written by the sender that claimed its place, before it marks the slot, and read by the
//!    receiver after that. The mark is a release that the receiver acquires.
//! 2. While `tail` stands at a place of a block, `tail_block` is that block: who claims the last place of
//!    it stores the next block before it moves `tail` on from the spare number, and nobody claims a
//!    place there before. So who has read `block` after `tail`, and then claims by comparing with what
//!    it read, has the right block: `tail` never comes back to a number.
//! 3. A sender's mark is the last that it does to a block, and who claims the last place links the next
//!    block before its mark. So a block of which the receiver has read all values is touched by nobody
//!    else any more, and has a successor. Who did not get the place it wanted has not touched the block.
//! 4. `head`, and what it points to, is the receiver's own.
//! 5. Once `tail` has the bit [`CLOSED`], no place is claimed any more.
//!
//! # Waiting
//!
//! The queue knows nothing of it, but promises what its owner needs (the store-then-load race, Dekker):
//! the receiver announces that it waits, then has a full fence, then calls [`is_empty`](Blocks::is_empty),
//! which looks at `tail`; a sender claims, which moves `tail`, then has a full fence (the exchange itself,
//! where the processor makes it one), and, when [`push`](Blocks::push) has returned, looks whether the
//! receiver waits. Of the two fences one is first: either the receiver sees the place claimed, or the
//! sender sees the receiver wait. A place that is claimed counts as a value: whoever finds one takes it by
//! [`pop_claimed`](Blocks::pop_claimed), for the sender is some instructions away from its mark.

use super::apart::{Apart, pause};
use crate::primitives::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use crate::primitives::sync::{UnsafeCell, fence_after_exchange};
use crate::util::drop_all::drop_all;
use std::mem::MaybeUninit;
use std::ptr;

/// Numbers per block: its slots and the spare one.
const LAP: usize = if cfg!(loom) { 2 } else { 32 };
/// Values in a block.
const CAPACITY: usize = LAP - 1;

/// In `tail`: the receiver has gone.
const CLOSED: usize = 1;
/// From one number to the next.
const STEP: usize = 2;

#[derive(Debug)]
#[repr(C)]
pub(super) struct Blocks<T> {
    /// The number of the next place, times `STEP`, and `CLOSED`.
    tail: AtomicUsize,
    /// The block with that place (invariant 2).
    tail_block: AtomicPtr<Block<T>>,
    /// An empty block for the next who needs one.
    spare: AtomicPtr<Block<T>>,
    _apart: Apart,
    head: UnsafeCell<Head<T>>,
    _behind: Apart,
}

#[derive(Debug)]
struct Head<T> {
    /// As `tail`; never at a spare number.
    number: usize,
    block: *mut Block<T>,
}

#[derive(Debug)]
struct Block<T> {
    slots: [Slot<T>; CAPACITY],
    next: AtomicPtr<Block<T>>,
}

#[derive(Debug)]
struct Slot<T> {
    full: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: values are moved from thread to thread, and reached by one at a time (invariants 1 and 4).
unsafe impl<T: Send> Send for Blocks<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Blocks<T> {}

const fn offset(number: usize) -> usize {
    number / STEP % LAP
}

impl<T> Block<T> {
    fn new() -> *mut Block<T> {
        // In place: many large values need not fit on the stack.
        let mut block = Box::<Block<T>>::new_uninit();
        let place = block.as_mut_ptr();
        for offset in 0..CAPACITY {
            // SAFETY: inside the allocation, which is ours.
            unsafe {
                let slot = &raw mut (*place).slots[offset];
                (&raw mut (*slot).full).write(AtomicBool::new(false));
                (&raw mut (*slot).value).write(UnsafeCell::new(MaybeUninit::uninit()));
            }
        }
        // SAFETY: as above; now every field is written.
        unsafe {
            (&raw mut (*place).next).write(AtomicPtr::new(ptr::null_mut()));
            Box::into_raw(block.assume_init())
        }
    }

    /// As new.
    fn reset(&self) {
        for slot in &self.slots {
            slot.full.store(false, Ordering::Relaxed);
        }
        self.next.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

impl<T> Blocks<T> {
    pub(super) fn new() -> Blocks<T> {
        let block = Block::new();
        Blocks {
            tail: AtomicUsize::new(0),
            tail_block: AtomicPtr::new(block),
            spare: AtomicPtr::new(ptr::null_mut()),
            _apart: Apart::new(),
            head: UnsafeCell::new(Head { number: 0, block }),
            _behind: Apart::new(),
        }
    }

    /// Appends `value`; gives it back if the queue is closed.
    #[inline]
    pub(super) fn push(&self, value: T) -> Result<(), T> {
        let mut tail = self.tail.load(Ordering::Acquire);
        loop {
            let offset = offset(tail);
            if tail & CLOSED != 0 {
                return Err(value);
            }
            if offset >= CAPACITY - 1 {
                return self.push_last(value);
            }
            let block = self.tail_block.load(Ordering::Acquire);
            match self.claim(tail) {
                Ok(()) => {
                    // SAFETY: claimed, in the right block (invariant 2).
                    unsafe { Block::fill(block, offset, value) };
                    return Ok(());
                }
                Err(now) => tail = now,
            }
        }
    }

    #[inline(always)]
    fn claim(&self, tail: usize) -> Result<(), usize> {
        let next = tail.wrapping_add(STEP);
        let claimed =
            self.tail.compare_exchange_weak(tail, next, Ordering::SeqCst, Ordering::Acquire);
        claimed.map(|_| fence_after_exchange())
    }

    /// As `push`, perhaps to the last place of a block.
    #[cold]
    #[inline(never)]
    fn push_last(&self, value: T) -> Result<(), T> {
        let mut spare = Spare { blocks: self, block: ptr::null_mut() };
        let mut rounds = 0;
        loop {
            let tail = self.tail.load(Ordering::Acquire);
            let offset = offset(tail);
            if tail & CLOSED != 0 {
                return Err(value);
            }
            if offset == CAPACITY {
                pause(&mut rounds);
                continue;
            }
            // Before the claim: memory may have run out.
            let next = if offset + 1 == CAPACITY { spare.get() } else { ptr::null_mut() };
            let block = self.tail_block.load(Ordering::Acquire);
            if self.claim(tail).is_err() {
                continue;
            }
            if !next.is_null() {
                spare.block = ptr::null_mut();
                self.tail_block.store(next, Ordering::Release);
                // By an exchange, since the receiver may close it at any time.
                self.tail.fetch_add(STEP, Ordering::Release);
                // SAFETY: its last place is ours, and not marked yet (invariant 3).
                unsafe { (*block).next.store(next, Ordering::Release) };
            }
            // SAFETY: claimed, in the right block (invariant 2).
            unsafe { Block::fill(block, offset, value) };
            return Ok(());
        }
    }

    /// The next value, if it is there.
    ///
    /// # Safety
    ///
    /// Called by the receiver, as all that follow.
    #[inline]
    pub(super) unsafe fn pop(&self) -> Option<T> {
        self.head.with_mut(|head| {
            // SAFETY: the receiver's own, and its block is alive (invariants 3 and 4).
            let (head, block) = unsafe { (&mut *head, &*(*head).block) };
            let slot = &block.slots[offset(head.number)];
            if !slot.full.load(Ordering::Acquire) {
                return None;
            }
            // SAFETY: invariant 1, and each place is read once.
            let value = slot.value.with(|value| unsafe { (*value).assume_init_read() });
            head.number = head.number.wrapping_add(STEP);
            if offset(head.number) == CAPACITY {
                self.next_block(head);
            }
            Some(value)
        })
    }

    #[cold]
    #[inline(never)]
    fn next_block(&self, head: &mut Head<T>) {
        let done = head.block;
        // SAFETY: alive; all its values have been read, so it has a successor, and nobody else
        // touches it (invariant 3).
        unsafe {
            head.block = (*done).next.load(Ordering::Acquire);
            (*done).reset();
        }
        head.number = head.number.wrapping_add(STEP);
        self.put_spare(done);
    }

    /// Is no place claimed that was not read?
    ///
    /// # Safety
    ///
    /// As for `pop`.
    pub(super) unsafe fn is_empty(&self) -> bool {
        // SAFETY: the receiver's own.
        let head = self.head.with(|head| unsafe { (*head).number });
        self.tail.load(Ordering::SeqCst) & !CLOSED == head
    }

    /// The next value, which is there or will be in a moment.
    ///
    /// # Safety
    ///
    /// As for `pop`; and it is not empty.
    pub(super) unsafe fn pop_claimed(&self) -> T {
        let mut rounds = 0;
        loop {
            // SAFETY: passed on.
            if let Some(value) = unsafe { self.pop() } {
                return value;
            }
            pause(&mut rounds);
        }
    }

    /// Closes the queue and drops what is in it.
    ///
    /// # Safety
    ///
    /// As for `pop`.
    pub(super) unsafe fn close(&self) {
        self.tail.fetch_or(CLOSED, Ordering::AcqRel);
        // SAFETY: passed on.
        drop_all(|| unsafe { (!self.is_empty()).then(|| self.pop_claimed()) });
    }

    fn put_spare(&self, block: *mut Block<T>) {
        let before = self.spare.swap(block, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: a spare block is its holder's alone.
            drop(unsafe { Box::from_raw(before) });
        }
    }
}

impl<T> Block<T> {
    /// # Safety
    ///
    /// The caller has claimed the place.
    #[inline(always)]
    unsafe fn fill(block: *mut Block<T>, offset: usize, value: T) {
        // SAFETY: until it is marked the block is alive, and the slot ours (invariants 1 and 3).
        unsafe {
            let slot = &raw const (*block).slots[offset];
            (*slot).value.with_mut(|place| (*place).write(value));
            (*slot).full.store(true, Ordering::Release);
        }
    }
}

/// An empty block in the hands of one who may need it.
struct Spare<'a, T> {
    blocks: &'a Blocks<T>,
    block: *mut Block<T>,
}

impl<T> Spare<'_, T> {
    fn get(&mut self) -> *mut Block<T> {
        if self.block.is_null() {
            let spare = self.blocks.spare.swap(ptr::null_mut(), Ordering::Acquire);
            self.block = if spare.is_null() { Block::new() } else { spare };
        }
        self.block
    }
}

impl<T> Drop for Spare<'_, T> {
    fn drop(&mut self) {
        if !self.block.is_null() {
            self.blocks.put_spare(self.block);
        }
    }
}

impl<T> Drop for Blocks<T> {
    fn drop(&mut self) {
        // SAFETY: nobody else is left; so what is left of the values is the caller's, and all but two
        // blocks are gone.
        unsafe {
            self.close();
            drop(Box::from_raw(self.head.with(|head| (*head).block)));
            let spare = self.spare.load(Ordering::Relaxed);
            if !spare.is_null() {
                drop(Box::from_raw(spare));
            }
        }
    }
}
