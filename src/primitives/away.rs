//! For how long one who finds a lock taken stays away before it tries again, learned by trial.
//!
//! The least that a turn costs where two take turns is the way of the lock's line, and of those that it guards. Who stays away
//! for [`LONG`] leaves the other one some turns in a row, for which these lines go to and fro once. That pays where turns follow
//! one another sooner than lines come. Where each does something else between two turns for longer than that, both get on
//! faster side by side, and who stays away for more than [`SHORT`] does so for nothing. Where the border is depends on the
//! processor, by a factor of three at least, and on the minute.
//!
//! So both are tried, and how many turns all have had is compared, from one who waits to the next; where nobody waits for
//! [`APART`], nobody was in another's way. A *period* is [`WAITS`] of them and [`PERIOD`] or more. After each, and less and less often where
//! the other way is not faster, that one has a period.
//!
//! Two workers on a Zen 4, medians of seven in turn, beside a rule that took many turns of another for a reason to stay away, which
//! by staying away makes them many (and Go): eight who send to eight, each of whom computes for 200 ns in between, 373 -> 320 ns a
//! message (318), for 100 ns 281 -> 245 (222); fifty who send to four, 200 ns, 381 -> 324 (312), four to fifty 386 -> 328 (324).

use super::clock::{in_stamps, stamp};
use std::mem;
use std::time::Duration;

/// In stamps, as all times here.
const SHORT: u32 = in_stamps(Duration::from_nanos(100)) as u32;
const LONG: u32 = in_stamps(Duration::from_nanos(1_600)) as u32;
const APART: u32 = in_stamps(Duration::from_micros(8)) as u32;
const PERIOD: u32 = in_stamps(Duration::from_micros(10)) as u32;
const WAITS: u8 = 32;
/// The other way must be faster by one part in so many.
const GAIN: u64 = 16;
/// So many periods at most from one trial to the next.
const RARELY: u8 = 64;

/// Turns in some time.
#[derive(Clone, Copy, Debug)]
struct Speed {
    turns: u32,
    time: u32,
}

impl Speed {
    const NONE: Speed = Speed { turns: 0, time: 0 };

    fn is_above(self, other: Speed) -> bool {
        let product = |turns: u32, time: u32| u64::from(turns) * u64::from(time);
        let (this, other) = (product(self.turns, other.time), product(other.turns, self.time));
        this > other + other / GAIN
    }
}

/// Touched by the lock's owner alone. Few bytes: they go with the lock from one processor to the other.
#[derive(Debug)]
pub(super) struct Away {
    /// Since somebody waited last.
    turns: u32,
    /// When that was: a stamp's lower half.
    since: u32,
    /// The period so far.
    speed: Speed,
    waits: u8,
    is_long: bool,
    /// Periods until the next trial, and from one to the next.
    left: u8,
    every: u8,
    /// In a trial: what it was the other way, which is gone on with unless this one is faster. Or [`Speed::NONE`].
    before: Speed,
}

impl Away {
    pub(super) const FIRST: u32 = SHORT;

    pub(super) const fn new() -> Away {
        Away {
            turns: 0,
            since: 0,
            speed: Speed::NONE,
            waits: 0,
            is_long: false,
            left: 1,
            every: 1,
            before: Speed::NONE,
        }
    }

    /// Somebody has taken the lock.
    #[inline(always)]
    pub(super) fn count(&mut self) {
        self.turns = self.turns.wrapping_add(1);
    }

    /// Somebody has, and had to wait. For how long had the next one better stay away?
    pub(super) fn waited(&mut self) -> u32 {
        self.waited_at(stamp() as u32)
    }

    fn waited_at(&mut self, now: u32) -> u32 {
        // Later by far if it comes from a processor whose counter is behind.
        let time = now.wrapping_sub(self.since);
        if time < APART {
            self.waits = self.waits.saturating_add(1);
            self.speed.turns += self.turns;
            self.speed.time += time;
        }
        (self.since, self.turns) = (now, 0);
        if self.waits >= WAITS && self.speed.time >= PERIOD {
            self.end_period();
        }
        if self.is_long { LONG } else { SHORT }
    }

    #[cold]
    fn end_period(&mut self) {
        let speed = mem::replace(&mut self.speed, Speed::NONE);
        let before = mem::replace(&mut self.before, Speed::NONE);
        self.waits = 0;
        self.left -= 1;
        let tried = before.time != 0;
        if tried && speed.is_above(before) {
            self.go_on(1);
        } else if tried {
            self.is_long = !self.is_long;
            self.go_on(RARELY.min(2 * self.every));
        } else if self.left == 0 {
            self.before = speed;
            self.is_long = !self.is_long;
            self.left = 1;
        }
    }

    fn go_on(&mut self, every: u8) {
        (self.left, self.every) = (every, every);
    }

    /// As if that had turned out to be faster.
    #[cfg(test)]
    pub(super) fn learn_long(&mut self) {
        self.is_long = true;
    }
}

/// Stays away for so long.
#[cfg(not(loom))]
pub(super) fn stay(away: u32) {
    let start = stamp();
    while stamp().wrapping_sub(start) < u64::from(away) {
        std::hint::spin_loop();
    }
}

/// For a model it is no different from a lock that is tried later.
#[cfg(loom)]
pub(super) fn stay(_away: u32) {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Two whose turns take so long: one after the other's if they stay away for long, or both at a time.
    struct Two {
        away: Away,
        now: u32,
        alone: u32,
        beside: u32,
    }

    impl Two {
        fn new(alone: u32, beside: u32) -> Two {
            Two { away: Away::new(), now: APART, alone, beside }
        }

        /// So many waits later: how many of them were long?
        fn long_of(&mut self, waits: u32) -> u32 {
            let one = |_: &u32| {
                let is_long = self.away.is_long;
                let (turns, each) =
                    if is_long { (LONG / self.alone, self.alone) } else { (2, self.beside / 2) };
                (0..turns).for_each(|_| self.away.count());
                self.now = self.now.wrapping_add(turns * each);
                let away = self.away.waited_at(self.now);
                assert_eq!(away == LONG, self.away.is_long);
                is_long
            };
            (0..waits).filter(one).count() as u32
        }
    }

    #[test]
    fn what_is_faster_is_found_and_the_other_becomes_rare() {
        // Turns of 20 ns that take 120 beside another's; and of 200 ns that take 270.
        let (mut close, mut apart) = (Two::new(60, 360), Two::new(600, 810));
        for two in [&mut close, &mut apart] {
            two.long_of(10_000);
        }
        assert!(close.long_of(100_000) > 95_000);
        assert!(apart.long_of(100_000) < 5_000);
    }

    #[test]
    fn it_is_found_anew_where_turns_change() {
        let mut two = Two::new(600, 810);
        two.long_of(100_000);
        (two.alone, two.beside) = (60, 360);
        two.long_of(u32::from(RARELY) * 100);
        assert!(two.long_of(10_000) > 9_000);
        (two.alone, two.beside) = (600, 810);
        two.long_of(u32::from(RARELY) * 100);
        assert!(two.long_of(10_000) < 1_000);
    }

    #[test]
    fn where_nobody_was_in_anothers_way_nothing_is_learned() {
        let mut away = Away::new();
        for wait in 1..1_000 {
            (0..1_000).for_each(|_| away.count());
            assert_eq!(away.waited_at(wait * APART), SHORT);
        }
        assert_eq!((away.waits, away.speed.time), (0, 0));
    }

    #[test]
    fn who_stays_away_does_so_for_that_long() {
        super::super::tsc::prepare();
        let before = stamp();
        stay(LONG);
        assert!(stamp().wrapping_sub(before) >= u64::from(LONG));
    }
}
