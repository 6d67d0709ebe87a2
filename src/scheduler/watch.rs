//! When the supervisor wakes next, and who decides that.
//!
//! A thread that wakes each millisecond to find that all is well costs more than a server that answers a message each
//! millisecond. So the supervisor sleeps until a bell rings which others set. It sets the bell itself when it goes to
//! sleep: to its next look while anybody runs, far off or never while all workers are parked. Who leaves its bed then
//! sets it to the next look. Who leaves the poller to nobody (`poller_seat.rs`) sets it to a moment from now; being the
//! only one that runs, it puts that off when it does so once more, since a worker that comes back to the poller again
//! and again shows that all is well. Then the bell never rings, and is set every few milliseconds. Who parks last after
//! a long sleep, or after one that a timer has ended if the next timer is far, puts it far off, if it has run anything:
//! somebody must look for a deadlock.
//!
//! # Protocol
//!
//! `due` says when the bell rings; both change under the lock. Who leaves its bed clears its parked bit, full fence,
//! reads `due`, and if that is later than it must be sets the bell. Who sets the bell far off stores `due`, full
//! fence, reads whether all are parked, and if not sets it near. Of the two reads one sees the other's store: no worker
//! runs while the bell is far off, but for one that has stalled and was replaced.
//!
//! While the supervisor looks, `due` is [`LOOKS`], and whoever wants the next look by some time leaves it there: the
//! supervisor sets the bell no later. It stores that, full fence, reads when the poller was left; who leaves it says
//! so, full fence, reads `due`.

use crate::primitives::bell::Bell;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicU64, Ordering};
use crate::primitives::sync::{Mutex, full_fence};
use std::io;
use std::time::Duration;

/// Looks in a period.
pub(super) const IN_A_PERIOD: u32 = 4;
/// So many periods in which nothing has run, and the supervisor sleeps until something does.
pub(super) const LINGER: u32 = 2;
/// The supervisor looks, and nobody has said when it should next.
const LOOKS: u64 = 0;
/// Nobody is in the poller for longer than that while some worker is free to be there. Half of it is what a look is put
/// off by at least, a tick of the kernel's (250 Hz): a bell that is due before the next tick has the kernel set its own
/// timer for it, at 10 us each, a thirtieth of a message each half millisecond (measured, 3 ms and 4).
const RELIEF: Duration = Duration::from_millis(8);
/// As long where much comes: there the processors are contended for, so that who has left the poller may be long in
/// coming back, and many wait.
const RELIEF_WHEN_BUSY: Duration = Duration::from_millis(3);
/// Between the two it is as long as so many rests in the poller: the bell, set once in half that time, then takes a
/// microsecond a turn.
const RESTS: u64 = 16;

/// The supervisor's bed.
#[derive(Debug)]
pub(super) struct Watch {
    /// `None` where there is no supervisor.
    bell: Option<Bell>,
    /// When it rings, in nanoseconds. Written under the lock.
    due: AtomicU64,
    /// Somebody wants it to look at once.
    called: Mutex<bool>,
    look: Duration,
    /// How long who leaves the poller to nobody had slept there, on average of late, in nanoseconds. A hint.
    rests: AtomicU64,
    /// How often the bell has rung.
    #[cfg(test)]
    pub(super) looks: AtomicU64,
}

impl Watch {
    /// For a supervisor with `period`, or for none.
    pub(super) fn new(period: Option<Duration>) -> io::Result<Watch> {
        Ok(Watch {
            bell: period.map(|_| Bell::new()).transpose()?,
            due: AtomicU64::new(LOOKS),
            called: Mutex::new(false),
            look: period.unwrap_or_default() / IN_A_PERIOD,
            rests: AtomicU64::new(nanos(RELIEF)),
            #[cfg(test)]
            looks: AtomicU64::new(0),
        })
    }

    /// For how long the poller may be left to nobody.
    pub(super) fn relief(&self) -> Duration {
        let rests = Duration::from_nanos(self.rests.load(Ordering::Relaxed) * RESTS);
        rests.clamp(RELIEF_WHEN_BUSY, RELIEF).min(self.look)
    }

    /// A look is put off by so much at least. Who sleeps for longer between two turns of the poller puts it far off
    /// meanwhile: it might hear the bell.
    pub(super) fn often(&self) -> Duration {
        self.relief() / 2
    }

    /// After the poller was left no look for it comes before that.
    pub(super) fn soonest(&self) -> Duration {
        RELIEF_WHEN_BUSY.min(self.look) / 2
    }

    /// A worker has left its bed at `now`: the next look comes soon.
    #[inline]
    pub(super) fn notice(&self, now: Moment) {
        self.look_within(Moment::PAST, now.saturating_add(self.look), || false);
    }

    /// A worker has left its bed at `now`, where it `slept` for that long, and the poller to nobody. May the next look
    /// be put off?
    #[inline]
    pub(super) fn relieve(&self, now: Moment, slept: Duration, may_put_off: impl FnOnce() -> bool) {
        let rests = self.rests.load(Ordering::Relaxed);
        self.rests.store(rests - rests / 8 + nanos(slept.min(RELIEF)) / 8, Ordering::Relaxed);
        let [earliest, latest] = [self.often(), self.relief()].map(|time| now.saturating_add(time));
        self.look_within(earliest, latest, may_put_off);
    }

    #[inline]
    fn look_within(&self, earliest: Moment, latest: Moment, may_put_off: impl FnOnce() -> bool) {
        let Some(bell) = &self.bell else { return };
        // Pairs with the one in `set_far`.
        full_fence();
        let due = self.due.load(Ordering::Relaxed);
        let soon = due < earliest.as_nanos() && due != LOOKS && may_put_off();
        if soon || is_later(due, latest) {
            self.change(bell, soon, latest);
        }
    }

    /// Whoever has left since the caller asked whether it is alone wants the look no sooner than by `latest`.
    #[cold]
    fn change(&self, bell: &Bell, puts_off: bool, latest: Moment) {
        let called = self.called.lock();
        if !*called && (puts_off || is_later(self.due.load(Ordering::Relaxed), latest)) {
            self.set(bell, latest);
        }
    }

    /// The last worker has parked, and the next to leave its bed may be long in coming: not before `far`, if
    /// `all_rest`.
    pub(super) fn put_off(&self, now: Moment, far: Moment, all_rest: impl FnOnce() -> bool) {
        let Some(bell) = &self.bell else { return };
        let called = self.called.lock();
        let due = Moment::from_nanos(self.due.load(Ordering::Relaxed));
        // Where it has rung, the supervisor has something to look at.
        if !*called && due > now && due < far {
            self.set_far(bell, due, far, all_rest);
        }
    }

    /// The supervisor's, which has looked: the next look comes at `near`, or at `far` if `all_rest`. `true` if it is
    /// the latter.
    #[must_use]
    pub(super) fn lie_down(
        &self,
        near: Moment,
        far: Moment,
        all_rest: impl FnOnce() -> bool,
    ) -> bool {
        let Some(bell) = &self.bell else { return false };
        let called = self.called.lock();
        if *called {
            return false;
        }
        let wanted = match self.due.load(Ordering::Relaxed) {
            LOOKS => Moment::NEVER,
            due => Moment::from_nanos(due),
        };
        self.set_far(bell, near.min(wanted), far.min(wanted), all_rest)
    }

    /// To `far` if `all_rest`, which says `true` then, and to `near` otherwise. Under the lock.
    fn set_far(
        &self,
        bell: &Bell,
        near: Moment,
        far: Moment,
        all_rest: impl FnOnce() -> bool,
    ) -> bool {
        self.due.store(far.as_nanos(), Ordering::Relaxed);
        // Pairs with the one in `look_within`.
        full_fence();
        let rest = all_rest();
        self.set(bell, if rest { far } else { near });
        rest
    }

    /// Under the lock.
    fn set(&self, bell: &Bell, at: Moment) {
        self.due.store(at.as_nanos(), Ordering::Relaxed);
        bell.set(at);
    }

    /// When the supervisor looks next.
    #[cfg(test)]
    pub(super) fn is_due(&self) -> Moment {
        Moment::from_nanos(self.due.load(Ordering::Relaxed))
    }

    /// The supervisor's: sleeps until the bell rings, or somebody calls.
    pub(super) fn sleep(&self) {
        let Some(bell) = &self.bell else { return };
        bell.wait();
        #[cfg(test)]
        self.looks.fetch_add(1, Ordering::Relaxed);
        let mut called = self.called.lock();
        *called = false;
        self.due.store(LOOKS, Ordering::Relaxed);
        drop(called);
        // Pairs with the one in `look_within`: who has read what `due` was before is seen to have left the poller.
        full_fence();
    }

    /// Has the supervisor look at once.
    #[cold]
    pub(super) fn wake(&self) {
        let mut called = self.called.lock();
        *called = true;
        if let Some(bell) = &self.bell {
            self.set(bell, Moment::PAST);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Must the bell be set for somebody who wants it by `latest`?
fn is_later(due: u64, latest: Moment) -> bool {
    due == LOOKS || due > latest.as_nanos()
}

#[cfg(all(test, loom))]
#[path = "watch_models.rs"]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(time: u64) -> Moment {
        Moment::now().saturating_add(Duration::from_secs(3600) + millis(time))
    }

    impl Watch {
        /// As if the bell had been set then.
        fn due_at(at: Moment) -> Watch {
            let watch = Watch::new(Some(PERIOD)).unwrap();
            watch.due.store(at.as_nanos(), Ordering::Relaxed);
            watch
        }
    }

    /// `(due, alone, then due)`, in milliseconds from now.
    fn relieves(due: u64, alone: bool) -> u64 {
        let (now, watch) = (at(0), Watch::due_at(Moment::NEVER));
        watch.due.store(now.saturating_add(millis(due)).as_nanos(), Ordering::Relaxed);
        watch.relieve(now, RELIEF, || alone);
        watch.is_due().since(now).as_millis() as u64
    }

    #[test]
    fn who_leaves_the_poller_has_the_next_look_come_in_time() {
        for alone in [false, true] {
            assert_eq!(relieves(60_000, alone), 8, "it would be too late");
            assert_eq!([4, 5, 8].map(|due| relieves(due, alone)), [4, 5, 8], "it is in time");
        }
        assert_eq!(relieves(2, true), 8, "all is well, and soon it would ring");
        assert_eq!(relieves(2, false), 2, "others run");
        let (now, watch) = (at(0), Watch::due_at(Moment::PAST));
        watch.relieve(now, RELIEF, || false);
        assert_eq!(watch.is_due(), now.saturating_add(millis(8)), "the supervisor looks just now");
    }

    /// By how long the turns of the poller have been of late, and not by a single one.
    #[test]
    fn the_poller_is_left_for_less_long_where_much_comes() {
        let (now, watch) = (at(0), Watch::due_at(Moment::NEVER));
        let after = |turns: u32, slept: Duration| {
            (0..turns).for_each(|_| watch.relieve(now, slept, || false));
            watch.relief()
        };
        let micros = Duration::from_micros;
        assert_eq!(after(3, micros(20)), millis(8));
        assert_eq!(after(60, micros(20)), millis(3));
        assert_eq!(watch.is_due().since(now), millis(3));
        assert_eq!(watch.often(), millis(3) / 2);
        assert_eq!(after(1, micros(500)), millis(3));
        let between = after(60, micros(250));
        assert!(between > millis(3) && between <= millis(4), "{between:?}");
        assert_eq!(after(60, micros(600)), millis(8));
        assert_eq!(after(60, Duration::from_secs(3600)), millis(8));
        // An hour counts no more than some milliseconds.
        assert_eq!(after(60, micros(20)), millis(3));
    }

    #[test]
    fn who_leaves_its_bed_has_the_next_look_come_after_a_quarter_of_a_period() {
        let now = at(0);
        for (due, then) in [(200, 25), (26, 25), (24, 24), (1, 1)] {
            let watch = Watch::due_at(now.saturating_add(millis(due)));
            watch.notice(now);
            assert_eq!(watch.is_due().since(now), millis(then), "{due}");
        }
    }

    #[test]
    fn who_parks_last_puts_the_look_off() {
        let (now, far) = (at(0), at(200));
        let after = |due: Moment, rest: bool| {
            let watch = Watch::due_at(due);
            watch.put_off(now, far, || rest);
            watch.is_due()
        };
        let near = now.saturating_add(millis(5));
        assert_eq!(after(near, true), far);
        assert_eq!(after(near, false), near, "somebody runs");
        assert_eq!(after(now, true), now, "it rings");
        assert_eq!(after(Moment::PAST, true), Moment::PAST, "the supervisor looks");
        assert_eq!(after(Moment::NEVER, true), Moment::NEVER);
    }

    #[test]
    fn the_supervisor_sleeps_no_longer_than_it_was_asked_to_while_it_looked() {
        let (near, far) = (at(25), at(200));
        for rest in [false, true] {
            let watch = Watch::due_at(Moment::PAST);
            assert_eq!(watch.lie_down(near, far, || rest), rest);
            assert_eq!(watch.is_due(), if rest { far } else { near });
            let (watch, asked) = (Watch::due_at(Moment::PAST), at(0));
            watch.relieve(asked, RELIEF, || false);
            _ = watch.lie_down(near, far, || rest);
            assert_eq!(watch.is_due(), asked.saturating_add(millis(8)));
        }
    }

    #[test]
    fn who_is_called_does_not_sleep() {
        let watch = Watch::due_at(Moment::PAST);
        watch.wake();
        // Neither of these puts that off.
        watch.relieve(at(0), RELIEF, || true);
        watch.put_off(at(0), at(200), || true);
        assert!(!watch.lie_down(Moment::NEVER, Moment::NEVER, || true));
        watch.sleep();
        assert!(watch.lie_down(Moment::NEVER, Moment::NEVER, || true), "once");
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| watch.sleep());
            watch.wake();
            sleeper.join().unwrap();
        });
    }

    #[test]
    fn without_a_supervisor_nothing_happens() {
        let watch = Watch::new(None).unwrap();
        watch.notice(at(0));
        watch.relieve(at(0), RELIEF, || true);
        watch.put_off(at(0), at(200), || true);
        watch.wake();
        watch.sleep();
        assert_eq!(watch.is_due(), Moment::PAST);
    }
}
