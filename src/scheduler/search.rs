//! Where a worker looks for the next fiber, in order.

use super::core::Core;
use super::lifo_rest::{LIFO_RUNS, RESTED, SOME};
use super::locked_queue;
use super::ring;
use super::tick::{Due, Queues};
use super::worker::Worker;
use crate::fiber::{Batch, FiberPtr};
use crate::primitives::clock::{Moment, stamp};
use crate::primitives::sync::atomic::Ordering;
use std::array;

/// The least that one look at the injector takes; the most is what the queue gives at once.
const BATCH_LEAST: usize = 4;
/// So many in the ring are few.
const SHORT: usize = ring::CAPACITY / 4;
/// How many settled fibers are looked up at once.
const AT_ONCE: usize = 16;

impl Worker<'_> {
    /// The next fiber, from wherever there is one; `None` means that it is time to park.
    pub(super) fn find(&self) -> Option<FiberPtr> {
        if self.has_only_its_mail() {
            return self.find_own();
        }
        let due = self.due();
        let mut found = None;
        self.book_looks(due);
        if due.tick || due.injector && self.own().tick.is_long() {
            self.maintain(!(due.injector && self.queues().waiting));
        }
        if due.injector {
            found = self.take_what_waits();
        } else if due.early {
            found = self.take_one_who_waits();
        }
        let found = found
            .or_else(|| self.next_local())
            .or_else(|| self.take_from_mailbox())
            .or_else(|| self.take_unless_left())
            .or_else(|| self.search());
        if found.is_some() {
            self.found_work();
        }
        found.filter(|fiber| !self.is_given_back(*fiber))
    }

    /// The thread of a current-thread runtime may have come back since its helper began to look around. What it
    /// enqueues from then on is its own to run: the helper sees by now that it is there, since it has seen that.
    #[inline]
    pub(super) fn is_given_back(&self, fiber: FiberPtr) -> bool {
        let given = self.shared.crew.is_helper(self.held().index)
            && self.shared.may_move(fiber)
            && self.has_only_its_mail();
        if given {
            self.flush();
            self.shared.push_to_injector(fiber);
        }
        given
    }

    /// A helper of a current-thread runtime whose thread is back: what cannot leave the helper is all
    /// that it may run. While the thread blocks, helpers run everything, however many they are.
    #[inline]
    pub(super) fn has_only_its_mail(&self) -> bool {
        let crew = &self.shared.crew;
        crew.is_helper(self.held().index) && crew.is_crowded() && !self.shared.kept_is_blocked()
    }

    #[cold]
    fn find_own(&self) -> Option<FiberPtr> {
        let due = self.due();
        self.book_looks(due);
        if due.tick || due.injector && self.own().tick.is_long() {
            self.maintain(false);
        }
        let mail = if due.injector || due.early { self.take_from_mailbox() } else { None };
        let found = mail.or_else(|| self.next_local()).or_else(|| self.take_from_mailbox());
        if found.is_some() {
            self.found_work();
        }
        found
    }

    fn next_local(&self) -> Option<FiberPtr> {
        let core = self.held();
        core.gate.enter();
        let fiber = self.next_from_own_queues(core);
        core.gate.exit();
        fiber
    }

    /// From LIFO slot or ring, while nothing else is due. Called inside the gate, also on fibers'
    /// stacks. `core` is this worker's.
    #[inline]
    pub(super) fn next_from_own_queues(&self, core: &Core) -> Option<FiberPtr> {
        if !self.may_dispatch(core) || core.gate.is_stalled() {
            return None;
        }
        let own = self.own_in(core);
        if own.lifo_run.count < LIFO_RUNS {
            if let Some(fiber) = core.slot.take() {
                own.lifo_run.count += 1;
                core.stats.lifo_hits.add(1);
                return Some(fiber);
            }
            own.lifo_run.count = 0;
            core.ring.pop()
        } else {
            self.next_after_lifo_run(core)
        }
    }

    /// Three from the slot have run, or those of the ring have their turns after that.
    #[cold]
    fn next_after_lifo_run(&self, core: &Core) -> Option<FiberPtr> {
        let count = &mut self.own_in(core).lifo_run.count;
        if core.slot.is_empty() {
            *count = 0;
            return core.ring.pop();
        }
        match *count {
            LIFO_RUNS => self.end_lifo_run(core),
            RESTED => self.end_lifo_rest(core),
            // Another one has come to its place.
            _ if !core.slot.is_urgent() => self.end_lifo_rest(core),
            _ => {
                *count -= 1;
                self.next_of_lifo_rest(core)
            }
        }
    }

    /// The one in the slot would be the fourth.
    fn end_lifo_run(&self, core: &Core) -> Option<FiberPtr> {
        let run = &mut self.own_in(core).lifo_run;
        run.count = 0;
        // With nobody in the ring it would be the next again, after another worker was woken for it.
        if core.ring.is_empty() {
            return core.slot.take();
        }
        let dispatched = core.stats.dispatched.get();
        if run.may_go_on(dispatched) {
            core.stats.lifo_extended.add(1);
            return core.slot.take();
        }
        core.stats.lifo_flushes.add(1);
        if core.slot.is_urgent() && run.rest.begin(dispatched, core.ring.len()) {
            run.count = RESTED + SOME - 1;
            return self.next_of_lifo_rest(core);
        }
        core.slot.take().into_iter().for_each(|fiber| self.push_back(fiber));
        core.ring.pop()
    }

    fn next_of_lifo_rest(&self, core: &Core) -> Option<FiberPtr> {
        core.ring.pop().or_else(|| self.end_lifo_rest(core))
    }

    fn end_lifo_rest(&self, core: &Core) -> Option<FiberPtr> {
        let run = &mut self.own_in(core).lifo_run;
        run.rest.end(core.stats.dispatched.get());
        run.count = 1;
        core.stats.lifo_hits.add(1);
        core.slot.take()
    }

    /// Counts a dispatch; false if the worker must look around first, on its own stack.
    #[inline(always)]
    pub(super) fn may_dispatch(&self, core: &Core) -> bool {
        self.own_in(core).tick.dispatch() || self.glance()
    }

    #[cold]
    fn glance(&self) -> bool {
        self.note_end_of_share();
        self.own().tick.glance(|| self.queues(), stamp, Moment::now)
    }

    /// What is due, on the worker's own flow: by the clock too, for whoever comes here for each fiber.
    fn due(&self) -> Due {
        self.note_end_of_share();
        self.own().tick.look(|| self.queues(), stamp, Moment::now);
        self.own().tick.due()
    }

    fn book_looks(&self, due: Due) {
        let tick = &mut self.own().tick;
        match due {
            Due { injector: true, .. } => tick.injector_looked(Moment::now()),
            Due { early: true, .. } => tick.looked_early(Moment::now()),
            _ => {}
        }
    }

    fn queues(&self) -> Queues {
        let core = self.held();
        let waiting = !core.mailbox.is_empty()
            || !self.shared.injector.is_empty() && !self.has_only_its_mail();
        Queues { waiting, short: core.ring.len() <= SHORT }
    }

    /// From mailbox and injector, when that is due. They come first in turn: a flood of fibers from
    /// outside must not keep those waiting that only this worker may run. Nor may mail without end
    /// keep the injector waiting, whose batch comes to the ring only: where mail runs in blocking mode
    /// the ring is emptied into the injector each time, and the batch goes round and never runs.
    fn take_what_waits(&self) -> Option<FiberPtr> {
        let own = self.own();
        own.mail_first = !own.mail_first;
        let mail = if own.mail_first { self.take_from_mailbox() } else { None };
        if mail.is_none() {
            return self.take_from_injector().or_else(|| self.take_from_mailbox());
        }
        self.push_all(self.batch_from_injector(self.held().ring.room()));
        mail
    }

    /// One from mailbox or injector, early, in turn.
    fn take_one_who_waits(&self) -> Option<FiberPtr> {
        let own = self.own();
        own.mail_first = !own.mail_first;
        let (mailbox, injector) = (&self.held().mailbox, &self.shared.injector);
        let given = self.is_given_something();
        let one = match own.mail_first {
            true => mailbox.pop().or_else(|| injector.pop()),
            false => injector.pop().or_else(|| mailbox.pop()),
        };
        self.was_given(given && one.is_some());
        one
    }

    fn take_from_mailbox(&self) -> Option<FiberPtr> {
        let mail = self.held().mailbox.pop();
        self.was_given(mail.is_some() && self.shared.moves_freely);
        mail
    }

    /// Does anything stand in the injector, or in this worker's mailbox, that comes from outside, as far as can be
    /// told?
    pub(super) fn is_given_something(&self) -> bool {
        self.shared.is_injected() || self.shared.has_mail_for_all(self.held())
    }

    fn was_given(&self, something: bool) {
        if something {
            self.own().follow_ups.expect();
        }
    }

    /// Takes a batch: the first to run, the others into the ring.
    pub(super) fn take_from_injector(&self) -> Option<FiberPtr> {
        let mut batch = self.batch_from_injector(self.held().ring.room() + 1);
        let first = batch.pop()?;
        self.push_all(batch);
        Some(first)
    }

    /// From the injector, unless a thief should leave it to another.
    fn take_unless_left(&self) -> Option<FiberPtr> {
        match self.overflow_of_another() {
            Some(core) if self.leaves_overflow_to(core) => None,
            Some(_) => self.steal_overflow(),
            None => self.take_from_injector(),
        }
    }

    /// This worker's share of the injector, but not more than `room`, under one lock.
    fn batch_from_injector(&self, room: usize) -> Batch {
        let injector = &self.shared.injector;
        let len = injector.len();
        if len == 0 || room == 0 {
            return Batch::new();
        }
        let given = self.shared.is_injected();
        let share = (len / self.shared.config.workers).clamp(BATCH_LEAST, locked_queue::MOST);
        let batch = injector.take(share.min(room));
        self.held().stats.batches.add(u64::from(!batch.is_empty()));
        self.was_given(given && !batch.is_empty());
        batch
    }

    /// Puts a batch into the ring and lets others know.
    pub(super) fn push_all(&self, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        for fiber in batch {
            // SAFETY: held by us.
            unsafe { fiber.prefetch() };
            self.push_quietly(fiber);
        }
        self.mark_ring();
        self.shared.notify();
    }

    pub(super) fn search(&self) -> Option<FiberPtr> {
        self.own().spins.forget();
        // A worker that was claimed searches already, and has nowhere to look either.
        if !self.shared.config.stealing || self.shared.cores.len() == 1 {
            return None;
        }
        if !self.searching.get() {
            if !self.shared.idle.begin_search() {
                self.own().steals.forget();
                return None;
            }
            self.searching.set(true);
        }
        self.hold_off();
        self.steal().or_else(|| self.steal_overflow()).or_else(|| {
            self.own().patience.forget();
            self.take_from_injector().or_else(|| self.steal_aged())
        })
    }

    /// A searcher that found work stops being one; the last to do so wakes the next, if there is more.
    pub(super) fn found_work(&self) {
        if self.searching.replace(false)
            && self.shared.idle.end_search()
            && self.shared.needs_another()
        {
            self.shared.notify();
        }
    }

    pub(super) fn stop_searching(&self) {
        self.found_work();
    }

    /// The end of a tick: sockets, timers, estimates, idle memory. It comes by the clock too, so that fibers that
    /// run for long do not keep sockets and timers waiting for 128 of them.
    ///
    /// `runs_first` says that nothing else will be taken before slot and ring.
    pub(super) fn maintain(&self, runs_first: bool) {
        let (core, now) = (self.held(), Moment::now());
        self.end_tick(core, now);
        self.invites(now);
        core.stats.ticks.add(1);
        // Before the sockets: who has an answer should not wait for it.
        if now >= self.own().trim_turn {
            self.trim_in_passing();
        }
        self.look_at_driver(now, runs_first);
        self.own().tick.begin(Moment::now(), stamp());
    }

    /// Sockets and timers, unless somebody sleeps there or looks.
    pub(super) fn look_at_driver(&self, now: Moment, runs_first: bool) {
        let driver = &self.shared.driver;
        let mut settled = Batch::new();
        if let Some(mut role) = driver.try_role() {
            self.held().stats.polls.add(1);
            driver.look(&mut role, now, &mut settled);
        }
        self.take_in(settled, runs_first);
    }

    /// A tick is over, or the worker has run out of work: thieves learn what its fibers take. (A worker that sleeps
    /// every few fibers may never come to the end of a tick.)
    pub(super) fn end_tick(&self, core: &Core, now: Moment) {
        let tick = &mut self.own_in(core).tick;
        tick.finish(now);
        core.pace.store(tick.average(), Ordering::Relaxed);
    }

    /// Enqueues what a turn of the driver in passing has settled, and lets others know if it is not few.
    pub(super) fn take_in(&self, mut settled: Batch, runs_first: bool) {
        let few = self.are_few(settled.len() + self.held().ring.len());
        let first = runs_first && self.run_first(&mut settled);
        // In this order: see `poller_seat`.
        let some = self.push_settled(settled) || first;
        if some && !(few && self.shared.is_poller_seen_to()) {
            self.shared.notify();
        }
    }

    /// Who stands in the ring now was brought here from elsewhere.
    pub(super) fn mark_ring(&self) {
        self.own().brought = self.held().ring.mark();
    }

    /// The one that a turn of the driver settled first runs next: it has waited for this turn, and the
    /// others in the ring may run for long. One in each turn, and three in a row, so it keeps nobody from
    /// running; and not while some stand there that an earlier turn has brought, or a steal, or the injector,
    /// who may have waited longer. Says whether there was one.
    #[must_use]
    fn run_first(&self, settled: &mut Batch) -> bool {
        let (core, own) = (self.held(), self.own());
        let in_turn = own.lifo_run.count < LIFO_RUNS && core.ring.has_passed(own.brought);
        if !in_turn || core.ring.is_empty() || !core.slot.is_empty() {
            return false;
        }
        let first = settled.pop();
        first.into_iter().for_each(|fiber| self.push_woken(fiber));
        first.is_some()
    }

    /// Enqueues what a turn of the driver settled; says whether there was anything. Then the caller
    /// wakes another worker, even for a single fiber, and for one that only this worker may run: whatever it runs
    /// now, and however long, somebody takes its place in the poller. But for few, where the poller is watched.
    #[must_use]
    pub(super) fn push_settled(&self, mut settled: Batch) -> bool {
        let some = !settled.is_empty();
        while !settled.is_empty() {
            // Thousands of sleepers stand on pages that the processor does not know: to look several
            // up at once takes hardly longer than one.
            // SAFETY: held by us.
            let find = |fiber: &FiberPtr| unsafe { fiber.prefetch_frames() };
            let next: [_; AT_ONCE] = array::from_fn(|_| settled.pop().inspect(find));
            for fiber in next.into_iter().flatten() {
                // SAFETY: held by us.
                unsafe { fiber.prefetch() };
                if !self.enqueued_elsewhere(fiber) {
                    self.push_quietly(fiber);
                }
            }
        }
        if some {
            self.mark_ring();
        }
        some
    }
}
