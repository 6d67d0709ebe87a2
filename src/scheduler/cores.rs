//! The cores of a runtime: as many as it has workers, and one more for each worker that stalls.
//!
//! Cores are added and never removed: one that lost its worker waits to be used again. So a reference
//! lives as long as the scheduler, and looking at all of them takes no lock.

use super::core::Core;
use crate::primitives::sync::OnceLock;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};

/// Stalled workers that a runtime can replace at the same time; those beyond wait for a return.
const EXTRA: usize = 512;

#[derive(Debug)]
pub(super) struct Cores {
    table: Box<[OnceLock<Box<Core>>]>,
    /// The first `len` are there. Written under `crew`'s lock.
    len: AtomicUsize,
}

impl Cores {
    pub(super) fn new(count: usize, make: impl Fn(usize) -> Core) -> Cores {
        let cores = Cores {
            table: (0..count + EXTRA).map(|_| OnceLock::new()).collect(),
            len: AtomicUsize::new(0),
        };
        for _ in 0..count {
            cores.add(&make);
        }
        cores
    }

    /// Adds a core; `None` if there are as many as there may be. One caller at a time.
    pub(super) fn add(&self, make: impl Fn(usize) -> Core) -> Option<usize> {
        let index = self.len.load(Ordering::Relaxed);
        let place = self.table.get(index)?;
        place.get_or_init(|| Box::new(make(index)));
        self.len.store(index + 1, Ordering::Release);
        Some(index)
    }

    pub(super) fn capacity(&self) -> usize {
        self.table.len()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> &Core {
        self.table[index].get().expect("a core below `len` is there")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Core> {
        self.table[..self.len()].iter().filter_map(|place| place.get().map(|core| &**core))
    }
}
