//! The empty control blocks that no thread keeps: shared, in batches.
//!
//! Where one thread spawns and others end what it spawned, blocks go round through here, one lock for
//! a hundred of them. [`MOST`] bounds what lies here; beyond it the allocator has them back.

use super::blocks::SIZES;
use crate::primitives::sync::Mutex;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};
use std::ptr::NonNull;

/// Bytes in all batches: some twenty thousand fibers' blocks.
const MOST: usize = 4 << 20;
/// Blocks of a batch that is worth its place: what a thread leaves may be less.
const LEAST: usize = 32;

/// Memory of empty blocks.
struct Batch(Vec<NonNull<u8>>);

// SAFETY: nobody else has the blocks.
unsafe impl Send for Batch {}

/// Those of one size.
struct Shelf {
    batches: Mutex<Vec<Batch>>,
    /// Written under the lock, read by anyone.
    len: AtomicUsize,
}

static SHELVES: [Shelf; SIZES] =
    [const { Shelf { batches: Mutex::new(Vec::new()), len: AtomicUsize::new(0) } }; SIZES];
/// In all batches. Counted before they are put here and after they are taken out.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Takes in blocks of a size, of `bytes` each; gives them back if there is no room, or somebody else is
/// here: nobody waits (in the child of a fork it would be for ever).
pub(super) fn give(mut batch: Vec<NonNull<u8>>, size: usize, bytes: usize) -> Vec<NonNull<u8>> {
    if batch.len() < LEAST {
        return batch;
    }
    let all = batch.len() * bytes;
    let fits = BYTES.fetch_add(all, Ordering::Relaxed) + all <= MOST;
    let shelf = &SHELVES[size];
    let Some(mut batches) = fits.then(|| shelf.batches.try_lock()).flatten() else {
        BYTES.fetch_sub(all, Ordering::Relaxed);
        return batch;
    };
    batch.shrink_to_fit();
    batches.push(Batch(batch));
    shelf.len.store(batches.len(), Ordering::Relaxed);
    Vec::new()
}

/// The batch that came last, of blocks of `bytes` each.
pub(super) fn take(size: usize, bytes: usize) -> Option<Vec<NonNull<u8>>> {
    let shelf = &SHELVES[size];
    if shelf.len.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut batches = shelf.batches.try_lock()?;
    let Batch(batch) = batches.pop()?;
    shelf.len.store(batches.len(), Ordering::Relaxed);
    BYTES.fetch_sub(batch.len() * bytes, Ordering::Relaxed);
    Some(batch)
}
