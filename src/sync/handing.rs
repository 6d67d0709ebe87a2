//! Whether those who wait for a read-write lock have it handed over, since turns are long.
//!
//! A token leaves the lock to whoever runs until its owner has come, which keeps processors busy as long as that takes
//! longer than a turn. Where a turn takes longer, who comes with the token finds one in its way, goes back to the
//! queue, and waits for its end, as all do that stand behind. Ten fibers that compute for 20 us while they read, on two
//! workers, took 16.7 us a lock, and 10.7 where each had it handed; with 1 us and less, both took the same (measured).
//!
//! So who queues up while somebody has the lock notes the time, and the release that ends the turn looks how long that
//! was. If it was [`LONG`] or more, as one before was (once may be the system, which took the processor away), the next
//! [`AGAIN`] times that the queue is served its head has the lock handed, and the readers behind it. Not those who
//! block a thread: while one is woken many turns may pass, however long they are.
//!
//! Hints: every decision upon them is sound.

use crate::primitives::clock::{in_stamps, stamp};
use crate::primitives::sync::atomic::Ordering::Relaxed;
use crate::primitives::sync::hint::{AtomicU32, AtomicU64};
use std::time::Duration;

const LONG: Duration = Duration::from_micros(1);
const AGAIN: u32 = if cfg!(loom) { 1 } else { 8 };
/// More than one long turn gives.
const ENOUGH: u32 = 3;
const MOST: u32 = 4;

#[derive(Debug)]
pub(super) struct Handing {
    /// When somebody queued up during the turn that lasts: a stamp, or 0.
    since: AtomicU64,
    /// Two for each long turn, and one less for each short one; up to [`MOST`]. In models what they say.
    score: AtomicU32,
    again: AtomicU32,
}

impl Handing {
    pub(super) const fn new() -> Handing {
        Handing { since: AtomicU64::new(0), score: AtomicU32::new(0), again: AtomicU32::new(0) }
    }

    /// Somebody queues up while another has the lock. In models nobody measures where turns are short.
    pub(super) fn waits(&self) {
        let measured = !cfg!(loom) || self.score.load(Relaxed) > 0;
        if measured && self.since.load(Relaxed) == 0 {
            self.since.store(stamp().max(1), Relaxed);
        }
    }

    /// A turn has ended.
    pub(super) fn turn_ends(&self) {
        let since = self.since.load(Relaxed);
        if since == 0 {
            return;
        }
        self.since.store(0, Relaxed);
        // One that comes from another processor may be ahead of this one's.
        let long = (in_stamps(LONG)..u64::MAX / 2).contains(&stamp().wrapping_sub(since));
        self.has_seen(long);
    }

    /// A turn that somebody waited for was a long one, or a short one.
    fn has_seen(&self, long: bool) {
        let before = self.score.load(Relaxed);
        let score = match long {
            _ if cfg!(loom) => before,
            true => MOST.min(before + 2),
            false => before.saturating_sub(1),
        };
        self.score.store(score, Relaxed);
        if score >= ENOUGH && (long || cfg!(loom)) {
            self.again.store(AGAIN, Relaxed);
        }
    }

    /// Nobody waits any more.
    pub(super) fn forget(&self) {
        self.since.store(0, Relaxed);
    }

    /// Has who waits the lock handed, if that one comes soon? Asked once each time that the queue is served.
    pub(super) fn is_due(&self) -> bool {
        let again = self.again.load(Relaxed);
        self.again.store(again.saturating_sub(1), Relaxed);
        again > 0
    }

    #[cfg(all(test, loom))]
    pub(super) fn turns_are_long(&self) {
        self.score.store(MOST, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl Handing {
        /// A turn that somebody waits for, who has come so long before its end.
        fn turn(&self, waited: Duration) {
            self.waits();
            // Another test starts a scheduler, and with it the counter, at any time.
            crate::primitives::tsc::prepare();
            let first = stamp().wrapping_sub(in_stamps(waited)).max(1);
            self.since.store(first, Relaxed);
            self.waits();
            assert_eq!(self.since.load(Relaxed), first);
            self.turn_ends();
        }
    }

    #[test]
    fn two_long_turns_have_the_next_ones_handed() {
        let handing = Handing::new();
        let turns = |long: &[bool]| {
            long.iter().for_each(|long| handing.has_seen(*long));
            (0..100).take_while(|_| handing.is_due()).count() as u32
        };
        assert_eq!(turns(&[true, false, false].repeat(9)), 0, "one in three");
        assert_eq!(turns(&[true, false, true]), AGAIN);
        assert_eq!(turns(&[]), 0);
        assert_eq!(turns(&[true]), AGAIN, "some before were long too");
        assert_eq!(turns(&[false; MOST as usize]), 0);
        assert_eq!(turns(&[true]), 0, "they are forgotten");
    }

    #[test]
    fn how_long_one_waited_is_measured() {
        let has_been_long = |waited: Duration| {
            let handing = Handing::new();
            handing.turn(waited);
            handing.score.load(Relaxed) > 0
        };
        assert!(has_been_long(LONG));
        // The system may take the processor away.
        assert!((0..100).any(|_| !has_been_long(Duration::ZERO)));
    }

    #[test]
    fn a_turn_that_nobody_waits_for_says_nothing() {
        let handing = Handing::new();
        handing.turn(LONG);
        handing.turn_ends();
        assert!(!handing.is_due());
        handing.turn(LONG);
        assert!(handing.is_due());
    }

    /// As on a processor whose time is ahead.
    #[test]
    fn what_seems_to_come_before_its_beginning_is_not_long() {
        crate::primitives::tsc::prepare();
        let handing = Handing::new();
        for _ in 0..3 {
            handing.since.store(stamp().wrapping_add(u64::MAX / 4), Relaxed);
            handing.turn_ends();
        }
        assert!(!handing.is_due());
    }
}
