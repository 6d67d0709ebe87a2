//! For how long one who finds a lock taken stays away before it tries again, learned by trial.
//!
//! The least that a turn costs where two take turns is the way of the lock's line, and of those that it guards. Who
//! stays away for [`LONG`] leaves the other one some turns in a row, for which these lines go to and fro once. That
//! pays where turns follow one another sooner than lines come. Where each does something else between two turns for
//! longer than that, both get on faster side by side, and who stays away for more than [`SHORT`] does so for nothing.
//! Where the border is depends on the processor, by a factor of three at least, and on the minute.
//!
//! So both are tried, and how many turns all have had is compared, from one who stays away to the next. Where that
//! takes [`APART`], nobody was in another's way, or the system has put one aside; and turns by a bias are not counted:
//! such a time is left out. A *period* is [`PERIOD`] of what is counted, and [`WAITS`] at least. After each, and less
//! and less often where the other way is not faster, that one has a period. A turn is whatever takes the lock, also for
//! nothing.
//!
//! Two workers on a Zen 4, medians of seven in turn, with periods of 10 us, beside a rule that took many turns of
//! another for a reason to stay away, which by staying away makes them many (and Go): eight who send to eight, each of
//! whom computes for 200 ns in between, 373 -> 320 ns a message (318), for 100 ns 281 -> 245 (222); fifty who send to
//! four, 200 ns, 381 -> 324 (312), four to fifty 386 -> 328 (324).

use super::clock::{in_stamps, stamp};
use std::mem;
use std::time::Duration;

/// In stamps, as all times here.
const SHORT: u32 = in_stamps(Duration::from_nanos(100)) as u32;
const LONG: u32 = in_stamps(Duration::from_nanos(1_600)) as u32;
const APART: u32 = in_stamps(Duration::from_micros(8)) as u32;
const PERIOD: u32 = in_stamps(Duration::from_micros(30)) as u32;
const WAITS: u8 = 8;
/// The other way must be faster by one part in so many.
const GAIN: u64 = 16;
/// So many periods at most from one trial to the next.
const RARELY: u8 = 64;

/// Turns in some time. Packed, so that two of them leave room for what else there is.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(2))]
struct Speed {
    time: u32,
    turns: u16,
}

impl Speed {
    const NONE: Speed = Speed { time: 0, turns: 0 };

    fn is_above(self, other: Speed) -> bool {
        let product = |turns: u16, time: u32| u64::from(turns) * u64::from(time);
        let (this, other) = (product(self.turns, other.time), product(other.turns, self.time));
        this > other + other / GAIN
    }
}

/// Touched by the lock's owner alone. Few bytes: they go with the lock from one processor to the other.
#[derive(Debug)]
pub(super) struct Away {
    /// When somebody ended to stay away last: a stamp's lower half.
    since: u32,
    /// Since then.
    turns: u16,
    waits: u8,
    is_long: bool,
    /// The period so far.
    speed: Speed,
    /// In a trial: what it was the other way, which is gone on with unless this one is faster. Or [`Speed::NONE`].
    before: Speed,
    /// Periods until the next trial, and from one to the next.
    left: u8,
    every: u8,
}

impl Away {
    pub(super) const FIRST: u32 = SHORT;

    pub(super) const fn new() -> Away {
        Away {
            since: 0,
            turns: 0,
            waits: 0,
            is_long: false,
            speed: Speed::NONE,
            before: Speed::NONE,
            left: 1,
            every: 1,
        }
    }

    /// Somebody has taken the lock.
    #[inline(always)]
    pub(super) fn count(&mut self) {
        self.turns = self.turns.saturating_add(1);
    }

    /// Somebody has who stayed away until `now`. For how long had the next one better do so?
    pub(super) fn stayed(&mut self, now: u32) -> u32 {
        let (turns, time) = (mem::take(&mut self.turns), now.wrapping_sub(self.since));
        self.since = now;
        // Later by far if it comes from a processor whose counter is behind.
        if time < APART && turns < u16::MAX {
            self.waits = self.waits.saturating_add(1);
            self.speed.time += time;
            self.speed.turns = self.speed.turns.saturating_add(turns);
        }
        if self.waits >= WAITS && self.speed.time >= PERIOD {
            self.end_period();
        }
        if self.is_long { LONG } else { SHORT }
    }

    /// There were turns that were not counted: the time so far says nothing.
    pub(super) fn forget(&mut self) {
        self.turns = u16::MAX;
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
            self.go_on(RARELY.min(self.every.saturating_mul(2)));
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
    #[cfg(all(test, not(loom)))]
    pub(super) fn learn_long(&mut self) {
        self.is_long = true;
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn turns(&self) -> u16 {
        self.turns
    }
}

/// Stays away for so long; returns until when.
#[cfg(not(loom))]
pub(super) fn stay(away: u32) -> u32 {
    let start = stamp() as u32;
    loop {
        std::hint::spin_loop();
        let now = stamp() as u32;
        if now.wrapping_sub(start) >= away {
            return now;
        }
    }
}

/// For a model it is no different from a lock that is tried later, and there is no time.
#[cfg(loom)]
pub(super) fn stay(_away: u32) -> u32 {
    APART
}

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

        /// After so many waits more: which part of their time, in thousandths, had long ones?
        fn long_of(&mut self, waits: u32) -> u64 {
            let (mut all, mut long) = (0, 0);
            for _ in 0..waits {
                let is_long = self.away.is_long;
                let (turns, each) = match is_long {
                    true => (LONG / self.alone, self.alone),
                    false => (2, self.beside / 2),
                };
                (0..turns).for_each(|_| self.away.count());
                self.now = self.now.wrapping_add(turns * each);
                let away = self.away.stayed(self.now);
                assert_eq!(away == LONG, self.away.is_long);
                all += u64::from(turns * each);
                long += if is_long { u64::from(turns * each) } else { 0 };
            }
            long * 1_000 / all
        }
    }

    #[test]
    fn what_is_faster_is_found_and_the_other_becomes_rare() {
        // Turns of 20 ns that take 120 beside another's; and of 200 ns that take 270.
        let (mut close, mut apart) = (Two::new(60, 360), Two::new(600, 810));
        for two in [&mut close, &mut apart] {
            two.long_of(20_000);
        }
        assert!((970..1_000).contains(&close.long_of(1_000_000)));
        assert!((1..30).contains(&apart.long_of(1_000_000)));
    }

    #[test]
    fn it_is_found_anew_where_turns_change() {
        let mut two = Two::new(600, 810);
        two.long_of(100_000);
        (two.alone, two.beside) = (60, 360);
        two.long_of(100_000);
        assert!(two.long_of(100_000) > 900);
        (two.alone, two.beside) = (600, 810);
        two.long_of(100_000);
        assert!(two.long_of(100_000) < 100);
    }

    #[test]
    fn where_nobody_was_in_anothers_way_nothing_is_learned() {
        let mut away = Away::new();
        for wait in 1..1_000 {
            (0..1_000).for_each(|_| away.count());
            assert_eq!(away.stayed(wait * APART), SHORT);
        }
        assert_eq!((away.waits, away.speed.time), (0, 0));
    }

    #[test]
    fn what_was_not_counted_is_left_out() {
        let mut away = Away::new();
        away.stayed(APART);
        for left_out in [true, false] {
            let now = away.since + APART / 2;
            away.count();
            if left_out {
                away.forget();
            }
            away.count();
            away.stayed(now);
            assert_eq!(away.waits == 0, left_out);
        }
        assert_eq!((away.speed.turns, away.speed.time), (2, APART / 2));
    }

    #[test]
    fn who_stays_away_does_so_for_that_long() {
        super::super::tsc::prepare();
        let before = stamp();
        let until = stay(LONG);
        assert!(stamp().wrapping_sub(before) >= u64::from(LONG));
        assert!(until.wrapping_sub(before as u32) >= LONG);
    }
}
