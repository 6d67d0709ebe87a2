//! Who is idle, who searches, and who is to be woken: no wakeup is lost here.
//!
//! The protocol (after Go's and Tokio's) and why it loses nothing stand in this room's README.

use crate::primitives::sync::atomic::{AtomicU64, Ordering};
use crate::primitives::sync::full_fence;
use crate::util::bitmap::Bitmap;
use crossbeam_utils::CachePadded;

const PARKED_ONE: u64 = 1 << 32;
const SEARCHING_ONE: u64 = 1;

/// Counts of searching and parked workers, and a bit for each that is parked.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Parked workers in the upper half, searching ones in the lower.
    counts: CachePadded<AtomicU64>,
    parked: Bitmap,
    workers: u64,
}

/// How a parked worker found its bit when it woke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Left {
    /// It woke by itself: a timeout, an event, a spurious wake.
    ByItself,
    /// A notifier has claimed it; it counts as searching. The unpark that follows may come late, and
    /// then ends its next sleep at once.
    Claimed,
}

impl Idle {
    /// For `workers` that run at a time, on any of `cores`.
    pub(crate) fn new(workers: usize, cores: usize) -> Idle {
        Idle {
            counts: CachePadded::new(AtomicU64::new(0)),
            parked: Bitmap::new(cores),
            workers: workers as u64,
        }
    }

    /// Is worker `index` parked? A hint.
    pub(crate) fn is_parked(&self, index: usize) -> bool {
        self.parked.is_set(index)
    }

    /// Does a worker search? A hint.
    pub(crate) fn is_searched(&self) -> bool {
        Self::searching(self.counts.load(Ordering::Relaxed)) > 0
    }

    /// Does no worker search but the caller, who does or not? A hint.
    pub(crate) fn is_left_to(&self, searcher: bool) -> bool {
        Self::searching(self.counts.load(Ordering::Relaxed)) <= i32::from(searcher)
    }

    /// Does anybody run fibers?
    pub(crate) fn is_anybody_busy(&self) -> bool {
        self.running() != 0
    }

    /// How many run fibers. A hint.
    pub(crate) fn running(&self) -> u64 {
        let counts = self.counts.load(Ordering::Relaxed);
        let idle = Self::parked(counts) as i64 + i64::from(Self::searching(counts));
        (self.workers as i64).saturating_sub(idle).max(0) as u64
    }

    /// Does another one sleep beside the caller, who is parked? A hint.
    pub(crate) fn sleeps_another(&self) -> bool {
        Self::parked(self.counts.load(Ordering::Relaxed)) > 1
    }

    /// How many run fibers or search. A hint.
    pub(crate) fn awake(&self) -> u64 {
        let counts = self.counts.load(Ordering::Relaxed);
        self.workers.saturating_sub(Self::parked(counts))
    }

    /// Of the others, `spinning` of whom spin, do more than that run fibers? A hint.
    pub(crate) fn are_others_busy(&self, spinning: u32) -> bool {
        let counts = self.counts.load(Ordering::Relaxed);
        let idle = Self::parked(counts) as i64 + i64::from(Self::searching(counts));
        idle + 2 * i64::from(spinning) + 1 < self.workers as i64
    }

    /// Below zero for a moment where a claimed worker has ended its search before the claimer has
    /// counted it: never more than there are.
    fn searching(counts: u64) -> i32 {
        counts as u32 as i32
    }

    /// At least as many as there are bits whose worker has been counted.
    fn parked(counts: u64) -> u64 {
        counts.wrapping_sub(i64::from(Self::searching(counts)) as u64) >> 32
    }

    /// Lets a worker search if fewer than half of the workers do (a soft limit).
    #[must_use]
    pub(crate) fn begin_search(&self) -> bool {
        let counts = self.counts.load(Ordering::Relaxed);
        if 2 * i64::from(Self::searching(counts)) >= self.workers as i64 {
            return false;
        }
        self.counts.fetch_add(SEARCHING_ONE, Ordering::AcqRel);
        true
    }

    /// Lets a worker search that has seen work.
    pub(crate) fn begin_search_now(&self) {
        self.counts.fetch_add(SEARCHING_ONE, Ordering::AcqRel);
    }

    /// A searcher has found work. `true` if it was the last one: it then looks at every queue, and wakes the
    /// next if there is more.
    #[must_use]
    pub(crate) fn end_search(&self) -> bool {
        let before = self.counts.fetch_sub(SEARCHING_ONE, Ordering::AcqRel);
        let last = Self::searching(before) <= 1;
        if last {
            // Pairs with the fence in `notify`: either the caller's look sees the work, or the notifier
            // sees this searcher gone.
            full_fence();
        }
        last
    }

    /// Publishes that worker `index` is parked and no longer searches. The caller then looks at
    /// every queue once more before it sleeps.
    pub(crate) fn park(&self, index: usize, was_searching: bool) {
        let set = self.parked.set(index);
        debug_assert!(set, "worker {index} parked twice");
        let searching = if was_searching { SEARCHING_ONE } else { 0 };
        self.counts.fetch_add(PARKED_ONE - searching, Ordering::AcqRel);
        // Pairs with the fence in `notify`: either the caller's last look sees the work, or the
        // notifier sees this worker parked and not searching.
        full_fence();
    }

    /// Worker `index` is awake again.
    pub(crate) fn unpark(&self, index: usize) -> Left {
        if !self.parked.clear(index) {
            return Left::Claimed;
        }
        self.counts.fetch_sub(PARKED_ONE, Ordering::AcqRel);
        Left::ByItself
    }

    /// After work was made visible: claims the worker that should come and look, if one should.
    /// `except` (the one in the poller) is claimed only if no other is parked.
    ///
    /// The caller must unpark the worker that is returned; it counts as searching from now on.
    #[inline]
    #[must_use]
    pub(crate) fn notify(&self, except: Option<usize>) -> Option<usize> {
        // Pairs with the fences in `park` and `end_search`.
        full_fence();
        let counts = self.counts.load(Ordering::Relaxed);
        if Self::searching(counts) > 0 || Self::parked(counts) == 0 {
            return None;
        }
        self.claim_any(except)
    }

    #[cold]
    fn claim_any(&self, except: Option<usize>) -> Option<usize> {
        let preferred = except.and_then(|except| self.parked.claim_lowest_except(except));
        let index = preferred.or_else(|| self.parked.claim_lowest())?;
        self.claimed();
        Some(index)
    }

    /// Claims worker `index` if it is parked; the caller must unpark it.
    #[must_use]
    pub(crate) fn claim(&self, index: usize) -> bool {
        full_fence();
        let claimed = self.parked.is_set(index) && self.parked.clear(index);
        if claimed {
            self.claimed();
        }
        claimed
    }

    /// Parked and searching workers.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (u64, i32) {
        let counts = self.counts.load(Ordering::Relaxed);
        (Self::parked(counts), Self::searching(counts))
    }

    fn claimed(&self) {
        self.counts.fetch_sub(PARKED_ONE - SEARCHING_ONE, Ordering::AcqRel);
    }
}

/// Under loom: no interleaving of a worker that goes to bed and those who bring work loses a wake.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::primitives::sync::Arc;
    use crate::primitives::sync::atomic::AtomicBool;
    use loom::thread;

    struct World {
        idle: Idle,
        work: AtomicBool,
    }

    impl World {
        fn new(workers: usize) -> Arc<World> {
            Arc::new(World { idle: Idle::new(workers, workers), work: AtomicBool::new(false) })
        }

        /// Makes work visible; says who is to be woken. Relaxed: the fence in `notify` must do.
        fn bring_work(&self) -> Option<usize> {
            self.work.store(true, Ordering::Relaxed);
            self.idle.notify(None)
        }

        /// Goes to bed; true if the last look saw nothing, so that it sleeps.
        fn go_to_bed(&self, index: usize, was_searching: bool) -> bool {
            self.idle.park(index, was_searching);
            !self.work.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_worker_that_parks_sees_the_work_or_is_woken() {
        for was_searching in [false, true] {
            loom::model(move || {
                let world = World::new(1);
                if was_searching {
                    world.idle.begin_search_now();
                }
                let theirs = Arc::clone(&world);
                let notifier = thread::spawn(move || theirs.bring_work());
                let sleeps = world.go_to_bed(0, was_searching);
                let claimed = notifier.join().unwrap();
                assert!(!sleeps || claimed == Some(0), "asleep over work");
            });
        }
    }

    #[test]
    fn of_two_that_park_one_sees_the_work_or_is_woken() {
        loom::model(|| {
            let world = World::new(2);
            // The first searches, so the second may not, and goes to bed without a search.
            world.idle.begin_search_now();
            let first = Arc::clone(&world);
            let searcher = thread::spawn(move || first.go_to_bed(0, true));
            let second = Arc::clone(&world);
            let other = thread::spawn(move || second.go_to_bed(1, false));
            let claimed = world.bring_work();
            let asleep = [searcher.join().unwrap(), other.join().unwrap()];
            assert!(asleep != [true, true] || claimed.is_some(), "both asleep over work");
        });
    }

    #[test]
    fn the_last_that_finds_work_sees_what_others_left_to_it() {
        loom::model(|| {
            let world = World::new(2);
            assert!(world.go_to_bed(1, false));
            world.idle.begin_search_now();
            let theirs = Arc::clone(&world);
            let notifier = thread::spawn(move || theirs.bring_work());
            // It has found something else.
            let more = world.idle.end_search() && world.work.load(Ordering::Relaxed);
            let woken = if more { world.idle.notify(None) } else { None };
            let claimed = notifier.join().unwrap();
            assert_eq!(woken.or(claimed), Some(1), "asleep over work");
        });
    }

    #[test]
    fn a_parked_worker_is_claimed_once() {
        loom::model(|| {
            let world = World::new(1);
            assert!(world.go_to_bed(0, false));
            let theirs = Arc::clone(&world);
            let other = thread::spawn(move || theirs.bring_work());
            let claims = [world.bring_work(), other.join().unwrap()];
            assert_eq!(claims.iter().flatten().count(), 1, "{claims:?}");
            assert_eq!(world.idle.unpark(0), Left::Claimed);
            assert_eq!(world.idle.counts(), (0, 1));
        });
    }

    #[test]
    fn a_claim_that_meets_a_worker_on_its_way_leaks_no_searcher() {
        loom::model(|| {
            let world = World::new(1);
            assert!(world.go_to_bed(0, false));
            let theirs = Arc::clone(&world);
            let notifier = thread::spawn(move || theirs.bring_work());
            let left = world.idle.unpark(0);
            let claimed = notifier.join().unwrap().is_some();
            assert_eq!(left == Left::Claimed, claimed);
            assert_eq!(world.idle.counts(), (0, i32::from(claimed)));
        });
    }

    /// The bit tells the worker of a claim before the count does: meanwhile it may have found work,
    /// and ended its search. Whoever brings more then wakes another.
    #[test]
    fn a_search_that_ends_before_its_claim_is_counted_hides_no_work() {
        loom::model(|| {
            let world = World::new(2);
            assert!(world.go_to_bed(0, false) && world.go_to_bed(1, false));
            let theirs = Arc::clone(&world);
            let notifier = thread::spawn(move || theirs.bring_work());
            if world.idle.unpark(0) == Left::Claimed {
                assert!(world.idle.end_search());
                // It runs what it found; this is for somebody else.
                assert_eq!(world.bring_work(), Some(1), "the second sleeps over work");
            }
            notifier.join().unwrap();
        });
    }
}
