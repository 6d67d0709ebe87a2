//! What all workers of a runtime share.

use super::core::Core;
use super::idle::Idle;
use super::locked_queue::LockedQueue;
use super::stats::{Stats, WorkerStats};
use crate::driver::Driver;
use crate::fiber::{self, FiberPtr, Waiters};
use crate::primitives::clock::Moment;
use crate::primitives::random;
use crate::primitives::sync::Arc;
use crate::primitives::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use crate::stack::StackSize;
use crossbeam_utils::CachePadded;
use std::fmt;
use std::io;
use std::time::Duration;

/// Whether a fiber that has started may go on upon another worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Migrate {
    /// At any wait: the best balance, and the contract of [the crate's docs](crate) applies.
    #[default]
    Anytime,
    /// Only before it first runs: afterwards it stays on its thread, so thread-locals stay its own.
    BeforeStart,
}

/// A hook that runs on a worker's own stack.
pub(crate) type Hook = Arc<dyn Fn() + Send + Sync>;

/// The settings of one scheduler, checked by `runtime`.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) workers: usize,
    pub(crate) stack_size: StackSize,
    pub(crate) migrate: Migrate,
    pub(crate) thread_name: String,
    pub(crate) on_thread_start: Option<Hook>,
    pub(crate) on_thread_stop: Option<Hook>,
    /// How long an idle stack keeps its memory.
    pub(crate) stack_age: Duration,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("workers", &self.workers)
            .field("stack_size", &self.stack_size)
            .field("migrate", &self.migrate)
            .finish_non_exhaustive()
    }
}

/// The scheduler of one runtime.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) driver: Arc<Driver>,
    pub(super) cores: Box<[Core]>,
    pub(super) injector: CachePadded<LockedQueue>,
    pub(super) idle: Idle,
    /// The worker that sleeps in the poller plus one, or 0; a hint for `notify`.
    pub(super) in_poller: AtomicUsize,
    /// Counts what plain threads do.
    pub(super) outside: CachePadded<Stats>,
    /// Workers leave once this is set and they find no work.
    pub(super) stopping: AtomicBool,
    /// Workers that have left for good.
    left: AtomicUsize,
    /// Somebody waits for the last fiber to end.
    pub(super) draining: AtomicBool,
    pub(crate) drained: Waiters,
}

impl Shared {
    pub(crate) fn new(config: Config) -> io::Result<Arc<Shared>> {
        let now = Moment::now();
        let seed = random::seed().wrapping_add(now.as_nanos());
        let core = |index| Core::new(index, seed, config.stack_size, now);
        Ok(Arc::new(Shared {
            driver: Driver::new(config.workers)?,
            cores: (0..config.workers).map(core).collect(),
            injector: CachePadded::new(LockedQueue::new()),
            idle: Idle::new(config.workers),
            in_poller: AtomicUsize::new(0),
            outside: CachePadded::new(Stats::default()),
            stopping: AtomicBool::new(false),
            left: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            drained: Waiters::default(),
            config,
        }))
    }

    /// The scheduler of a fiber.
    ///
    /// A fiber that is not done keeps its scheduler: `runtime` frees one only when all its fibers
    /// are done, and leaks it otherwise.
    pub(crate) fn of(fiber: FiberPtr) -> *const Shared {
        fiber.scheduler.cast()
    }

    /// Wakes a worker to look for work, if one should come. Call it after the work is visible.
    #[inline]
    pub(super) fn notify(&self) {
        let in_poller = self.in_poller.load(Ordering::Relaxed).checked_sub(1);
        if let Some(index) = self.idle.notify(in_poller) {
            self.unpark(index);
        }
    }

    #[cold]
    pub(super) fn unpark(&self, index: usize) {
        self.outside.wakes.add_shared(1);
        self.cores[index].parker.unpark(&self.driver);
    }

    /// When the next worker should give memory of idle stacks back.
    pub(super) fn next_trim(&self) -> Moment {
        let due = self.cores.iter().map(|core| core.trim_due.load(Ordering::Relaxed)).min();
        due.map_or(Moment::NEVER, Moment::from_nanos)
    }

    /// Wakes the workers that sleep over memory of idle stacks for too long; not the caller.
    pub(super) fn wake_for_trim(&self, except: usize) {
        let next = self.next_trim();
        if next == Moment::NEVER || next > Moment::now() {
            return;
        }
        let now = Moment::now().as_nanos();
        for core in self.cores.iter().filter(|core| core.index != except) {
            if core.trim_due.load(Ordering::Relaxed) <= now {
                self.notify_worker(core.index);
            }
        }
    }

    /// Wakes worker `index`, and no other, if it is parked.
    pub(super) fn notify_worker(&self, index: usize) {
        if self.idle.claim(index) {
            self.unpark(index);
        }
    }

    /// Anything that the worker of `core` could run or steal?
    pub(super) fn has_work_for(&self, core: &Core) -> bool {
        !self.injector.is_empty()
            || !core.mailbox.is_empty()
            || self.cores.iter().any(|core| !core.ring.is_empty())
    }

    /// Fibers that have been spawned and have not ended.
    pub(crate) fn live(&self) -> u64 {
        // Ends first: a fiber whose end is seen was spawned before, and that is seen then.
        let finished: u64 = self.counters().map(|stats| stats.finished.get()).sum();
        fence(Ordering::Acquire);
        let spawned: u64 = self.counters().map(|stats| stats.spawned.get()).sum();
        spawned.saturating_sub(finished)
    }

    fn counters(&self) -> impl Iterator<Item = &Stats> {
        self.cores.iter().map(|core| &*core.stats).chain([&*self.outside])
    }

    pub(crate) fn totals(&self) -> WorkerStats {
        let mut total = WorkerStats::default();
        self.counters().for_each(|stats| total += stats.snapshot());
        total
    }

    pub(crate) fn worker_stats(&self) -> Vec<WorkerStats> {
        self.cores.iter().map(|core| core.stats.snapshot()).collect()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// From now on the end of the last fiber settles `drained`.
    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// A fiber has ended while somebody drains.
    #[cold]
    pub(super) fn note_drain(&self) {
        if self.live() == 0 {
            self.drained.settle_all().into_iter().for_each(super::wake);
        }
    }

    /// A worker leaves for good. The last one ends the fibers that never started.
    pub(crate) fn leave(&self) {
        if self.left.fetch_add(1, Ordering::AcqRel) + 1 == self.cores.len() {
            self.drop_unstarted();
        }
    }

    /// Ends the fibers that never started and never will: every worker has left.
    fn drop_unstarted(&self) {
        let mut left = self.injector.close();
        for core in &self.cores {
            left.append(&mut core.mailbox.close());
            if let Some(fiber) = core.slot.take() {
                left.push(fiber);
            }
            while !core.ring.is_empty() {
                left.append(&mut core.ring.steal_batch());
            }
        }
        for fiber in left {
            self.abandon(fiber);
        }
    }

    /// Nobody will run `fiber`. One that has not started ends here, and its join says why; one that
    /// has keeps its stack, which others may borrow from.
    #[cold]
    pub(super) fn abandon(&self, fiber: FiberPtr) {
        if !fiber.state().load().is_fresh() || !fiber.state().start() {
            return;
        }
        let payload = "the runtime was shut down before the fiber could start";
        // SAFETY: just started, not run.
        let wake = unsafe { fiber::fail(fiber, Box::new(payload)) };
        self.outside.finished.add_shared(1);
        if let Some(wake) = wake {
            super::wake(wake);
        }
    }

    /// Tells every worker to leave.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.draining.store(true, Ordering::SeqCst);
        for index in 0..self.cores.len() {
            // Claimed or not: an unpark too many is taken by the worker's next sleep.
            let _ = self.idle.claim(index);
            self.unpark(index);
        }
    }
}
