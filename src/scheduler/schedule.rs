//! Where a runnable fiber goes.
//!
//! - Woken or spawned by a fiber of the same scheduler: the LIFO slot of this worker; the fiber that
//!   it displaces goes to the ring, and only then another worker is woken. Where fibers run for long, the ring at
//!   once (`share.rs`).
//! - Yielded, or flushed from the slot (when: `lifo_run.rs`; but see `lifo_rest.rs`): the ring, behind all others.
//!   Settled by a turn of the driver: there too, or, the first of them, the LIFO slot (`search.rs`). Settled by who has
//!   accepted a connection and leaves it the next: there too.
//! - A full ring: half of it and the new one to the injector.
//! - From anywhere else: the injector, and a worker is woken.
//! - A fiber that must not move: the mailbox of its home worker, which is woken.

use super::config::Migrate;
use super::core::Core;
use super::shared::Shared;
use super::worker::Worker;
use crate::fiber::{Batch, FiberPtr, Wake};
use crate::primitives::sync::atomic::Ordering;

/// Makes a settled waiter run.
#[inline]
pub(crate) fn wake(wake: Wake) {
    match wake {
        // SAFETY: a `Wake` is the right to enqueue the fiber, once.
        Wake::Fiber(fiber) => unsafe { schedule(fiber) },
        Wake::Thread(thread) => thread.wake(),
    }
}

/// As [`wake`], and behind all others of this worker: what it does is not the caller's next step, and others may be
/// sooner.
pub(crate) fn wake_where_thieves_look(wake: Wake) {
    let fiber = match wake {
        Wake::Fiber(fiber) => fiber,
        Wake::Thread(thread) => return thread.wake(),
    };
    let shared = Shared::of(fiber);
    // SAFETY: valid until the next switch; none comes here.
    match unsafe { Worker::current().as_ref() } {
        Some(worker) if std::ptr::eq(worker.shared, shared) => worker.push_yielded(fiber),
        // SAFETY: as in `schedule`.
        _ => unsafe { (*shared).to_arc() }.push_from_outside(fiber),
    }
}

/// Enqueues a runnable fiber, from any thread.
///
/// # Safety
///
/// The caller has the right to enqueue it: it just made it, or took it out of its wait.
#[inline]
pub(crate) unsafe fn schedule(fiber: FiberPtr) {
    let shared = Shared::of(fiber);
    let worker = Worker::current();
    // SAFETY: a seat is valid until the next switch, and none comes before `push_woken` returns.
    unsafe {
        if !worker.is_null() && std::ptr::eq((*worker).shared, shared) {
            (*worker).push_woken(fiber);
        } else {
            // The fiber keeps its scheduler only until it is pushed: it may end, and the runtime go,
            // before this has told a worker.
            (*shared).to_arc().push_from_outside(fiber);
        }
    }
}

impl Worker<'_> {
    /// A woken or new fiber: it runs next.
    #[inline]
    pub(super) fn push_woken(&self, fiber: FiberPtr) {
        let Some(core) = self.place_for(fiber) else {
            return self.shared.push_from_outside(fiber);
        };
        if !self.own_in(core).tick.flows() && self.shares(core, fiber) {
            return;
        }
        self.push_next(core, fiber);
    }

    /// Into the slot of this worker's `core`.
    #[inline(always)]
    pub(super) fn push_next(&self, core: &Core, fiber: FiberPtr) {
        core.gate.enter();
        let displaced = core.slot.put(fiber);
        core.gate.exit();
        if let Some(displaced) = displaced {
            self.displace(displaced);
        }
    }

    /// Apart from `push_woken`, which would save registers for it whether it is needed or not.
    #[inline(never)]
    fn displace(&self, fiber: FiberPtr) {
        self.push_back(fiber);
    }

    /// A fiber that let others go first.
    #[inline]
    pub(super) fn push_yielded(&self, fiber: FiberPtr) {
        if !self.enqueued_elsewhere(fiber) {
            self.push_back(fiber);
        }
    }

    /// Behind all others of this worker, where thieves find it.
    #[inline]
    pub(super) fn push_back(&self, fiber: FiberPtr) {
        self.push_quietly(fiber);
        if self.shared.config.workers > 1 {
            self.shared.notify();
        }
    }

    /// As `push_back`, for a caller that wakes others itself.
    #[inline]
    pub(super) fn push_quietly(&self, fiber: FiberPtr) {
        let core = self.held();
        if let Err(batch) = core.ring.push(fiber) {
            core.stats.overflows.add(1);
            core.was_robbed();
            self.leave_behind(self.shared.injector.push_overflow(batch, core.index));
        }
    }

    /// Puts aside what the injector has refused, being closed. A push may come inside the gate, or
    /// between a fiber's wait and its return: no place for destructors of the program's own.
    #[cold]
    fn leave_behind(&self, mut refused: Batch) {
        if refused.is_empty() {
            return;
        }
        let mut left = self.left.take();
        left.append(&mut refused);
        self.left.set(left);
        // The scheduler has stopped, or its injector would be open.
        self.own().tick.cut_short();
    }

    /// Ends what was put aside. On the worker's own flow, when it leaves.
    pub(super) fn abandon_left(&self) {
        for fiber in self.left.take() {
            self.shared.abandon(fiber);
        }
    }

    /// The core of this worker, if `fiber` may go into its queues: not one that may not move here, nor any
    /// while this worker's place is taken by another.
    #[inline(always)]
    fn place_for(&self, fiber: FiberPtr) -> Option<&Core> {
        self.core().filter(|core| self.shared.goes_anywhere(fiber) && !core.gate.is_stalled())
    }

    /// Enqueues a fiber that must not go into this worker's own queues.
    #[inline(always)]
    pub(super) fn enqueued_elsewhere(&self, fiber: FiberPtr) -> bool {
        let elsewhere = self.place_for(fiber).is_none();
        if elsewhere {
            self.shared.push_from_outside(fiber);
        }
        elsewhere
    }
}

impl Shared {
    /// From a thread that is no worker of this scheduler, or that has no core.
    #[cold]
    pub(super) fn push_from_outside(&self, fiber: FiberPtr) {
        if !self.may_move(fiber) {
            return self.push_home(fiber);
        }
        match self.mailbox_for(fiber) {
            Some(core) => self.push_mail(core, fiber),
            None => self.push_to_injector(fiber),
        }
    }

    /// As `push_from_outside`, and counts the fiber, which was just spawned, before anybody can run it.
    /// The lock that the injector takes anyway makes one writer at a time of all who count.
    #[inline(never)]
    pub(super) fn push_spawned(&self, fiber: FiberPtr) {
        let count = || self.injected.spawned.add(1);
        match self.mailbox_for(fiber) {
            None => match self.injector.push_and(fiber, count) {
                Ok(()) => self.notify(),
                Err(fiber) => {
                    self.outside.spawned.add_shared(1);
                    self.abandon(fiber);
                }
            },
            Some(core) => {
                self.outside.spawned.add_shared(1);
                self.push_mail(core, fiber);
            }
        }
    }

    /// The core whose mailbox gets a fiber that may move; `None` for the injector.
    fn mailbox_for(&self, fiber: FiberPtr) -> Option<usize> {
        // Who has not run yet is sent nowhere else.
        match self.config.force_migrate && fiber.home.load(Ordering::Relaxed) != 0 {
            true => self.pick_to_migrate(fiber),
            false => self.place(),
        }
    }

    /// May `fiber` go into the queues of any worker, the last one's too?
    #[inline(always)]
    fn goes_anywhere(&self, fiber: FiberPtr) -> bool {
        self.moves_freely || fiber.home.load(Ordering::Relaxed) == 0
    }

    /// Does every fiber run wherever a worker is free?
    pub(crate) fn runs_anywhere(&self) -> bool {
        self.config.migrate == Migrate::Anytime
    }

    pub(super) fn may_move(&self, fiber: FiberPtr) -> bool {
        self.runs_anywhere() || fiber.home.load(Ordering::Relaxed) == 0
    }

    /// Into the mailbox of `core`, for a fiber that is better run there.
    pub(super) fn push_mail(&self, core: usize, fiber: FiberPtr) {
        let there = self.cores.get(core);
        // It may run before it is told of.
        let goes_anywhere = self.goes_anywhere(fiber);
        match there.mailbox.push(fiber) {
            Ok(()) if self.idle.claim(core) => self.unpark(core),
            // It is busy by now, and thieves leave its mailbox alone.
            Ok(()) if goes_anywhere && !self.shares_mail() => return self.forward_mail(there),
            Ok(()) => self.notify(),
            Err(fiber) => return self.abandon(fiber),
        }
        // Pairs with the fence in `detach`: the one that lets go of the core sees the mail, or we see
        // that nobody comes for it. (Both ways above have gone through a fence.)
        if !there.is_open() {
            self.forward_mail(there);
        }
    }

    /// Nobody comes to the mailbox of `core` for a while: what can move goes to the injector. What
    /// cannot waits for its home's worker.
    pub(super) fn forward_mail(&self, core: &Core) {
        let mut movable = Batch::new();
        // Until then the injector is not closed.
        self.forwarding.fetch_add(1, Ordering::AcqRel);
        for fiber in core.mailbox.take_all() {
            match self.may_move(fiber) {
                true => movable.push(fiber),
                false => self.push_home(fiber),
            }
        }
        let some = !movable.is_empty();
        let refused = self.injector.push_batch(movable);
        self.forwarding.fetch_sub(1, Ordering::Release);
        refused.into_iter().for_each(|fiber| self.abandon(fiber));
        if some {
            self.notify();
        }
    }

    #[cold]
    pub(super) fn push_to_injector(&self, fiber: FiberPtr) {
        match self.injector.push(fiber) {
            Ok(()) => self.notify(),
            Err(fiber) => self.abandon(fiber),
        }
    }

    pub(super) fn push_all_to_injector(&self, batch: Batch) {
        if !batch.is_empty() {
            for fiber in self.injector.push_batch(batch) {
                self.abandon(fiber);
            }
            self.notify();
        }
    }

    #[cold]
    fn push_home(&self, fiber: FiberPtr) {
        let home = fiber.home.load(Ordering::Relaxed) as usize - 1;
        match self.cores.get(home).mailbox.push(fiber) {
            Ok(()) => {
                // A worker that rises from the poller for nobody tells nobody of the seat, and finds this then.
                let is_free = || self.poller.taken_by().is_none_or(|taker| taker == home);
                match self.idle.claim(home) {
                    true => self.unpark(home),
                    false if is_free() => self.notify(),
                    false => {}
                }
            }
            Err(fiber) => self.abandon(fiber),
        }
    }
}
