//! A hierarchical timer wheel: deadlines set and cancelled in constant time.
//!
//! Used by the driver, one wheel per shard inside the shard's lock; `time` and every wait with a
//! deadline put an [`Entry`] on the waiting stack into it. Most deadlines are timeouts that are
//! cancelled, so setting and cancelling must be cheap and firing need not be. The wheel never reads a
//! clock: `now` is handed in. What a waiter is, it does not know.
//!
//! Time is cut into ticks of 2^16 ns (65.5 us). A tick number has eight digits of six bits. An entry
//! stands at the level of the highest digit in which its tick differs from the wheel's own time, in
//! the slot of that digit. When time reaches the beginning of a slot above level 0, its entries
//! *cascade*: they are placed anew, at a lower level. Eight levels cover every deadline there is, so
//! none is ever beyond the range; a quiet level costs nothing, because time jumps from one occupied
//! slot to the next by the occupancy words.
//!
//! After Varghese and Lauck, "Hashed and hierarchical timing wheels" (1987), scheme 7; levels by the
//! highest differing digit and the occupancy words as in the Linux kernel's and Tokio's.
//!
//! Invariants:
//! 1. An entry that is in is in the slot `place(tick)`, a function of its tick and of the wheel's
//!    `time` as it is *now*: an entry need not remember where it is.
//! 2. For that, `time` never passes the beginning of an occupied slot without emptying the slot. So
//!    an occupied slot's digit is above `time`'s at its level (at level 0: not below), and its upper
//!    digits are `time`'s; everything at one level is earlier than anything at the next, and the
//!    first slot of the lowest occupied level comes first.
//! 3. A bit of `occupied` is set exactly if that slot's list is not empty.
//! 4. `earliest` of an occupied slot is at most the tick of each of its entries, and within the slot's
//!    span. Removal does not raise it; being emptied resets it.
//! 5. Ticks round up and `time` rounds down: nothing fires early. [`NEVER_TICK`] is never reached.
//! 6. An item in a slot points at its entry, which is alive, and whose `index` says where the item is.
//!    An entry is in exactly if the item at that place points at it.
//!
//! A slot is an array of items, not a list through the entries: these stand on stacks that no cache has
//! by the time they fire, one on each page, and to walk them costs a miss or two for each.
//!
//! A bound made stale by a removal can make [`Wheel::next_deadline`] early, once: it lies inside its
//! slot, so when `time` reaches it the slot cascades (2), into levels that were empty, where every
//! bound starts exact (4). Thus a wake-up that fires nothing leaves exact bounds behind and cannot
//! repeat, and no long slot is ever searched just to find out how long to sleep.

use crate::primitives::clock::Moment;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomPinned;
use std::mem;
use std::ptr::NonNull;

const TICK_BITS: u32 = 16;
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 8;

/// An empty slot keeps a buffer with room for so many.
const KEPT: usize = 8;

/// The tick of [`Moment::NEVER`], and of the last 65 us of the clock's range.
const NEVER_TICK: u64 = u64::MAX >> TICK_BITS;

// Eight digits hold every tick: no deadline is beyond the top level.
const _: () = assert!(TICK_BITS + DIGIT_BITS * LEVELS as u32 == u64::BITS);

/// A waiter and its deadline. It stands, pinned, on the waiting stack.
pub(crate) struct Entry<W> {
    /// The deadline in ticks, rounded up.
    tick: u64,
    waiter: W,
    /// Where its slot has it (invariant 6); written by the wheel.
    index: u32,
    _pinned: PhantomPinned,
}

impl<W> Entry<W> {
    pub(crate) fn new(deadline: Moment, waiter: W) -> Self {
        let tick = deadline.as_nanos().div_ceil(1 << TICK_BITS).min(NEVER_TICK);
        Self { tick, waiter, index: 0, _pinned: PhantomPinned }
    }
}

/// What a slot has of an entry: all that is needed to fire it.
struct Item<W> {
    entry: NonNull<Entry<W>>,
    tick: u64,
    waiter: W,
}

// SAFETY: the entry is reached through the wheel alone.
unsafe impl<W: Send> Send for Item<W> {}

impl<W> fmt::Debug for Entry<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tick, .. } = self;
        f.debug_struct("Entry").field("tick", tick).finish_non_exhaustive()
    }
}

/// Entries, ordered by deadline.
pub(crate) struct Wheel<W> {
    /// The tick that the wheel has worked up to.
    time: u64,
    /// How many entries are in.
    len: usize,
    /// Bit `l`: level `l` has an occupied slot.
    levels_occupied: u32,
    levels: Box<[Level<W>; LEVELS]>,
}

struct Level<W> {
    /// Bit `s`: slot `s` is not empty.
    occupied: u64,
    slots: [Slot<W>; SLOTS],
}

struct Slot<W> {
    items: VecDeque<Item<W>>,
    /// The index of the first item.
    base: u32,
    /// No entry of the slot has an earlier tick. Without meaning while the slot is empty.
    earliest: u64,
}

/// A slot's coordinates.
#[derive(Clone, Copy)]
struct Place {
    level: usize,
    slot: usize,
}

impl<W: Copy> Wheel<W> {
    pub(crate) fn new(now: Moment) -> Self {
        let level = |_| Level { occupied: 0, slots: [const { Slot::EMPTY }; SLOTS] };
        let levels: Box<[_]> = (0..LEVELS).map(level).collect();
        Self {
            time: tick_at(now),
            len: 0,
            levels_occupied: 0,
            levels: levels.try_into().ok().expect("as many as there are levels"),
        }
    }

    #[cfg(test)]
    /// How many entries are in.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes `entry` fire at its deadline; at the next [`pop_expired`](Self::pop_expired) if that has
    /// passed.
    ///
    /// # Safety
    ///
    /// `entry` is alive and in no wheel. Until it has fired or has been removed it does not move or
    /// end, and nobody holds a unique reference to it.
    pub(crate) unsafe fn insert(&mut self, entry: NonNull<Entry<W>>) {
        // SAFETY: alive by the caller.
        let (tick, waiter) = unsafe { ((*entry.as_ptr()).tick, (*entry.as_ptr()).waiter) };
        // SAFETY: handed over by the caller.
        unsafe { self.place_item(Item { entry, tick, waiter }) };
        self.len += 1;
    }

    /// Takes `entry` out; false if it is not in, because it has fired or was never inserted.
    ///
    /// # Safety
    ///
    /// `entry` is alive and is in this wheel or in none.
    pub(crate) unsafe fn remove(&mut self, entry: NonNull<Entry<W>>) -> bool {
        // SAFETY: alive by the caller; the tick never changes, the index is the wheel's.
        let (tick, index) = unsafe { ((*entry.as_ptr()).tick, (*entry.as_ptr()).index) };
        // In this slot if in at all (invariant 1).
        let place = self.place(tick);
        // SAFETY: nothing is moved or ended but by the wheel.
        let removed = unsafe { self.slot(place).remove(entry, index) };
        if removed {
            self.len -= 1;
            self.note_removal(place);
        }
        removed
    }

    /// The waiter of the first entry whose deadline is `now` or earlier, in the order of ticks. The
    /// entry is out before this returns, so that its waiter may be woken and may end it.
    ///
    /// Call it until it returns `None`: only then has the wheel arrived at `now`.
    pub(crate) fn pop_expired(&mut self, now: Moment) -> Option<W> {
        // Another thread with a later `now` may have been here first.
        let now = tick_at(now).max(self.time);
        while let Some(place) = self.first() {
            let start = self.start(place);
            if start > now {
                break;
            }
            // No slot begins earlier (invariant 2).
            self.time = start;
            if place.level == 0 {
                return Some(self.fire(place));
            }
            self.cascade(place);
        }
        self.time = now;
        None
    }

    /// When [`pop_expired`](Self::pop_expired) should next be called: the earliest deadline, rounded up
    /// to a tick, or `None` if none will ever come. Too early if that deadline was removed, but not a
    /// second time after the call that this led to.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let Place { level, slot } = self.first()?;
        let tick = self.levels[level].slots[slot].earliest;
        (tick != NEVER_TICK).then(|| Moment::from_nanos(tick << TICK_BITS))
    }

    /// Takes the first entry out of a slot that is due. The entry itself is not touched.
    fn fire(&mut self, place: Place) -> W {
        let slot = self.slot(place);
        let item = slot.items.pop_front().expect("an occupied slot has an entry");
        slot.base = slot.base.wrapping_add(1);
        self.len -= 1;
        self.note_removal(place);
        item.waiter
    }

    /// Places the entries of a slot that begins now anew, below.
    fn cascade(&mut self, place: Place) {
        let mut items = mem::take(&mut self.slot(place).items);
        for item in items.drain(..) {
            // SAFETY: it was in until now, so its owner keeps to the contract of `insert`. It does not
            // come back here: its highest digit that differs from `time` is a lower one now.
            unsafe { self.place_item(item) };
        }
        self.slot(place).items = items;
        self.note_removal(place);
    }

    /// # Safety
    ///
    /// As for [`insert`](Self::insert).
    unsafe fn place_item(&mut self, item: Item<W>) {
        let tick = item.tick.max(self.time);
        let Place { level, slot } = self.place(tick);
        self.levels_occupied |= 1 << level;
        let level = &mut self.levels[level];
        let was_empty = level.occupied & (1 << slot) == 0;
        level.occupied |= 1 << slot;
        let slot = &mut level.slots[slot];
        slot.earliest = if was_empty { tick } else { tick.min(slot.earliest) };
        // SAFETY: handed over by the caller, for as long as it is in.
        unsafe { slot.push(item) };
    }

    /// Where an entry with this tick stands (invariant 1). Overdue ones stand in the present slot.
    #[inline(always)]
    fn place(&self, tick: u64) -> Place {
        let tick = tick.max(self.time);
        // The last digit is made to differ, so that there is a highest one.
        let differing = (tick ^ self.time) | (SLOTS as u64 - 1);
        // Ticks have 48 bits, so this is below LEVELS: the remainder only tells the compiler.
        let level = (differing.ilog2() / DIGIT_BITS) as usize % LEVELS;
        let slot = (tick >> (level as u32 * DIGIT_BITS)) as usize % SLOTS;
        Place { level, slot }
    }

    /// The slot that comes first (invariant 2).
    fn first(&self) -> Option<Place> {
        let level = self.levels_occupied.trailing_zeros() as usize;
        let slot = self.levels.get(level)?.occupied.trailing_zeros() as usize;
        Some(Place { level, slot })
    }

    /// The tick at which an occupied slot begins: `time`'s digits above its level (invariant 2), its
    /// own number, and zeros.
    fn start(&self, place: Place) -> u64 {
        let shift = place.level as u32 * DIGIT_BITS;
        let upper = self.time >> shift >> DIGIT_BITS << DIGIT_BITS;
        (upper | place.slot as u64) << shift
    }

    #[inline(always)]
    fn slot(&mut self, place: Place) -> &mut Slot<W> {
        &mut self.levels[place.level].slots[place.slot]
    }

    /// Keeps invariant 3 after entries have left a slot.
    #[inline(always)]
    fn note_removal(&mut self, place: Place) {
        let level = &mut self.levels[place.level];
        if level.slots[place.slot].items.is_empty() {
            let items = &mut level.slots[place.slot].items;
            if items.capacity() > KEPT {
                *items = VecDeque::new();
            }
            level.occupied &= !(1 << place.slot);
            if level.occupied == 0 {
                self.levels_occupied &= !(1 << place.level);
            }
        }
    }
}

impl<W> Slot<W> {
    const EMPTY: Self = Self { items: VecDeque::new(), base: 0, earliest: 0 };

    fn index_of(&self, at: usize) -> u32 {
        self.base.wrapping_add(at as u32)
    }

    /// # Safety
    ///
    /// The item's entry is alive, and its index is the wheel's to write.
    unsafe fn push(&mut self, item: Item<W>) {
        // SAFETY: by the caller.
        unsafe { (*item.entry.as_ptr()).index = self.index_of(self.items.len()) };
        self.items.push_back(item);
    }

    /// Takes the item of `entry` out, if it is here; `index` is the entry's.
    ///
    /// # Safety
    ///
    /// As for `push`, for all items here.
    unsafe fn remove(&mut self, entry: NonNull<Entry<W>>, index: u32) -> bool {
        let at = index.wrapping_sub(self.base) as usize;
        if self.items.get(at).is_none_or(|item| item.entry != entry) {
            return false;
        }
        self.items.swap_remove_back(at);
        if let Some(moved) = self.items.get(at) {
            // SAFETY: it is in, so its entry is alive (invariant 6).
            unsafe { (*moved.entry.as_ptr()).index = self.index_of(at) };
        }
        true
    }
}

/// The last tick that has come at `now`, rounded down (invariant 5).
fn tick_at(now: Moment) -> u64 {
    (now.as_nanos() >> TICK_BITS).min(NEVER_TICK - 1)
}

impl<W> fmt::Debug for Wheel<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, len, .. } = self;
        f.debug_struct("Wheel").field("time", time).field("len", len).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
