//! When a mutex (`raw_mutex.rs`) becomes *plain*, so that it is freed by a plain store.
//!
//! That saves a locked instruction each time, some 4 ns, and its end is a heavy fence: 11 us of the one who asks for it, and 7 of
//! each other processor that runs a thread of this process (Zen 5, measured). So a lock becomes plain after [`AFTER`] times for
//! which nobody waited for its owner, and not before [`AGAIN`] has passed since it was: however many processors are
//! interrupted for it, it is about a hundredth of their time at most, for each lock.
//!
//! Written by the owner, and under the inner lock: hints, upon which every decision is sound.

use crate::primitives::asymmetric;
use crate::primitives::clock::{in_stamps, stamp};
use crate::primitives::sync::atomic::Ordering::Relaxed;
use crate::primitives::sync::hint::{AtomicU32, AtomicU64};
use std::time::Duration;

pub(super) const AFTER: u32 = if cfg!(loom) { 2 } else { 4096 };
pub(super) const AGAIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Plain {
    /// So many more times the lock is freed by an exchange.
    left: AtomicU32,
    /// When it was plain no more: a stamp.
    ended: AtomicU64,
}

impl Plain {
    pub(super) const fn new() -> Plain {
        Plain { left: AtomicU32::new(AFTER), ended: AtomicU64::new(0) }
    }

    /// By the owner, who is about to free the lock by an exchange: shall it be plain from now on?
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        match self.left.load(Relaxed) {
            0 => self.is_worth_it(),
            left => {
                self.left.store(left - 1, Relaxed);
                false
            }
        }
    }

    #[cold]
    fn is_worth_it(&self) -> bool {
        self.begin_again();
        // One that comes from another processor may be ahead of this one's.
        let since = stamp().wrapping_sub(self.ended.load(Relaxed));
        let long = cfg!(loom) || (in_stamps(AGAIN)..u64::MAX / 2).contains(&since);
        long && fences_are_light()
    }

    /// Somebody waits for the owner.
    pub(super) fn begin_again(&self) {
        self.left.store(AFTER, Relaxed);
    }

    /// The lock was plain until now.
    pub(super) fn has_ended(&self) {
        self.ended.store(stamp(), Relaxed);
    }
}

/// Also in a process that has no runtime.
fn fences_are_light() -> bool {
    asymmetric::register();
    asymmetric::is_light()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// How often the lock is freed by an exchange from now on, `most` times at most.
    fn exchanges(plain: &Plain, most: u32) -> u32 {
        (0..most).take_while(|_| !plain.is_due()).count() as u32
    }

    /// Where light fences are full an exchange is as cheap.
    #[test]
    fn it_is_due_after_so_many_times_where_fences_are_light() {
        let plain = Plain::new();
        let times = if fences_are_light() { AFTER } else { 2 * AFTER };
        assert_eq!(exchanges(&plain, 2 * AFTER), times);

        let plain = Plain::new();
        exchanges(&plain, AFTER / 2);
        plain.begin_again();
        assert_eq!(exchanges(&plain, AFTER), AFTER, "somebody waited");
    }

    #[test]
    fn it_is_not_due_again_at_once() {
        crate::primitives::tsc::prepare();
        let stays = || {
            let plain = Plain::new();
            plain.has_ended();
            exchanges(&plain, AFTER + 1) > AFTER
        };
        // Unless the system takes the processor away just then.
        assert!((0..100).any(|_| stays()));
    }
}
