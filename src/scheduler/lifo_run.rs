//! How long fibers that wake each other through the LIFO slot go on before the ring gets its turn.
//!
//! Three dispatches in a row, as in Tokio: a ring of short fibers waits for less than a microsecond then. But three of
//! 100 ns each for one from the ring that computes for 20 us and yields is no fair share: two that exchange messages
//! beside ten such waited for all ten after each three. (Go and Tokio put those who yield behind everybody, and Go
//! gives whom the slot holds 10 ms in all.) So where those of the ring take long, the slot's go on for as long as they
//! did, but for no longer than [`MOST`]: 3.1 -> 0.2 us a round trip beside eight (measured; Go 0.28, Tokio 0.49). Not
//! where it is operations that take them long: who sends to a hundred others until his budget is used up is the slot's
//! himself now and then, and the others have more to do at once the longer he stays in the ring (22 -> 36 ns a message
//! otherwise, measured).
//!
//! Who yields asks for that himself. So where half of the ring's were such, less is long: one pair that exchanges
//! messages beside eight that compute 1 us each between two yields 2,410 -> 260 ns a round trip, four pairs 720 -> 190
//! (measured on an Intel, two workers; Tokio 430 and 210, Go 560 and 540).

use super::lifo_rest::{LIFO_RUNS, LifoRest};
use crate::primitives::clock::{in_stamps, stamp};
use std::mem;
use std::num::NonZeroU64;
use std::time::Duration;

/// So many dispatches of a run that goes on lie between two questions.
const ASKED_EVERY: u64 = LIFO_RUNS as u64 + 1;
/// What one from the ring takes at least that is long for those who are done in a tenth of a microsecond.
const LONG: u64 = in_stamps(Duration::from_micros(5));
/// The same where half of them have yielded.
const LONG_FOR_A_YIELD: u64 = in_stamps(Duration::from_nanos(500));
/// Long turns of the ring are believed where no more dispatches lie between two of them: a ring is through sooner. What
/// the system takes of short ones, for an interrupt or another thread, comes less often (once in 25,000 in a virtual
/// machine; a pair had 4.1 dispatches for each of a third fiber's turns by that, measured).
const OFTEN: u32 = 2_048;
/// Longer than that they do not go on, however long the other took.
const MOST: u64 = in_stamps(Duration::from_micros(100));
const _: () = assert!(MOST <= u32::MAX as u64);

/// Times are stamps; of those in 32 bits none is more than [`MOST`].
#[derive(Debug, Default)]
pub(super) struct LifoRun {
    /// Dispatches from the slot in a row; in a rest (`lifo_rest.rs`) so many more as come first from the ring.
    pub(super) count: u8,
    /// Some fiber has used up its budget since the last end.
    used_up: bool,
    /// So many have yielded since then.
    yields: u16,
    /// Since the worker has slept.
    last: Option<End>,
    /// Until then a run goes on that is longer than [`LIFO_RUNS`], and the next one where it has ended before.
    until: Option<NonZeroU64>,
    /// When it was asked last.
    asked: u64,
    /// What those of the slot took for a run of [`LIFO_RUNS`], when one went on. Less with each end since: it may be
    /// others now.
    own: u32,
    /// The last that was measured of them.
    measured: u32,
    /// Dispatches by the end of the others' last long turn, the lower bits. (So a young worker believes the first.)
    long_at: u32,
    pub(super) rest: LifoRest,
}

// Eight bytes more in what a worker owns cost a burst of wakes 15%, by what then shares a line (measured).
const _: () = assert!(size_of::<LifoRun>() <= 64);

/// The last end of a run at which others got their turn.
#[derive(Clone, Copy, Debug)]
struct End {
    /// One more than the stamp, which leaves `None` a place.
    after: NonZeroU64,
    /// Dispatches by then, the lower bits.
    dispatched: u32,
}

impl End {
    fn new(at: u64, dispatched: u64) -> End {
        End { after: NonZeroU64::MIN.saturating_add(at), dispatched: dispatched as u32 }
    }

    fn at(self) -> u64 {
        self.after.get() - 1
    }
}

impl LifoRun {
    /// So many were dispatched, the last [`LIFO_RUNS`] of them from the slot: may those who stand there go on
    /// nevertheless?
    pub(super) fn may_go_on(&mut self, dispatched: u64) -> bool {
        self.may_go_on_at(stamp(), dispatched)
    }

    fn may_go_on_at(&mut self, now: u64, dispatched: u64) -> bool {
        self.until = match self.until {
            Some(until) => {
                self.measure(now.wrapping_sub(self.asked));
                // The run's own dispatches lie between no turns.
                self.long_at = dispatched as u32;
                // The counter of another processor may be far away. And who is long himself needs no more.
                Some(until)
                    .filter(|until| until.get().wrapping_sub(now) <= MOST)
                    .filter(|_| u64::from(self.own) < LONG)
            }
            None => self.begins(now, dispatched).and_then(NonZeroU64::new),
        };
        self.asked = now;
        if self.until.is_none() {
            self.last = Some(End::new(now, dispatched));
            (self.used_up, self.yields, self.own) = (false, 0, self.own - self.own / 16);
        }
        self.until.is_some()
    }

    /// Those of the slot took that long: so long, or longer by what the system has put the worker aside for. To believe
    /// that would cost those who take nothing the next fifty runs, so it is the less of two in a row.
    fn measure(&mut self, took: u64) {
        let took = took.min(MOST) as u32;
        self.own = mem::replace(&mut self.measured, took).min(took);
    }

    /// Until when a run goes on whose count is full.
    fn begins(&mut self, now: u64, dispatched: u64) -> Option<u64> {
        let last = self.last?;
        let since = now.wrapping_sub(last.at());
        // A run of theirs was among it.
        let own = u64::from(self.own).min(since);
        self.own = own as u32;
        let took = since - own;
        // The last run of the slot's is among them.
        let turns = (dispatched as u32).wrapping_sub(last.dispatched);
        let others = u64::from(turns.saturating_sub(LIFO_RUNS.into()).max(1));
        let long = match 2 * u64::from(self.yields) >= others {
            // And one of them takes no less than one of the slot.
            true => LONG_FOR_A_YIELD.max(own / ASKED_EVERY),
            false => LONG,
        };
        let are_long = !self.used_up && took / others >= long;
        (are_long && self.are_long_again(dispatched as u32))
            .then(|| now.wrapping_add(took.min(MOST)))
    }

    fn are_long_again(&mut self, dispatched: u32) -> bool {
        dispatched.wrapping_sub(mem::replace(&mut self.long_at, dispatched)) <= OFTEN
    }

    /// A fiber must let others run that would go on.
    pub(super) fn budget_used_up(&mut self) {
        self.used_up = true;
    }

    /// The running fiber is about to let others run. If it came from the slot, those of the slot want no more than
    /// those of the ring. (While a run goes on that is not known. Who yields alone is dispatched again without: where
    /// others come then, the first question goes by [`LONG`].)
    #[inline(always)]
    pub(super) fn yields(&mut self) {
        if (1..=LIFO_RUNS).contains(&self.count) {
            self.yields = 0;
        } else if self.until.is_none() {
            self.yields = self.yields.saturating_add(1);
        }
    }

    /// The time until now was nobody's.
    pub(super) fn forget(&mut self) {
        (self.last, self.until) = (None, None);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scheduler::lifo_rest::RESTED;

    impl LifoRun {
        /// One whose last end was at 0.
        fn ended() -> LifoRun {
            LifoRun { last: Some(End::new(0, 0)), ..LifoRun::default() }
        }

        /// How often it goes on, asked once each `step`, when `others` have had their turn and taken `took` in all.
        fn turns(&mut self, others: u64, took: u64, step: u64) -> u64 {
            let dispatched = others + u64::from(LIFO_RUNS);
            (0..10_000).find(|n| !self.may_go_on_at(took + n * step, dispatched + 3 * n)).unwrap()
        }
    }

    #[test]
    fn beside_short_ones_a_run_ends_by_its_count() {
        for others in [1, 2, 100] {
            assert_eq!(LifoRun::ended().turns(others, others * (LONG - 1), 1), 0, "{others}");
        }
    }

    #[test]
    fn beside_long_ones_it_goes_on_for_as_long_as_all_of_them_together() {
        for others in [1, 2, 10, 20] {
            let took = others * 2 * LONG;
            // At first, and at each fortieth of the time.
            let step = took.min(MOST) / 40;
            assert_eq!(LifoRun::ended().turns(others, took, step), 41, "{others}");
        }
    }

    #[test]
    fn beside_those_that_yield_less_is_long() {
        for (others, yields) in [(1, 1), (3, 2), (100, 50)] {
            let run = || LifoRun { yields, ..LifoRun::ended() };
            let long = others * LONG_FOR_A_YIELD;
            assert_eq!(run().turns(others, long, long / 40), 41, "{others}");
            assert_eq!(run().turns(others, long - 1, 1), 0, "{others}");
            let mut few = LifoRun { yields: yields - 1, ..LifoRun::ended() };
            assert_eq!(few.turns(others, others * (LONG - 1), 1), 0, "{others}");
        }
    }

    /// A lock that is held over a yield goes from one to the next through the slot.
    #[test]
    fn if_those_of_the_slot_yield_too_it_is_not() {
        let mut run = LifoRun { yields: 2, ..LifoRun::ended() };
        run.count = 1;
        run.yields();
        assert!(!run.may_go_on_at(2 * LONG_FOR_A_YIELD, 5));
        for count in [0, RESTED + 1] {
            run.count = count;
            run.yields();
        }
        assert!(run.may_go_on_at(4 * LONG_FOR_A_YIELD, 10), "both are the ring's");
        (0..9).for_each(|_| run.yields());
        assert_eq!(run.yields, 2, "of the slot, maybe: the run goes on");
    }

    /// Two of 2 us each beside one that yields every 0.1 us: one of the two stands in the ring too.
    #[test]
    fn nor_if_those_of_the_slot_take_longer() {
        let (slot, ring) = (4 * LONG_FOR_A_YIELD, LONG_FOR_A_YIELD / 5);
        let mut run = LifoRun::ended();
        let (mut now, mut dispatched, mut extended) = (0, 0, 0);
        for _ in 0..100 {
            run.yields();
            (now, dispatched) = (now + ring + 4 * slot, dispatched + 5);
            while run.may_go_on_at(now, dispatched) {
                (now, dispatched, extended) = (now + 4 * slot, dispatched + 4, extended + 1);
            }
        }
        assert!((1..=20).contains(&extended), "{extended} in a hundred");
    }

    #[test]
    fn they_have_yielded_since_its_end() {
        let mut run = LifoRun { yields: 2, ..LifoRun::ended() };
        assert!(run.may_go_on_at(2 * LONG_FOR_A_YIELD, 5));
        assert!(!run.may_go_on_at(10 * LONG_FOR_A_YIELD, 8), "its time is over");
        assert!(!run.may_go_on_at(14 * LONG_FOR_A_YIELD, 12));
    }

    #[test]
    fn but_not_where_it_was_operations_that_took_long() {
        let mut run = LifoRun::ended();
        run.budget_used_up();
        assert_eq!(run.turns(10, 100 * LONG, LONG), 0);
        assert!(run.may_go_on_at(101 * LONG, 17), "that is the next one's");
    }

    #[test]
    fn but_not_for_ever() {
        assert_eq!(LifoRun::ended().turns(1, 1_000 * MOST, MOST / 40), 41);
    }

    #[test]
    fn the_next_ones_are_measured_from_its_end() {
        let mut run = LifoRun::ended();
        assert!(run.may_go_on_at(LONG, 4));
        let half = LONG / 2;
        assert!(run.may_go_on_at(LONG + half, 7));
        assert!(!run.may_go_on_at(2 * LONG + 1, 10), "its time is over");
        // What it took itself does not count, and one more of the ring's was short.
        assert!(!run.may_go_on_at(2 * LONG + half, 14));
        assert!(run.may_go_on_at(4 * LONG, 18));
    }

    /// What they take themselves seems to be the ring's once.
    #[test]
    fn who_takes_long_himself_does_not_go_on() {
        let mut run = LifoRun::ended();
        let (mut now, mut extended) = (0, 0);
        for turn in 1..=100 {
            // A run of theirs and a short one of the ring's; and one more of theirs if they may.
            now += 4 * LONG + 10;
            while run.may_go_on_at(now, 5 * turn) {
                (now, extended) = (now + 4 * LONG, extended + 1);
            }
        }
        assert!((1..=20).contains(&extended), "{extended} in a hundred");
    }

    /// The system may put the worker aside during a run: beside one that yields every 4 us it goes on after that as
    /// before.
    #[test]
    fn once_put_aside_is_not_believed() {
        for aside in [MOST / 2, MOST, 1_000 * MOST] {
            let mut run = LifoRun::ended();
            let (long, short) = (8 * LONG_FOR_A_YIELD, LONG_FOR_A_YIELD / 10);
            let mut now = 0;
            for turn in 1..=100 {
                run.yields();
                now += long;
                assert!(run.may_go_on_at(now, 4 * turn), "{turn}, {aside}");
                now += if turn % 4 == 0 { aside } else { short };
                while run.may_go_on_at(now, 4 * turn) {
                    now += short;
                }
            }
        }
    }

    /// Or during a turn of those in the ring: short ones are not long then.
    #[test]
    fn nor_is_it_of_the_others() {
        for aside in [LONG, 10 * LONG, 2 * MOST] {
            let mut run = LifoRun { long_at: 1 << 31, ..LifoRun::ended() };
            let (mut now, rarely) = (0, u64::from(OFTEN) / 4 + 1);
            for turn in 1..=10 * rarely {
                now += if turn % rarely == 0 { aside } else { LONG / 10 };
                assert!(!run.may_go_on_at(now, 4 * turn), "{turn}, {aside}");
            }
            assert!(run.may_go_on_at(now + aside, 40 * rarely + 4), "again so soon, {aside}");
        }
    }

    /// A few that compute among many that do not; those of the slot get through thousands of turns meanwhile.
    #[test]
    fn often_is_not_in_a_row() {
        let mut run = LifoRun::ended();
        let (mut now, mut dispatched, often) = (0, 0, u64::from(OFTEN) / 4);
        for turn in 1..=10 * often {
            let long = turn % often == 0;
            now += if long { MOST } else { LONG / 10 };
            dispatched += 4;
            assert_eq!(run.may_go_on_at(now, dispatched), long, "{turn}");
            while long && run.may_go_on_at(now, dispatched) {
                (now, dispatched) = (now + MOST / 1_000, dispatched + 3);
            }
        }
    }

    #[test]
    fn twice_long_is_believed_until_a_run_and_all_others_take_less() {
        let (mut run, mut now) = (LifoRun::ended(), 0);
        for turn in 1..=2 {
            now += MOST;
            assert!(run.may_go_on_at(now, 8 * turn), "{turn}");
            now += MOST + 1;
            assert!(!run.may_go_on_at(now, 8 * turn + 4), "{turn}");
        }
        assert!(u64::from(run.own) > MOST / 2);
        assert!(!run.may_go_on_at(now + LONG, 24));
        assert!(u64::from(run.own) < LONG);
    }

    #[test]
    fn a_sleep_is_nobody_s_turn() {
        let mut run = LifoRun::ended();
        for round in 0..10 {
            run.forget();
            assert!(!run.may_go_on_at(round * MOST, 4 * round));
        }
    }

    #[test]
    fn a_counter_that_goes_back_ends_it() {
        let mut run = LifoRun::ended();
        assert!(run.may_go_on_at(MOST, 4));
        assert!(!run.may_go_on_at(0, 7));
    }
}
