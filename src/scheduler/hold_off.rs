//! When a thief holds off.
//!
//! A steal moves fibers, and all that they touch, to another processor: some hundred nanoseconds of
//! misses for each, and then for those they talk to. Fibers that run for a tenth of that between two
//! waits (a pipeline of channels, a lock that is passed round) are done sooner where they are, and since
//! they come back to their queue each time they would be carried to and fro for ever. So a thief first
//! asks what it is after. While a worker *flows*, that is goes on from fiber to fiber in less than
//! [`FLOWING`], and has less than [`PAYS`] queued, the thief looks on, for [`PATIENCE`] at most, and
//! takes what there is then. Meanwhile it counts as searching, so that nobody is woken for what is not
//! worth it, and goes at once for whatever else turns up. (Go waits for 3 us before it takes another's
//! `runnext`, to the same end.)
//!
//! What is carried to and fro runs more slowly, by the misses that this costs, and might not flow any more for that
//! very reason: then a thief would take it at once, each time. So a thief that has robbed a worker *in vain*, of what
//! kept it busy for less than [`SHORT`], looks on at that worker whether it flows or not. But not where the runtime
//! has sockets, one idle listener say: while it looks on and the other one runs, nobody is in the poller (echo over
//! 100 connections lost a tenth of its rate, measured).
//!
//! What comes of it decides how long the thief looks on next time: if what it took kept it busy for less
//! time than it had looked on, it was not worth it, and its patience doubles, up to [`MOST`]; else it
//! begins anew. So fibers that talk to each other all the time are carried away three thousand times a second at
//! most, and those that do not, once.
//!
//! The estimate of the past says nothing about the fiber that runs now. So a worker that has not gone on
//! for [`STANDS`], because its fiber runs longer than others or its thread has no processor, is robbed, if it is
//! the one that is looked at; the others are by what their queues are worth. A fiber
//! that uses its budget up, in 128 operations on a channel, takes some 5 us.

use super::core::Core;
use super::worker::Worker;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use std::time::Duration;

/// Nanoseconds for a fiber between two scheduling points, below which a worker flows. What talks to the
/// system takes longer.
pub(super) const FLOWING: u64 = 3_000;
/// Nanoseconds of work in a queue that are worth a steal in any case.
pub(super) const PAYS: u64 = 20_000;
const STANDS: Duration = Duration::from_micros(10);
/// A steal that keeps the thief busy for so long was not in vain, whatever it took.
const SHORT: Duration = Duration::from_micros(10);
const PATIENCE: Duration = Duration::from_micros(20);
const MOST: Duration = Duration::from_micros(320);
/// `spin_loop`s between two looks: some hundred nanoseconds.
const SPINS: u32 = 32;

/// How long a worker looks on before it steals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    now: Duration,
    /// When it came to its end, and the worker stole.
    ended: Option<Moment>,
    /// When it stole last, and from whom.
    stole: Moment,
    from: usize,
}

impl Patience {
    pub(super) fn new() -> Patience {
        Patience { now: PATIENCE, ended: None, stole: Moment::PAST, from: 0 }
    }

    /// The worker has stolen something from core `from`.
    pub(super) fn stole(&mut self, now: Moment, from: usize) {
        (self.stole, self.from) = (now, from);
    }

    /// It searches again: the core that it has just robbed of what was not worth it.
    pub(super) fn robbed_in_vain(&self, now: Moment) -> Option<usize> {
        (now.since(self.stole) < SHORT).then_some(self.from)
    }

    /// The worker searches again; returns how long it looks on.
    pub(super) fn again(&mut self, now: Moment) -> Duration {
        if let Some(ended) = self.ended.take() {
            let paid = now.since(ended) >= self.now;
            self.now = if paid { PATIENCE } else { MOST.min(2 * self.now) };
        }
        self.now
    }

    /// It has looked on for so long.
    pub(super) fn ends(&mut self, now: Moment) {
        self.ended = Some(now);
    }

    /// There was nothing to steal: that says nothing.
    pub(super) fn forget(&mut self) {
        self.ended = None;
    }

    #[cfg(test)]
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }
}

/// A look at one worker that flows.
#[derive(Debug)]
pub(super) struct Look {
    began: Moment,
    patience: Duration,
    /// When it was seen to go on, and how far it was then.
    moved: Moment,
    dispatched: u64,
}

impl Look {
    pub(super) fn new(now: Moment, patience: Duration, dispatched: u64) -> Look {
        Look { began: now, patience, moved: now, dispatched }
    }

    /// Is it still better left alone? `dispatched` is how far it is.
    pub(super) fn goes_on(&mut self, now: Moment, dispatched: u64) -> bool {
        if dispatched != self.dispatched {
            (self.moved, self.dispatched) = (now, dispatched);
        }
        now.since(self.moved) < STANDS && !self.is_over(now)
    }

    fn is_over(&self, now: Moment) -> bool {
        now.since(self.began) >= self.patience
    }
}

impl Core {
    /// Do its fibers talk to each other, as far as a thief knows? One that has robbed it `in_vain` thinks so.
    fn flows(&self, in_vain: bool) -> bool {
        in_vain || self.pace.load(Ordering::Relaxed) < FLOWING
    }

    /// Is there something in the ring that a thief should take at once?
    pub(super) fn pays(&self, in_vain: bool) -> bool {
        let queued = self.ring.len() as u64;
        let pace = self.pace.load(Ordering::Relaxed);
        queued != 0 && (queued * pace >= PAYS || !self.flows(in_vain))
    }
}

impl Worker<'_> {
    /// Returns when it is time to steal. One thief at a time holds off: where more are free, there is
    /// more to do than one worker does.
    pub(super) fn hold_off(&self) {
        let start = Moment::now();
        let robbed = self.own().patience.robbed_in_vain(start);
        let robbed = robbed.filter(|_| !self.shared.driver.has_sources());
        let Some(victim) = self.whom_to_leave_alone(robbed) else { return };
        let in_vain = robbed == Some(victim.index);
        if self.shared.holding_off.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut now = start;
        let patience = self.own().patience.again(now);
        let mut look = Look::new(now, patience, victim.stats.dispatched.get());
        while look.goes_on(now, victim.stats.dispatched.get())
            && !self.has_better_to_do(victim, in_vain)
            && !self.shared.idle.is_parked(victim.index)
        {
            (0..SPINS).for_each(|_| std::hint::spin_loop());
            now = Moment::now();
        }
        self.shared.holding_off.store(false, Ordering::Relaxed);
        if look.is_over(now) {
            self.own().patience.ends(now);
        }
        self.own().tick.leave_out(now.since(start));
    }

    fn others(&self) -> impl Iterator<Item = &Core> {
        let me = self.held().index;
        self.shared.cores.iter().filter(move |core| core.index != me)
    }

    /// A worker that flows; first the one that this thief has `robbed` in vain, which it would rob again.
    pub(super) fn whom_to_leave_alone(&self, robbed: Option<usize>) -> Option<&Core> {
        let left_alone = |core: &&Core| {
            let flows = core.flows(robbed == Some(core.index));
            flows && core.is_open() && !self.shared.idle.is_parked(core.index)
        };
        let robbed = self.others().find(|core| robbed == Some(core.index)).filter(left_alone);
        robbed.or_else(|| self.others().find(left_alone))
    }

    /// Than to look on at `victim`, which it may have robbed `in_vain`: only of that one it knows whether it goes on.
    pub(super) fn has_better_to_do(&self, victim: &Core, in_vain: bool) -> bool {
        let shared = self.shared;
        let pays = |core: &Core| core.pays(in_vain && core.index == victim.index);
        self.others().any(|core| pays(core) || shared.has_mail_for_all(core))
            || !shared.injector.is_empty()
            || !self.held().mailbox.is_empty()
            || shared.is_stopping()
    }
}
