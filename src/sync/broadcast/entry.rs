//! One value of a broadcast, and how many have still to get it.
//!
//! # States
//!
//! All is in one word:
//!
//! - `remaining`: how many receivers have not got the value, those included who are cloning it;
//! - [`VALUE`]: the value is there;
//! - [`EVICTED`]: it was overwritten: no receiver begins with it any more;
//! - `pins`: how many look at the entry just now.
//!
//! A receiver **pins** the entry by one addition, and knows by what it finds whether the value is there and
//! not evicted; the number tells whether it is the one that it came for. If so it clones, and **leaves** by
//! one subtraction, of its pin and of its share of `remaining`. If not it takes back its pin alone. So a value
//! is handed over by two operations upon one cache line, with no lock held while a user's code runs.
//!
//! A value is **over** if it is evicted or `remaining` is 0. Whoever brings an entry to a state that is over,
//! without pins and with its value, *claims* it: by a compare-and-swap from just that state, so one does, and
//! the value is his to drop. Who fails has seen a pin that came meanwhile, whose owner finds the same state
//! when he leaves. The sender that evicts an entry without pins claims it in one step.
//!
//! Who pins while `remaining` is 1 is the only one left: he takes the value itself, and no clone.
//!
//! # Invariants
//!
//! 1. Number and value are written by the one sender who has the channel's lock, while the word has neither
//!    `VALUE` nor pins; whoever pins then finds no value and touches nothing. They are published by the
//!    release that sets `VALUE`.
//! 2. They are read by who pinned after that and saw the value there and not over, until he leaves; the number
//!    also under the lock, where nobody writes it.
//! 3. The value is moved out once: by who claimed it, or who has the last share. Either leaves the word with
//!    a pin and clears `VALUE`, or clears `VALUE` after it, so that no sender writes meanwhile. No other reads
//!    it then: he would have a share, or a pin.
//! 4. An entry lives as long as the channel: one may pin it by a pointer that is out of date.
//! 5. There are fewer pins than `PINS` can count: each is a receiver's, of which there are fewer.
//!
//! # Orderings
//!
//! Leaving is a release and pinning and claiming are acquires, on a word that is changed by read-modify-write
//! only: so whoever moves the value out, or writes the next, comes after all who have looked at it.

use crate::cancel;
use crate::primitives::sync::UnsafeCell;
use crate::primitives::sync::atomic::{AtomicU64, Ordering};
use std::mem::{ManuallyDrop, MaybeUninit};

/// In the lowest bits, `remaining`.
const SHARES: u64 = EVICTED - 1;
const SHARE: u64 = 1;
const EVICTED: u64 = 1 << 31;
const VALUE: u64 = 1 << 32;
/// And the rest is pins.
const PIN: u64 = 1 << 33;
const PINS: u64 = !(PIN - 1);

/// So many receivers there can be.
pub(super) const MOST_SHARES: usize = SHARES as usize;

/// Has the value, and somebody is to get it.
fn is_live(word: u64) -> bool {
    word & (VALUE | EVICTED) == VALUE && word & SHARES != 0
}

/// Has a value that nobody will get.
fn is_left(word: u64) -> bool {
    word & VALUE != 0 && word & PINS == 0 && !is_live(word)
}

/// Not on a cache line of its own: a receiver that goes through a row of small values brings two with each
/// line, which is a tenth faster than one.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Entry<T> {
    word: AtomicU64,
    number: UnsafeCell<u64>,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Entry<T> {
    pub(super) fn new() -> Entry<T> {
        Entry {
            word: AtomicU64::new(0),
            number: UnsafeCell::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// May the next value be put here? By the sender.
    pub(super) fn is_free(&self) -> bool {
        self.word.load(Ordering::Acquire) & (VALUE | PINS) == 0
    }

    /// Does somebody wait for the value here?
    pub(super) fn is_live(&self) -> bool {
        is_live(self.word.load(Ordering::Relaxed))
    }

    /// Of the value that is here, or was the last.
    ///
    /// # Safety
    ///
    /// The caller has the channel's lock, and something was put here.
    pub(super) unsafe fn number(&self) -> u64 {
        // SAFETY: invariants 1 and 2.
        self.number.with(|number| unsafe { *number })
    }

    /// # Safety
    ///
    /// The caller has the channel's lock, and has found the entry free since.
    pub(super) unsafe fn put(&self, number: u64, value: T, receivers: usize) {
        debug_assert!(receivers > 0 && receivers <= MOST_SHARES);
        // SAFETY: invariant 1.
        self.number.with_mut(|place| unsafe { *place = number });
        // SAFETY: as above.
        self.value.with_mut(|place| unsafe { (*place).write(value) });
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // Pins of those who are out of date stay; a mark of the last value's does not.
            let full = word & PINS | VALUE | receivers as u64;
            match self.word.compare_exchange_weak(word, full, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Nobody begins with the value any more. It is the caller's to drop, unless somebody else sees to that.
    ///
    /// # Safety
    ///
    /// The caller has the channel's lock.
    pub(super) unsafe fn evict(&self) -> Option<T> {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & VALUE != 0 {
            let alone = word & PINS == 0;
            let next = if alone { 0 } else { word | EVICTED };
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                // SAFETY: claimed; and only the caller could write the next value.
                Ok(_) => return alone.then(|| unsafe { self.move_out() }),
                Err(now) => word = now,
            }
        }
        None
    }

    /// The value with this number, if it is here, for a receiver that has not got it. If not, another may
    /// be the caller's to drop, since all others have left it.
    #[inline]
    pub(super) fn pin(&self, number: u64) -> Result<Pinned<'_, T>, Option<T>> {
        let word = self.word.fetch_add(PIN, Ordering::Acquire);
        // SAFETY: invariant 2.
        if is_live(word) && self.number.with(|here| unsafe { *here }) == number {
            return Ok(Pinned { entry: self, last: word & SHARES == 1 });
        }
        Err(self.leave(PIN))
    }

    /// Takes back a pin, and perhaps a share. Returns the value if the caller has to drop it.
    #[inline]
    fn leave(&self, parts: u64) -> Option<T> {
        let word = self.word.fetch_sub(parts, Ordering::Release) - parts;
        if is_left(word) { self.claim(word) } else { None }
    }

    #[inline(never)]
    fn claim(&self, word: u64) -> Option<T> {
        // With a pin: no sender writes before the value is out.
        self.word.compare_exchange(word, PIN, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // SAFETY: claimed.
        let value = unsafe { self.move_out() };
        self.word.fetch_sub(PIN, Ordering::Release);
        Some(value)
    }

    /// # Safety
    ///
    /// Invariant 3.
    unsafe fn move_out(&self) -> T {
        // SAFETY: passed on. It is there: it was put before `VALUE` was set, and not moved out since.
        self.value.with_mut(|value| unsafe { (*value).assume_init_read() })
    }
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        if self.word.load(Ordering::Acquire) & VALUE != 0 {
            // SAFETY: nobody else is there any more.
            drop(unsafe { self.move_out() });
        }
    }
}

/// A value that a receiver has pinned, and goes on with in one of two ways.
#[derive(Debug)]
#[must_use]
pub(super) struct Pinned<'a, T> {
    entry: &'a Entry<T>,
    /// Nobody else is to get it.
    last: bool,
}

impl<T> Pinned<'_, T> {
    /// For a receiver that does not want it. What is returned has to be dropped.
    pub(super) fn skip(self) -> Option<T> {
        if self.last { Some(self.take()) } else { self.entry.leave(PIN + SHARE) }
    }

    /// The last one takes it, and does not leave otherwise.
    #[inline]
    fn take(self) -> T {
        // SAFETY: invariant 3; the pin keeps senders off.
        let value = unsafe { self.entry.move_out() };
        // A mark of eviction may stay behind, and is of no value any more.
        self.entry.word.fetch_sub(PIN + VALUE + SHARE, Ordering::Release);
        value
    }
}

impl<T: Clone> Pinned<'_, T> {
    /// The value for the receiver at `position`, which moves on. If its clone panics, the value counts as
    /// received; if the clone is cancelled, it does not.
    #[inline]
    pub(super) fn into_value(self, position: &mut u64) -> T {
        if self.last {
            *position += 1;
            return self.take();
        }
        let cloning = Cloning { entry: self.entry, position, before: cancel::unwound() };
        // SAFETY: invariant 2.
        let value = self.entry.value.with(|value| unsafe { (*value).assume_init_ref() }.clone());
        cloning.end();
        value
    }
}

/// Leaves the entry also if the clone unwinds.
struct Cloning<'a, 'p, T> {
    entry: &'a Entry<T>,
    position: &'p mut u64,
    /// The cancels of before, none of which unwinds the clone.
    before: cancel::Unwound,
}

impl<T> Cloning<'_, '_, T> {
    #[inline]
    fn end(self) {
        ManuallyDrop::new(self).leave(true);
    }

    #[inline]
    fn leave(&mut self, received: bool) {
        *self.position += u64::from(received);
        drop(self.entry.leave(PIN + if received { SHARE } else { 0 }));
    }
}

impl<T> Drop for Cloning<'_, '_, T> {
    #[cold]
    fn drop(&mut self) {
        self.leave(!cancel::is_unwinding_since(self.before));
    }
}

#[cfg(all(test, loom))]
#[path = "entry_models.rs"]
mod models;
