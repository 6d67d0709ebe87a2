//! Poisoning: a lock remembers that somebody panicked while holding it.

use crate::cancel;
use crate::primitives::const_unless_loom;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::primitives::thread;
use std::fmt;
use std::ops::Deref;
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

/// A lock's mark. Relaxed: whoever reads it holds the lock, which orders it.
#[derive(Debug)]
pub(super) struct Flag(AtomicBool);

/// What the lock's owner was at when it locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// It was panicking: then the panic is not this lock's matter.
    panicking: bool,
    cancels: cancel::Unwound,
}

impl Flag {
    const_unless_loom! {
        pub(super) fn new() -> Flag {
            Flag(AtomicBool::new(false))
        }
    }

    #[inline]
    pub(super) fn enter() -> Before {
        Before { panicking: thread::panicking(), cancels: cancel::unwound() }
    }

    /// The owner lets go. A cancel's unwinding poisons nothing.
    #[inline]
    pub(super) fn leave(&self, before: Before) {
        if !before.panicking && thread::panicking() && !cancel::is_unwinding_since(before.cancels) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn wrap<T>(&self, value: T) -> LockResult<T> {
        if self.get() { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

/// Writes a lock as the standard library does; `tried` is an attempt to lock it.
pub(super) fn fmt_lock<G>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    tried: TryLockResult<G>,
    poisoned: bool,
) -> fmt::Result
where
    G: Deref<Target: fmt::Debug>,
{
    let mut out = f.debug_struct(name);
    match &tried {
        Ok(guard) => out.field("data", &&**guard),
        Err(TryLockError::Poisoned(error)) => out.field("data", &&**error.get_ref()),
        Err(TryLockError::WouldBlock) => out.field("data", &format_args!("<locked>")),
    };
    out.field("poisoned", &poisoned).finish_non_exhaustive()
}
