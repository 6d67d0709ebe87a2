//! The program's own code that a scheduler calls.
//!
//! It keeps that no longer than its runtime lives: whoever lets go of a scheduler last may be in the midst of a wait,
//! where no destructor of the program's may run.

use super::deadlock::Deadlock;
use super::shared::Shared;
use super::supervisor::Stall;
use crate::primitives::sync::Arc;
use std::fmt;

/// A hook that runs on a worker's own stack.
pub(crate) type Hook = Arc<dyn Fn() + Send + Sync>;
/// Told of each stall, on the supervisor's thread.
pub(crate) type StallHook = Arc<dyn Fn(&Stall) + Send + Sync>;

/// Told of a deadlock, on the supervisor's thread or a worker's.
pub(crate) type DeadlockHook = Arc<dyn Fn(&Deadlock) + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) on_thread_start: Option<Hook>,
    pub(crate) on_thread_stop: Option<Hook>,
    pub(crate) on_stall: Option<StallHook>,
    /// `None` where nobody is told.
    pub(crate) on_deadlock: Option<DeadlockHook>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

impl Shared {
    /// For the runtime that ends, and who drops them where a wait may be; for a thread that calls them.
    pub(crate) fn take_hooks(&self) -> Hooks {
        std::mem::take(&mut *self.hooks.lock())
    }

    pub(crate) fn hooks(&self) -> Hooks {
        self.hooks.lock().clone()
    }
}
