//! The table of registrations: where an event's token leads.
//!
//! Slots stand in chunks that double and stay where they are, so the poller finds one by its index
//! without a lock. A slot is reused; its generation tells an event of its former life apart.

use super::slot::{Direction, Readiness, Slot};
use crate::fiber::Batch;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};
use crate::primitives::sync::{Mutex, OnceLock};
use mio::event::Event;

const FIRST_CHUNK: usize = 64;
const CHUNKS: usize = 24;

/// Chunk `k` has `FIRST_CHUNK << k` slots.
#[derive(Debug)]
pub(super) struct Slots {
    chunks: [OnceLock<Box<[Slot]>>; CHUNKS],
    free: Mutex<Free>,
    in_use: AtomicUsize,
}

#[derive(Debug, Default)]
struct Free {
    indices: Vec<u32>,
    made: u32,
}

/// A slot in use, by index and generation: what a token carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotKey {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl SlotKey {
    pub(super) fn token(self) -> usize {
        // 64-bit targets only, as the stacks need; the waker's token is the one value left out.
        (self.generation as usize) << 32 | self.index as usize
    }

    fn from_token(token: usize) -> SlotKey {
        SlotKey { index: token as u32, generation: (token >> 32) as u32 }
    }
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(Free::default()),
            in_use: AtomicUsize::new(0),
        }
    }

    pub(super) fn any_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed) != 0
    }

    fn place(index: u32) -> (usize, usize) {
        let chunk = (index as usize / FIRST_CHUNK + 1).ilog2() as usize;
        (chunk, index as usize - FIRST_CHUNK * ((1 << chunk) - 1))
    }

    pub(super) fn slot(&self, index: u32) -> &Slot {
        let (chunk, offset) = Self::place(index);
        let slots = self.chunks[chunk]
            .get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| Slot::new()).collect());
        &slots[offset]
    }

    /// A slot in which `blocked` is not ready, as the caller has just seen.
    pub(super) fn take(&self, blocked: Direction) -> SlotKey {
        let index = {
            let mut free = self.free.lock();
            free.indices.pop().unwrap_or_else(|| {
                free.made += 1;
                free.made - 1
            })
        };
        self.in_use.fetch_add(1, Ordering::Relaxed);
        let generation = self.slot(index).open(blocked);
        SlotKey { index, generation }
    }

    pub(super) fn put_back(&self, key: SlotKey) {
        self.slot(key.index).close();
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        self.free.lock().indices.push(key.index);
    }

    /// Runs `f` while nobody else can take one or put one back.
    #[cfg(test)]
    pub(super) fn while_taken<R>(&self, f: impl FnOnce() -> R) -> R {
        let _free = self.free.lock();
        f()
    }

    pub(super) fn deliver(&self, event: &Event, settled: &mut Batch) {
        let key = SlotKey::from_token(event.token().0);
        self.slot(key.index).deliver(key.generation, Readiness::of(event), settled);
    }
}
