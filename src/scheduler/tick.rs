//! How long a worker goes on before it looks around: the tick, and the interval of the injector.
//!
//! A tick is 128 dispatches, then sockets, timers and estimates get their turn. Within a tick the
//! injector is looked at every `interval` dispatches, which the estimate of a fiber's run time keeps
//! near one look per millisecond. An estimate says nothing about the next fiber: so every
//! [`GLANCE_PERIOD`], as far as it tells, and at least every 32 dispatches the worker glances, without
//! leaving the fast path, whether anything waits in injector or mailbox, and if so at the clock, which then
//! holds the millisecond.
//!
//! A millisecond is long for whoever was woken by a plain thread. Where few are in the ring the clock makes
//! an *early* look due, a [`PERIOD`] after the one before: it takes one fiber. So those who come one by one
//! wait for a glance only, and a flood from outside gets hardly more than its share of each millisecond.
//!
//! Where fibers run for long, 128 of them are too many for those who wait for a socket or a timer. There each glance is
//! at the clock, which ends the tick after the same periods. The estimate may be of others, who ran before: so each
//! glance takes a stamp too, and where the dispatches since the last one were long, twice in a row or very long, the
//! next one comes after the next dispatch, at the clock. Where many are in the ring, what a look brings makes it longer
//! still, and one that is full sends its older half to the injector, behind all that came later.

use super::worth::FLOWING;
use crate::primitives::clock::{Moment, in_stamps};
use crate::util::ewma::{RunTime, injector_interval};
use std::mem;
use std::time::Duration;

/// Dispatches in one tick.
pub(crate) const DISPATCHES: u32 = 128;
/// For so many counts one in which a fiber uses up its budget, by operations without a wait: that takes ten
/// microseconds or more, 128 of which are long for a socket, and the estimate hardly sees a few among many.
const USED_UP: u32 = 8;
/// At most so many dispatches lie between two glances.
const GLANCE: u32 = 32;
/// About so long, where fibers run for longer than a 32nd of it. A glance takes a thousandth.
const GLANCE_PERIOD: Duration = Duration::from_micros(10);
/// How long those wait, by the clock, for whom the worker must look around, while its own queue is short. A
/// turn of the driver takes a hundredth of it.
const PERIOD: Duration = Duration::from_micros(100);
/// The same with a long queue; and about how often the injector is looked at, whether anything waits or not.
const LONG_PERIOD: Duration = Duration::from_millis(1);
/// Nanoseconds between two scheduling points, from which on that is long. With fewer a ring is empty soon, and
/// the worker comes to the driver by itself. One that has looked before goes on and on; where processors are
/// contended for it loses its own to others in the end, and who stands in its ring waits: 5 us each, over 100
/// connections, the slowest hundredth waited for 4.4 ms instead of 1.6 (measured).
const LONG: u64 = 16_000;
/// The same in stamps.
const LONG_BY_STAMPS: u64 = in_stamps(Duration::from_nanos(LONG));
/// Between two glances the system does not put a worker aside for so long: less is believed the second time in a row,
/// or a server that has more to do than it can would come to its sockets early for nothing.
const VERY_LONG: u64 = in_stamps(Duration::from_millis(20));

#[derive(Debug)]
pub(crate) struct Tick {
    /// Dispatches until the next glance; of how many.
    until_glance: u32,
    armed: u32,
    until_tick: u32,
    until_injector: u32,
    /// Dispatches until the clock may have to be looked at, and from one such look to the next.
    until_look: u32,
    look: u32,
    interval: u32,
    /// The interval is set, not estimated.
    fixed: bool,
    average: RunTime,
    /// It is short; also before there is one.
    flows: bool,
    /// When the injector was looked at last because that was due.
    looked: Moment,
    /// The same, or when an early look was.
    looked_early: Moment,
    /// An early look is due.
    early: bool,
    /// When the dispatches that are being counted began.
    began: Moment,
    /// When sockets and timers had their turn, or the worker slept.
    turned: Moment,
    /// Of the time since then, what was no fiber's.
    left_out: Duration,
    dispatched: u32,
    /// The stamp of the last look; and how many have been dispatched since.
    stamped: u64,
    since: u32,
    /// Those between the last two looks ran for long, whatever is estimated.
    ran_long: bool,
    /// They took long.
    took_long: bool,
}

/// What a glance sees of the queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queues {
    /// Something stands in injector or mailbox.
    pub(crate) waiting: bool,
    /// The ring has room for what a turn of the driver brings, and more.
    pub(crate) short: bool,
}

/// What is due when the fast path ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) tick: bool,
    pub(crate) injector: bool,
    /// One of those who wait.
    pub(crate) early: bool,
}

/// How many dispatches to let pass between two looks around, where fibers run for `average` nanoseconds.
fn look_interval(average: u64) -> u32 {
    let dispatches = GLANCE_PERIOD.as_nanos() as u64 / average.max(1);
    dispatches.clamp(1, GLANCE.into()) as u32
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
            until_look: look_interval(average.average()),
            look: look_interval(average.average()),
            interval,
            fixed: every.is_some(),
            average,
            flows: true,
            looked: now,
            looked_early: now,
            early: false,
            began: now,
            turned: now,
            left_out: Duration::ZERO,
            dispatched: 0,
            stamped: 0,
            since: 0,
            ran_long: false,
            took_long: false,
        };
        tick.rearm();
        tick
    }

    fn rearm(&mut self) {
        self.armed = self.until_tick.min(self.until_injector).min(self.until_look);
        self.until_glance = self.armed;
    }

    /// Books the dispatches since the last time.
    fn book(&mut self) {
        let done = self.armed - self.until_glance;
        self.dispatched += done;
        self.since += done;
        self.until_tick -= done;
        self.until_injector -= done;
        self.until_look -= done;
        self.rearm();
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

    /// Counts one dispatch; `false` if something is due first.
    #[cold]
    pub(crate) fn glance(
        &mut self,
        queues: impl FnOnce() -> Queues,
        stamp: impl FnOnce() -> u64,
        now: impl FnOnce() -> Moment,
    ) -> bool {
        self.look(queues, stamp, now);
        self.until_tick != 0 && self.until_injector != 0 && !self.early && self.dispatch()
    }

    /// The next dispatch comes to [`glance`](Self::glance) first.
    pub(crate) fn glance_next(&mut self) {
        self.book();
        (self.armed, self.until_glance) = (0, 0);
    }

    /// Looks at queues and clock, if it is time for that. The clock is read where fibers run for long, and if
    /// something waits.
    pub(crate) fn look(
        &mut self,
        queues: impl FnOnce() -> Queues,
        stamp: impl FnOnce() -> u64,
        now: impl FnOnce() -> Moment,
    ) {
        self.book();
        if self.until_look != 0 {
            return;
        }
        self.stamp(stamp());
        self.until_look = self.next_look();
        let queues = queues();
        let waiting = queues.waiting && !self.fixed;
        let long = self.ran_long || self.runs_long();
        if waiting || long {
            let now = now();
            let period = if queues.short { PERIOD } else { LONG_PERIOD };
            if long && now.since(self.turned) >= period {
                self.until_tick = 0;
            }
            if waiting && now.since(self.looked) >= LONG_PERIOD {
                self.until_injector = 0;
            }
            self.early = waiting && queues.short && now.since(self.looked_early) >= PERIOD;
        }
        self.rearm();
    }

    /// Judges the dispatches since the last look.
    fn stamp(&mut self, stamp: u64) {
        if self.since != 0 {
            let took = stamp.wrapping_sub(self.stamped);
            let took_long = took >= LONG_BY_STAMPS * u64::from(self.since);
            let had_taken_long = mem::replace(&mut self.took_long, took_long);
            self.ran_long = took_long && (had_taken_long || took >= VERY_LONG);
        }
        (self.stamped, self.since) = (stamp, 0);
    }

    /// Dispatches until the next look.
    fn next_look(&self) -> u32 {
        if self.ran_long { 1 } else { self.look }
    }

    /// Sends the worker to its own stack before the next dispatch.
    pub(crate) fn cut_short(&mut self) {
        self.due();
        self.until_tick = 0;
        self.rearm();
    }

    /// The running fiber has used up its budget.
    pub(crate) fn budget_used_up(&mut self) {
        let glances_next = self.armed == 0;
        self.book();
        self.until_tick = self.until_tick.saturating_sub(USED_UP - 1);
        self.until_look = self.until_look.saturating_sub(USED_UP - 1);
        self.rearm();
        if glances_next {
            self.glance_next();
        }
    }

    /// What is due.
    pub(crate) fn due(&mut self) -> Due {
        self.book();
        let (tick, injector) = (self.until_tick == 0, self.until_injector == 0);
        Due { tick, injector, early: self.early && !injector }
    }

    /// The injector is looked at. Before the next time one from the worker's own queues runs at least.
    pub(crate) fn injector_looked(&mut self, now: Moment) {
        self.looked = now;
        self.until_injector = self.interval;
        self.looked_early(now);
    }

    /// One of those who wait is taken.
    pub(crate) fn looked_early(&mut self, now: Moment) {
        self.looked_early = now;
        self.early = false;
        self.until_look = self.next_look();
        self.rearm();
    }

    /// Have sockets and timers waited, as of the last look at the injector, for so long that the tick should end now?
    pub(crate) fn is_long(&self) -> bool {
        self.looked.since(self.turned) >= LONG_PERIOD
    }

    /// The tick is over, or the worker ran out of work: updates the estimate.
    pub(crate) fn finish(&mut self, now: Moment) {
        self.due();
        if self.dispatched > 0 {
            let ran = now.since(self.began).saturating_sub(self.left_out);
            self.average.record(ran.as_nanos() as u64, self.dispatched);
            self.flows = self.average.average() < FLOWING;
            self.look = look_interval(self.average.average());
            if !self.fixed {
                self.interval = injector_interval(self.average.average());
            }
        }
        self.until_tick = DISPATCHES;
        self.until_look = self.next_look();
        self.until_injector = self.until_injector.min(self.interval);
        self.rearm();
    }

    /// Dispatches count from `now` on, and that stamp; what lay before was polling or sleep.
    pub(crate) fn begin(&mut self, now: Moment, stamp: u64) {
        self.turned = now;
        self.begin_elsewhere(now, stamp);
    }

    /// As [`begin`](Self::begin), with a core that the worker has just got: nobody may have looked at sockets and
    /// timers meanwhile. Where cores change hands every few dispatches, no tick would ever be over.
    pub(crate) fn begin_elsewhere(&mut self, now: Moment, stamp: u64) {
        self.began = now;
        self.left_out = Duration::ZERO;
        self.dispatched = 0;
        (self.stamped, self.since) = (stamp, 0);
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

    /// Does the worker go on from fiber to fiber within microseconds, as far as the estimate tells?
    #[inline(always)]
    pub(crate) fn flows(&self) -> bool {
        self.flows
    }

    /// For a tick it is taken for one that does not, whatever is estimated.
    pub(crate) fn does_not_flow(&mut self) {
        self.flows = false;
    }

    /// Do fibers run for so long that others should not wait behind them?
    pub(crate) fn runs_long(&self) -> bool {
        self.average.average() >= LONG
    }

    #[cfg(test)]
    pub(crate) fn early_look_is_due(&mut self) {
        self.early = true;
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
