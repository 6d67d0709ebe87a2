//! Where the values stand: a table of entries, found by their numbers, that receivers read without a lock.
//!
//! Only a sender with the channel's lock changes it. The table begins small and doubles when a value that
//! somebody waits for stands where the next one belongs, up to the capacity. Tables that were outgrown stay
//! until the channel goes: a receiver may have read the pointer to one. They are no larger than the last one,
//! all together, and what they say of the values up to then stays true.
//!
//! An entry is used again for the next value that belongs there, unless somebody looks at it just then: it
//! goes to the spare ones, and another stands in for it.
//!
//! # Invariants
//!
//! 1. `tail`, `table` and what the tables say are changed under the lock. Tables and entries are published by
//!    the releases of the pointers to them. For whoever has no lock, `tail` is a hint: that value's entry
//!    says whether it is there, and who does not find it looks again under the lock. Its release lets him
//!    find it.
//! 2. Tables and entries live as long as the ring. Each entry is in the last table or is spare.
//! 3. A value is live only while its number is not below `tail - capacity`.

use super::entry::{Entry, Pinned};
use crate::primitives::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// So long is the first table, at most.
const FIRST: usize = if cfg!(loom) { 1 } else { 16 };

/// Apart from the lock, which others write.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Ring<T> {
    /// The number of the value that is sent next.
    tail: AtomicU64,
    /// The last one.
    table: AtomicPtr<Table<T>>,
    capacity: u64,
    owns: PhantomData<NonNull<Entry<T>>>,
}

// SAFETY: values are moved from thread to thread, and cloned on several at once; the rest is entries, whose
// protocol is for several threads.
unsafe impl<T: Send + Sync> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Ring<T> {}

#[derive(Debug)]
struct Table<T> {
    /// As many as a power of two.
    entries: Box<[AtomicPtr<Entry<T>>]>,
    /// The one that it replaced.
    before: *mut Table<T>,
}

impl<T> Table<T> {
    fn new(len: usize, before: *mut Table<T>) -> *mut Table<T> {
        let entries = (0..len).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Box::into_raw(Box::new(Table { entries, before }))
    }

    /// Where the value with this number belongs.
    #[inline]
    fn place(&self, number: u64) -> &AtomicPtr<Entry<T>> {
        &self.entries[number as usize & (self.entries.len() - 1)]
    }
}

/// The part that is under the lock: who has it by `&mut`, has the lock.
#[derive(Debug)]
pub(super) struct Spare<T>(VecDeque<NonNull<Entry<T>>>);

// SAFETY: as for the ring, of which it is a part.
unsafe impl<T: Send + Sync> Send for Spare<T> {}

impl<T> Ring<T> {
    pub(super) fn new(capacity: usize) -> (Ring<T>, Spare<T>) {
        let first = Table::new(capacity.min(FIRST).next_power_of_two(), ptr::null_mut());
        let ring = Ring {
            tail: AtomicU64::new(0),
            table: AtomicPtr::new(first),
            capacity: capacity as u64,
            owns: PhantomData,
        };
        (ring, Spare(VecDeque::new()))
    }

    /// The number of the value that is sent next. Under the lock it stands still.
    #[inline]
    pub(super) fn tail(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    /// The number of the oldest value that may still be there. Under the lock it stands still.
    pub(super) fn oldest(&self) -> u64 {
        self.tail().saturating_sub(self.capacity)
    }

    #[inline]
    fn table(&self) -> &Table<T> {
        // SAFETY: invariant 2.
        unsafe { &*self.table.load(Ordering::Acquire) }
    }

    #[inline]
    fn entry(&self, number: u64) -> Option<&Entry<T>> {
        let entry = self.table().place(number).load(Ordering::Acquire);
        // SAFETY: invariant 2.
        unsafe { entry.as_ref() }
    }

    /// The value with this number, for a receiver that has not got it. `None` if it is not there yet, or not
    /// any more. Under the lock only if it is there: with the other answers a value may be dropped.
    #[inline]
    pub(super) fn pin(&self, number: u64) -> Option<Pinned<'_, T>> {
        if number >= self.tail() {
            return None;
        }
        self.entry(number)?.pin(number).ok()
    }

    /// For a receiver that goes, and has not got the value with this number, which was sent. What is returned, be it
    /// that one or another, has to be dropped.
    pub(super) fn skip(&self, number: u64) -> Option<T> {
        match self.entry(number)?.pin(number) {
            Ok(pinned) => pinned.skip(),
            Err(left) => left,
        }
    }

    /// Sends. Returns what the caller has to drop after he has given the lock back.
    pub(super) fn push(&self, spare: &mut Spare<T>, value: T, receivers: usize) -> Option<T> {
        let number = self.tail();
        let evicted = number.checked_sub(self.capacity).and_then(|number| {
            // SAFETY: the caller has the lock; what is in the table was put there.
            self.entry(number).filter(|entry| unsafe { entry.number() } == number)
        });
        // SAFETY: the caller has the lock.
        let evicted = evicted.and_then(|entry| unsafe { entry.evict() });
        let entry = self.free_entry(spare, number);
        // SAFETY: invariant 2; the caller has the lock, and it is free.
        unsafe { entry.as_ref().put(number, value, receivers) };
        self.tail.store(number + 1, Ordering::Release);
        evicted
    }

    /// The entry where the value with this number is to be put.
    fn free_entry(&self, spare: &mut Spare<T>, number: u64) -> NonNull<Entry<T>> {
        let mut place = self.table().place(number);
        while let Some(here) = NonNull::new(place.load(Ordering::Relaxed)) {
            // SAFETY: invariant 2.
            let entry = unsafe { here.as_ref() };
            if entry.is_free() {
                return here;
            }
            if !entry.is_live() {
                spare.0.push_back(here);
                break;
            }
            // It was not evicted, so the table is shorter than the capacity (invariant 3).
            self.grow();
            place = self.table().place(number);
        }
        let entry = spare.next();
        place.store(entry.as_ptr(), Ordering::Release);
        entry
    }

    /// By who has the lock.
    #[cold]
    fn grow(&self) {
        let table = self.table();
        let next = Table::new(table.entries.len() * 2, self.table.load(Ordering::Relaxed));
        for place in &table.entries {
            let entry = place.load(Ordering::Relaxed);
            // SAFETY: invariant 2; the caller has the lock.
            if let Some(number) = unsafe { entry.as_ref().map(|entry| entry.number()) } {
                // SAFETY: the caller's still.
                unsafe { &*next }.place(number).store(entry, Ordering::Relaxed);
            }
        }
        self.table.store(next, Ordering::Release);
    }

    /// How many values there are that somebody has not got.
    pub(super) fn len(&self, _lock: &mut Spare<T>) -> usize {
        let (mut from, tail) = (self.oldest(), self.tail());
        let mut to = tail;
        // Whoever has not got a value has not got those after it: the live ones are the last ones.
        while from < to {
            let middle = from + (to - from) / 2;
            // SAFETY: by `_lock`.
            let is_live = |entry: &Entry<T>| unsafe { entry.number() } == middle && entry.is_live();
            if self.entry(middle).is_some_and(is_live) {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        (tail - to) as usize
    }
}

impl<T> Spare<T> {
    /// The spare one that has been there longest, or a new one.
    fn next(&mut self) -> NonNull<Entry<T>> {
        if let Some(entry) = self.0.pop_front() {
            // SAFETY: entries live as long as the ring.
            if unsafe { entry.as_ref() }.is_free() {
                return entry;
            }
            self.0.push_back(entry);
        }
        NonNull::from(Box::leak(Box::new(Entry::new())))
    }

    /// # Safety
    ///
    /// Nobody uses the ring or the spare entries any more.
    pub(super) unsafe fn free(&mut self) {
        for entry in self.0.drain(..) {
            // SAFETY: it was a box, and stands in one place only.
            drop(unsafe { Box::from_raw(entry.as_ptr()) });
        }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let last = self.table.load(Ordering::Relaxed);
        // SAFETY: tables were boxes, and nobody else is there any more.
        for entry in unsafe { &(*last).entries } {
            let entry = entry.load(Ordering::Relaxed);
            if !entry.is_null() {
                // SAFETY: it was a box, and stands in one place of the last table only.
                drop(unsafe { Box::from_raw(entry) });
            }
        }
        let mut next = last;
        while !next.is_null() {
            // SAFETY: as above.
            next = unsafe { Box::from_raw(next) }.before;
        }
    }
}
