//! Whether who is urgent stays in the LIFO slot when a run of the slot's has ended, until some of a long ring have run.
//!
//! As a rule it goes behind the ring then, as in Tokio: a server comes less often, and finds more to do (if all stayed,
//! a question of a hundred that ask one server took 219 ns instead of 160, measured). But where many stand there that
//! is a long wait, a millisecond for each thousand who take a microsecond; and for who was woken for a lock it is too
//! long: whoever comes meanwhile takes the lock past it, or makes way and queues up, until hundreds stand there of whom
//! few are served in each round. So who is urgent has its turn after [`SOME`] of the ring.
//!
//! Measured on an Intel, two workers, medians of fifteen in one run (Go's in brackets): of a thousand fibers that hold
//! a mutex for 0.3 us and compute for as long the slowest thousandth waited for 37 -> 1.5 ms (1.7), all of them 200 ->
//! 4.0 us on average (7.8); with 1 and 2 us 44 -> 6.4 ms (3.6) and 1,416 -> 15 us (18); of a hundred 1.4 -> 0.20 ms
//! (0.23). Turns take as long as before, to 2%.
//!
//! Three from the slot for four of the ring is less than a half, if they take as long. Where a run of theirs follows a
//! rest, and took more than [`TIMES`] as long for each as those of the ring in that, twice in a row (once may be the
//! system), they go behind the ring, and the next [`AGAIN`] times too.

use crate::primitives::clock::stamp;
use std::mem;

/// Dispatches from the LIFO slot in a row, before others get their turn.
pub(super) const LIFO_RUNS: u8 = 3;
/// What the count of them comes to when a rest is over.
pub(super) const RESTED: u8 = LIFO_RUNS + 1;
/// So many of the ring run in a rest.
pub(super) const SOME: u8 = 4;
const TIMES: u64 = 2;
const AGAIN: u8 = 15;

/// Times are stamps, and dispatches are told apart by their lower bits: hints.
#[derive(Debug, Default)]
pub(super) struct LifoRest {
    /// When the last run ended, or when its rest did; and what was dispatched by then.
    since: u64,
    dispatched: u16,
    /// The last one that was measured was long.
    had_long: bool,
    /// So many more go behind the ring.
    long: u8,
    /// What one of the ring took in the last rest; 0 if there was none.
    ring: u32,
}

impl LifoRest {
    /// A run has ended beside so many in the ring: does one that is urgent stay in the slot until [`SOME`] of them have
    /// run?
    pub(super) fn begin(&mut self, dispatched: u64, ring: usize) -> bool {
        ring > SOME.into() && self.begin_at(stamp(), dispatched as u16)
    }

    fn begin_at(&mut self, now: u64, dispatched: u16) -> bool {
        let follows = dispatched.wrapping_sub(self.dispatched) == LIFO_RUNS.into();
        if follows && self.ring != 0 {
            let took = now.wrapping_sub(self.since) / u64::from(LIFO_RUNS);
            let is_long = took > TIMES * u64::from(self.ring);
            if mem::replace(&mut self.had_long, is_long) && is_long {
                self.long = AGAIN + 1;
            }
        }
        (self.since, self.dispatched) = (now, dispatched);
        let rests = self.long == 0;
        self.long = self.long.saturating_sub(1);
        rests
    }

    /// They have run.
    pub(super) fn end(&mut self, dispatched: u64) {
        self.end_at(stamp(), dispatched as u16);
    }

    fn end_at(&mut self, now: u64, dispatched: u16) {
        let turns = dispatched.wrapping_sub(self.dispatched).max(1);
        let took = now.wrapping_sub(self.since) / u64::from(turns);
        self.ring = u32::try_from(took).unwrap_or(u32::MAX);
        (self.since, self.dispatched) = (now, dispatched);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl LifoRest {
        /// For a while all of the ring come first.
        pub(in crate::scheduler) fn of_long_ones() -> LifoRest {
            LifoRest { long: AGAIN, ..LifoRest::default() }
        }
    }

    /// Of so many runs, each after a rest and three times as long as `slot`, how many have one, where one of the ring
    /// takes `ring`?
    fn rests(runs: u32, slot: u64, ring: u64) -> u32 {
        let mut rest = LifoRest::default();
        let (mut now, mut dispatched, mut rests) = (0, 0_u16, 0);
        for _ in 0..runs {
            if rest.begin_at(now, dispatched) {
                (now, dispatched) = (now + u64::from(SOME) * ring, dispatched + u16::from(SOME));
                rest.end_at(now, dispatched);
                rests += 1;
            } else {
                // Behind a round of theirs, after which one of the slot's comes from the ring.
                (now, dispatched) = (now + 99 * ring + slot, dispatched + 100);
            }
            (now, dispatched) = (now + 3 * slot, dispatched + 3);
        }
        rests
    }

    #[test]
    fn those_who_take_no_longer_wait_for_some() {
        for (slot, ring) in [(1, 1), (1, 100), (200, 100)] {
            assert_eq!(rests(100, slot, ring), 100, "{slot}, {ring}");
        }
    }

    /// The first two are not known to be, and one in seventeen after that.
    #[test]
    fn those_who_take_longer_wait_for_all() {
        for (slot, ring) in [(210, 100), (1_000, 1)] {
            assert_eq!(rests(2 + 17 * 20, slot, ring), 2 + 20, "{slot}, {ring}");
        }
    }

    /// Three of the slot's run, and those of the ring after that if they rest: 80 each time. Do they?
    fn rests_after(rest: &mut LifoRest, now: &mut u64, dispatched: u16, took: u64) -> bool {
        *now += took;
        let rests = rest.begin_at(*now, dispatched);
        *now += 80;
        rest.end_at(*now, dispatched + u16::from(SOME));
        rests
    }

    #[test]
    fn twice_long_is_believed_where_it_follows_a_rest() {
        let (mut rest, mut now) = (LifoRest::default(), 0);
        let mut rests = |dispatched, took| rests_after(&mut rest, &mut now, dispatched, took);
        assert!(rests(3, 9_000), "there was no rest before");
        assert!(rests(11, 9_000), "others were dispatched too");
        assert!(rests(18, 9_000), "once");
        assert!(rests(25, 30));
        assert!(rests(32, 9_000), "once again");
        assert!(!rests(39, 9_000));
    }

    #[test]
    fn behind_few_they_go() {
        let mut rest = LifoRest::default();
        assert!(!rest.begin(0, SOME.into()));
        assert!(rest.begin(0, usize::from(SOME) + 1));
    }
}
