//! What a worker owns: its queues, its bed, its counters, its stacks.

use super::locked_queue::LockedQueue;
use super::parker::Parker;
use super::ring::Ring;
use super::slot::LifoSlot;
use super::stats::Stats;
use super::tick::Tick;
use crate::primitives::clock::Moment;
use crate::primitives::sync::UnsafeCell;
use crate::primitives::sync::atomic::AtomicU64;
use crate::stack::{Cache, Sampler, StackSize};
use crate::util::rng::Rng;
use crossbeam_utils::CachePadded;

/// One worker's share of the scheduler. Others reach only what is marked so.
#[derive(Debug)]
pub(crate) struct Core {
    pub(super) index: usize,
    /// Thieves take from it.
    pub(super) ring: Ring,
    /// Thieves may take from it.
    pub(super) slot: LifoSlot,
    /// Anyone puts fibers here that this worker and no other should run, or should run first.
    pub(super) mailbox: LockedQueue,
    /// Anyone unparks it.
    pub(super) parker: Parker,
    /// Anyone reads it.
    pub(super) stats: CachePadded<Stats>,
    /// When the worker's idle stacks should give their memory back, in nanoseconds. Written by the
    /// worker before it sleeps, read by the one in the poller, which wakes it then.
    pub(super) trim_due: AtomicU64,
    own: UnsafeCell<Own>,
}

/// What only the worker itself touches.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) tick: Tick,
    pub(super) rng: Rng,
    pub(super) stacks: Cache,
    pub(super) sampler: Sampler,
    /// A stack has come back since the last look.
    pub(super) stacks_changed: bool,
    /// Dispatches from the LIFO slot in a row.
    pub(super) lifo_run: u32,
}

// SAFETY: `own` is reached through `Core::own` only, by the worker that holds the core.
unsafe impl Sync for Core {}

impl Core {
    pub(super) fn new(index: usize, seed: u64, size: StackSize, now: Moment) -> Core {
        Core {
            index,
            ring: Ring::new(),
            slot: LifoSlot::new(),
            mailbox: LockedQueue::new(),
            parker: Parker::new(),
            stats: CachePadded::new(Stats::default()),
            trim_due: AtomicU64::new(Moment::NEVER.as_nanos()),
            own: UnsafeCell::new(Own {
                tick: Tick::new(now),
                rng: Rng::new(seed, index as u64),
                stacks: Cache::new(size),
                sampler: Sampler::default(),
                stacks_changed: false,
                lifo_run: 0,
            }),
        }
    }

    /// The worker's own part.
    ///
    /// # Safety
    ///
    /// Called by the worker that holds this core, and no other reference from here is in use: it is
    /// taken for a few instructions, never over a switch or a call to another file.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "one worker, one reference at a time, as promised")]
    pub(super) unsafe fn own(&self) -> &mut Own {
        // SAFETY: passed on.
        self.own.with_mut(|own| unsafe { &mut *own })
    }
}
