//! A thread's own store of empty control blocks.
//!
//! A fiber's block is freed where the fiber ends, most often on the worker that makes the next one.
//! General allocators keep only a few blocks of a size at hand (glibc's thread cache seven); a burst
//! of a hundred short fibers would go through their slow paths, and where one thread spawns what
//! others run, each free would take the lock of the spawner's arena. Blocks up to [`LARGEST`] bytes
//! are rounded up to a multiple of 32. Each thread keeps up to [`KEPT`] empty ones of each size, and
//! exchanges them by the hundred with the [`super::depot`], after the magazines of Bonwick and Adams.

use super::depot;
use crate::primitives::prefetch_lines_to_write;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ptr::NonNull;

const STEP: usize = 32;
/// What general allocators give without padding.
const ALIGN: usize = 16;
const LARGEST: usize = 512;
pub(super) const SIZES: usize = LARGEST / STEP;
const KEPT: usize = 256;
const NOT_KEPT: usize = usize::MAX;

/// So many blocks ahead of their use, those from the depot are fetched: they are in the cache of the
/// processor that freed them.
const AHEAD: usize = 3;
/// Lines of a block with a small closure.
const LINES: usize = 3;

/// Empty blocks by size; used by one thread.
#[derive(Debug)]
pub(super) struct Blocks([UnsafeCell<Shelf>; SIZES]);

/// Empty blocks of one size, the newest last.
#[derive(Debug)]
struct Shelf {
    blocks: Vec<NonNull<u8>>,
    /// So many of the oldest came from the depot.
    cold: usize,
}

/// The layout of the blocks of a size.
fn layout_of(size: usize) -> Layout {
    Layout::from_size_align((size + 1) * STEP, ALIGN).expect("a small size")
}

/// What a block of some type takes, worked out when the program is compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// What the block is really allocated with.
    layout: Layout,
    /// Where empty ones are kept; beyond [`SIZES`] if they are not.
    size: usize,
}

impl Memory {
    pub(super) const fn of(layout: Layout) -> Memory {
        if layout.size() > LARGEST || layout.align() > ALIGN {
            return Memory { layout, size: NOT_KEPT };
        }
        let steps = layout.size().div_ceil(STEP);
        let Ok(layout) = Layout::from_size_align(steps * STEP, ALIGN) else { unreachable!() };
        // Under a sanitizer none is kept, so that a use of a freed block is seen.
        let kept = !cfg!(any(volt_asan, volt_tsan));
        Memory { layout, size: if kept { steps - 1 } else { NOT_KEPT } }
    }
}

impl Blocks {
    pub(super) const fn new() -> Blocks {
        Blocks([const { UnsafeCell::new(Shelf::new()) }; SIZES])
    }

    #[inline(always)]
    fn pop(&self, memory: &Memory) -> Option<NonNull<u8>> {
        let shelf = self.0.get(memory.size)?;
        // SAFETY: one thread, and nothing that is called comes back here.
        unsafe { &mut *shelf.get() }.pop(memory.size)
    }

    /// False, with nothing done, if nothing of this kind is kept or there is no room at hand.
    #[inline(always)]
    fn push(&self, memory: &Memory, block: NonNull<u8>) -> bool {
        let Some(shelf) = self.0.get(memory.size) else { return false };
        // SAFETY: as in `pop`.
        let blocks = unsafe { &mut (*shelf.get()).blocks };
        let room = blocks.len() < blocks.capacity().min(KEPT);
        if room {
            blocks.push(block);
        }
        room
    }

    /// Makes room for more blocks of this kind. False if none is kept.
    fn make_room(&self, memory: &Memory) -> bool {
        let Some(shelf) = self.0.get(memory.size) else { return false };
        // SAFETY: as in `pop`.
        unsafe { &mut *shelf.get() }.make_room(memory.size);
        true
    }
}

impl Shelf {
    const fn new() -> Shelf {
        Shelf { blocks: Vec::new(), cold: 0 }
    }

    #[inline(always)]
    fn pop(&mut self, size: usize) -> Option<NonNull<u8>> {
        if self.blocks.len() <= self.cold {
            self.warm_up(size);
        }
        self.blocks.pop()
    }

    /// The block that comes out next is cold, or there is none.
    #[inline(never)]
    fn warm_up(&mut self, size: usize) {
        if self.blocks.is_empty() {
            self.blocks.extend(depot::take(size).into_iter().flatten());
        }
        self.cold = self.blocks.len().saturating_sub(1);
        if let Some(ahead) = self.cold.checked_sub(AHEAD) {
            prefetch_lines_to_write::<LINES>(self.blocks[ahead].as_ptr());
        }
    }

    fn make_room(&mut self, size: usize) {
        if self.blocks.len() == KEPT {
            self.spill(size);
        }
        self.blocks.reserve(1);
    }

    /// The older half goes to the depot: what was used last is warm.
    fn spill(&mut self, size: usize) {
        let batch: Vec<_> = self.blocks.drain(..KEPT / 2).collect();
        self.cold = self.cold.saturating_sub(batch.len());
        put_away(batch, size);
    }
}

fn put_away(batch: Vec<NonNull<u8>>, size: usize) {
    deallocate(depot::give(batch, size), size);
}

/// Memory for a block, from `here` if it has one.
#[inline(always)]
pub(super) fn take(here: Option<&Blocks>, memory: &Memory) -> NonNull<u8> {
    here.and_then(|here| here.pop(memory)).unwrap_or_else(|| allocate(memory.layout))
}

/// Gives empty blocks of a size, which nobody has any more, back to the allocator.
pub(super) fn deallocate(blocks: Vec<NonNull<u8>>, size: usize) {
    let layout = layout_of(size);
    for block in blocks {
        // SAFETY: kept under exactly this layout.
        unsafe { dealloc(block.as_ptr(), layout) };
    }
}

#[cold]
fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: a block is never of size zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives a block's memory back, to `here` if there is room.
///
/// # Safety
///
/// `block` came from [`take`] with the same `memory`, and nobody uses it any more.
#[inline(always)]
pub(super) unsafe fn give(here: Option<&Blocks>, block: NonNull<u8>, memory: &Memory) {
    if !here.is_some_and(|here| here.push(memory, block)) {
        // SAFETY: passed on.
        unsafe { give_slowly(here, block, memory) }
    }
}

/// Called last: whoever gives a block has no registers to save for it.
///
/// # Safety
///
/// As [`give`].
#[cold]
#[inline(never)]
unsafe fn give_slowly(here: Option<&Blocks>, block: NonNull<u8>, memory: &Memory) {
    let has_room = here.is_some_and(|here| here.make_room(memory) && here.push(memory, block));
    if !has_room {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(block.as_ptr(), memory.layout) };
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for (size, cell) in self.0.iter_mut().enumerate() {
            put_away(std::mem::take(&mut cell.get_mut().blocks), size);
        }
    }
}

// Under a sanitizer none is kept.
#[cfg(all(test, not(any(volt_asan, volt_tsan))))]
mod tests {
    use super::*;
    use crate::primitives::clock::Moment;
    use std::time::Duration;

    const MEMORY: Memory = Memory::of(Layout::new::<[u128; 30]>());

    #[test]
    fn what_one_thread_frees_another_takes() {
        let (here, there) = (Blocks::new(), Blocks::new());
        let taken: Vec<_> = (0..2 * KEPT).map(|_| take(Some(&here), &MEMORY)).collect();
        for block in &taken {
            // SAFETY: taken above, once.
            unsafe { give(Some(&there), *block, &MEMORY) };
        }
        // Half of what there was room for stays there, the rest has gone to the depot.
        let mut again: Vec<_> = (0..KEPT / 2).map(|_| take(Some(&here), &MEMORY)).collect();
        assert!(again.iter().all(|block| taken.contains(block)), "not from the depot");
        again.sort();
        again.dedup();
        assert_eq!(again.len(), KEPT / 2, "given out twice");
        // SAFETY: as above.
        again.into_iter().for_each(|block| unsafe { give(Some(&here), block, &MEMORY) });
    }

    #[test]
    fn what_was_not_needed_for_a_while_goes_back() {
        // Of a size that no fiber here has.
        const MEMORY: Memory = Memory::of(Layout::new::<[u128; 32]>());
        const AGE: Duration = Duration::from_secs(1000);
        let size = MEMORY.size;
        let batch = || (0..KEPT).map(|_| allocate(layout_of(size))).collect::<Vec<_>>();
        let trim = |at: Moment| depot::trim_size(size, at.saturating_add(AGE), AGE);
        assert!(depot::give(batch(), size).is_empty());
        let between = Moment::now();
        while Moment::now() <= between {}
        assert!(depot::give(batch(), size).is_empty());
        let next = trim(between).expect("the second batch is not old");
        assert!(next > between.saturating_add(AGE), "{next:?}");
        let second = depot::take(size).expect("the second batch is not old");
        assert!(depot::take(size).is_none(), "the first batch is old");
        assert!(depot::give(second, size).is_empty());
        assert_eq!(trim(Moment::now()), None, "the second batch is old");
    }

    /// No worker need be awake to give back what plain threads have put away: that is little.
    #[test]
    fn plain_threads_put_away_only_so_much() {
        // Of a size that no fiber here has.
        const MEMORY: Memory = Memory::of(Layout::new::<[u128; 28]>());
        let size = MEMORY.size;
        let batch = || (0..KEPT / 2).map(|_| allocate(layout_of(size))).collect::<Vec<_>>();
        let refused = |_: &i32| {
            let refused = depot::give(batch(), size);
            let refuses = !refused.is_empty();
            deallocate(refused, size);
            refuses
        };
        assert_eq!((0..40).filter(refused).count(), 40 - 32);
        std::iter::from_fn(|| depot::take(size)).for_each(|batch| deallocate(batch, size));
    }
}
