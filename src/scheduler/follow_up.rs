//! When a worker stays awake for what may follow from outside.
//!
//! A plain thread that spawns a fiber and joins it, again and again, or exchanges messages with one, has two wakes by the system in each
//! turn: its own, and that of the worker, which has nothing else to do meanwhile. Each takes tens of microseconds where a processor is
//! a virtual machine's and has halted. The thread spins before it sleeps (`park/patience.rs`), and would see its
//! fiber end then if the worker were awake.
//!
//! So a worker that was given something from outside, by way of injector or mailbox, and finds nothing more to do keeps a vigil
//! (`vigil.rs`). It has paid if more came from there within [`SOON`], and was in vain if nothing came at all (`util/odds.rs`
//! says how often it is tried then). One after which something came late may have waited for the wake of that thread, which is
//! awake now: it has neither paid nor failed, but two in a row have failed. What else comes says nothing.
//!
//! Any worker keeps them, also one that has nobody to steal from, but not while another one searches.

use crate::util::odds::Odds;
use std::time::Duration;

/// About the processor time that a sleep and a wake take, 18 us on a virtual machine's processor (measured).
const SOON: Duration = Duration::from_micros(20);

/// How a vigil has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// More came, after so long.
    Followed(Duration),
    InVain,
    /// By something else.
    Otherwise,
}

/// What a worker knows of such vigils.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FollowUps {
    /// The worker was given something from outside since the last vigil, or sleep.
    expected: bool,
    /// In the last vigil something came late.
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

    pub(super) fn end(&mut self, end: End) {
        let was_late = std::mem::take(&mut self.late);
        match end {
            End::Followed(after) if after <= SOON => self.odds.tried(true),
            End::Followed(_) if !was_late => self.late = true,
            End::Followed(_) | End::InVain => self.odds.tried(false),
            End::Otherwise => {}
        }
    }

    /// The worker goes to bed.
    pub(super) fn forget(&mut self) {
        (self.expected, self.late) = (false, false);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const QUICK: End = End::Followed(SOON);
    const LATE: End = End::Followed(SOON.saturating_add(Duration::from_nanos(1)));

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
        fn gifts_after(&mut self, end: End) -> u32 {
            self.end(end);
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
        assert_eq!([(); 3].map(|()| follow_ups.gifts_after(End::InVain)), [1, 3, 11]);
        assert!((0..9).all(|_| follow_ups.gifts_after(End::Otherwise) == 1));
    }

    #[test]
    fn two_that_are_late_in_a_row_are_in_vain() {
        let mut follow_ups = FollowUps::default();
        assert_eq!(follow_ups.gifts(), 1);
        assert_eq!([LATE, QUICK, LATE, LATE].map(|end| follow_ups.gifts_after(end)), [1, 1, 1, 3]);
        follow_ups.end(LATE);
        follow_ups.forget();
        assert_eq!(follow_ups.gifts_after(LATE), 1, "a sleep lies between");
    }
}
