//! When a worker stays awake for what may follow from outside.
//!
//! A plain thread that spawns a fiber and joins it, again and again, or exchanges messages with one, has two wakes by
//! the system in each turn: its own, and that of the worker, which has nothing else to do meanwhile. Each takes tens of
//! microseconds where a processor is a virtual machine's and has halted. The thread spins before it sleeps
//! (`park/patience.rs`), and would see its fiber end then if the worker were awake.
//!
//! So a worker that was given something from outside, by way of injector or mailbox, and finds nothing more to do keeps
//! a vigil (`vigil.rs`). It has paid if more came from there within [`SOON`], and was in vain if it went on for longer
//! (`util/odds.rs` says how often it is tried then). But where more came late that may have been the wake of a thread,
//! which is awake now: one like that has neither paid nor failed, two in a row have failed. What ends one soon, and
//! does not come from there, says nothing. Where others took the processor meanwhile it was in vain whatever came: the
//! worker was in the way of who brought it.
//!
//! Any worker keeps them, also one that has nobody to steal from, but not while another one searches. Where fibers may
//! not move mail is no sign of anything: all that a worker wakes itself goes that way.

use crate::util::odds::Odds;
use std::time::Duration;

/// About the processor time that a sleep and a wake take, 18 us on a virtual machine's processor (measured).
const SOON: Duration = Duration::from_micros(20);

/// What a worker knows of such vigils.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FollowUps {
    /// The worker was given something from outside since the last vigil, or sleep.
    expected: bool,
    /// In the last vigil that says something more came late.
    late: bool,
    odds: Odds,
}

impl FollowUps {
    /// The worker was given something from outside.
    #[inline]
    pub(super) fn expect(&mut self) {
        self.expected = true;
    }

    /// The worker finds nothing more to do: does it stay awake?
    pub(super) fn begin(&mut self) -> bool {
        std::mem::take(&mut self.expected) && !self.odds.leaves_out()
    }

    /// A vigil is over after so long: was the worker given more, and was the processor taken meanwhile?
    pub(super) fn end(&mut self, given: bool, waited: Duration, taken: bool) {
        let soon = waited <= SOON;
        match given {
            false if soon && !taken => {}
            true if !soon && !taken && !self.late => self.late = true,
            _ => {
                self.late = false;
                self.odds.tried(given && soon && !taken);
            }
        }
    }

    /// The worker goes to bed.
    pub(super) fn forget(&mut self) {
        self.expected = false;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LATE: Duration = SOON.saturating_add(Duration::from_nanos(1));
    const QUICK: (bool, Duration) = (true, SOON);
    const LATELY: (bool, Duration) = (true, LATE);
    const IN_VAIN: (bool, Duration) = (false, LATE);
    const OTHERWISE: (bool, Duration) = (false, SOON);

    impl FollowUps {
        /// How often the worker is given something until it stays awake.
        fn gifts(&mut self) -> u32 {
            let gifts = (1..).find(|_| {
                self.expect();
                self.begin()
            });
            gifts.expect("some time")
        }

        /// The same after a vigil that ended so.
        fn gifts_after(&mut self, (given, waited): (bool, Duration)) -> u32 {
            self.end(given, waited, false);
            self.gifts()
        }
    }

    #[test]
    fn who_was_given_something_stays_awake_once() {
        let mut follow_ups = FollowUps::default();
        assert!(!follow_ups.begin());
        assert_eq!(follow_ups.gifts(), 1);
        assert!(!follow_ups.begin());
        follow_ups.expect();
        follow_ups.forget();
        assert!(!follow_ups.begin(), "it has slept");
    }

    #[test]
    fn those_in_vain_become_rare_and_others_do_not() {
        let mut follow_ups = FollowUps::default();
        assert!((0..9).all(|_| follow_ups.gifts_after(QUICK) == 1));
        assert_eq!([(); 3].map(|()| follow_ups.gifts_after(IN_VAIN)), [1, 3, 11]);
        assert!((0..9).all(|_| follow_ups.gifts_after(OTHERWISE) == 1));
        assert_eq!(follow_ups.gifts_after(IN_VAIN), 43, "none of them has paid");
    }

    #[test]
    fn two_that_are_late_in_a_row_are_in_vain() {
        let mut follow_ups = FollowUps::default();
        assert_eq!(follow_ups.gifts(), 1);
        let ends = [LATELY, QUICK, LATELY, OTHERWISE, LATELY];
        assert_eq!(ends.map(|end| follow_ups.gifts_after(end)), [1, 1, 1, 1, 3]);
        assert_eq!(follow_ups.gifts_after(LATELY), 1);
        follow_ups.forget();
        assert_eq!(follow_ups.gifts_after(LATELY), 11, "also if a sleep lies between");
    }

    #[test]
    fn who_was_in_the_way_has_waited_in_vain() {
        for (given, waited) in [QUICK, LATELY, OTHERWISE, IN_VAIN] {
            let mut follow_ups = FollowUps::default();
            follow_ups.end(given, waited, true);
            assert_eq!(follow_ups.gifts(), 3);
        }
    }
}
