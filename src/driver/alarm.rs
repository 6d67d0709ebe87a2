//! Until when the one in the poller sleeps: no deadline is slept over, but for the millisecond by which it may be put
//! off, so that others share its wake, or the sleep itself may be late.
//!
//! # Protocol
//!
//! The sleeper stores when it will wake, full fence, reads what is due next once more. Whoever makes
//! something due stores that, full fence, reads when the sleeper wakes, and interrupts it if that is
//! too late. The fences are totally ordered: the one whose fence comes second sees what the other
//! stored. So either the sleeper sets its alarm anew, or it is interrupted; perhaps both, which costs
//! one look. The interrupt is kept by the kernel if the sleeper is not in the poller yet.

use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicU64, Ordering};
use crate::primitives::sync::full_fence;

/// The alarm of the one in the poller.
#[derive(Debug)]
pub(super) struct Alarm {
    /// When the sleeper wakes, in nanoseconds; 0 while nobody sleeps. Written by the holder of the
    /// role, read by whoever makes something due.
    wakes_at: AtomicU64,
}

impl Alarm {
    pub(super) fn new() -> Alarm {
        Alarm { wakes_at: AtomicU64::new(0) }
    }

    /// The holder of the role is about to sleep. `next` reads what is due next, anew each time;
    /// returns when to wake.
    pub(super) fn set(&self, next: impl Fn() -> Moment) -> Moment {
        let mut wake_at = next();
        loop {
            self.wakes_at.store(wake_at.as_nanos(), Ordering::Relaxed);
            // Pairs with the fence in `is_too_late`.
            full_fence();
            let due = next();
            if due >= wake_at {
                return wake_at;
            }
            wake_at = due;
        }
    }

    /// The holder of the role is awake.
    pub(super) fn clear(&self) {
        self.wakes_at.store(0, Ordering::Relaxed);
    }

    /// After something was stored that is due at `deadline`: must the sleeper be interrupted?
    #[must_use]
    pub(super) fn is_too_late(&self, deadline: Moment) -> bool {
        // Pairs with the fence in `set`.
        full_fence();
        self.wakes_at.load(Ordering::Relaxed) > deadline.as_nanos()
    }
}
