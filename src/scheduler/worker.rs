//! A worker: the thread side of a core, and the loop on its own stack.
//!
//! What runs here and not on a fiber's stack: search, the driver's turn, timers, slab growth, hooks.

use super::core::{Core, Own};
use super::idle::Left;
use super::shared::Shared;
use super::switch::Post;
use crate::context::{self, Context};
use crate::driver::Role;
use crate::fiber::{self, Batch, FiberPtr, Seat};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use crate::primitives::thread;
use crate::stack::{self, AltStack};
use std::cell::{Cell, UnsafeCell};

/// The head of what the thread's seat points to, while the thread runs fibers.
#[repr(C)]
pub(crate) struct Worker<'a> {
    /// First, so that a seat is a worker.
    pub(super) seat: Seat,
    pub(super) core: &'a Core,
    pub(super) shared: &'a Shared,
    /// The worker's own flow, while a fiber runs.
    pub(super) context: UnsafeCell<Context>,
    /// What whoever runs next must do first.
    pub(super) post: Cell<Post>,
    /// A fresh fiber for which no stack was at hand.
    pub(super) fresh: Cell<Option<FiberPtr>>,
    searching: Cell<bool>,
    /// No sleep is longer.
    deadline: Moment,
}

/// Takes the seat of a thread, and gives it back.
struct Seated(*const Seat);

impl Drop for Seated {
    fn drop(&mut self) {
        fiber::set_seat(self.0);
    }
}

impl Worker<'_> {
    /// The worker that the calling thread is, or null.
    ///
    /// Valid until the calling fiber's next switch.
    #[inline(always)]
    pub(super) fn current<'w>() -> *const Worker<'w> {
        fiber::seat().cast()
    }
}

/// Runs fibers on the calling thread as worker `index`, until `done` says so or the scheduler
/// stops. `done` is asked on the worker's own stack, between fibers, and once at `deadline`.
pub(crate) fn run(shared: &Shared, index: usize, deadline: Moment, done: &dyn Fn() -> bool) {
    // Without one, an overflow is a plain crash: no reason not to run.
    let _alternate = AltStack::ensure();
    let core = &shared.cores[index];
    core.parker.set_thread();
    let worker = Worker {
        seat: Seat::new(),
        core,
        shared,
        context: UnsafeCell::new(Context::thread()),
        post: Cell::new(Post::None),
        fresh: Cell::new(None),
        searching: Cell::new(false),
        deadline,
    };
    let _seated = Seated(fiber::set_seat(&raw const worker.seat));
    worker.own().tick.begin(Moment::now());
    worker.work(done);
}

impl Worker<'_> {
    /// The owner's part of the core.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "see `Core::own`")]
    pub(super) fn own(&self) -> &mut Own {
        // SAFETY: this worker holds the core; callers use the reference within one expression or a
        // few lines without calls back into the worker.
        unsafe { self.core.own() }
    }

    fn work(&self, done: &dyn Fn() -> bool) {
        loop {
            if let Some(fiber) = self.fresh.take() {
                self.start(fiber);
            } else if done() || self.shared.is_stopping() {
                self.stop_searching();
                return;
            } else if let Some(fiber) = self.next() {
                self.resume(fiber);
            } else {
                self.park();
            }
        }
    }

    /// The next fiber, from wherever there is one; `None` means that it is time to park.
    fn next(&self) -> Option<FiberPtr> {
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

    /// From LIFO slot or ring, while nothing else is due. Also called on fibers' stacks.
    #[inline]
    pub(super) fn next_local(&self) -> Option<FiberPtr> {
        let own = self.own();
        if !own.tick.dispatch() {
            return None;
        }
        if own.lifo_run < super::LIFO_RUNS {
            if let Some(fiber) = self.core.slot.take() {
                own.lifo_run += 1;
                self.core.stats.lifo_hits.add(1);
                return Some(fiber);
            }
        } else if let Some(fiber) = self.core.slot.take() {
            self.core.stats.lifo_flushes.add(1);
            self.push_back(fiber);
        }
        self.own().lifo_run = 0;
        self.core.ring.pop()
    }

    fn take_from_mailbox(&self) -> Option<FiberPtr> {
        self.core.mailbox.take(1).pop()
    }

    /// Takes a batch under one lock: the first to run, the others into the ring.
    fn take_from_injector(&self) -> Option<FiberPtr> {
        let injector = &self.shared.injector;
        let len = injector.len();
        if len == 0 {
            return None;
        }
        let share = (len / self.shared.cores.len()).clamp(4, 64);
        let mut batch = injector.take(share.min(self.core.ring.room() + 1));
        let first = batch.pop()?;
        self.core.stats.batches.add(1);
        self.push_all(batch);
        Some(first)
    }

    /// The thread is about to block with a fiber on it: what stands in this worker's own queues goes
    /// where others find it.
    #[cold]
    pub(super) fn flush_to_injector(&self) {
        let mut batch = Batch::new();
        if let Some(fiber) = self.core.slot.take() {
            batch.push(fiber);
        }
        while let Some(fiber) = self.core.ring.pop() {
            batch.push(fiber);
        }
        if !batch.is_empty() {
            self.shared.injector.push_batch(batch);
            self.shared.notify();
        }
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
        if !self.searching.get() {
            if self.shared.cores.len() == 1 || !self.shared.idle.begin_search() {
                return None;
            }
            self.searching.set(true);
        }
        self.steal().or_else(|| self.take_from_injector())
    }

    /// A searcher that found work stops being one; the last to do so wakes the next.
    fn found_work(&self) {
        if self.searching.replace(false) && self.shared.idle.end_search() {
            self.shared.notify();
        }
    }

    fn stop_searching(&self) {
        self.found_work();
    }

    /// The end of a tick: sockets, timers, estimates.
    fn maintain(&self) {
        let now = Moment::now();
        self.own().tick.finish(now);
        self.core.stats.ticks.add(1);
        let mut settled = Batch::new();
        if let Some(mut role) = self.shared.driver.try_role() {
            self.core.stats.polls.add(1);
            self.shared.driver.look(&mut role, now, &mut settled);
        }
        self.push_settled(settled);
        self.own().tick.begin(Moment::now());
    }

    /// Enqueues what a turn of the driver settled. Another worker is woken even for a single fiber:
    /// whatever this worker runs now, and however long, somebody takes its place in the poller.
    fn push_settled(&self, settled: Batch) {
        let mut mine = Batch::new();
        for fiber in settled {
            if !self.send_home(fiber) {
                mine.push(fiber);
            }
        }
        self.push_all(mine);
    }

    fn park(&self) {
        let now = Moment::now();
        self.own().tick.finish(now);
        let index = self.core.index;
        self.shared.idle.park(index, self.searching.replace(false));
        if self.shared.has_work_for(self.core) || self.shared.is_stopping() {
            self.leave_bed(true);
        } else {
            self.core.stats.parked.add(1);
            self.sleep(now);
            self.leave_bed(false);
        }
        self.own().tick.begin(Moment::now());
    }

    /// Awake again. A claimed worker counts as searching already; one that saw work in its last look
    /// searches for it whatever the limit says.
    fn leave_bed(&self, saw_work: bool) {
        let searching = match self.shared.idle.unpark(self.core.index) {
            Left::Claimed => true,
            Left::ByItself if saw_work => {
                self.shared.idle.begin_search_now();
                true
            }
            Left::ByItself => false,
        };
        self.searching.set(searching);
    }

    /// In the poller if nobody else is there, on the thread otherwise.
    fn sleep(&self, now: Moment) {
        let parker = &self.core.parker;
        self.trim_stacks(now);
        let Some(mut role) = self.role_to_sleep_in() else {
            return parker.sleep_on_thread(None);
        };
        let mut settled = Batch::new();
        self.shared.in_poller.store(self.core.index + 1, Ordering::Relaxed);
        parker.sleep_in_poller(|| {
            let until = || self.shared.next_trim().min(self.deadline);
            self.core.stats.polls.add(1);
            self.shared.driver.wait(&mut role, now, until, &mut settled);
        });
        self.shared.in_poller.store(0, Ordering::Relaxed);
        drop(role);
        self.push_settled(settled);
        self.shared.wake_for_trim(self.core.index);
    }

    /// The role, unless somebody sleeps in it. A busy worker that holds it for a look will let go in
    /// a moment; sleeping elsewhere then would leave the poller to nobody.
    fn role_to_sleep_in(&self) -> Option<Role<'_>> {
        loop {
            if let Some(role) = self.shared.driver.try_role() {
                return Some(role);
            }
            if self.shared.in_poller.load(Ordering::Relaxed) != 0 {
                return None;
            }
            thread::yield_now();
        }
    }

    /// Gives back the memory of stacks that have been idle for long, when that is due; says when to
    /// come again.
    fn trim_stacks(&self, now: Moment) {
        let before = Moment::from_nanos(self.core.trim_due.load(Ordering::Relaxed));
        let age = self.shared.config.stack_age;
        let own = self.own();
        let due = if before <= now {
            own.stacks_changed = false;
            let here = own.stacks.trim(now, age);
            here.into_iter().chain(stack::trim(now, age)).min().unwrap_or(Moment::NEVER)
        } else if before == Moment::NEVER && std::mem::take(&mut own.stacks_changed) {
            now.saturating_add(age)
        } else {
            return;
        };
        self.core.trim_due.store(due.as_nanos(), Ordering::Relaxed);
        if due != Moment::NEVER {
            self.shared.driver.earlier_deadline(due);
        }
    }

    /// Continues `fiber` from the worker's own stack, or starts it.
    fn resume(&self, fiber: FiberPtr) {
        // SAFETY: this worker took the fiber from a queue, so it holds it.
        if unsafe { fiber.stack() }.is_none() {
            self.start(fiber);
        } else {
            self.switch_to(fiber);
        }
    }

    /// Gives a fresh fiber a stack, mapping one if need be, and runs it. Where there is none, the
    /// fiber's join gets the error.
    fn start(&self, fiber: FiberPtr) {
        let stacks = &mut self.own().stacks;
        let stack = if fiber.sampled {
            stacks.allocate_trimmed(fiber.size)
        } else {
            stacks.allocate(fiber.size)
        };
        if !fiber.state().start() {
            return;
        }
        match stack {
            Ok(stack) => {
                self.attach(fiber, stack);
                self.switch_to(fiber);
            }
            Err(error) => self.fail(fiber, Box::new(error)),
        }
    }

    /// Ends a fiber that cannot run.
    fn fail(&self, fiber: FiberPtr, payload: Box<dyn std::any::Any + Send>) {
        // SAFETY: started by the caller, not run.
        let wake = unsafe { fiber::fail(fiber, payload) };
        self.after_end(wake);
    }

    fn switch_to(&self, fiber: FiberPtr) {
        self.core.stats.dispatched.add(1);
        self.seat.set_current(Some(fiber));
        let word = self as *const Self as usize;
        // SAFETY: the fiber is held by this worker, its context was stored when it parked or was
        // attached; our own flow is stored in `context`, which stays in place.
        let word = unsafe {
            let to = fiber.context.with(|context| *context);
            context::hooks::before_switch();
            context::switch(self.context.get(), to, word)
        };
        debug_assert_eq!(word, self as *const Self as usize, "a worker's flow changed its thread");
        context::hooks::after_switch();
        self.run_post();
    }
}
