//! Leaving a fiber: choosing who runs next, the direct switch, and the step after it.
//!
//! # Invariants
//!
//! 1. A fiber is published, enqueued, or its stack given back only *after* the switch away from it,
//!    as the first act of whatever runs next. Before that its context is not stored.
//! 2. A fresh fiber's stack is at hand before the running fiber leaves.
//! 3. After a switch nothing is used that was read from the worker before it: the fiber may be on
//!    another thread. The worker comes with the switch.

use super::shared::{Migrate, Shared};
use super::worker::Worker;
use crate::context::{self, Bounds, Context};
use crate::fiber::{self, Ends, FiberPtr, Host, Wake};
use crate::primitives::sync::atomic::Ordering;
use crate::stack::{self, SlotHeader, Stack};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// What the flow that was left wants done.
#[derive(Debug)]
pub(super) enum Post {
    None,
    /// Publish the fiber's wait.
    Park(FiberPtr, Ends),
    /// Enqueue the fiber behind all others.
    Yield(FiberPtr),
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
    worker.leave(fiber, Post::Park(fiber, ends));
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
    if worker.core.ring.is_empty() && worker.core.slot.is_empty() && worker.own().tick.dispatch() {
        worker.core.stats.dispatched.add(1);
        worker.seat.set_current(Some(fiber));
        return;
    }
    worker.leave(fiber, Post::Yield(fiber));
}

impl Worker<'_> {
    /// Stores the running fiber, continues another flow, and comes back when the fiber is resumed.
    #[inline(always)]
    fn leave(&self, fiber: FiberPtr, post: Post) {
        let (to, next) = self.choose();
        self.post.set(post);
        self.seat.set_current(next);
        context::hooks::before_switch();
        let from = fiber.context.with_mut(|context| context);
        // SAFETY: `to` was chosen by this worker, which holds it; `from` is the running fiber's own
        // place, which stays until the fiber ends.
        let word = unsafe { context::switch(from, to, self as *const Self as usize) };
        context::hooks::after_switch();
        // SAFETY: whoever switches to a fiber hands over the worker that it runs on.
        let worker = unsafe { &*(word as *const Worker<'_>) };
        worker.run_post();
    }

    /// Who runs next: a fiber from LIFO slot or ring if it can run at once, else the worker's own
    /// flow.
    #[inline(always)]
    fn choose(&self) -> (Context, Option<FiberPtr>) {
        while let Some(fiber) = self.next_local() {
            // SAFETY: taken from a queue of ours, so held by us.
            if unsafe { fiber.stack() }.is_none() {
                match self.prepare_fresh(fiber) {
                    Fresh::Ready => {}
                    Fresh::Stale => continue,
                    Fresh::NoStack => break,
                }
            }
            self.core.stats.dispatched.add(1);
            // SAFETY: as above; its context was stored before it was enqueued, or just made.
            return (fiber.context.with(|context| unsafe { *context }), Some(fiber));
        }
        // SAFETY: the worker's flow is suspended while a fiber runs.
        (unsafe { *self.context.get() }, None)
    }

    /// Starts `fiber` on a stack from the cache, or leaves it to the worker's own flow.
    fn prepare_fresh(&self, fiber: FiberPtr) -> Fresh {
        let stack = if fiber.sampled { None } else { self.own().stacks.pop(fiber.size) };
        let Some(stack) = stack else {
            self.fresh.set(Some(fiber));
            return Fresh::NoStack;
        };
        if !fiber.state().start() {
            return Fresh::Stale;
        }
        self.attach(fiber, stack);
        Fresh::Ready
    }

    /// Gives a started fiber its stack and a flow on it.
    pub(super) fn attach(&self, fiber: FiberPtr, stack: Stack) {
        let bounds = Bounds { top: stack.top(), limit: stack.limit() };
        // SAFETY: the stack is ours, and free until the flow is retired.
        let flow = unsafe { context::prepare(bounds, fiber::entry::<Scheduler>) };
        self.settle_in(fiber, flow, stack.into_raw());
    }

    /// The fiber's life on `stack` begins, by a switch to a new flow or in the entry loop of an old.
    #[inline(always)]
    fn settle_in(&self, fiber: FiberPtr, flow: Context, stack: NonNull<SlotHeader>) {
        context::hooks::fiber_begin(|| {
            // SAFETY: only looked at; it stays the flow's.
            let stack = ManuallyDrop::new(unsafe { Stack::from_raw(stack) });
            Bounds { top: stack.top(), limit: stack.limit() }
        });
        // SAFETY: this worker holds the fiber, and the stack belongs to it from now on.
        unsafe {
            stack.as_ref().set_owner(fiber.as_ptr().cast());
            fiber.stack.with_mut(|place| *place = Some(stack));
            fiber.context.with_mut(|place| *place = flow);
        }
        fiber.home.store(self.core.index as u32 + 1, Ordering::Relaxed);
    }

    /// The first act after a switch (invariant 1).
    #[inline(always)]
    pub(super) fn run_post(&self) {
        match self.post.replace(Post::None) {
            Post::None => {}
            Post::Park(fiber, ends) => {
                if fiber.state().publish(ends).is_err() {
                    // Its wait was over before it left.
                    self.push_woken(fiber);
                }
            }
            Post::Yield(fiber) => self.push_yielded(fiber),
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
        let own = self.own();
        own.stacks.push(stack, own.tick.began());
        own.stacks_changed = true;
    }

    /// Books the end of a fiber and wakes its joiner.
    #[inline]
    pub(super) fn after_end(&self, wake: Option<Wake>) {
        self.core.stats.finished.add(1);
        if let Some(wake) = wake {
            super::wake(wake);
        }
        if self.shared.draining.load(Ordering::Relaxed) {
            self.ended_in_drain();
        }
    }

    /// Tells those who wait for the last end; and once the scheduler stops, nothing starts behind it.
    #[cold]
    fn ended_in_drain(&self) {
        self.shared.note_drain();
        if self.shared.is_stopping() {
            self.own().tick.cut_short();
        }
    }
}

enum Fresh {
    Ready,
    Stale,
    NoStack,
}

/// Books how much of its stack a sampled fiber has used.
///
/// # Safety
///
/// `stack` is the stack that the calling fiber runs on.
#[cold]
unsafe fn measure(fiber: FiberPtr, stack: NonNull<SlotHeader>) {
    // SAFETY: only looked at; it stays the flow's.
    let stack = ManuallyDrop::new(unsafe { Stack::from_raw(stack) });
    if let Some(bytes) = stack::high_water(&stack) {
        stack::record(fiber.site, fiber.size, bytes);
    }
}

/// The scheduler as the entry loop sees it.
pub(super) struct Scheduler;

impl Host for Scheduler {
    unsafe fn arrive(transfer: usize) -> FiberPtr {
        context::hooks::after_switch();
        // SAFETY: whoever switches to a fresh flow hands over its worker.
        let worker = unsafe { &*(transfer as *const Worker<'_>) };
        worker.run_post();
        worker.seat.current().expect("a fresh flow starts with a fiber")
    }

    unsafe fn ended(fiber: FiberPtr) -> fiber::Flow {
        // SAFETY: the fiber runs here; it is its own to read until its end is published.
        unsafe {
            let stack = fiber.stack().expect("a running fiber has a stack");
            if fiber.sampled {
                measure(fiber, stack);
            }
            fiber::Flow { context: fiber.context.with(|context| *context), stack }
        }
    }

    unsafe fn finished(flow: fiber::Flow, wake: Option<Wake>) -> FiberPtr {
        context::hooks::fiber_end();
        // SAFETY: a fiber ends on a worker; it may be another one than it started on.
        let worker = unsafe { &*Worker::current() };
        worker.seat.set_current(None);
        worker.after_end(wake);
        // SAFETY: passed on.
        unsafe { worker.next_on(flow) }
    }
}

impl Worker<'_> {
    /// Picks the next fiber: a fresh one of the same size starts on this very stack; for any other
    /// this flow ends, and the call does not return.
    ///
    /// # Safety
    ///
    /// Called at the base of the flow, which holds nothing.
    #[inline(always)]
    unsafe fn next_on(&self, flow: fiber::Flow) -> FiberPtr {
        let mut next = None;
        while let Some(fiber) = self.next_local() {
            // SAFETY: taken from a queue of ours.
            if unsafe { fiber.stack() }.is_some() {
                next = Some(fiber);
                break;
            }
            // SAFETY: the stack is this flow's, still in use.
            let same_size = unsafe { flow.stack.as_ref() }.size() == fiber.size;
            if !same_size || fiber.sampled {
                self.fresh.set(Some(fiber));
                break;
            }
            if fiber.state().start() {
                self.core.stats.dispatched.add(1);
                self.seat.set_current(Some(fiber));
                self.settle_in(fiber, flow.context, flow.stack);
                return fiber;
            }
        }
        let to = match next {
            Some(fiber) => {
                self.core.stats.dispatched.add(1);
                // SAFETY: held by us, stored when it parked.
                fiber.context.with(|context| unsafe { *context })
            }
            // SAFETY: the worker's flow is suspended.
            None => unsafe { *self.context.get() },
        };
        self.post.set(Post::Ended(flow.context, flow.stack));
        self.seat.set_current(next);
        let mut from = flow.context;
        context::hooks::before_switch();
        // SAFETY: `from` holds the running flow's own context; it is never continued again.
        unsafe { context::switch(&raw mut from, to, self as *const Self as usize) };
        unreachable!("a flow that has ended was continued")
    }
}

/// May `fiber` run on any worker now?
#[inline(always)]
pub(super) fn may_move(shared: &Shared, fiber: FiberPtr) -> bool {
    shared.config.migrate == Migrate::Anytime || fiber.home.load(Ordering::Relaxed) == 0
}
