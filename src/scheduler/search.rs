//! Where a worker looks for the next fiber, in order.

use super::worker::Worker;
use crate::fiber::{Batch, FiberPtr};
use crate::primitives::clock::Moment;

/// The least and the most that one look at the injector takes.
const BATCH_LEAST: usize = 4;
const BATCH_MOST: usize = 64;

impl Worker<'_> {
    /// The next fiber, from wherever there is one; `None` means that it is time to park.
    pub(super) fn find(&self) -> Option<FiberPtr> {
        let due = self.own().tick.due();
        if due.tick {
            self.maintain();
        }
        let mut found = None;
        if due.injector {
            self.own().tick.injector_looked();
            found = self.take_from_injector().or_else(|| self.take_from_mailbox());
        }
        let found = found
            .or_else(|| self.next_local())
            .or_else(|| self.take_from_mailbox())
            .or_else(|| self.take_from_injector())
            .or_else(|| self.search());
        if found.is_some() {
            self.found_work();
        }
        found
    }

    fn next_local(&self) -> Option<FiberPtr> {
        let core = self.held();
        core.gate.enter();
        let fiber = self.next_from_own_queues();
        core.gate.exit();
        fiber
    }

    /// From LIFO slot or ring, while nothing else is due. Called inside the gate, also on fibers'
    /// stacks.
    #[inline]
    pub(super) fn next_from_own_queues(&self) -> Option<FiberPtr> {
        let (core, own) = (self.held(), self.own());
        if !own.tick.dispatch() || core.gate.is_stalled() {
            return None;
        }
        if own.lifo_run < super::LIFO_RUNS {
            if let Some(fiber) = core.slot.take() {
                own.lifo_run += 1;
                core.stats.lifo_hits.add(1);
                return Some(fiber);
            }
        } else if let Some(fiber) = core.slot.take() {
            core.stats.lifo_flushes.add(1);
            self.push_back(fiber);
        }
        self.own().lifo_run = 0;
        core.ring.pop()
    }

    fn take_from_mailbox(&self) -> Option<FiberPtr> {
        self.held().mailbox.take(1).pop()
    }

    /// Takes a batch under one lock: the first to run, the others into the ring.
    fn take_from_injector(&self) -> Option<FiberPtr> {
        let (core, injector) = (self.held(), &self.shared.injector);
        let len = injector.len();
        if len == 0 {
            return None;
        }
        let share = (len / self.shared.config.workers).clamp(BATCH_LEAST, BATCH_MOST);
        let mut batch = injector.take(share.min(core.ring.room() + 1));
        let first = batch.pop()?;
        core.stats.batches.add(1);
        self.push_all(batch);
        Some(first)
    }

    /// Puts a batch into the ring and lets others know.
    pub(super) fn push_all(&self, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        for fiber in batch {
            self.push_quietly(fiber);
        }
        self.shared.notify();
    }

    fn search(&self) -> Option<FiberPtr> {
        // A worker that was claimed searches already, and has nowhere to look either.
        if !self.shared.config.stealing || self.shared.cores.len() == 1 {
            return None;
        }
        if !self.searching.get() {
            if !self.shared.idle.begin_search() {
                return None;
            }
            self.searching.set(true);
        }
        self.steal().or_else(|| self.take_from_injector())
    }

    /// A searcher that found work stops being one; the last to do so wakes the next.
    pub(super) fn found_work(&self) {
        if self.searching.replace(false) && self.shared.idle.end_search() {
            self.shared.notify();
        }
    }

    pub(super) fn stop_searching(&self) {
        self.found_work();
    }

    /// The end of a tick: sockets, timers, estimates.
    fn maintain(&self) {
        let (core, driver) = (self.held(), &self.shared.driver);
        let now = Moment::now();
        self.own().tick.finish(now);
        core.stats.ticks.add(1);
        let mut settled = Batch::new();
        if let Some(mut role) = driver.try_role() {
            core.stats.polls.add(1);
            driver.look(&mut role, now, &mut settled);
        }
        self.push_settled(settled);
        self.own().tick.begin(Moment::now());
    }

    /// Enqueues what a turn of the driver settled. Another worker is woken even for a single fiber, and
    /// for one that only this worker may run: whatever it runs now, and however long, somebody takes
    /// its place in the poller.
    pub(super) fn push_settled(&self, settled: Batch) {
        if settled.is_empty() {
            return;
        }
        for fiber in settled {
            if !self.enqueued_elsewhere(fiber) {
                self.push_quietly(fiber);
            }
        }
        self.shared.notify();
    }
}
