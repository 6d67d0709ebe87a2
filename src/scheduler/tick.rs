//! How long a worker goes on before it looks around: the tick, and the interval of the injector.
//!
//! A tick is 128 dispatches, then sockets, timers and estimates get their turn. Within a tick the
//! injector is looked at every `interval` dispatches, which the estimate of a fiber's run time keeps
//! near one look per millisecond. An estimate says nothing about the next fiber: so every 32
//! dispatches the worker glances, without leaving the fast path, whether anything waits in injector
//! or mailbox, and if so at the clock, which then holds the millisecond.

use crate::primitives::clock::Moment;
use crate::util::ewma::{RunTime, injector_interval};
use std::time::Duration;

/// Dispatches in one tick.
pub(crate) const DISPATCHES: u32 = 128;
/// Dispatches between two glances.
const GLANCE: u32 = 32;
/// The injector, and then sockets and timers, are looked at about this often, by the clock.
const LOOK_PERIOD: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Tick {
    /// Dispatches until the next glance; of how many.
    until_glance: u32,
    armed: u32,
    until_tick: u32,
    until_injector: u32,
    interval: u32,
    /// The interval is set, not estimated.
    fixed: bool,
    average: RunTime,
    /// When the injector was looked at last because that was due.
    looked: Moment,
    /// When the dispatches that are being counted began.
    began: Moment,
    /// Of the time since then, what was no fiber's.
    left_out: Duration,
    dispatched: u32,
}

/// What is due when the fast path ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) tick: bool,
    pub(crate) injector: bool,
}

impl Tick {
    /// With a look at the injector every so many dispatches, or about one a millisecond.
    pub(crate) fn new(now: Moment, every: Option<u32>) -> Tick {
        let average = RunTime::new();
        let interval = every.unwrap_or_else(|| injector_interval(average.average()));
        let mut tick = Tick {
            until_glance: 0,
            armed: 0,
            until_tick: DISPATCHES,
            until_injector: interval,
            interval,
            fixed: every.is_some(),
            average,
            looked: now,
            began: now,
            left_out: Duration::ZERO,
            dispatched: 0,
        };
        tick.rearm();
        tick
    }

    fn rearm(&mut self) {
        self.armed = self.until_tick.min(self.until_injector).min(GLANCE);
        self.until_glance = self.armed;
    }

    /// Counts one dispatch; `false` if it is time for a [`glance`](Self::glance) first.
    #[inline(always)]
    pub(crate) fn dispatch(&mut self) -> bool {
        if self.until_glance == 0 {
            return false;
        }
        self.until_glance -= 1;
        true
    }

    /// Counts one dispatch; `false` if something is due first. `waiting` says that something stands
    /// in injector or mailbox; only then the clock is read.
    #[cold]
    pub(crate) fn glance(&mut self, waiting: bool, now: impl FnOnce() -> Moment) -> bool {
        let mut due = self.due();
        if waiting && !self.fixed && !due.injector && now().since(self.looked) >= LOOK_PERIOD {
            self.until_injector = 0;
            self.rearm();
            due.injector = true;
        }
        !due.tick && !due.injector && self.dispatch()
    }

    /// Sends the worker to its own stack before the next dispatch.
    pub(crate) fn cut_short(&mut self) {
        self.due();
        self.until_tick = 0;
        self.rearm();
    }

    /// Books the dispatches since the last look and says what is due.
    pub(crate) fn due(&mut self) -> Due {
        let done = self.armed - self.until_glance;
        self.dispatched += done;
        self.until_tick -= done;
        self.until_injector -= done;
        self.rearm();
        Due { tick: self.until_tick == 0, injector: self.until_injector == 0 }
    }

    /// The injector is looked at.
    pub(crate) fn injector_looked(&mut self, now: Moment) {
        self.looked = now;
        self.until_injector = self.interval;
        self.rearm();
    }

    /// Has the tick, as of the last look at the injector, lasted for so long that it should end now?
    pub(crate) fn is_long(&self) -> bool {
        self.looked.since(self.began) >= LOOK_PERIOD
    }

    /// The tick is over, or the worker ran out of work: updates the estimate.
    pub(crate) fn finish(&mut self, now: Moment) {
        self.due();
        if self.dispatched > 0 {
            let ran = now.since(self.began).saturating_sub(self.left_out);
            self.average.record(ran.as_nanos() as u64, self.dispatched);
            if !self.fixed {
                self.interval = injector_interval(self.average.average());
            }
        }
        self.until_tick = DISPATCHES;
        self.until_injector = self.until_injector.min(self.interval);
        self.rearm();
    }

    /// Dispatches count from `now` on; what lay before was polling or sleep.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.began = now;
        self.left_out = Duration::ZERO;
        self.dispatched = 0;
    }

    /// The worker has only looked on for so long. For the tick, and by the clock, it counts.
    pub(crate) fn leave_out(&mut self, time: Duration) {
        self.left_out += time;
    }

    #[cfg(test)]
    pub(crate) fn left_out(&self) -> Duration {
        self.left_out
    }

    /// Nanoseconds that a fiber runs between two scheduling points, estimated.
    pub(crate) fn average(&self) -> u64 {
        self.average.average()
    }

    #[cfg(test)]
    pub(crate) fn injector_is_due(&mut self) {
        self.due();
        self.until_injector = 0;
        self.rearm();
    }

    #[cfg(test)]
    pub(crate) fn interval(&self) -> u32 {
        self.interval
    }

    /// When the current dispatches began: the time to within a tick, without a look at the clock.
    pub(crate) fn began(&self) -> Moment {
        self.began
    }
}
