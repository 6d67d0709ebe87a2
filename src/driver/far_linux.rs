//! The end of a sleep in the poller that is far off.
//!
//! An end handed to the poller is a timer that the kernel sets for each sleep and takes out again: 0.4 us, a
//! twentieth of a message that comes every half millisecond. A server always has such an end, the deadline of some
//! connection or the next look at idle memory. So where sleeps are short one timer of the kernel's that the poller
//! watches is set for many of them, and left as it is while what is due next moves on: it may ring too early once,
//! which costs one look, and never too late. For who sleeps long it is set for each sleep, since the kernel takes a
//! thousandth of what a poller is told, up to 100 ms, for leave to be late by it.
//!
//! It is made with the runtime: a daemon may forbid itself to make one later, or to set it. Where the system refuses,
//! the poller is told each end.

use crate::primitives::bell::Bell;
use crate::primitives::clock::Moment;
use mio::{Interest, Registry, Token, unix::SourceFd};
use std::io;
use std::time::Duration;

/// An end is far off from here on. Sooner ones are set and reached, or taken back, too often.
const FAR: Duration = Duration::from_millis(100);
/// Sleeps are short where the last one was shorter.
const SHORT: Duration = Duration::from_millis(2);

/// One for each poller; its users hold the role.
#[derive(Debug)]
pub(super) struct Far {
    /// Watched by the poller. `None` if there is none to be had.
    bell: Option<Bell>,
    /// When it rings, or has rung; `NEVER` where it is not set.
    due: Moment,
    /// How long the last sleep was.
    slept: Duration,
}

impl Far {
    /// With a bell that the poller of `registry` watches, under `token`.
    ///
    /// # Errors
    ///
    /// What the kernel says, such as that the process has too many descriptors.
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Far> {
        let bell = Bell::new()?;
        let Some(fd) = bell.descriptor() else { return Ok(Far::with(None)) };
        registry.register(&mut SourceFd(&fd), token, Interest::READABLE)?;
        Ok(Far::with(Some(bell)))
    }

    fn with(bell: Option<Bell>) -> Far {
        Far { bell, due: Moment::NEVER, slept: Duration::MAX }
    }

    /// What the poller is to be told for a sleep from `now` to `end`: `None` where something else ends it by then.
    pub(super) fn timeout(&mut self, now: Moment, end: Moment) -> Option<Duration> {
        let (is_long, left) = (self.slept >= SHORT, end.since(now));
        let is_set = self.due > now && self.due != Moment::NEVER;
        let is_before = is_set && self.due < end;
        if end == Moment::NEVER || left < FAR {
            // It would ring for nothing.
            if is_long && is_before {
                self.set(Moment::NEVER);
            }
            return (end != Moment::NEVER).then_some(left);
        }
        let rings = is_set && self.due == end || is_before && !is_long || self.set(end);
        if rings { None } else { Some(left) }
    }

    /// It has rung, and the poller has told somebody: whoever sleeps next must not count on it, also one who looked at
    /// the clock before.
    pub(super) fn rang(&mut self) {
        self.due = Moment::NEVER;
    }

    /// A sleep is over.
    pub(super) fn slept(&mut self, time: Duration) {
        self.slept = time;
    }

    /// Says whether it is.
    fn set(&mut self, at: Moment) -> bool {
        let done = self.bell.as_ref().is_some_and(|bell| bell.try_set(at));
        if done {
            self.due = at;
        }
        done
    }

    #[cfg(test)]
    pub(super) fn is_set(&self) -> bool {
        self.due != Moment::NEVER
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::fiber::Batch;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Instant;

    const SECOND: Duration = Duration::from_secs(1);
    /// Sooner than anything rings in a test.
    const HOUR: Duration = Duration::from_secs(3600);

    fn now() -> Moment {
        Moment::now().saturating_add(HOUR)
    }

    /// After a sleep of so many milliseconds.
    fn after(millis: u64) -> Far {
        let mut far = Far::with(Some(Bell::new().unwrap()));
        far.slept(Duration::from_millis(millis));
        far
    }

    #[test]
    fn after_a_long_sleep_the_bell_is_set_for_the_next() {
        let (now, mut far) = (now(), after(2));
        for seconds in [2, 1, 1, 3] {
            let end = now.saturating_add(SECOND * seconds);
            assert_eq!(far.timeout(now, end), None);
            assert_eq!(far.due, end);
        }
    }

    #[test]
    fn the_poller_is_told_an_end_that_is_near() {
        for millis in [1, 2] {
            let (now, mut far) = (now(), after(millis));
            let near = now.saturating_add(FAR - Duration::from_nanos(1));
            assert_eq!(far.timeout(now, near), Some(FAR - Duration::from_nanos(1)));
            assert_eq!(far.due, Moment::NEVER);
        }
    }

    #[test]
    fn the_bell_is_set_for_many_sleeps() {
        let (now, mut far) = (now(), after(1));
        let end = |seconds: u32| now.saturating_add(SECOND * seconds);
        assert_eq!(far.timeout(now, end(2)), None);
        assert_eq!(far.due, end(2));
        for later in [end(2), end(3), Moment::NEVER] {
            assert_eq!(far.timeout(now, later), None);
            assert_eq!(far.due, end(2), "it stays");
        }
        assert_eq!(far.timeout(now, end(1)), None);
        assert_eq!(far.due, end(1), "it would have been too late");
        // It has rung.
        assert_eq!(far.timeout(end(1), end(3)), None);
        assert_eq!(far.due, end(3));
    }

    /// Who sleeps next may have looked at the clock before it rang.
    #[test]
    fn a_bell_that_has_rung_is_not_counted_on() {
        let (now, mut far) = (now(), after(1));
        let [first, second] = [1, 2].map(|seconds| now.saturating_add(SECOND * seconds));
        assert_eq!(far.timeout(now, first), None);
        far.rang();
        assert_eq!(far.timeout(now, second), None);
        assert_eq!(far.due, second);
    }

    #[test]
    fn whoever_turns_the_poller_hears_it() {
        let driver = Driver::new(1).unwrap();
        let mut role = driver.try_role().unwrap();
        role.set_its_bell(Moment::now());
        assert!(role.has_set_its_bell());
        for _ in 0..10_000 {
            driver.look_at_sockets(&mut role);
            if !role.has_set_its_bell() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("it has rung, and nobody knows");
    }

    #[test]
    fn it_does_not_ring_for_nothing_while_somebody_sleeps_long() {
        let (now, mut far) = (now(), after(1));
        let [near, soon] = [20, 200].map(Duration::from_millis);
        let [at_near, at_soon] = [near, soon].map(|time| now.saturating_add(time));
        assert_eq!(far.timeout(now, at_soon), None);
        far.slept(SHORT);
        assert_eq!(far.timeout(now, at_near), Some(near));
        assert_eq!(far.due, at_soon, "it has time");
        assert_eq!(far.timeout(now, Moment::NEVER), None);
        assert_eq!(far.due, Moment::NEVER, "taken back");
    }

    #[test]
    fn without_a_bell_the_poller_is_told_the_end() {
        let (now, mut far) = (now(), Far::with(None));
        far.slept(Duration::ZERO);
        assert_eq!(far.timeout(now, now.saturating_add(SECOND)), Some(SECOND));
        assert_eq!(far.timeout(now, Moment::NEVER), None);
    }

    /// The poller's own sleep, which nothing else would end.
    #[test]
    fn it_ends_a_sleep_that_nobody_told_the_end_of() {
        let driver = Driver::new(1).unwrap();
        let mut role = driver.try_role().unwrap();
        let mut settled = Batch::new();
        // For so long, from now on: how it ends, and whether by the bell.
        let mut sleep = |time: Duration| {
            let now = Moment::now();
            let awake =
                driver.wait(&mut role, now, || now.saturating_add(time), None, &mut settled);
            (awake.by_timer, role.has_heard_its_bell())
        };
        let mut after_a_short_one = |time: Duration| {
            let start = Instant::now();
            driver.interrupt();
            assert!(!sleep(time).0, "it was interrupted");
            (start.elapsed() < SHORT, sleep(FAR + Duration::from_millis(10)))
        };
        let (is_awake, waits) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let driver = &driver;
            scope.spawn(move || {
                if waits.recv_timeout(Duration::from_secs(20)).is_err() {
                    driver.interrupt();
                }
            });
            let start = Instant::now();
            // Unless the system puts this thread aside.
            let set = (1..100).find_map(|turn| {
                let (short, (by_timer, set)) = after_a_short_one(HOUR);
                assert!(by_timer, "after {:?}", start.elapsed());
                assert!(start.elapsed() >= turn * FAR);
                short.then_some(set)
            });
            assert_eq!(set, Some(true), "the poller was told the end");
            is_awake.send(()).unwrap();
        });
    }
}
