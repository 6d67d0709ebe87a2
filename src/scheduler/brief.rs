//! Which calls of `blocking` are so brief that they keep the core.
//!
//! To hand a core on costs some microseconds: a thread is woken for it, and the fiber waits for a core afterwards. A
//! file in the page cache is read in less. Nobody knows beforehand what a call will take, but calls from one place in
//! the program are alike. So each place has an account. A brief call earns what its hand-off would have cost; a long
//! one pays what it took, since others may have waited for so long. Calls at a place that is in credit keep the core:
//! what others wait there in the long run is no more than they are spared, but for the one call that overdraws. (A ski
//! rental. Go's threads keep their processor through a system call, and lose it after 20 us at the earliest, if the
//! monitor happens to look.)
//!
//! Calls that have kept the core and do not return lose it at the supervisor's next look, and pay the most.

use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU64, Ordering};
use std::panic::Location;
use std::ptr;
use std::time::Duration;

/// A call that takes less is brief.
const BRIEF: Duration = Duration::from_micros(20);

/// Nanoseconds that a brief call earns: the processor time of a hand-off, where each call is one (86 us for 18 calls,
/// measured). With 2 us a file that is read 64 KiB at a time, 8 us mostly and now and then 30, lost its credit again
/// and again: of the calls for 8 connections that are sent such files 6 to 100% handed the core on, and now less than
/// one in 300, at 253 to 278 us a MiB and 189 to 193 (Go 206 to 218; four runs in turn).
const EARNS: isize = 5_000;

/// A call that has lasted for so long when the supervisor looks loses the core.
const LONG: Duration = Duration::from_millis(1);

/// What a long call pays at most: by then the supervisor has looked.
const MOST: Duration = Duration::from_millis(25);

/// What may be owed, and owned: a time slice, which the system gives to somebody else, does not spend the whole.
const LEAST: isize = -25_000_000;
const RICH: isize = 4_000_000;

/// A place of which nothing is known is in credit after 16 calls.
const UNKNOWN: isize = -15 * EARNS;

const PLACES: usize = 64;

/// Where `blocking` was called.
pub(crate) type CallSite = &'static Location<'static>;

/// A call that keeps a core: when it began, in nanoseconds, and where. Written by the core's worker alone.
#[derive(Debug)]
pub(super) struct Call {
    /// [`Moment::NEVER`] if there is none.
    began: AtomicU64,
    site: AtomicPtr<Location<'static>>,
}

impl Default for Call {
    fn default() -> Call {
        let never = Moment::NEVER.as_nanos();
        Call { began: AtomicU64::new(never), site: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl Call {
    pub(super) fn begin(&self, site: CallSite, now: Moment) {
        self.site.store(ptr::from_ref(site).cast_mut(), Ordering::Relaxed);
        self.began.store(now.as_nanos(), Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.began.store(Moment::NEVER.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn is_on(&self) -> bool {
        self.began.load(Ordering::Relaxed) != Moment::NEVER.as_nanos()
    }

    /// Where the call is that has lasted for too long by `now`, if there is one.
    pub(super) fn is_long(&self, now: Moment) -> Option<CallSite> {
        let began = Moment::from_nanos(self.began.load(Ordering::Acquire));
        // SAFETY: null, or the address of a `&'static Location`.
        let site = unsafe { self.site.load(Ordering::Relaxed).as_ref() };
        site.filter(|_| now.since(began) >= LONG)
    }
}

/// The accounts. Two places in the program may share one: if a call at one of them is long, both are.
#[derive(Debug)]
pub(super) struct BriefCalls([AtomicIsize; PLACES]);

impl BriefCalls {
    pub(super) fn new() -> BriefCalls {
        BriefCalls(std::array::from_fn(|_| AtomicIsize::new(UNKNOWN)))
    }

    fn account(&self, site: CallSite) -> &AtomicIsize {
        // Fibonacci hashing (Knuth, volume 3): neighbours go far apart.
        let hash = (ptr::from_ref(site) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.0[(hash >> 58) as usize % PLACES]
    }

    /// Is the next call at `site` expected to be brief?
    pub(super) fn expected(&self, site: CallSite) -> bool {
        self.account(site).load(Ordering::Relaxed) > 0
    }

    /// A call at `site` took so long. Of two who book at the same time one may be lost.
    pub(super) fn took(&self, site: CallSite, time: Duration) {
        let account = self.account(site);
        let before = account.load(Ordering::Relaxed);
        let change = if time < BRIEF { EARNS } else { -(time.min(MOST).as_nanos() as isize) };
        let after = (before + change).clamp(LEAST, RICH);
        if after != before {
            account.store(after, Ordering::Relaxed);
        }
    }

    /// A call at `site` has lost the core that it had kept.
    pub(super) fn was_long(&self, site: CallSite) {
        self.took(site, MOST);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn calls_until_expected(calls: &BriefCalls, site: CallSite) -> usize {
        let brief = || calls.took(site, BRIEF - Duration::from_nanos(1));
        (0..).take_while(|_| !calls.expected(site)).inspect(|_| brief()).count()
    }

    #[test]
    fn a_place_is_known_by_its_brief_calls() {
        let (calls, here) = (BriefCalls::new(), Location::caller());
        assert_eq!(calls_until_expected(&calls, here), 16);
        calls.took(here, BRIEF);
        assert_eq!(calls_until_expected(&calls, here), 4, "20 us, at 5 us each");
    }

    #[test]
    fn a_long_call_has_to_be_paid_for() {
        let (calls, here) = (BriefCalls::new(), Location::caller());
        (0..10_000).for_each(|_| calls.took(here, Duration::ZERO));
        calls.took(here, Duration::from_millis(3));
        assert!(calls.expected(here), "it had earned that");
        calls.took(here, Duration::from_millis(3));
        assert_eq!(calls_until_expected(&calls, here), 401);
    }

    /// As reads of a cached file are, while the processor sees to packets too.
    #[test]
    fn a_place_whose_calls_are_long_now_and_then_stays_in_credit() {
        let (calls, here) = (BriefCalls::new(), Location::caller());
        let micros = |time: u64| calls.took(here, Duration::from_micros(time));
        (0..100).for_each(|_| micros(8));
        for turn in 0..1_000 {
            (0..9).for_each(|_| micros(8));
            micros(30);
            assert!(calls.expected(here), "{turn}");
        }
        // What others wait there is more than they are spared.
        (0..1_000).for_each(|_| [8, 40].into_iter().for_each(micros));
        assert!(!calls.expected(here));
    }

    #[test]
    fn what_is_owed_has_an_end() {
        let (calls, here) = (BriefCalls::new(), Location::caller());
        calls.took(here, Duration::MAX);
        (0..1_000).for_each(|_| calls.was_long(here));
        assert_eq!(calls_until_expected(&calls, here), 5_001);
    }

    #[test]
    fn places_have_accounts_of_their_own() {
        let (calls, here) = (BriefCalls::new(), Location::caller());
        let others = [Location::caller(), Location::caller(), Location::caller()];
        let apart = |other: &CallSite| !ptr::eq(calls.account(here), calls.account(other));
        let there = others.into_iter().find(apart).expect("64 accounts for four places");
        assert_eq!(calls_until_expected(&calls, here), 16);
        assert!(!calls.expected(there));
    }

    #[test]
    fn a_call_is_long_from_a_millisecond_on() {
        let (call, here) = (Call::default(), Location::caller());
        let at = Moment::from_nanos;
        assert!(!call.is_on() && call.is_long(at(u64::MAX - 1)).is_none());
        call.begin(here, at(5));
        assert!(call.is_on() && call.is_long(at(1_000_004)).is_none());
        assert!(call.is_long(at(1_000_005)).is_some_and(|site| ptr::eq(site, here)));
        call.end();
        assert!(!call.is_on() && call.is_long(at(u64::MAX - 1)).is_none());
    }
}
