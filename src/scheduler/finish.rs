//! The end of a fiber, and who comes after it on the same stack.

use super::config::Migrate;
use super::core::Core;
use super::switch::Post;
use super::worker::Worker;
use crate::context;
use crate::fiber::{self, FiberPtr, Host, Seen, Woken};
use crate::primitives;
use crate::primitives::sync::atomic::Ordering;
use crate::stack::{self, SlotHeader, Stack, StackSize};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

impl Worker<'_> {
    /// Books the end of a fiber and wakes its joiner.
    pub(super) fn after_end(&self, woken: Woken) {
        match self.core() {
            Some(core) => core.stats.finished.add(1),
            None => self.shared.outside.finished.add_shared(1),
        }
        self.tell_end(woken);
    }

    /// Is an end of which no fiber is to be told anybody's business?
    #[inline(always)]
    fn ends_quietly(&self) -> bool {
        !self.helps && !self.shared.draining.load(Ordering::Relaxed)
    }

    /// Tells those who wait for the end of a fiber. Outside of the gate.
    #[inline]
    fn tell_end(&self, woken: Woken) {
        woken.each(super::wake);
        if self.helps {
            // The thread that drives the runtime may wait for this end, and asks only when it is awake.
            self.shared.wake_all();
        }
        if self.shared.draining.load(Ordering::Relaxed) {
            self.ended_in_drain();
        }
    }

    /// Tells those who wait for the last end; and once the scheduler stops, nothing starts behind it.
    #[cold]
    fn ended_in_drain(&self) {
        self.shared.note_drain();
        if self.shared.is_stopping() && self.core().is_some() {
            self.own().tick.cut_short();
        }
    }
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

/// All that could run next is a copy of what runs in the parent, whose poller the worker would turn, and whose threads
/// may have held any lock.
#[inline(always)]
fn refuse_forked_end() {
    if primitives::is_forked() {
        end_forked();
    }
}

#[cold]
#[inline(never)]
fn end_forked() -> ! {
    primitives::abort_with(
        "\nvolt: a fiber has come to its end in a forked child, where nothing else may run, so the process ends: \
         leave it by exec or _exit\n",
    )
}

/// # Safety
///
/// Called by the fiber itself.
#[inline(always)]
unsafe fn set_owner(fiber: FiberPtr, owner: *mut ()) {
    // SAFETY: its own, and the stack that it runs on.
    let stack = unsafe { fiber.stack().map(|stack| stack.as_ref()) };
    stack.into_iter().for_each(|stack| stack.set_owner(owner));
}

/// The scheduler as the entry loop sees it.
pub(super) struct Scheduler;

impl Seen for Scheduler {
    #[inline(always)]
    unsafe fn before_end(fiber: FiberPtr) {
        refuse_forked_end();
        // SAFETY: a fiber ends on a worker; it may be another one than it started on.
        let worker = unsafe { &*Worker::current() };
        let _without_core = match worker.core() {
            Some(core) => {
                core.gate.enter();
                None
            }
            None => Some(worker.shared.coreless.lock()),
        };
        // Nobody finds the fiber by its stack any more.
        // SAFETY: the fiber's own, on its stack.
        unsafe { set_owner(fiber, ptr::null_mut()) };
    }

    unsafe fn not_yet(fiber: FiberPtr) {
        // SAFETY: as above.
        unsafe { set_owner(fiber, fiber.as_ptr().cast()) };
        // SAFETY: as above.
        if let Some(core) = unsafe { &*Worker::current() }.core() {
            core.gate.exit();
        }
    }
}

impl Host for Scheduler {
    #[inline(always)]
    unsafe fn arrive(transfer: usize) -> FiberPtr {
        // SAFETY: whoever switches to a fresh flow hands over its worker.
        let worker = unsafe { &*(transfer as *const Worker<'_>) };
        worker.run_post();
        worker.seat.current().expect("a fresh flow starts with a fiber")
    }

    #[inline(always)]
    unsafe fn ended(fiber: FiberPtr) -> fiber::Flow {
        // Before any lock is taken. The destructor of a result may fork too, after this.
        refuse_forked_end();
        // SAFETY: the fiber runs here; it is its own to read until its end is published.
        unsafe {
            let stack = fiber.stack().expect("a running fiber has a stack");
            if fiber.sampled {
                measure(fiber, stack);
            }
            fiber::Flow { context: fiber.context.with(|context| *context), stack }
        }
    }

    #[inline(always)]
    unsafe fn finished(flow: fiber::Flow, woken: Woken) -> FiberPtr {
        // SAFETY: as in `before_end`, which went into the gate.
        let worker = unsafe { &*Worker::current() };
        worker.seat.clear_current();
        let Some(core) = worker.core() else {
            worker.after_end(woken);
            // SAFETY: passed on.
            return unsafe { worker.next_on(flow, None) };
        };
        core.stats.finished.add(1);
        if worker.shared.config.migrate == Migrate::BeforeStart {
            worker.own_in(core).homed -= 1;
        }
        // Where nobody is told, the next one is chosen in the same visit to the gate.
        if woken.is_somebody() || !worker.ends_quietly() {
            core.gate.exit();
            worker.tell_end(woken);
            core.gate.enter();
        }
        // SAFETY: passed on.
        unsafe { worker.next_on(flow, Some(core)) }
    }
}

impl Worker<'_> {
    /// Picks the next fiber: a fresh one of the same size starts on this very stack; for any other
    /// this flow ends, and the call does not return.
    ///
    /// # Safety
    ///
    /// Called at the base of the flow, which holds nothing but the gate of the worker's `core`, if it has one:
    /// that is left.
    #[inline(always)]
    unsafe fn next_on(&self, flow: fiber::Flow, core: Option<&Core>) -> FiberPtr {
        let mut next = None;
        if let Some(core) = core {
            // SAFETY: the stack is this flow's, still in use.
            next = self.choose_for(core, unsafe { flow.stack.as_ref() }.size());
            self.dispatches(core, next);
            // SAFETY: taken from a queue of ours.
            let fresh = next.filter(|fiber| unsafe { fiber.stack() }.is_none());
            if let Some(fiber) = fresh {
                self.settle_in(fiber, flow.context, flow.stack);
                core.gate.exit();
                return fiber;
            }
            core.gate.exit();
        }
        let to = match next {
            Some(fiber) => {
                // SAFETY: held by us, stored when it parked.
                fiber.context.with(|context| unsafe { *context })
            }
            // SAFETY: the worker's flow is suspended.
            None => unsafe { *self.context.get() },
        };
        self.post.set(Post::Ended(flow.context, flow.stack));
        let mut from = flow.context;
        // SAFETY: `from` holds the running flow's own context; it is never continued again.
        unsafe { context::switch(&raw mut from, to, self as *const Self as usize) };
        unreachable!("a flow that has ended was continued")
    }

    /// Inside the gate: who runs next, where a stack of `size` is at hand.
    #[inline(always)]
    fn choose_for(&self, core: &Core, size: StackSize) -> Option<FiberPtr> {
        while let Some(fiber) = self.next_from_own_queues(core) {
            if !fiber.admit() {
                continue;
            }
            // SAFETY: taken from a queue of ours.
            let fresh = unsafe { fiber.stack() }.is_none();
            if self.needs_own_flow(fiber) || fresh && (size != fiber.size || fiber.sampled) {
                self.next.set(Some(fiber));
                return None;
            }
            return Some(fiber);
        }
        None
    }
}
