//! What the wheel knows of its entries, apart from them: lists of items in a memory of their own.
//!
//! The entries stand on the stacks of those who wait, each on a page that no cache has by the time it
//! fires. An item has all that is needed to place, move and fire an entry, so that only its owner
//! touches it again. To walk a list is to read memory from front to back: a list is a chain of
//! chunks, not of items, since each link would be a miss, and what one worker has armed another fires.
//! When an item moves, its handle follows: the handle is a place in a table, and all that the entry
//! remembers.
//!
//! When the last item is out, chunks are handed out from the beginning again. A burst's memory, some 40
//! bytes for each that waited, stays for the next burst until somebody asks for it: then the few items
//! that are in move to a memory of their own, with new handles, and all of the old one goes. So it
//! does not matter where they stand, and neither table ever has holes.
//!
//! 1. The items of a list stand in its chunks from the place `begin` of the first to the place before `end`
//!    of the last, without a gap; everywhere else there is `None`.
//! 2. A handle that is out stands in its item, and `places` has the item's place.

use super::Entry;
use crate::primitives::prefetch;
use std::mem;
use std::ptr::NonNull;

/// Items of a chunk: a KiB.
const CHUNK: u32 = 32;

/// So many chunks stay, however few items there are.
const LEAST: usize = 64;

/// The number of no chunk, and of no handle.
pub(super) const NONE: u32 = u32::MAX;

/// All that the wheel has of an entry.
pub(super) struct Item<W> {
    pub(super) deadline: u64,
    pub(super) waiter: W,
    pub(super) entry: NonNull<Entry<W>>,
    pub(super) handle: u32,
}

// SAFETY: the entry is reached through the wheel alone.
unsafe impl<W: Send> Send for Item<W> {}

struct Chunk<W> {
    items: [Option<Item<W>>; CHUNK as usize],
    /// In its list; of a free one, the next free one.
    next: u32,
    previous: u32,
}

/// A list; see the module's invariant 1.
#[derive(Clone, Copy)]
pub(super) struct List {
    first: u32,
    last: u32,
    begin: u32,
    end: u32,
}

impl List {
    pub(super) const EMPTY: List = List { first: NONE, last: NONE, begin: 0, end: CHUNK };

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// In its last chunk, after something was taken out.
    #[inline(always)]
    fn is_used_up(&self) -> bool {
        self.first == self.last && self.begin == self.end
    }
}

/// The items of a wheel, in all its lists.
pub(crate) struct Items<W> {
    chunks: Vec<Box<Chunk<W>>>,
    /// So many chunks have been handed out since all were free.
    used: usize,
    /// The chunk that became free last.
    free_chunk: u32,
    /// By handle. Of a free one, the next free one.
    places: Vec<u32>,
    free_handle: u32,
    /// How many are in.
    pub(super) len: usize,
}

impl<W> Items<W> {
    pub(super) fn new() -> Self {
        let (chunks, places) = (Vec::new(), Vec::new());
        Self { chunks, used: 0, free_chunk: NONE, places, free_handle: NONE, len: 0 }
    }

    /// A handle for a new item, which goes into a list next.
    #[inline]
    pub(super) fn handle(&mut self) -> u32 {
        self.len += 1;
        let handle = self.free_handle;
        if let Some(place) = self.places.get(handle as usize) {
            self.free_handle = *place;
            return handle;
        }
        self.places.push(NONE);
        u32::try_from(self.places.len() - 1).expect("fewer waits at once than that")
    }

    /// An item is out for good.
    #[inline]
    pub(super) fn forget(&mut self, handle: u32) {
        self.places[handle as usize] = mem::replace(&mut self.free_handle, handle);
        self.len -= 1;
        if self.len == 0 {
            self.begin_again();
        }
    }

    fn begin_again(&mut self) {
        (self.used, self.free_chunk) = (0, NONE);
        self.places.clear();
        self.free_handle = NONE;
    }

    /// Have they far more memory than they need, room for 64 times as many? Moving them costs little then
    /// beside what has come and gone since they moved last; after it they have a chunk each at the most.
    /// There are no more handles than there is room.
    pub(super) fn are_sparse(&self) -> bool {
        self.chunks.len() > 2 * self.len + LEAST
    }

    #[cfg(test)]
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Is the item of this handle that of `entry`?
    #[inline]
    pub(super) fn is_of(&self, handle: u32, entry: NonNull<Entry<W>>) -> bool {
        let Some(place) = self.places.get(handle as usize) else { return false };
        let item = self.chunks.get((place / CHUNK) as usize);
        let item = item.and_then(|chunk| chunk.items[(place % CHUNK) as usize].as_ref());
        item.is_some_and(|item| item.entry == entry && item.handle == handle)
    }

    /// The item of a list that has no other.
    #[inline]
    pub(super) fn only(&self, list: &List) -> Option<&Item<W>> {
        if list.begin + 1 == list.end { self.few(list).next() } else { None }
    }

    /// The items of a list that stand in one chunk; none of a longer one.
    pub(super) fn few(&self, list: &List) -> impl Iterator<Item = &Item<W>> {
        let chunk = self.chunks.get(list.first as usize).filter(|_| list.first == list.last);
        let items = chunk.map(|chunk| &chunk.items[list.begin as usize..list.end as usize]);
        items.into_iter().flatten().flatten()
    }

    #[inline(always)]
    fn chunk(&mut self, number: u32) -> &mut Chunk<W> {
        &mut self.chunks[number as usize]
    }

    #[inline(always)]
    fn put(&mut self, place: u32, item: Item<W>) {
        self.places[item.handle as usize] = place;
        self.chunk(place / CHUNK).items[(place % CHUNK) as usize] = Some(item);
    }

    #[inline(always)]
    fn take(&mut self, chunk: u32, index: u32) -> Item<W> {
        let item = self.chunk(chunk).items[index as usize].take();
        item.expect("a list has no gap")
    }

    #[inline(always)]
    pub(super) fn push_back(&mut self, list: &mut List, item: Item<W>) {
        if list.end == CHUNK {
            self.lengthen(list);
        }
        self.put(list.last * CHUNK + list.end, item);
        list.end += 1;
    }

    fn lengthen(&mut self, list: &mut List) {
        let number = self.free_chunk;
        let number = if number != NONE {
            self.free_chunk = self.chunk(number).next;
            number
        } else {
            self.new_chunk()
        };
        let previous = mem::replace(&mut list.last, number);
        let chunk = self.chunk(number);
        (chunk.next, chunk.previous) = (NONE, previous);
        if previous == NONE {
            (list.first, list.begin) = (number, 0);
        } else {
            self.chunk(previous).next = number;
        }
        list.end = 0;
    }

    fn new_chunk(&mut self) -> u32 {
        if self.used == self.chunks.len() {
            let items = [const { None }; CHUNK as usize];
            self.chunks.push(Box::new(Chunk { items, next: NONE, previous: NONE }));
        }
        self.used += 1;
        u32::try_from(self.used - 1).expect("fewer than places")
    }

    fn give(&mut self, number: u32) {
        self.chunk(number).next = mem::replace(&mut self.free_chunk, number);
    }

    /// Takes out the first of a list that is not empty.
    #[inline(always)]
    pub(super) fn pop_front(&mut self, list: &mut List) -> Item<W> {
        let item = self.take(list.first, list.begin);
        list.begin += 1;
        if list.is_used_up() {
            self.give(list.first);
            *list = List::EMPTY;
        } else if list.begin == CHUNK {
            let next = self.chunk(list.first).next;
            self.give(list.first);
            (list.first, list.begin) = (next, 0);
            let after = self.chunk(next).next;
            if let Some(after) = self.chunks.get(after as usize) {
                prefetch(&raw const **after);
            }
        }
        item
    }

    /// Takes out the last of a list that is not empty.
    #[inline(always)]
    fn pop_back(&mut self, list: &mut List) -> Item<W> {
        list.end -= 1;
        let item = self.take(list.last, list.end);
        if list.is_used_up() {
            self.give(list.first);
            *list = List::EMPTY;
        } else if list.end == 0 {
            let previous = self.chunk(list.last).previous;
            self.give(list.last);
            (list.last, list.end) = (previous, CHUNK);
        }
        item
    }

    /// Takes the item of `handle` out of the list that it is in: the last one takes its place.
    #[inline]
    pub(super) fn remove(&mut self, list: &mut List, handle: u32) {
        let last = self.pop_back(list);
        if last.handle != handle {
            self.put(self.places[handle as usize], last);
        }
    }
}
