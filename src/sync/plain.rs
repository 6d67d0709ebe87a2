//! When a mutex (`raw_mutex.rs`) becomes *plain*, so that it is freed by a plain store.
//!
//! That saves a locked instruction each time, some 4 ns, and its end is a heavy fence: 11 us of the one who asks for
//! it, and 7 of each other processor that runs a thread of this process (Zen 5, measured). So a lock becomes plain
//! after [`AFTER`] times for which nobody waited for its owner, and not before [`AGAIN`] has passed since it was, nor
//! since any other lock of the process became so: however many locks and processors there are, it is about a hundredth
//! of their time at most.
//!
//! What is counted is the owner's to write, or of who has queued up; stamps are whoever's. Hints, upon which every
//! decision is sound.

use crate::primitives::clock::{in_stamps, stamp};
use crate::primitives::sync::atomic::Ordering::Relaxed;
use crate::primitives::sync::hint::{AtomicU32, AtomicU64};
use std::time::Duration;

pub(super) const AFTER: u32 = if cfg!(loom) { 2 } else { 4096 };
pub(super) const AGAIN: Duration = Duration::from_millis(1);

/// When some lock became plain last: a stamp.
static BEGAN: AtomicU64 = AtomicU64::new(0);

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

    /// By the owner, who is about to free the lock by an exchange: counts that, unless it is time to ask whether it
    /// [`is_due`](Self::is_due).
    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        let left = self.left.load(Relaxed);
        if left != 0 {
            self.left.store(left - 1, Relaxed);
        }
        left != 0
    }

    /// Shall the lock be plain from now on?
    pub(super) fn is_due(&self) -> bool {
        self.is_worth_it(&BEGAN)
    }

    fn is_worth_it(&self, began: &AtomicU64) -> bool {
        self.begin_again();
        cfg!(loom) || is_long_ago(&self.ended) && is_long_ago(began)
    }

    /// The lock is plain from now on.
    pub(super) fn has_begun(&self) {
        BEGAN.store(stamp(), Relaxed);
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

/// Was that [`AGAIN`] before now? A stamp that seems to come is one of another processor's, of a moment ago, or was
/// counted from another beginning: then that is now.
fn is_long_ago(stamped: &AtomicU64) -> bool {
    let now = stamp();
    let since = now.wrapping_sub(stamped.load(Relaxed));
    if since > u64::MAX / 2 {
        stamped.store(now, Relaxed);
    }
    (in_stamps(AGAIN)..=u64::MAX / 2).contains(&since)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitives::tsc;

    const LONG_AGO: u64 = 2 * in_stamps(AGAIN);

    /// `times` times freed by an exchange, in a process where a lock became plain at `began`: when does it become so?
    fn due(plain: &Plain, times: u32, began: u64) -> Option<u32> {
        let began = AtomicU64::new(began);
        (0..times).find(|_| !plain.goes_on() && plain.is_worth_it(&began))
    }

    #[test]
    fn it_is_due_after_so_many_times() {
        let plain = Plain::new();
        assert_eq!(due(&plain, 2 * AFTER, 0), Some(AFTER));
        assert_eq!(due(&plain, 2 * AFTER, 0), Some(AFTER));
        assert_eq!(due(&plain, AFTER / 2, 0), None);
        plain.begin_again();
        assert_eq!(due(&plain, 2 * AFTER, 0), Some(AFTER), "somebody waited");
    }

    /// Unless the system takes the processor away just then.
    fn at_once(is_due: impl Fn(u64) -> bool) -> bool {
        tsc::prepare();
        (0..100).all(|_| is_due(stamp()))
    }

    #[test]
    fn it_is_not_due_soon_after_it_was_plain_or_another_one_became_so() {
        let due_after = |ended, began| {
            let plain = Plain { left: AtomicU32::new(0), ended: AtomicU64::new(ended) };
            plain.is_worth_it(&AtomicU64::new(began))
        };
        assert!(!at_once(|now| due_after(now, 0)));
        assert!(!at_once(|now| due_after(0, now)));
        assert!(at_once(|now| due_after(now - LONG_AGO, now - LONG_AGO)));
    }

    #[test]
    fn the_next_one_has_to_wait() {
        let next = || Plain { left: AtomicU32::new(0), ended: AtomicU64::new(0) };
        let begins = |_| {
            next().has_begun();
            next().is_due()
        };
        assert!(!at_once(begins));
    }

    /// The clock, that stamps were taken from before a runtime was there, is ahead of the counter by years.
    #[test]
    fn what_was_stamped_by_another_clock_is_now() {
        tsc::prepare();
        let stamped = AtomicU64::new(stamp() + (3 << 60));
        assert!(!is_long_ago(&stamped));
        assert!(stamp().wrapping_sub(stamped.load(Relaxed)) < u64::MAX / 2);
    }
}
