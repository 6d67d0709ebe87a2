//! When a fiber that finds a lock taken spins, though its worker has others to run.
//!
//! Who holds a lock on another processor has done with it soon, mostly. To wait for that costs two switches and a wake,
//! and more than that: a queue at a lock lasts. Only one who has been woken for it is on the way at a time, behind
//! whatever its worker runs, so that those who find the lock taken meanwhile come faster than those in the queue leave
//! it, and in the end nearly all fibers stand there, though the lock is free most of the time. A hundred that hold a
//! lock for 0.2 us of 0.7: one in six waited, for 370 us, and with a spin one in a thousand waits for more than a
//! microsecond (Go one in thirty); jobs of a microsecond in a queue behind a mutex 1.17 -> 0.85 us each (Tokio 0.87, Go
//! 1.16; measured on an Intel, two workers). Locks of plain threads spin for the same reason, and so does Go's, but
//! only where its processor has nothing else to run.
//!
//! So it tries for [`AWHILE`], if another worker runs fibers, more of them than spin; a fiber is charged for it like
//! for an operation, or one whose spins always end well would never leave its worker to others. Each worker learns for
//! some locks whether that pays (`util/odds.rs`). In vain it is where the one who has the lock waits with it, or has it
//! for long. And it does not pay where a worker comes back to a taken lock sooner than after [`COARSE`], on average:
//! what it does in between is no more than what the lines of the cache cost that go to and fro, so that one worker
//! alone is as fast; as it is left alone if the others wait.

use super::core::Core;
use super::worker::Worker;
use crate::primitives::clock::{from_stamps, in_stamps, stamp};
use crate::primitives::sync::atomic::Ordering;
use crate::util::odds::Odds;
use std::ptr;
use std::time::Duration;

/// In stamps, as all times here: most locks are held for less.
const AWHILE: u64 = in_stamps(Duration::from_micros(3));
const COARSE: u64 = in_stamps(Duration::from_nanos(500));
/// What counts of a longer time between two.
const MOST: u64 = 8 * COARSE;
/// The last one counts for so much of the average.
const PART: u64 = 8;
/// `spin_loop`s between two looks.
const SPINS: u32 = 2;
/// Locks that a worker tells from one another. Two may be taken for one.
const LOCKS: usize = 16;

/// What a worker has seen of its spins at locks.
#[derive(Debug, Default)]
pub(super) struct LockSpins([Seen; LOCKS]);

/// The same for one lock, whose fibers come to it as rarely as may be until more is known.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    odds: Odds,
    /// When the last one ended, until somebody finds the lock taken again.
    ended: Option<u64>,
    /// By so much the average time until then is less than [`MOST`].
    sooner: u64,
}

impl LockSpins {
    fn at(&mut self, lock: usize) -> &mut Seen {
        // Fibonacci hashing: the upper bits of the product depend on all of the address.
        let hash = (lock as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &mut self.0[hash as usize % LOCKS]
    }
}

impl Seen {
    /// Somebody finds the lock taken: does it spin?
    fn begins(&mut self, now: u64) -> bool {
        if let Some(ended) = self.ended.take() {
            let sooner = MOST - now.wrapping_sub(ended).min(MOST);
            self.sooner = self.sooner - self.sooner / PART + sooner / PART;
        }
        !self.odds.leaves_out()
    }

    fn ended(&mut self, now: u64, taken: bool) {
        self.odds.tried(taken && self.sooner <= MOST - COARSE);
        self.ended = Some(now);
    }
}

/// The calling fiber has found this lock taken: does it spin?
#[cold]
pub(crate) fn begins_to_spin_at(lock: usize) -> bool {
    // SAFETY: valid until the next switch; none comes here.
    let worker = unsafe { Worker::current().as_ref() };
    let place = worker.and_then(|worker| Some((worker, worker.core()?)));
    place.is_some_and(|(worker, core)| worker.begins_to_spin_at(core, lock))
}

/// Tries for a moment. `try_once` must not switch.
#[cold]
pub(crate) fn spin_at(lock: usize, try_once: impl FnMut() -> bool) -> bool {
    // SAFETY: valid until the next switch; none comes here, by the caller's promise, which a debug build looks after.
    let worker = unsafe { Worker::current().as_ref() };
    let place = worker.and_then(|worker| Some((worker, worker.core()?)));
    let taken = place.is_some_and(|(worker, core)| worker.spins_at(core, lock, try_once));
    debug_assert_eq!(worker.map_or(ptr::null(), ptr::from_ref), Worker::current(), "a switch");
    taken
}

impl Worker<'_> {
    pub(super) fn begins_to_spin_at(&self, core: &Core, lock: usize) -> bool {
        let shared = self.shared;
        let spinning = shared.spinning.load(Ordering::Relaxed);
        shared.config.workers > 1
            && shared.idle.are_others_busy(spinning)
            && self.own_in(core).lock_spins.at(lock).begins(stamp())
    }

    /// Spins until `try_once` says that it has the lock; false if it was in vain.
    pub(super) fn spins_at(
        &self,
        core: &Core,
        lock: usize,
        mut try_once: impl FnMut() -> bool,
    ) -> bool {
        let spinning = &self.shared.spinning;
        spinning.fetch_add(1, Ordering::Relaxed);
        let start = stamp();
        let (mut took, mut taken) = (0, false);
        while !taken && took < AWHILE {
            (0..SPINS).for_each(|_| std::hint::spin_loop());
            taken = try_once();
            took = stamp().wrapping_sub(start);
        }
        spinning.fetch_sub(1, Ordering::Relaxed);
        let own = self.own_in(core);
        own.tick.leave_out(from_stamps(took));
        own.lock_spins.at(lock).ended(start.wrapping_add(took), taken);
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// So many of a hundred who find the lock taken spin, of whom each comes so long after the last, and each spin ends
    /// like that.
    fn spins(seen: &mut Seen, gap: u64, taken: bool) -> usize {
        let mut now = 1 << 40;
        let mut comes = || {
            now += gap;
            let spins = seen.begins(now);
            if spins {
                seen.ended(now, taken);
            }
            spins
        };
        (0..100).filter(|_| comes()).count()
    }

    #[test]
    fn those_that_end_well_go_on() {
        for gap in [COARSE + COARSE / 8, 2 * COARSE, 100 * MOST] {
            assert_eq!(spins(&mut Seen::default(), gap, true), 100, "{gap}");
        }
    }

    #[test]
    fn those_in_vain_become_rare() {
        let mut seen = Seen::default();
        assert!(spins(&mut seen, MOST, false) <= 6);
        assert!(spins(&mut seen, MOST, false) <= 2);
        // Each may be the last of those that are left out.
        spins(&mut seen, MOST, true);
        assert_eq!(spins(&mut seen, MOST, true), 100, "and are tried again");
    }

    #[test]
    fn so_do_those_after_which_little_is_done() {
        let mut seen = Seen::default();
        spins(&mut seen, COARSE / 2, true);
        assert!(spins(&mut seen, COARSE / 2, true) <= 2);
        (0..60).for_each(|_| _ = spins(&mut seen, MOST, true));
        assert_eq!(spins(&mut seen, MOST, true), 100, "and are tried again");
    }

    /// It is the average that counts.
    #[test]
    fn some_may_come_soon_if_others_do_not() {
        let mut seen = Seen::default();
        let mut spins = |gap| spins(&mut seen, gap, true);
        (0..3).for_each(|_| assert_eq!(spins(2 * COARSE), 100));
        let mut now = 1 << 40;
        for turn in 0..100 {
            now += if turn % 2 == 0 { COARSE / 8 } else { 2 * COARSE };
            assert!(seen.begins(now), "{turn}");
            seen.ended(now, true);
        }
    }

    #[test]
    fn locks_are_told_from_one_another() {
        let mut locks = LockSpins::default();
        let (first, second) = (0x7f00_1000, 0x7f00_1040);
        (0..9).for_each(|_| locks.at(first).ended(1, false));
        assert!(!locks.at(first).begins(1));
        assert!(locks.at(second).begins(1));
    }
}
