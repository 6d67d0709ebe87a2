//! The room's counters, for `metrics/`. None of them is on a hot path.

use super::{pool, slab};

/// What the process has mapped for stacks, and how much of it is idle.
///
/// ```
/// let stats: volt::metrics::StackStats = volt::metrics::stacks();
/// println!("{} of {} stacks were used", stats.handed_out, stats.slots);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackStats {
    /// Slabs mapped.
    pub slabs: usize,
    /// Slots in all slabs.
    pub slots: usize,
    /// Slots that were ever used. Those not in the pool are in use or in a worker's cache.
    pub handed_out: usize,
    /// Idle stacks in the shared pool that have memory.
    pub pooled: usize,
    /// Idle stacks in the shared pool whose memory was given back.
    pub trimmed: usize,
    /// Times that a fiber could not run because there was no stack for it: its join gets a
    /// [`StackError`](crate::StackError).
    pub refused: usize,
}

/// The counters now. Each is exact, but they are not read at one instant.
pub(crate) fn stats() -> StackStats {
    let (slabs, slots, handed_out, refused) = slab::counts();
    let (pooled, trimmed) = pool::counts();
    StackStats { slabs, slots, handed_out, pooled, trimmed, refused }
}
