//! How long a worker goes on before it looks around: the tick, and the interval of the injector.
//!
//! A tick is 128 dispatches, then sockets, timers and estimates get their turn. Within a tick the
//! injector is looked at every `interval` dispatches, which the estimate of a fiber's run time keeps
//! near one look per millisecond.

use crate::primitives::clock::Moment;
use crate::util::ewma::{RunTime, injector_interval};

/// Dispatches in one tick.
pub(crate) const DISPATCHES: u32 = 128;

#[derive(Debug)]
pub(crate) struct Tick {
    /// Dispatches until the worker must leave the fast path; the smaller of the two below.
    until_service: u32,
    until_tick: u32,
    until_injector: u32,
    interval: u32,
    /// The interval is set, not estimated.
    fixed: bool,
    average: RunTime,
    /// When the dispatches that are being counted began.
    began: Moment,
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
            until_service: 0,
            until_tick: DISPATCHES,
            until_injector: interval,
            interval,
            fixed: every.is_some(),
            average,
            began: now,
            dispatched: 0,
        };
        tick.rearm();
        tick
    }

    fn rearm(&mut self) {
        self.until_service = self.until_tick.min(self.until_injector);
    }

    /// Counts one dispatch; `false` if something is due first.
    #[inline(always)]
    pub(crate) fn dispatch(&mut self) -> bool {
        if self.until_service == 0 {
            return false;
        }
        self.until_service -= 1;
        true
    }

    /// Sends the worker to its own stack before the next dispatch.
    pub(crate) fn cut_short(&mut self) {
        self.until_service = 0;
    }

    /// Books the dispatches since the last look and says what is due.
    pub(crate) fn due(&mut self) -> Due {
        let done = self.until_tick.min(self.until_injector) - self.until_service;
        self.dispatched += done;
        self.until_tick -= done;
        self.until_injector -= done;
        self.rearm();
        Due { tick: self.until_tick == 0, injector: self.until_injector == 0 }
    }

    /// The injector was looked at.
    pub(crate) fn injector_looked(&mut self) {
        self.until_injector = self.interval;
        self.rearm();
    }

    /// The tick is over, or the worker ran out of work: updates the estimate.
    pub(crate) fn finish(&mut self, now: Moment) {
        self.due();
        if self.dispatched > 0 {
            self.average.record(now.since(self.began).as_nanos() as u64, self.dispatched);
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
        self.dispatched = 0;
    }

    /// When the current dispatches began: the time to within a tick, without a look at the clock.
    pub(crate) fn began(&self) -> Moment {
        self.began
    }
}
