//! The empty control blocks that no thread keeps: shared, in batches.
//!
//! Where one thread spawns and others end what it spawned, blocks go round through here, one lock for
//! a hundred of them. How many lie here has no bound: with one, a burst of a hundred thousand
//! fibers goes to the general allocator for most of its blocks each time, which shares the locks of its
//! arenas between the threads, and gives memory back to the system only to ask for it again. Instead the
//! allocator gets back what has not been needed for a while.

use super::blocks::{self, SIZES};
use super::tls::seat;
use crate::primitives::clock::Moment;
use crate::primitives::sync::Mutex;
use crate::primitives::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::time::Duration;

/// Blocks of a batch that is worth its place: what a thread leaves may be less.
const LEAST: usize = 32;
/// The most batches that one call of [`trim`] gives back: more blocks than its caller gives stacks back meanwhile.
const TRIM_MOST: usize = 4;

/// The most batches of a size that plain threads add to: no worker need be awake to give them back.
const OF_PLAIN_THREADS: usize = 32;

/// Blocks have come since a worker last asked.
static NEWS: AtomicBool = AtomicBool::new(false);

/// Memory of empty blocks.
struct Batch {
    blocks: Vec<NonNull<u8>>,
    /// When it came here.
    since: Moment,
}

// SAFETY: nobody else has the blocks.
unsafe impl Send for Batch {}

/// Those of one size.
struct Shelf {
    /// The oldest first.
    batches: Mutex<VecDeque<Batch>>,
    /// Written under the lock, read by anyone.
    len: AtomicUsize,
}

static SHELVES: [Shelf; SIZES] =
    [const { Shelf { batches: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0) } }; SIZES];

/// Takes in blocks of a size; gives them back if they are few, or for a plain thread too many, or if
/// somebody else is here: no plain thread waits (in the child of a fork it would be for ever).
pub(super) fn give(mut blocks: Vec<NonNull<u8>>, size: usize) -> Vec<NonNull<u8>> {
    if blocks.len() < LEAST {
        return blocks;
    }
    blocks.shrink_to_fit();
    let since = Moment::now();
    let shelf = &SHELVES[size];
    let Some(mut batches) = shelf.batches.try_lock() else { return blocks };
    if batches.len() >= OF_PLAIN_THREADS && seat().is_null() {
        return blocks;
    }
    batches.push_back(Batch { blocks, since });
    shelf.len.store(batches.len(), Ordering::Relaxed);
    NEWS.swap(true, Ordering::Release);
    Vec::new()
}

/// Have blocks come that no worker has in mind yet? Said once. A worker asks before it sleeps, so what
/// it has brought itself is seen.
pub(crate) fn has_news() -> bool {
    NEWS.load(Ordering::Relaxed) && NEWS.swap(false, Ordering::Acquire)
}

/// The batch that came last.
pub(super) fn take(size: usize) -> Option<Vec<NonNull<u8>>> {
    SHELVES[size].take_if(VecDeque::pop_back)
}

impl Shelf {
    fn take_if(
        &self,
        pop: impl FnOnce(&mut VecDeque<Batch>) -> Option<Batch>,
    ) -> Option<Vec<NonNull<u8>>> {
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut batches = self.batches.try_lock()?;
        let batch = pop(&mut batches)?;
        self.len.store(batches.len(), Ordering::Relaxed);
        Some(batch.blocks)
    }

    /// See [`trim`]; at most `left` batches.
    fn trim(&self, size: usize, now: Moment, age: Duration, left: &mut usize) -> Option<Moment> {
        let due = |since: Moment| since.saturating_add(age);
        while *left > 0 {
            let old = self.take_if(|batches| {
                let oldest = batches.front()?;
                if due(oldest.since) <= now { batches.pop_front() } else { None }
            });
            let Some(old) = old else { break };
            blocks::deallocate(old, size);
            *left -= 1;
        }
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // A guess would be a wake for nothing where two workers come at once. The child of a fork has no
        // workers that would wait here for somebody who is not there.
        let oldest = self.batches.lock().front()?.since;
        Some(due(oldest))
    }
}

/// Gives blocks that have lain here for `age` back to the allocator, some hundreds at most.
///
/// Returns when to call again, `None` if there is nothing left to give back.
pub(crate) fn trim(now: Moment, age: Duration) -> Option<Moment> {
    let mut left = TRIM_MOST;
    let shelves = SHELVES.iter().enumerate();
    shelves.filter_map(|(size, shelf)| shelf.trim(size, now, age, &mut left)).min()
}

/// Would [`has_news`] say so? Asked by whoever has no time for it, and tells a worker.
pub(crate) fn is_any_news() -> bool {
    NEWS.load(Ordering::Relaxed)
}

/// Is there anything to give back?
pub(crate) fn is_any_idle() -> bool {
    SHELVES.iter().any(|shelf| shelf.len.load(Ordering::Relaxed) != 0)
}

/// Gives all blocks back to the allocator, but for a shelf where somebody else is.
pub(crate) fn empty() {
    for (size, shelf) in SHELVES.iter().enumerate() {
        while let Some(batch) = shelf.take_if(VecDeque::pop_front) {
            blocks::deallocate(batch, size);
        }
    }
}

/// As [`trim`], for the blocks of one size.
#[cfg(all(test, not(any(volt_asan, volt_tsan))))]
pub(super) fn trim_size(size: usize, now: Moment, age: Duration) -> Option<Moment> {
    SHELVES[size].trim(size, now, age, &mut { usize::MAX })
}
