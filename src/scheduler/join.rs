//! Run next: a fiber that has not started, and is joined, starts at once, by a direct switch from its
//! joiner, on a stack of its own.
//!
//! Where it stands in a queue it cannot be taken out: the ring is not the joiner's alone to change,
//! and the injector is a chain. So the joiner claims it by its state word, and the entry stays behind,
//! with a reference to the block, for whoever comes upon it (`fiber/state.rs`, `STALE`).

use super::shared::Shared;
use super::worker::Worker;
use crate::fiber::FiberPtr;

/// Starts `fiber` for the calling fiber, which is about to join it and holds its join handle. True if
/// the caller must now give it the worker, by [`park_and_run`](super::park_and_run).
///
/// False if it has started, if it cannot run here, or if it is next anyway.
pub(crate) fn start_to_join(fiber: FiberPtr) -> bool {
    // SAFETY: valid until the next switch; none comes here.
    let Some(worker) = (unsafe { Worker::current().as_ref() }) else { return false };
    let here = std::ptr::eq(worker.shared, Shared::of(fiber)) && worker.shared.moves_freely;
    if !here || worker.is_vacated() || !fiber.state().load().is_fresh() {
        return false;
    }
    let core = worker.held();
    if core.slot.holds(fiber) {
        return false;
    }
    let started = fiber.start_out_of_turn();
    if started {
        core.stats.run_next.add(1);
    }
    started
}
