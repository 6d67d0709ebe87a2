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
//!    span. Removal does not raise it, unless few are left; being emptied resets it.
//! 5. Ticks round up and `time` rounds down: nothing fires early. [`NEVER_TICK`] is never reached. Who is alone in
//!    its slot is due at its deadline, to the nanosecond: to round it would save nobody a wake-up. Of a few, who fit
//!    into one chunk, those fire whose deadlines have come, though their tick has not, if somebody looks.
//! 6. An item in a slot's list points at its entry, which is alive, and whose `handle` is the item's. An
//!    entry is in exactly if the item of that handle points at it. `items.rs` says why there are items.
//!    So the handle of one that is out may be anybody's by now, or nobody's.
//!
//! A bound made stale by a removal can make [`Wheel::next_deadline`] early, once: it lies inside its
//! slot, so when `time` reaches it the slot cascades (2), into levels that were empty, where every
//! bound starts exact (4). Thus a wake-up that fires nothing leaves exact bounds behind and cannot
//! repeat, and no long slot is ever searched just to find out how long to sleep.

use crate::primitives::clock::Moment;
use items::{Item, Items, List, NONE};
use std::fmt;
use std::marker::PhantomPinned;
use std::mem;
use std::ptr::NonNull;

mod items;

const TICK_BITS: u32 = 16;
/// A tick, in nanoseconds.
pub(super) const TICK: u64 = 1 << TICK_BITS;
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 8;

/// The tick of [`Moment::NEVER`], and of the last 65 us of the clock's range.
const NEVER_TICK: u64 = u64::MAX >> TICK_BITS;
/// [`Moment::NEVER`] in nanoseconds.
const NEVER: u64 = u64::MAX;

// Eight digits hold every tick: no deadline is beyond the top level.
const _: () = assert!(TICK_BITS + DIGIT_BITS * LEVELS as u32 == u64::BITS);

/// A waiter and its deadline. It stands, pinned, on the waiting stack.
pub(crate) struct Entry<W> {
    /// In nanoseconds.
    deadline: u64,
    waiter: W,
    /// Of its item (invariant 6); written by the wheel.
    handle: u32,
    _pinned: PhantomPinned,
}

impl<W> Entry<W> {
    pub(crate) fn new(deadline: Moment, waiter: W) -> Self {
        Self { deadline: deadline.as_nanos(), waiter, handle: NONE, _pinned: PhantomPinned }
    }
}

impl<W> fmt::Debug for Entry<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deadline, .. } = self;
        f.debug_struct("Entry").field("deadline", deadline).finish_non_exhaustive()
    }
}

/// Entries, ordered by deadline.
pub(crate) struct Wheel<W> {
    /// The tick that the wheel has worked up to.
    time: u64,
    items: Items<W>,
    /// Bit `l`: level `l` has an occupied slot.
    levels_occupied: u32,
    levels: Box<[Level; LEVELS]>,
}

struct Level {
    /// Bit `s`: slot `s` is not empty.
    occupied: u64,
    slots: [Slot; SLOTS],
}

#[derive(Clone, Copy)]
struct Slot {
    items: List,
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
        let level = |_| Level { occupied: 0, slots: [Slot::EMPTY; SLOTS] };
        let levels: Box<[_]> = (0..LEVELS).map(level).collect();
        Self {
            time: tick_at(now),
            items: Items::new(),
            levels_occupied: 0,
            levels: levels.try_into().ok().expect("as many as there are levels"),
        }
    }

    #[cfg(test)]
    /// How many entries are in.
    pub(crate) fn len(&self) -> usize {
        self.items.len
    }

    #[cfg(test)]
    /// How many chunks of memory there are, a KiB each.
    pub(crate) fn chunks(&self) -> usize {
        self.items.chunks()
    }

    /// Lets go of what a burst has left, if that is far more than is needed. It is the caller's to drop
    /// when the wheel is free for others again.
    #[must_use]
    pub(crate) fn trim(&mut self) -> Option<Items<W>> {
        self.items.are_sparse().then(|| self.move_out())
    }

    /// Moves all items to a memory of their own size; returns the old one.
    #[cold]
    fn move_out(&mut self) -> Items<W> {
        let mut old = mem::replace(&mut self.items, Items::new());
        let slots = self.levels.iter_mut().flat_map(|level| &mut level.slots);
        for slot in slots.filter(|slot| !slot.items.is_empty()) {
            let mut items = mem::replace(&mut slot.items, List::EMPTY);
            while !items.is_empty() {
                let mut item = old.pop_front(&mut items);
                item.handle = self.items.handle();
                // SAFETY: it is in, so alive (invariant 6), and its handle is the wheel's.
                unsafe { (*item.entry.as_ptr()).handle = item.handle };
                self.items.push_back(&mut slot.items, item);
            }
        }
        old
    }

    /// Makes `entry` fire at its deadline; at the next [`pop_expired`](Self::pop_expired) if that has
    /// passed. Returns when it is due: its deadline, or the end of its tick if others stand in its slot.
    ///
    /// # Safety
    ///
    /// `entry` is alive and in no wheel. Until it has fired or has been removed it does not move or
    /// end, and nobody holds a unique reference to it.
    pub(crate) unsafe fn insert(&mut self, entry: NonNull<Entry<W>>) -> Moment {
        // SAFETY: alive by the caller.
        let (deadline, waiter) = unsafe { ((*entry.as_ptr()).deadline, (*entry.as_ptr()).waiter) };
        let handle = self.items.handle();
        // SAFETY: handed over by the caller.
        unsafe { (*entry.as_ptr()).handle = handle };
        let is_alone = self.place_item(Item { deadline, waiter, entry, handle });
        let due = if is_alone { deadline } else { end_of_tick(tick_of(deadline)) };
        Moment::from_nanos(due)
    }

    /// Takes `entry` out; false if it is not in, because it has fired or was never inserted.
    ///
    /// # Safety
    ///
    /// `entry` is alive and is in this wheel or in none.
    pub(crate) unsafe fn remove(&mut self, entry: NonNull<Entry<W>>) -> bool {
        // SAFETY: alive by the caller; the deadline never changes, the handle is the wheel's.
        let (deadline, handle) = unsafe { ((*entry.as_ptr()).deadline, (*entry.as_ptr()).handle) };
        if !self.items.is_of(handle, entry) {
            return false;
        }
        // Since it is in (invariant 1).
        let place = self.place(tick_of(deadline));
        self.items.remove(&mut self.levels[place.level].slots[place.slot].items, handle);
        self.items.forget(handle);
        self.note_removal(place);
        true
    }

    /// The waiter of the first entry whose deadline is `now` or earlier, in the order of ticks. The
    /// entry is out before this returns, so that its waiter may be woken and may end it.
    ///
    /// Call it until it returns `None`: only then has the wheel arrived at `now`.
    pub(crate) fn pop_expired(&mut self, now: Moment) -> Option<W> {
        // Another thread with a later `now` may have been here first.
        let tick = tick_at(now).max(self.time);
        while let Some(place) = self.first() {
            let start = self.start(place);
            if start > tick {
                break;
            }
            // No slot begins earlier (invariant 2).
            self.time = start;
            if place.level == 0 {
                return Some(self.fire(place));
            }
            self.cascade(place);
        }
        self.time = tick;
        self.pop_of_few(now)
    }

    /// The waiter of one of few entries in the first slot, whose deadline has come though its tick has not.
    fn pop_of_few(&mut self, now: Moment) -> Option<W> {
        let place = self.first()?;
        let slot = &mut self.levels[place.level].slots[place.slot];
        let now = now.as_nanos().min(NEVER - 1);
        let item = self.items.few(&slot.items).find(|item| item.deadline <= now)?;
        let (handle, waiter) = (item.handle, item.waiter);
        self.items.remove(&mut slot.items, handle);
        self.items.forget(handle);
        // Few, so that the bound is raised at once (invariant 4).
        let left = self.items.few(&slot.items).map(|item| tick_of(item.deadline));
        slot.earliest = left.min().unwrap_or(slot.earliest);
        self.note_removal(place);
        Some(waiter)
    }

    /// When [`pop_expired`](Self::pop_expired) should next be called: the earliest deadline, rounded up
    /// to a tick unless it is alone in its slot, or `None` if none will ever come. Too early if that deadline was
    /// removed, but not a second time after the call that this led to.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let place = self.first()?;
        let slot = &self.levels[place.level].slots[place.slot];
        let due = match self.items.only(&slot.items) {
            Some(item) => item.deadline,
            None => end_of_tick(slot.earliest),
        };
        (due != NEVER).then(|| Moment::from_nanos(due))
    }

    /// When the last of those is due that are due by `latest`, if any is: not far after the next one, since each tick
    /// between is looked at. Where many stand in a slot one of them is taken to be due at the end of each of its ticks.
    pub(crate) fn last_due(&self, latest: Moment) -> Option<Moment> {
        let next = self.next_deadline().filter(|next| *next <= latest)?;
        let latest = latest.as_nanos();
        let ticks = tick_of(next.as_nanos())..=tick_of(latest).min(NEVER_TICK - 1);
        let last = ticks.rev().find_map(|tick| self.last_of_tick(tick, latest));
        Some(next.max(Moment::from_nanos(last.unwrap_or(0))))
    }

    /// When the last of those in the slot of `tick` is due, in that tick and by `latest`.
    fn last_of_tick(&self, tick: u64, latest: u64) -> Option<u64> {
        let place = self.place(tick);
        let level = &self.levels[place.level];
        if level.occupied & (1 << place.slot) == 0 {
            return None;
        }
        let slot = &level.slots[place.slot];
        let few = self.items.few(&slot.items).map(|item| item.deadline);
        if let Some(last) = few.filter(|due| tick_of(*due) == tick && *due <= latest).max() {
            return Some(last);
        }
        let many = self.items.few(&slot.items).next().is_none() && slot.earliest <= tick;
        Some(end_of_tick(tick)).filter(|end| many && *end <= latest)
    }

    /// Takes the first entry out of a slot that is due. The entry itself is not touched.
    fn fire(&mut self, place: Place) -> W {
        let slot = &mut self.levels[place.level].slots[place.slot];
        let item = self.items.pop_front(&mut slot.items);
        self.items.forget(item.handle);
        self.note_removal(place);
        item.waiter
    }

    /// Places the entries of a slot that begins now anew, below.
    fn cascade(&mut self, place: Place) {
        let slot = &mut self.levels[place.level].slots[place.slot];
        let mut items = mem::replace(&mut slot.items, List::EMPTY);
        while !items.is_empty() {
            // It does not come back here: its highest digit that differs from `time` is a lower one
            // now.
            let item = self.items.pop_front(&mut items);
            self.place_item(item);
        }
        self.note_removal(place);
    }

    /// Says whether it is alone in its slot.
    #[inline]
    fn place_item(&mut self, item: Item<W>) -> bool {
        let tick = tick_of(item.deadline).max(self.time);
        let Place { level, slot } = self.place(tick);
        self.levels_occupied |= 1 << level;
        let level = &mut self.levels[level];
        let was_empty = level.occupied & (1 << slot) == 0;
        level.occupied |= 1 << slot;
        let slot = &mut level.slots[slot];
        slot.earliest = if was_empty { tick } else { tick.min(slot.earliest) };
        self.items.push_back(&mut slot.items, item);
        was_empty
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

    /// Keeps invariant 3 after entries have left a slot.
    #[inline(always)]
    fn note_removal(&mut self, place: Place) {
        let level = &mut self.levels[place.level];
        if level.slots[place.slot].items.is_empty() {
            level.occupied &= !(1 << place.slot);
            if level.occupied == 0 {
                self.levels_occupied &= !(1 << place.level);
            }
        }
    }
}

impl Slot {
    const EMPTY: Slot = Slot { items: List::EMPTY, earliest: 0 };
}

/// A deadline's tick, rounded up (invariant 5).
fn tick_of(deadline: u64) -> u64 {
    deadline.div_ceil(1 << TICK_BITS).min(NEVER_TICK)
}

/// When a tick has come, in nanoseconds.
fn end_of_tick(tick: u64) -> u64 {
    if tick == NEVER_TICK { NEVER } else { tick << TICK_BITS }
}

/// The last tick that has come at `now`, rounded down (invariant 5).
fn tick_at(now: Moment) -> u64 {
    (now.as_nanos() >> TICK_BITS).min(NEVER_TICK - 1)
}

impl<W> fmt::Debug for Wheel<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, items, .. } = self;
        f.debug_struct("Wheel").field("time", time).field("len", &items.len).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
