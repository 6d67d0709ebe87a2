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

/// Memory of empty blocks.
struct Batch(Vec<NonNull<u8>>);

// SAFETY: nobody else has the blocks.
unsafe impl Send for Batch {}

static SHELVES: [Mutex<Vec<Batch>>; SIZES] = [const { Mutex::new(Vec::new()) }; SIZES];
/// In all batches. Counted before they are put here and after they are taken out.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Takes in blocks of a size, of `bytes` each; gives back what there is no room for.
pub(super) fn give(batch: Vec<NonNull<u8>>, size: usize, bytes: usize) -> Vec<NonNull<u8>> {
    let all = batch.len() * bytes;
    if all == 0 {
        return batch;
    }
    if BYTES.fetch_add(all, Ordering::Relaxed) + all > MOST {
        BYTES.fetch_sub(all, Ordering::Relaxed);
        return batch;
    }
    SHELVES[size].lock().push(Batch(batch));
    Vec::new()
}

/// The batch that came last, of blocks of `bytes` each.
pub(super) fn take(size: usize, bytes: usize) -> Option<Vec<NonNull<u8>>> {
    if BYTES.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let Batch(batch) = SHELVES[size].lock().pop()?;
    BYTES.fetch_sub(batch.len() * bytes, Ordering::Relaxed);
    Some(batch)
}
