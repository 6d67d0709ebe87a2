//! A queue with a bound and without a lock: any number of senders, one receiver.
//!
//! A ring of slots, each with a word that says for which place it is free, or whose value it holds: the
//! bounded queue of Dmitry Vyukov, with one receiver, who therefore claims nothing. A sender claims the
//! next place by one compare-and-swap on `tail` if its slot is free, writes the value and marks the slot;
//! the receiver takes the values in the order of the places and marks each slot free for the next lap,
//! with plain loads and stores.
//!
//! A place is a number: an index into the ring, times two, and above it the lap. Where its low bit is set
//! it says, in a slot's word, that the value is there, and in `tail`, that the queue is closed.
//!
//! # Invariants
//!
//! 1. A slot is written by the sender that claimed its place, before it marks the slot full, and read by
//!    the receiver after that and before it marks the slot free. Both marks are releases, which the
//!    other side acquires.
//! 2. `head` is the receiver's own.
//! 3. Once `tail` has the bit [`CLOSED`], which the receiver sets, no place is claimed any more.
//! 4. While the slot of the place that `tail` names is not free, only the receiver moves `tail`.
//!
//! # Waiting
//!
//! The ring promises what [`super::blocks`] does: whoever announces a wait of the receiver's, has a full
//! fence and then finds the ring [empty](Ring::is_empty), is seen by every sender that comes later and
//! looks after its [`push`](Ring::push). The other way round, for a sender that waits for room: it
//! announces that, has a full fence, and finds no room by `push`, which looks at the word of a slot; the
//! receiver stores to that in [`pop`](Ring::pop), has a full fence of its own, and looks whether a sender
//! waits.

use super::apart::{Apart, pause};
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};
use crate::primitives::sync::{UnsafeCell, fence_after_exchange};
use crate::util::drop_all::drop_all;
use std::mem::MaybeUninit;

/// In `tail`: the receiver has gone.
const CLOSED: usize = 1;
/// In a slot's word: the value of the place is there.
const FULL: usize = 1;
/// From one index to the next.
const STEP: usize = 2;

#[derive(Debug)]
#[repr(C)]
pub(super) struct Ring<T> {
    slots: Box<[Slot<T>]>,
    /// From one lap to the next; a power of two.
    lap: usize,
    _before: Apart,
    /// The next place, and `CLOSED`.
    tail: AtomicUsize,
    _between: Apart,
    /// The place of the next value.
    head: UnsafeCell<usize>,
    _behind: Apart,
}

#[derive(Debug)]
struct Slot<T> {
    /// The place for which it is free, or that place and `FULL`.
    word: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// Why a value was not pushed.
#[derive(Debug)]
pub(super) enum Refused<T> {
    Full(T),
    Closed(T),
}

// SAFETY: values are moved from thread to thread, and reached by one at a time (invariants 1 and 2).
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    pub(super) fn new(bound: usize) -> Ring<T> {
        let slot = |index| Slot {
            word: AtomicUsize::new(index * STEP),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        };
        Ring {
            // First: it panics if that is too much.
            slots: (0..bound).map(slot).collect(),
            lap: bound.next_power_of_two() * STEP,
            _before: Apart::new(),
            tail: AtomicUsize::new(0),
            _between: Apart::new(),
            head: UnsafeCell::new(0),
            _behind: Apart::new(),
        }
    }

    /// Is there never any room?
    pub(super) fn is_rendezvous(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slot of `place`; none if there are none.
    #[inline(always)]
    fn slot(&self, place: usize) -> Option<&Slot<T>> {
        self.slots.get((place & (self.lap - 1)) / STEP)
    }

    #[inline(always)]
    fn after(&self, place: usize) -> usize {
        let next = place.wrapping_add(STEP);
        if (next & (self.lap - 1)) / STEP < self.slots.len() && next & (self.lap - 1) != 0 {
            return next;
        }
        (place & !(self.lap - 1)).wrapping_add(self.lap)
    }

    /// Appends `value` if there is room.
    #[inline]
    pub(super) fn push(&self, value: T) -> Result<(), Refused<T>> {
        let mut tail = self.tail.load(Ordering::Acquire);
        loop {
            if tail & CLOSED != 0 {
                return Err(Refused::Closed(value));
            }
            let Some(slot) = self.slot(tail) else { return Err(Refused::Full(value)) };
            if slot.word.load(Ordering::Acquire) != tail {
                // Not free, or not any more.
                let now = self.tail.load(Ordering::Acquire);
                if now == tail {
                    return Err(Refused::Full(value));
                }
                tail = now;
                continue;
            }
            let next = self.after(tail);
            let (success, failure) = (Ordering::SeqCst, Ordering::Acquire);
            match self.tail.compare_exchange_weak(tail, next, success, failure) {
                Ok(_) => {
                    fence_after_exchange();
                    // SAFETY: claimed just now (invariant 1).
                    slot.value.with_mut(|place| unsafe { (*place).write(value) });
                    slot.word.store(tail | FULL, Ordering::Release);
                    return Ok(());
                }
                Err(now) => tail = now,
            }
        }
    }

    /// Takes the next value, if it is there.
    ///
    /// # Safety
    ///
    /// Called by the receiver, as all that follow.
    #[inline]
    pub(super) unsafe fn pop(&self) -> Option<T> {
        self.head.with_mut(|head| {
            // SAFETY: invariant 2.
            let head = unsafe { &mut *head };
            let slot = self.slot(*head)?;
            if slot.word.load(Ordering::Acquire) != *head | FULL {
                return None;
            }
            // SAFETY: invariant 1, and each place is read once.
            let value = slot.value.with(|value| unsafe { (*value).assume_init_read() });
            slot.word.store(head.wrapping_add(self.lap), Ordering::Release);
            *head = self.after(*head);
            Some(value)
        })
    }

    /// Takes the next value and appends what `next` gives, if that is something, in one step, so that
    /// no sender finds room between. `None` and without a call of `next` if no value is there; without
    /// one also if there is room.
    ///
    /// # Safety
    ///
    /// As for `pop`.
    pub(super) unsafe fn pop_and_push(&self, next: impl FnOnce() -> Option<T>) -> Option<T> {
        // SAFETY: invariant 2.
        let head = self.head.with(|head| unsafe { *head });
        let slot = self.slot(head)?;
        if slot.word.load(Ordering::Acquire) != head | FULL {
            return None;
        }
        let place = head.wrapping_add(self.lap);
        let next = if self.tail.load(Ordering::Acquire) == place { next() } else { None };
        let Some(next) = next else {
            // SAFETY: passed on.
            return unsafe { self.pop() };
        };
        // SAFETY: invariants 1, and 4, by which the slot's next place can be claimed by nobody else.
        let value = slot.value.with_mut(|value| unsafe {
            std::mem::replace(&mut *value, MaybeUninit::new(next)).assume_init()
        });
        self.tail.store(self.after(place), Ordering::Release);
        slot.word.store(place | FULL, Ordering::Release);
        // SAFETY: invariant 2.
        self.head.with_mut(|head| unsafe { *head = self.after(*head) });
        Some(value)
    }

    /// Is no place claimed that was not read?
    ///
    /// # Safety
    ///
    /// As for `pop`.
    pub(super) unsafe fn is_empty(&self) -> bool {
        // SAFETY: invariant 2.
        let head = self.head.with(|head| unsafe { *head });
        self.tail.load(Ordering::SeqCst) & !CLOSED == head
    }

    /// Nothing is pushed any more.
    ///
    /// # Safety
    ///
    /// As for `pop`.
    pub(super) unsafe fn close(&self) {
        self.tail.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Drops what is there or will be in a moment.
    ///
    /// # Safety
    ///
    /// As for `pop`; and it is closed.
    pub(super) unsafe fn drain(&self) {
        let mut rounds = 0;
        drop_all(|| {
            // SAFETY: passed on.
            while !unsafe { self.is_empty() } {
                // SAFETY: passed on.
                match unsafe { self.pop() } {
                    Some(value) => return Some(value),
                    None => pause(&mut rounds),
                }
            }
            None
        });
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: nobody else is left.
        unsafe { self.drain() };
    }
}
