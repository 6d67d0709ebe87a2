//! How many locks of the process are biased at a time (`biased.rs`), and when one more may be.
//!
//! The end of a bias may cost a heavy fence: 11 us of the one who asks for it, and 7 of each other processor that runs
//! a thread of this process (Zen 5, measured). A lock earns that by thousands of turns. But who asks 100,000 channels
//! for their length ends as many biases in a row, however long ago each was given; and a channel that is given up after
//! one connection may not have earned it. So:
//!
//! - About [`MOST`] locks are biased at a time, so who comes to all of them has as many heavy fences: 11 ms. To give
//!   few a second would not do: within an hour they are many. A lock that is biased and not used keeps its place, and
//!   those that come later do without.
//! - After each heavy fence nobody is given a bias for [`REST`], and these times add up. So heavy fences are about a
//!   twentieth of a processor's time at most, however many locks there are.
//!
//! A lock asks at the end of a streak, so once in some hundred turns at most. Hints, upon which every decision is
//! sound.

use super::clock::{in_stamps, stamp};
use super::sync::atomic::Ordering::Relaxed;
use super::sync::hint::{AtomicU32, AtomicU64};
use std::time::Duration;

pub(super) const MOST: u32 = 1024;
pub(super) const REST: Duration = Duration::from_micros(200);
/// That many biases can end at once, and some more.
const LONGEST: u64 = 2 * MOST as u64 * in_stamps(REST);

/// Those of the process.
pub(super) static BIASES: Biases = Biases::new();

pub(super) struct Biases {
    given: AtomicU32,
    /// When the rest is over: a stamp.
    rested: AtomicU64,
}

impl Biases {
    const fn new() -> Biases {
        Biases { given: AtomicU32::new(0), rested: AtomicU64::new(0) }
    }

    /// May a lock be biased? Then it is counted, until its bias [`ends`](Self::ends).
    pub(super) fn give(&self) -> bool {
        let gives = is_free() || self.given.load(Relaxed) < MOST && self.left_of_rest(stamp()) == 0;
        if gives {
            self.given.fetch_add(1, Relaxed);
        }
        gives
    }

    /// One that was given is no more.
    pub(super) fn ends(&self) {
        self.given.fetch_sub(1, Relaxed);
    }

    /// That took a heavy fence.
    pub(super) fn rest(&self) {
        let now = stamp();
        let rested = now.wrapping_add(self.left_of_rest(now)).wrapping_add(in_stamps(REST));
        self.rested.store(rested, Relaxed);
    }

    /// Nothing if it seems to be very long: then it was counted from another beginning.
    fn left_of_rest(&self, now: u64) -> u64 {
        match self.rested.load(Relaxed).wrapping_sub(now) {
            left @ ..=LONGEST => left,
            _ => 0,
        }
    }
}

/// A model, or a test that counts turns, is the only one there.
#[cfg(any(loom, not(test)))]
const fn is_free() -> bool {
    cfg!(loom)
}

/// The threads of such tests.
#[cfg(all(test, not(loom)))]
static FREE: std::sync::Mutex<Vec<std::thread::ThreadId>> = std::sync::Mutex::new(Vec::new());

#[cfg(all(test, not(loom)))]
fn is_free() -> bool {
    FREE.lock().unwrap().contains(&std::thread::current().id())
}

/// `test` has as many biases on this thread as it asks for, whatever others of the process have.
#[cfg(all(test, not(loom)))]
pub(super) fn without_limits(test: impl FnOnce()) {
    let me = std::thread::current().id();
    FREE.lock().unwrap().push(me);
    test();
    FREE.lock().unwrap().retain(|thread| *thread != me);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitives::tsc;

    #[test]
    fn so_many_are_given_and_one_more_for_each_that_ends() {
        let biases = Biases::new();
        let gives = || (0..2 * MOST).filter(|_| biases.give()).count() as u32;
        assert_eq!(gives(), MOST);
        (0..3).for_each(|_| biases.ends());
        assert_eq!(gives(), 3);
    }

    #[test]
    fn rests_add_up() {
        tsc::prepare();
        let biases = Biases::new();
        let now = stamp();
        (0..MOST).for_each(|_| biases.rest());
        // Unless the system has taken the processor away in between.
        let left = biases.left_of_rest(now);
        assert!(left >= u64::from(MOST) * in_stamps(REST) || stamp() - now > in_stamps(REST));
        assert!(!biases.give() || stamp() - now > left);
        assert_eq!(biases.left_of_rest(now + left), 0);
    }

    /// The clock, that stamps were taken from before a runtime was there, is ahead of the counter by years.
    #[test]
    fn what_was_stamped_by_another_clock_is_over() {
        tsc::prepare();
        let biases = Biases::new();
        for far in [1 << 50, 3 << 60, 1 << 63, u64::MAX - 1] {
            biases.rested.store(stamp().wrapping_add(far), Relaxed);
            assert!(biases.give(), "{far}");
        }
    }
}
