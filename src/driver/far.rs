//! The end of a sleep in the poller that is far off, where such sleeps are short.
//!
//! An end handed to the poller is a timer that the kernel sets for each sleep and takes out again: 0.4 us, a
//! twentieth of a message that comes every half millisecond. A server always has such an end, the deadline of some
//! connection or the next look at idle memory. So where sleeps are short one timer of the kernel's that the poller
//! watches is set for many of them, and left as it is while what is due next moves on: it may ring too early once,
//! which costs one look, and never too late. Who sleeps long has it taken back, and hands in the end as ever.

use crate::primitives::bell::Bell;
use crate::primitives::clock::Moment;
use mio::{Interest, Registry, Token, unix::SourceFd};
use std::time::Duration;

/// An end is far off from here on. Sooner ones are set and reached, or taken back, too often.
const FAR: Duration = Duration::from_millis(100);
/// Sleeps are short where the last one was shorter.
const SHORT: Duration = Duration::from_millis(2);

/// One for each poller; its users hold the role.
#[derive(Debug)]
pub(super) struct Far {
    timer: Timer,
    /// When it rings, or has rung; `NEVER` where it is not set.
    due: Moment,
    /// How long the last sleep was.
    slept: Duration,
}

#[derive(Debug)]
enum Timer {
    /// Not needed yet.
    None,
    Watched(Bell),
    /// The system has none to give.
    Refused,
}

impl Far {
    pub(super) fn new() -> Far {
        Far { timer: Timer::None, due: Moment::NEVER, slept: Duration::MAX }
    }

    /// What the poller is to be told for a sleep from `now` to `end`: `None` where something else ends it by then.
    /// `watch` has it watch a descriptor.
    pub(super) fn timeout(
        &mut self,
        now: Moment,
        end: Moment,
        watch: impl FnOnce(&Bell) -> bool,
    ) -> Option<Duration> {
        let is_set = self.due > now && self.due != Moment::NEVER;
        if self.slept >= SHORT || end.since(now) < FAR {
            // It would ring for nothing.
            if is_set && self.due < end {
                self.set(Moment::NEVER);
            }
            return (end != Moment::NEVER).then(|| end.since(now));
        }
        let in_time = end == Moment::NEVER || is_set && self.due <= end;
        if in_time {
            return None;
        }
        self.prepare(watch);
        match self.timer {
            Timer::Watched(_) => {
                self.set(end);
                None
            }
            _ => Some(end.since(now)),
        }
    }

    /// A sleep is over.
    pub(super) fn slept(&mut self, time: Duration) {
        self.slept = time;
    }

    fn set(&mut self, at: Moment) {
        if let Timer::Watched(bell) = &self.timer {
            bell.set(at);
            self.due = at;
        }
    }

    fn prepare(&mut self, watch: impl FnOnce(&Bell) -> bool) {
        if let Timer::None = self.timer {
            let bell = Bell::new().ok().filter(watch);
            self.timer = bell.map_or(Timer::Refused, Timer::Watched);
        }
    }
}

/// Has the poller return when `bell` rings. False where it cannot.
pub(super) fn watch(registry: &Registry, bell: &Bell, token: Token) -> bool {
    let register = |fd| registry.register(&mut SourceFd(&fd), token, Interest::READABLE).is_ok();
    bell.descriptor().is_some_and(register)
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
        let mut far = Far::new();
        far.slept(Duration::from_millis(millis));
        far
    }

    fn watched(far: &mut Far, now: Moment, end: Moment) -> Option<Duration> {
        far.timeout(now, end, |_| true)
    }

    #[test]
    fn after_a_long_sleep_the_poller_is_told_the_end() {
        let (now, mut far) = (now(), after(2));
        let end = now.saturating_add(SECOND);
        let untouched = |_: &Bell| panic!("it needs no bell");
        assert_eq!(far.timeout(now, end, untouched), Some(SECOND));
        assert_eq!(far.timeout(now, Moment::NEVER, untouched), None);
        assert_eq!(far.due, Moment::NEVER);
    }

    #[test]
    fn after_a_short_one_it_is_told_an_end_that_is_near() {
        let (now, mut far) = (now(), after(1));
        let near = now.saturating_add(FAR - Duration::from_nanos(1));
        assert_eq!(watched(&mut far, now, near), Some(FAR - Duration::from_nanos(1)));
        assert_eq!(far.due, Moment::NEVER);
    }

    #[test]
    fn the_bell_is_set_for_many_sleeps() {
        let (now, mut far) = (now(), after(1));
        let end = |seconds: u32| now.saturating_add(SECOND * seconds);
        assert_eq!(watched(&mut far, now, end(2)), None);
        assert_eq!(far.due, end(2));
        for later in [end(2), end(3), Moment::NEVER] {
            assert_eq!(watched(&mut far, now, later), None);
            assert_eq!(far.due, end(2), "it stays");
        }
        assert_eq!(watched(&mut far, now, end(1)), None);
        assert_eq!(far.due, end(1), "it would have been too late");
        // It has rung.
        assert_eq!(watched(&mut far, end(1), end(3)), None);
        assert_eq!(far.due, end(3));
    }

    #[test]
    fn it_does_not_ring_for_nothing_while_somebody_sleeps_long() {
        let (now, mut far) = (now(), after(1));
        let [near, soon, later] = [20, 200, 900].map(|millis| {
            let time = Duration::from_millis(millis);
            (now.saturating_add(time), time)
        });
        assert_eq!(watched(&mut far, now, soon.0), None);
        far.slept(SHORT);
        assert_eq!(watched(&mut far, now, near.0), Some(near.1));
        assert_eq!(far.due, soon.0, "it has time");
        assert_eq!(watched(&mut far, now, later.0), Some(later.1));
        assert_eq!(far.due, Moment::NEVER, "taken back");
    }

    #[test]
    fn without_a_bell_the_poller_is_told_the_end() {
        let (now, mut far) = (now(), after(1));
        let end = now.saturating_add(SECOND);
        assert_eq!(far.timeout(now, end, |_| false), Some(SECOND));
        let once = |_: &Bell| panic!("it was refused");
        assert_eq!(far.timeout(now, end, once), Some(SECOND));
    }

    /// The poller's own sleep, which nothing else would end.
    #[test]
    fn it_ends_a_sleep_that_nobody_told_the_end_of() {
        let driver = Driver::new(1).unwrap();
        let mut role = driver.try_role().unwrap();
        let mut settled = Batch::new();
        let mut sleep = |end: Moment| driver.wait(&mut role, Moment::now(), || end, &mut settled);
        let (is_awake, waits) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let driver = &driver;
            scope.spawn(move || {
                if waits.recv_timeout(Duration::from_secs(20)).is_err() {
                    driver.interrupt();
                }
            });
            for _ in 0..3 {
                driver.interrupt();
                assert!(!sleep(Moment::now().saturating_add(HOUR)).by_timer, "a short one");
                let (start, time) = (Instant::now(), FAR + Duration::from_millis(10));
                let awake = sleep(Moment::now().saturating_add(time));
                assert!(awake.by_timer, "after {:?}", start.elapsed());
                assert!(start.elapsed() >= time && start.elapsed() < SECOND * 10);
            }
            is_awake.send(()).unwrap();
        });
    }
}
