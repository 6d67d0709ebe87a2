//! How a core gets a thread of its own, and what is said where the system refuses one.
//!
//! It is told of once, until a thread could be started again: the supervisor asks ten times a second meanwhile.

use super::shared::Shared;
use crate::primitives;
use crate::primitives::sync::atomic::Ordering;
use std::fmt;
use std::io;

/// Starts a thread that calls [`run`](super::run) with the given core.
pub(crate) struct Starter(pub(crate) Box<Start>);

type Start = dyn Fn(&Shared, usize) -> io::Result<()> + Send + Sync;

impl fmt::Debug for Starter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Starter")
    }
}

impl Shared {
    /// Says how a thread for a core is started. Once, before the first fiber.
    pub(crate) fn set_starter(&self, starter: Starter) {
        let _ = self.starter.set(starter);
    }

    /// Starts a thread that holds `core`. Where the system has none to give the core stays free: it
    /// runs again when another thread comes back, or when the supervisor has been given one.
    pub(super) fn start_thread(&self, core: usize) -> bool {
        let result = self.starter.get().map(|starter| starter.0(self, core));
        let started = matches!(result, Some(Ok(())));
        if started {
            self.outside.threads_started.add_shared(1);
            self.is_refused.store(false, Ordering::Relaxed);
        } else {
            self.outside.threads_refused.add_shared(1);
            // SAFETY: it was given to the caller, for a thread that is not there.
            unsafe { self.put_down(core) };
        }
        if let Some(Err(error)) = result {
            self.tell_of_refusal(&error);
        }
        started
    }

    #[cold]
    fn tell_of_refusal(&self, error: &io::Error) {
        // A runtime that ends starts none.
        if self.is_stopping() || self.is_refused.swap(true, Ordering::Relaxed) {
            return;
        }
        primitives::tell(&format!(
            "volt: the system has refused the runtime a thread, so fibers may have to wait for one that blocks: {error}\n"
        ));
        // A subscriber that panics ends nobody.
        #[cfg(feature = "tracing")]
        crate::util::forget_panics(
            || tracing::warn!(%error, "the system has refused the runtime a thread, so fibers may have to wait for one that blocks"),
        );
    }
}
