//! A reference to a runtime, to spawn on it from anywhere.

use super::default::default_runtime;
use super::join::JoinHandle;
use crate::primitives::sync::Arc;
use crate::scheduler::{self, Shared, SpawnOptions, WorkerStats};
use std::panic::Location;

/// A counted reference to a runtime. It does not keep the runtime from being shut down.
#[derive(Clone, Debug)]
pub struct Handle(pub(super) Arc<Shared>);

/// Figures of a runtime.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Fibers that have been spawned and have not ended.
    pub live: u64,
    /// The sum over all workers, and over what plain threads did.
    pub total: WorkerStats,
    /// Each worker's own counters.
    pub workers: Vec<WorkerStats>,
}

impl Handle {
    /// The runtime that the calling fiber belongs to; the default runtime on a plain thread.
    pub fn current() -> Handle {
        with_scheduler_here(|shared| {
            // SAFETY: every scheduler lives in an `Arc`, which is alive while it runs this.
            unsafe {
                Arc::increment_strong_count(shared);
                Handle(Arc::from_raw(shared))
            }
        })
    }

    /// Starts a fiber that runs `f` on this runtime, from any thread.
    ///
    /// After the runtime's shutdown nothing is spawned, and the handle's `join` says so.
    #[track_caller]
    pub fn go<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let options = SpawnOptions { name: None, size: None, site: Location::caller() };
        // SAFETY: both are 'static.
        unsafe { JoinHandle::spawn(&self.0, options, f) }
    }

    /// Counters at this moment.
    pub fn stats(&self) -> Stats {
        Stats { live: self.0.live(), total: self.0.totals(), workers: self.0.worker_stats() }
    }
}

/// Hands `f` the scheduler that the caller is on, or the default runtime's.
#[inline]
pub(super) fn with_scheduler_here<R>(f: impl FnOnce(&Shared) -> R) -> R {
    match scheduler::current() {
        // SAFETY: it lives while one of its workers runs us.
        Some(shared) => f(unsafe { &*shared }),
        None => f(&default_runtime().handle().0),
    }
}
