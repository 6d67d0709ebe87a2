//! Whom a fiber wakes or spawns that runs for long itself.
//!
//! The LIFO slot is for those who run next, in a microsecond. Hardly anybody else takes from it, and nobody is woken
//! for it, since for two fibers that wake each other in turn another worker would come in vain. But who is put there by
//! a fiber that goes on computing waits for as long as that does, while other workers sleep: a pipeline whose stages
//! take 100 us each took 200 us an item on two workers, two halves of a job as long as both (measured; Go half of
//! that).
//!
//! So where a worker does not flow, as far as the estimate tells, a woken fiber is shared: it goes to the ring, if
//! nobody else stands there or in the slot. It is the next here, until one more is woken, but others may take it. To
//! one who searches that is for free; to wake one costs microseconds, and is done where fibers run for long only (an
//! acceptor that spawns a fiber for each connection took a tenth more otherwise, measured).
//!
//! A share pays if the waker goes on for longer than the other takes to come. Whether it does is seen at its next
//! scheduling point: if it came there too soon, or nobody has robbed it, the share was in vain, and the next ones that
//! are woken go to the slot, one after the first time, and up to 63 (`util/back_off.rs`). Of those who search and of
//! those who sleep there is an account each, since the latter often come too late where the former do not. Who has come
//! stays awake for a while (`vigil.rs`).
//!
//! Of those in vain one may cost a hundredth of the time, though ([`PRICE`]): where one turn in ten takes 10 ms and the
//! others hardly any, nine shares in vain for one that pays are cheap, and whoever is woken in the tenth does not wait
//! for its end.

use super::core::Core;
use super::worker::Worker;
use crate::fiber::FiberPtr;
use crate::primitives::clock::{in_stamps, stamp};
use crate::primitives::sync::atomic::Ordering;
use crate::util::back_off::BackOff;
use std::mem;
use std::time::Duration;

/// For so long at least the waker must go on: twice as long as it takes another to wake up, where processors do not
/// sleep deeply.
const WORTH_A_WAKE: Duration = Duration::from_micros(10);
/// The same for one who is awake.
const WORTH_A_LOOK: Duration = Duration::from_micros(4);

/// A share in vain may come this many times what makes it worth, or later, after another, whatever back-off says.
const PRICE: u64 = 100;
/// Or so many together, if none has come for so much longer.
const SAVED: u64 = 16;

/// What a worker has seen of those whom it has shared with others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    sleepers: Account,
    searchers: Account,
}

/// What became of those that were shared with some.
#[derive(Clone, Copy, Debug)]
struct Account {
    worth: u64,
    last: Option<Share>,
    /// Who is left out goes to the slot.
    back_off: BackOff,
    /// The time that shares in vain have not cost yet, as of then.
    saved: u64,
    as_of: u64,
}

/// Times are stamps.
#[derive(Clone, Copy, Debug)]
struct Share {
    at: u64,
    /// So many robberies there had been.
    robbed: u32,
    /// How long the waker went on, once it does not any more.
    went_on: Option<u64>,
}

impl Sharing {
    pub(super) fn new() -> Sharing {
        Sharing { sleepers: Account::new(WORTH_A_WAKE), searchers: Account::new(WORTH_A_LOOK) }
    }

    fn is_back(&mut self, now: impl Fn() -> u64) {
        self.sleepers.is_back(&now);
        self.searchers.is_back(&now);
    }
}

impl Account {
    fn new(worth: Duration) -> Account {
        let (worth, back_off) = (in_stamps(worth), BackOff::default());
        Account { worth, last: None, back_off, saved: 0, as_of: 0 }
    }

    /// Is the fiber that was just woken to be shared? This worker was robbed so often by now.
    fn again(&mut self, robbed: u32, now: u64) -> bool {
        if let Some(last) = self.last.take() {
            let paid = robbed != last.robbed && last.went_on.is_none_or(|time| time >= self.worth);
            self.back_off.tried(paid);
        }
        self.saves(now);
        if self.back_off.leaves_out() && !self.affords() {
            return false;
        }
        self.last = Some(Share { at: now, robbed, went_on: None });
        true
    }

    fn saves(&mut self, now: u64) {
        let passed = now.wrapping_sub(mem::replace(&mut self.as_of, now));
        // As in `is_back`; and nothing before the first one.
        if passed < u64::MAX / 2 && passed != now {
            self.saved = (self.saved + passed).min(SAVED * PRICE * self.worth);
        }
    }

    fn affords(&mut self) -> bool {
        let left = self.saved.checked_sub(PRICE * self.worth);
        self.saved = left.unwrap_or(self.saved);
        left.is_some()
    }

    /// The fiber that woke the last one has come to a scheduling point.
    fn is_back(&mut self, now: impl FnOnce() -> u64) {
        if let Some(last) = self.last.as_mut().filter(|last| last.went_on.is_none()) {
            let went_on = now().wrapping_sub(last.at);
            // One that comes from another processor may be ahead of this one's.
            last.went_on = Some(if went_on < u64::MAX / 2 { went_on } else { 0 });
        }
    }
}

impl Worker<'_> {
    /// Shares a woken fiber with others, if that may pay; false, with nothing done, if it goes to the slot.
    #[cold]
    pub(super) fn shares(&self, core: &Core, fiber: FiberPtr) -> bool {
        let config = &self.shared.config;
        let alone = core.slot.is_empty() && core.ring.is_empty();
        if !alone || config.workers == 1 || !config.stealing {
            return false;
        }
        let own = self.own_in(core);
        let searched = self.shared.idle.is_searched();
        if searched && own.invites.are_open() {
            self.push_back(fiber);
            return true;
        }
        let account = match searched {
            true => &mut own.sharing.searchers,
            false if own.tick.runs_long() => &mut own.sharing.sleepers,
            false => return false,
        };
        if !account.again(core.robbed.load(Ordering::Relaxed), stamp()) {
            return false;
        }
        if !searched {
            self.shared.called.store(true, Ordering::Relaxed);
        }
        // The next dispatch tells how long this one went on.
        own.tick.glance_next();
        self.push_back(fiber);
        true
    }

    /// The fiber that ran until now goes on no longer. At a glance, and on the worker's own flow.
    pub(super) fn note_end_of_share(&self) {
        self.own().sharing.is_back(stamp);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn account() -> Account {
        Account::new(WORTH_A_WAKE)
    }

    impl Account {
        /// How many of those that are woken until the next is shared go to the slot, where the last one was taken or
        /// not, and the waker went on for so long.
        fn skips(&mut self, taken: bool, went_on: Option<u64>) -> u32 {
            let (at, robbed) = self.last.map_or((0, 0), |last| (last.at, last.robbed));
            went_on.into_iter().for_each(|time| self.is_back(|| at + time));
            (0..).find(|_| self.again(robbed + u32::from(taken), at + 1)).expect("some time")
        }
    }

    #[test]
    fn who_is_not_taken_is_shared_less_and_less_often() {
        let mut account = account();
        let long = Some(account.worth);
        let gaps: Vec<_> = (0..9).map(|_| account.skips(false, long)).collect();
        assert_eq!(gaps, [0, 1, 3, 7, 15, 31, 63, 63, 63]);
    }

    #[test]
    fn who_is_taken_while_the_waker_goes_on_is_shared_each_time() {
        let long = Some(account().worth);
        for went_on in [None, long] {
            let mut account = account();
            (0..9).for_each(|_| _ = account.skips(false, None));
            assert_eq!([(); 3].map(|()| account.skips(true, went_on)), [0; 3], "{went_on:?}");
            assert_eq!(account.skips(false, went_on), 1);
        }
    }

    #[test]
    fn it_does_not_pay_where_the_waker_leaves_soon() {
        let mut account = account();
        let short = Some(account.worth - 1);
        let gaps: Vec<_> = (0..4).map(|_| account.skips(true, short)).collect();
        assert_eq!(gaps, [0, 1, 3, 7]);
    }

    /// Nine turns of a microsecond, one of 10 ms.
    #[test]
    fn what_time_has_saved_is_spent_on_rare_long_turns() {
        let mut account = account();
        let (long, short) = (1_000 * account.worth, account.worth / 10);
        let (mut now, mut robbed, mut shared) = (0, 0, [0; 2]);
        for turn in 0..1_000 {
            let takes = if turn % 10 == 0 { long } else { short };
            if account.again(robbed, now) {
                shared[usize::from(takes == long)] += 1;
                robbed += u32::from(takes == long);
                account.is_back(|| now + takes);
            }
            now += takes;
        }
        assert!(shared[1] >= 99 && shared[0] >= 800, "{shared:?}");
        // Without the long ones back-off decides.
        let quick = (0..9_000).filter(|turn| account.again(robbed, now + turn * short)).count();
        assert!(quick < 9_000 / 63 + 50, "{quick}");
    }

    #[test]
    fn the_first_scheduling_point_counts() {
        let mut account = account();
        assert!(account.again(0, 0));
        account.is_back(|| 1);
        account.is_back(|| WORTH_A_WAKE.as_nanos() as u64 * 1_000);
        assert!(!account.again(1, 2));
    }
}
