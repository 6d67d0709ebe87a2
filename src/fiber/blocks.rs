//! A worker's own store of empty control blocks.
//!
//! A fiber's block is freed where the fiber ends, most often on the worker that makes the next one.
//! General allocators keep only a few blocks of a size at hand (glibc's thread cache seven); a burst
//! of a hundred short fibers would go through their slow paths. Blocks up to [`LARGEST`] bytes are
//! rounded up to a multiple of 32, and each worker keeps up to [`KEPT`] empty ones of each size.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ptr::NonNull;

const STEP: usize = 32;
/// What general allocators give without padding.
const ALIGN: usize = 16;
const LARGEST: usize = 512;
const SIZES: usize = LARGEST / STEP;
const KEPT: usize = 256;

/// Empty blocks by size; used by one thread, through its seat.
#[derive(Debug)]
pub(super) struct Blocks([UnsafeCell<Vec<NonNull<u8>>>; SIZES]);

/// The layout that a block of `layout` is really allocated with.
const fn rounded(layout: Layout) -> Layout {
    if layout.size() > LARGEST || layout.align() > ALIGN {
        return layout;
    }
    let size = layout.size().div_ceil(STEP) * STEP;
    match Layout::from_size_align(size, ALIGN) {
        Ok(layout) => layout,
        Err(_) => layout,
    }
}

impl Blocks {
    pub(super) const fn new() -> Blocks {
        Blocks([const { UnsafeCell::new(Vec::new()) }; SIZES])
    }

    #[inline(always)]
    fn pop(&self, layout: Layout) -> Option<NonNull<u8>> {
        let cell = self.cell(layout)?;
        // SAFETY: one thread, and nothing is called while the reference is in use.
        unsafe { (*cell.get()).pop() }
    }

    /// False if there is no room.
    #[inline(always)]
    fn push(&self, layout: Layout, block: NonNull<u8>) -> bool {
        let Some(cell) = self.cell(layout) else { return false };
        // SAFETY: as in `pop`.
        let kept = unsafe { &mut *cell.get() };
        // Under a sanitizer none is kept, so that a use of a freed block is seen.
        let room = kept.len() < KEPT && !cfg!(any(volt_asan, volt_tsan));
        if room {
            kept.push(block);
        }
        room
    }

    #[inline(always)]
    fn cell(&self, layout: Layout) -> Option<&UnsafeCell<Vec<NonNull<u8>>>> {
        if layout.align() == ALIGN { self.0.get(layout.size() / STEP - 1) } else { None }
    }
}

/// Memory for a block, from `here` if it has one.
#[inline(always)]
pub(super) fn take(here: Option<&Blocks>, layout: Layout) -> NonNull<u8> {
    let layout = rounded(layout);
    here.and_then(|here| here.pop(layout)).unwrap_or_else(|| allocate(layout))
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
/// `block` came from [`take`] with this layout, and nobody uses it any more.
#[inline(always)]
pub(super) unsafe fn give(here: Option<&Blocks>, block: NonNull<u8>, layout: Layout) {
    let layout = rounded(layout);
    if !here.is_some_and(|here| here.push(layout, block)) {
        // SAFETY: allocated with the rounded layout.
        unsafe { dealloc(block.as_ptr(), layout) };
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for (index, cell) in self.0.iter_mut().enumerate() {
            let layout = Layout::from_size_align((index + 1) * STEP, ALIGN).expect("a small size");
            for block in cell.get_mut().drain(..) {
                // SAFETY: kept under exactly this layout.
                unsafe { dealloc(block.as_ptr(), layout) };
            }
        }
    }
}
