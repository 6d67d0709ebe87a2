//! When a worker that does it all invites another one.
//!
//! Fibers that run for a microsecond or three between two waits are left on one worker, since to part them mostly costs
//! more than it brings (`hold_off.rs`, `share.rs`). But not always, and nobody knows before it was tried. So a worker
//! that has run fibers of [`LEAST`] and more for a tick, while not all others did, wakes one, and shares with it whom
//! its fibers wake during the next tick. What was known of spins is forgotten by all of them. If that keeps one more
//! busy at the end of each tick for [`PAYS`], since those who were parted stay so (`spin.rs`), the next one is invited,
//! if one is left; and whenever fewer run again, at once. Else it is tried again after [`EVERY`], or after twice that
//! each time, up to [`MOST`]: a wake, and a tick of lines of the cache that go to and fro, in 64 ms.

use super::worker::Worker;
use super::worth::FLOWING;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use std::time::Duration;

/// Nanoseconds for a fiber between two scheduling points. With less two workers are hardly faster than one.
const LEAST: u64 = 800;
const EVERY: Duration = Duration::from_millis(2);
const MOST: Duration = Duration::from_millis(64);
/// Who keeps another one busy for so long has gained what an invitation costs, and far more.
const PAYS: Duration = Duration::from_millis(1);

/// What a worker knows of its invitations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Invites {
    last: Moment,
    every: Duration,
    /// So many ran fibers without an invitation, this one among them.
    among: u64,
    /// Since when more have at the end of each tick.
    busy: Option<Moment>,
    /// For how long they did last, since the last invitation.
    was_busy: Duration,
    /// One was just invited.
    open: bool,
}

impl Invites {
    pub(super) fn new() -> Invites {
        let (last, every, was_busy) = (Moment::PAST, EVERY, Duration::ZERO);
        Invites { last, every, among: 1, busy: None, was_busy, open: false }
    }

    /// A tick is over, in which so many of `all` workers ran fibers. Is one more to be invited?
    fn is_time(&mut self, now: Moment, running: u64, all: u64) -> bool {
        self.open = false;
        self.among = self.among.min(running);
        if running > self.among && !self.stays_busy(now) {
            return false;
        }
        (self.among, self.busy) = (running, None);
        let paid = self.was_busy >= PAYS;
        if running >= all || !paid && now.since(self.last) < self.every {
            return false;
        }
        self.every = if paid { EVERY } else { MOST.min(2 * self.every) };
        (self.last, self.was_busy, self.open) = (now, Duration::ZERO, true);
        true
    }

    /// More run than before. Have they for long enough to be counted in?
    fn stays_busy(&mut self, now: Moment) -> bool {
        let since = *self.busy.get_or_insert(now);
        self.was_busy = self.was_busy.max(now.since(since));
        now.since(since) >= PAYS
    }

    /// Is whoever is woken shared with one who searches, whatever is known of earlier ones?
    pub(super) fn are_open(&self) -> bool {
        self.open
    }

    /// The worker does not do it all.
    pub(super) fn close(&mut self) {
        (self.open, self.busy) = (false, None);
    }
}

impl Worker<'_> {
    /// At the end of a tick, in which it has not slept.
    pub(super) fn invites(&self, now: Moment) {
        let (shared, own) = (self.shared, self.own());
        let may = shared.config.workers > 1 && shared.config.stealing && !self.searching.get();
        if !may || self.run_time() < LEAST {
            return own.invites.close();
        }
        if own.invites.is_time(now, shared.idle.running(), shared.config.workers as u64) {
            // For a tick, nobody holds off.
            own.tick.does_not_flow();
            self.held().pace.fetch_max(FLOWING, Ordering::Relaxed);
            shared.invitations.fetch_add(1, Ordering::Relaxed);
            shared.call();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_micros(200);

    /// A worker's ticks, of [`TICK`] each.
    struct Ticks(Invites, Moment);

    impl Ticks {
        fn new() -> Ticks {
            let mut ticks = Ticks(Invites::new(), Moment::now());
            assert!(ticks.next(false), "nothing is known");
            ticks
        }

        fn next(&mut self, busy: bool) -> bool {
            self.among(1 + u64::from(busy), 2)
        }

        fn among(&mut self, running: u64, all: u64) -> bool {
            self.1 = self.1.saturating_add(TICK);
            self.0.is_time(self.1, running, all)
        }

        /// Until the next invitation, while others sleep.
        fn wait(&mut self) -> Duration {
            TICK * (1..).find(|_| self.next(false)).expect("some time")
        }
    }

    #[test]
    fn those_in_vain_become_rare() {
        let mut ticks = Ticks::new();
        let waits = [(); 7].map(|()| {
            assert!(!ticks.next(true), "it comes, and finds little");
            ticks.wait().saturating_add(TICK)
        });
        assert_eq!(waits.map(|wait| wait.as_millis()), [4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn what_has_paid_is_tried_again_at_once() {
        let mut ticks = Ticks::new();
        ticks.wait();
        (0..=PAYS.as_micros() / TICK.as_micros()).for_each(|_| assert!(!ticks.next(true)));
        assert_eq!(ticks.wait(), TICK);
        assert_eq!(ticks.wait(), EVERY);
    }

    #[test]
    fn who_is_awake_now_and_then_is_not_kept_busy() {
        let mut ticks = Ticks::new();
        ticks.wait();
        for _ in 0..PAYS.as_micros() / TICK.as_micros() {
            assert!(!ticks.next(true) && !ticks.next(false));
        }
        assert!(ticks.wait() > EVERY);
    }

    /// Those of another flow of work, say.
    #[test]
    fn whoever_runs_by_itself_is_no_reason_not_to_invite_a_third() {
        let mut ticks = Ticks::new();
        let invited = |ticks: &mut Ticks, running| (0..999).find(|_| ticks.among(running, 4));
        assert!(invited(&mut ticks, 2).expect("one") <= PAYS.as_micros() / TICK.as_micros());
        let tried = invited(&mut ticks, 2).expect("some time later") as u32 * TICK;
        assert!(tried >= EVERY - TICK, "{tried:?}: it did not stay");
        // It stays now.
        let next = invited(&mut ticks, 3).expect("another") as u32 * TICK;
        assert!(next <= PAYS, "{next:?}");
        assert_eq!(invited(&mut ticks, 4), None, "nobody is left");
    }

    #[test]
    fn they_are_open_for_a_tick() {
        let mut ticks = Ticks::new();
        assert!(ticks.0.are_open());
        ticks.next(false);
        assert!(!ticks.0.are_open());
        ticks.wait();
        assert!(ticks.0.are_open());
        ticks.next(true);
        assert!(!ticks.0.are_open());
    }
}
