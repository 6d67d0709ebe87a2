//! Leaving a fiber: choosing who runs next, the direct switch, and the step after it.
//!
//! # Invariants
//!
//! 1. A fiber is published, enqueued, or its stack given back only *after* the switch away from it,
//!    as the first act of whatever runs next. Before that its context is not stored.
//! 2. A fresh fiber's stack is at hand before the running fiber leaves.
//! 3. After a switch nothing is used that was read from the worker before it: the fiber may be on
//!    another thread. The worker comes with the switch.

use super::config::Migrate;
use super::core::Core;
use super::finish::Scheduler;
use super::worker::Worker;
use crate::context::{self, Bounds, Context};
use crate::fiber::{self, Ends, FiberPtr};
use crate::primitives::sync::atomic::Ordering;
use crate::primitives::{self, thread};
use crate::stack::{SlotHeader, Stack, StackError};
use std::ptr::NonNull;

/// What the flow that was left wants done.
#[derive(Debug)]
pub(super) enum Post {
    None,
    /// Publish the fiber's wait.
    Park(FiberPtr, Ends),
    /// Enqueue the fiber behind all others.
    Yield(FiberPtr),
    /// Hand the core on, then continue the fiber on this thread. On the worker's own flow only.
    HandOff(FiberPtr),
    /// The fiber has ended: its flow and its stack are free.
    Ended(Context, NonNull<SlotHeader>),
}

/// Parks `fiber`, which runs here. Returns when its wait is over, maybe on another thread.
///
/// # Safety
///
/// Called by the fiber itself, on a worker.
#[inline(never)]
pub(crate) unsafe fn park(fiber: FiberPtr, ends: Ends) {
    // SAFETY: a fiber runs on a worker only.
    let worker = unsafe { &*Worker::current() };
    let to = match worker.core() {
        Some(core) => {
            worker.note_since(core, fiber);
            worker.choose_on(core)
        }
        None => worker.own_flow(),
    };
    worker.leave_to(fiber, Post::Park(fiber, ends), to);
}

/// As [`park`], and runs `next` meanwhile, which the caller has started out of turn.
///
/// # Safety
///
/// As `park`; and the caller holds `next`, whose stack it has not got yet.
pub(crate) unsafe fn park_and_run(fiber: FiberPtr, ends: Ends, next: FiberPtr) {
    // SAFETY: a fiber runs on a worker only.
    let worker = unsafe { &*Worker::current() };
    let core = worker.held();
    worker.note_since(core, fiber);
    let to = worker.choose_started(core, next);
    worker.leave_to(fiber, Post::Park(fiber, ends), to);
}

/// Lets every other runnable fiber of this worker go first; at once if there is none.
///
/// # Safety
///
/// Called by the fiber itself, on a worker.
#[inline(never)]
pub(crate) unsafe fn yield_now(fiber: FiberPtr) {
    // SAFETY: a fiber runs on a worker only.
    let worker = unsafe { &*Worker::current() };
    if !worker.goes_on_alone(fiber) {
        // All others are copies of fibers that run in the parent.
        if primitives::is_forked() {
            // By no gate: who was in there at the fork never leaves it here.
            worker.seat.set_current(Some(fiber));
            return thread::yield_now();
        }
        if let Some(core) = worker.core() {
            worker.own_in(core).lifo_run.yields();
        }
        worker.leave(fiber, Post::Yield(fiber));
    }
}

impl Worker<'_> {
    /// The running fiber's wait begins about now: no look at the clock is worth more here.
    #[inline(always)]
    fn note_since(&self, core: &Core, fiber: FiberPtr) {
        let now = self.own_in(core).tick.began();
        // SAFETY: the fiber is the caller's own.
        fiber.wait.with_mut(|wait| unsafe { (*wait).since = now });
    }

    /// A fiber that yields while nobody else is there: dispatched again on the spot.
    #[inline(always)]
    fn goes_on_alone(&self, fiber: FiberPtr) -> bool {
        let Some(core) = self.core() else { return false };
        let alone = core.ring.is_empty()
            && core.slot.is_empty()
            && !core.gate.is_stalled()
            && !self.shared.config.force_migrate
            && self.may_dispatch(core);
        if alone {
            self.dispatches(core, Some(fiber));
        }
        alone
    }

    /// Stores the running fiber, continues another flow, and comes back when the fiber is resumed.
    #[inline(always)]
    fn leave(&self, fiber: FiberPtr, post: Post) {
        let to = self.core().map_or_else(|| self.own_flow(), |core| self.choose_on(core));
        self.leave_to(fiber, post, to);
    }

    /// As `leave`, for the worker's own flow.
    #[cold]
    pub(super) fn leave_to_own_flow(&self, fiber: FiberPtr, post: Post) {
        let to = self.own_flow();
        self.leave_to(fiber, post, to);
    }

    #[inline(always)]
    fn leave_to(&self, fiber: FiberPtr, post: Post, to: Context) {
        self.post.set(post);
        let from = fiber.context.with_mut(|context| context);
        // SAFETY: `to` was chosen by this worker, which holds it; `from` is the running fiber's own
        // place, which stays until the fiber ends.
        let word = unsafe { context::switch(from, to, self as *const Self as usize) };
        // SAFETY: whoever switches to a fiber hands over the worker that it runs on.
        let worker = unsafe { &*(word as *const Worker<'_>) };
        worker.run_post();
    }

    /// Nobody runs from now on but the worker itself.
    #[cold]
    fn own_flow(&self) -> Context {
        self.set_running(None);
        // SAFETY: the worker's flow is suspended while a fiber runs.
        unsafe { *self.context.get() }
    }

    /// Who runs next: a fiber from LIFO slot or ring if it can run at once, else the worker's own
    /// flow.
    #[inline(always)]
    fn choose_on(&self, core: &Core) -> Context {
        core.gate.enter();
        let next = self.choose_fiber(core);
        self.dispatches(core, next);
        core.gate.exit();
        match next {
            Some(fiber) => {
                // SAFETY: held by us; its context was stored before it was enqueued, or just made.
                fiber.context.with(|context| unsafe { *context })
            }
            // SAFETY: the worker's flow is suspended while a fiber runs.
            None => unsafe { *self.context.get() },
        }
    }

    /// `fiber`, which is started and has no stack yet, runs next.
    fn choose_started(&self, core: &Core, fiber: FiberPtr) -> Context {
        core.gate.enter();
        let ready = !self.needs_own_flow(fiber) && self.prepare_fresh(fiber);
        if !ready {
            self.next.set(Some(fiber));
        }
        self.dispatches(core, ready.then_some(fiber));
        core.gate.exit();
        if !ready {
            // SAFETY: the worker's flow is suspended while a fiber runs.
            return unsafe { *self.context.get() };
        }
        // SAFETY: held by us; its context was just made.
        fiber.context.with(|context| unsafe { *context })
    }

    /// Inside the gate.
    #[inline(always)]
    fn choose_fiber(&self, core: &Core) -> Option<FiberPtr> {
        while let Some(fiber) = self.next_from_own_queues(core) {
            if !fiber.admit() {
                continue;
            }
            if self.needs_own_flow(fiber) {
                self.next.set(Some(fiber));
                return None;
            }
            // SAFETY: taken from a queue of ours, so held by us.
            if unsafe { fiber.stack() }.is_none() && !self.prepare_fresh(fiber) {
                return None;
            }
            return Some(fiber);
        }
        None
    }

    /// Must the core be handed on before `fiber` runs, or does it belong elsewhere?
    #[inline(always)]
    pub(super) fn needs_own_flow(&self, fiber: FiberPtr) -> bool {
        self.shared.sites.is_suspect(fiber.site) || self.shared.config.force_migrate
    }

    /// Gives a fresh fiber a stack from the cache, or leaves it to the worker's own flow.
    fn prepare_fresh(&self, fiber: FiberPtr) -> bool {
        let stack = if fiber.sampled { None } else { self.own().stacks.pop(fiber.size) };
        match stack {
            Some(stack) => {
                self.attach_stack(fiber, stack);
                true
            }
            None => {
                self.next.set(Some(fiber));
                false
            }
        }
    }

    /// A stack for a fresh fiber, mapped if need be; on the worker's own flow.
    pub(super) fn allocate_stack(&self, fiber: FiberPtr) -> Result<Stack, StackError> {
        let stacks = &mut self.own().stacks;
        if fiber.sampled {
            stacks.allocate_trimmed(fiber.size)
        } else {
            stacks.allocate(fiber.size)
        }
    }

    /// Gives a started fiber its stack and a flow on it. Inside the gate.
    pub(super) fn attach_stack(&self, fiber: FiberPtr, stack: Stack) {
        let bounds = Bounds { top: stack.top(), limit: stack.limit() };
        // SAFETY: the stack is ours, and free until the flow is retired.
        let flow = unsafe { context::prepare(bounds, fiber::entry::<Scheduler>) };
        self.settle_in(fiber, flow, stack.into_raw());
    }

    /// The fiber's life on `stack` begins, by a switch to a new flow or in the entry loop of an old.
    ///
    /// Called inside the gate, for `Shared::cancel_all`, which sets its flag and then comes by.
    #[inline(always)]
    pub(super) fn settle_in(&self, fiber: FiberPtr, flow: Context, stack: NonNull<SlotHeader>) {
        debug_assert!(self.held().gate.is_inside(), "it may be missed by who cancels all");
        // SAFETY: this worker holds the fiber, and the stack belongs to it from now on.
        unsafe {
            // What its waits count on (`park`).
            debug_assert_eq!(stack.as_ref().size(), fiber.size);
            stack.as_ref().set_owner_of(fiber.as_ptr().cast(), fiber.scheduler);
            fiber.stack.with_mut(|place| *place = Some(stack));
            fiber.context.with_mut(|place| *place = flow);
        }
        if self.shared.cancelling.load(Ordering::Relaxed) {
            let _ = fiber.state().cancel();
        }
        let core = self.held();
        fiber.home.store(core.index as u32 + 1, Ordering::Relaxed);
        if self.shared.config.migrate == Migrate::BeforeStart {
            self.own().homed += 1;
        }
    }

    /// The first act after a switch (invariant 1).
    #[inline(always)]
    pub(super) fn run_post(&self) {
        // Not taken out as a whole: what was stored field by field is not at hand as one.
        // SAFETY: this worker's own, on its thread; the reference ends before the place is written.
        match unsafe { &*self.post.as_ptr() } {
            &Post::Park(fiber, ends) => {
                self.post.set(Post::None);
                if self.is_over_already(fiber, ends) {
                    self.push_woken(fiber);
                }
            }
            &Post::Yield(fiber) => {
                self.post.set(Post::None);
                if !fiber.has_entry() {
                    self.push_yielded(fiber);
                }
            }
            Post::None => {}
            _ => self.run_rare_post(),
        }
    }

    /// Publishes the wait of `fiber`, unless that was over before the fiber left: then it is to be enqueued, says this.
    #[inline(always)]
    pub(super) fn is_over_already(&self, fiber: FiberPtr, ends: Ends) -> bool {
        fiber.state().publish(ends).is_err() && !fiber.has_entry()
    }

    #[inline(never)]
    fn run_rare_post(&self) {
        match self.post.replace(Post::None) {
            Post::None | Post::Park(..) | Post::Yield(_) => unreachable!("done above"),
            Post::HandOff(fiber) => {
                self.vacate();
                self.next.set(Some(fiber));
            }
            Post::Ended(flow, stack) => self.give_back(flow, stack),
        }
    }

    #[inline(never)]
    fn give_back(&self, flow: Context, stack: NonNull<SlotHeader>) {
        // SAFETY: the flow has ended and left; its stack is nobody's.
        let stack = unsafe {
            context::retire(flow);
            Stack::from_raw(stack)
        };
        if self.core().is_none() {
            // To the pool that all share, without its memory.
            return drop(stack);
        }
        let own = self.own();
        own.stacks.push(stack, own.tick.began());
    }
}
