//! What all workers of a runtime share.

use super::assist::Assist;
use super::brief::BriefCalls;
use super::census::{FiberReport, Unstarted};
use super::config::{Config, Migrate};
use super::core::Core;
use super::cores::Cores;
use super::crew::Crew;
use super::hooks::Hooks;
use super::idle::Idle;
use super::limit::Limit;
use super::list_turns::ListTurns;
use super::locked_queue::LockedQueue;
use super::poller_seat::PollerSeat;
use super::sites::{BlockingSite, Sites};
use super::starter::Starter;
use super::stats::{Stats, WorkerStats};
use super::tick::Tick;
use super::watch::Watch;
use crate::driver::Driver;
use crate::fiber::{self, Batch, FiberPtr, Waiters};
use crate::primitives::clock::Moment;
use crate::primitives::random;
use crate::primitives::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use crate::primitives::sync::{Arc, Lock, Mutex, OnceLock, full_fence};
use crate::primitives::{asymmetric, tsc};
use crate::stack::Place;
use crossbeam_utils::CachePadded;
use std::io;

/// The scheduler of one runtime.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// Moved here from `config`, until the runtime ends.
    pub(super) hooks: Mutex<Hooks>,
    /// Whether there is a hook for them, known without the lock above.
    pub(super) tells_of_deadlocks: bool,
    pub(crate) driver: Arc<Driver>,
    /// Threads of the program's own run it, now and then.
    pub(super) is_driven: bool,
    /// Fibers may go on upon any worker, their own included.
    pub(super) moves_freely: bool,
    pub(super) cores: Cores,
    pub(super) crew: Crew,
    pub(super) injector: CachePadded<LockedQueue>,
    pub(super) idle: Idle,
    pub(crate) poller: PollerSeat,
    /// Taken by who has the driver's role.
    pub(super) assist: Lock<Assist>,
    /// Counts what plain threads do.
    pub(super) outside: CachePadded<Stats>,
    /// Counts what plain threads put into the injector as they spawn it; written under its lock.
    pub(super) injected: CachePadded<Stats>,
    /// Workers leave once this is set and they find no work.
    pub(super) stopping: AtomicBool,
    /// Threads that run fibers, or may: workers, and those who wait for a core.
    pub(super) threads: AtomicUsize,
    /// Threads that are not its own and run its fibers.
    pub(super) drivers: AtomicUsize,
    /// Starts a thread for a core; set by `runtime` before the first fiber.
    pub(super) starter: OnceLock<Starter>,
    /// The last thread that it was to start was refused; see `starter.rs`.
    pub(super) is_refused: AtomicBool,
    /// How many fibers may be in blocking mode.
    pub(crate) blocking: Limit,
    pub(super) sites: Sites,
    pub(super) brief_calls: BriefCalls,
    pub(super) watch: Watch,
    /// Dispatches by the deadlock that was last told of; no number of them before that.
    pub(super) deadlock_at: AtomicU64,
    /// Where the last look for one has ended, with a fiber that does not wait for others.
    pub(super) no_deadlock_for: Mutex<Option<Place>>,
    /// Fibers that such looks have looked at.
    #[cfg(test)]
    pub(crate) looked_at: AtomicUsize,
    /// For the choice of a core for fibers from outside, and of a worker to move to.
    pub(super) turn: AtomicUsize,
    /// Fibers that start are cancelled.
    pub(super) cancelling: AtomicBool,
    /// A core without a holder had idle stacks in mind; see `leave_stacks`.
    pub(super) stacks_left: AtomicBool,
    /// A thief looks on at another worker: it holds off, or waits whether what stands in a slot ages. One at a time.
    pub(super) holding_off: AtomicBool,
    /// Somebody was woken for a fiber that was shared (`share.rs`), and has not come yet. A hint.
    pub(super) called: AtomicBool,
    /// How often a worker has invited another one.
    pub(super) invitations: AtomicU32,
    /// Workers that spin (`spin.rs`).
    pub(super) spinning: AtomicU32,
    /// Held by a worker without a core while one of its fibers ends, and by whoever lists fibers.
    pub(super) coreless: Mutex<()>,
    pub(super) lists: ListTurns,
    /// Somebody waits for the last fiber to end.
    pub(crate) draining: AtomicBool,
    pub(crate) drained: Waiters,
    unstarted: Mutex<Unstarted>,
    /// Threads that forward mail.
    pub(super) forwarding: AtomicUsize,
    /// Fibers that wait from now on are not given anything.
    pub(super) gives_up: AtomicBool,
    pub(super) seed: u64,
    /// Nobody expects a fiber to run for long.
    #[cfg(test)]
    pub(crate) all_are_short: AtomicBool,
}

fn new_core(config: &Config, seed: u64, index: usize) -> Core {
    let tick = Tick::new(Moment::now(), config.injector_every);
    Core::new(index, seed, config.stack_size, tick)
}

impl Shared {
    /// To wake another worker for few has paid.
    #[cfg(test)]
    pub(crate) fn assists(&self, now: Moment) {
        self.assist.lock().pays(now);
    }

    /// A scheduler whose first `held` cores are about to get threads.
    pub(crate) fn new(mut config: Config, held: usize) -> io::Result<Arc<Shared>> {
        let hooks = std::mem::take(&mut config.hooks);
        asymmetric::register();
        tsc::prepare();
        let seed = random::seed().wrapping_add(Moment::now().as_nanos());
        let cores = Cores::new(config.workers, |index| new_core(&config, seed, index));
        let kept =
            (held == 0 && config.migrate == Migrate::BeforeStart).then_some(super::crew::KEPT);
        Ok(Arc::new(Shared {
            tells_of_deadlocks: hooks.on_deadlock.is_some(),
            hooks: Mutex::new(hooks),
            driver: Driver::new(config.workers)?,
            crew: Crew::new(held, config.workers, kept),
            injector: CachePadded::new(LockedQueue::new()),
            idle: Idle::new(config.workers, cores.capacity()),
            cores,
            is_driven: held == 0,
            moves_freely: config.migrate == Migrate::Anytime && !config.force_migrate,
            poller: PollerSeat::new(),
            assist: Lock::new(Assist::new()),
            outside: CachePadded::new(Stats::default()),
            injected: CachePadded::new(Stats::default()),
            stopping: AtomicBool::new(false),
            threads: AtomicUsize::new(0),
            drivers: AtomicUsize::new(0),
            starter: OnceLock::new(),
            is_refused: AtomicBool::new(false),
            blocking: Limit::new(config.max_blocking),
            sites: Sites::new(config.learn_blocking, config.max_blocking),
            brief_calls: BriefCalls::new(),
            watch: Watch::new(config.stall_period)?,
            deadlock_at: AtomicU64::new(u64::MAX),
            no_deadlock_for: Mutex::new(None),
            #[cfg(test)]
            looked_at: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            cancelling: AtomicBool::new(false),
            stacks_left: AtomicBool::new(false),
            holding_off: AtomicBool::new(false),
            called: AtomicBool::new(false),
            invitations: AtomicU32::new(0),
            spinning: AtomicU32::new(0),
            coreless: Mutex::new(()),
            lists: ListTurns::default(),
            draining: AtomicBool::new(false),
            drained: Waiters::default(),
            unstarted: Mutex::new(Unstarted::default()),
            forwarding: AtomicUsize::new(0),
            gives_up: AtomicBool::new(false),
            seed,
            config,
            #[cfg(test)]
            all_are_short: AtomicBool::new(false),
        }))
    }

    /// One more core, for the replacement of a worker that has stalled.
    pub(super) fn add_core(&self) -> Option<usize> {
        self.cores.add(|index| new_core(&self.config, self.seed, index))
    }

    /// The scheduler of a fiber.
    ///
    /// A fiber that is not done keeps its scheduler: `runtime` frees one only when all its fibers
    /// are done, and leaks it otherwise.
    pub(crate) fn of(fiber: FiberPtr) -> *const Shared {
        fiber.scheduler.cast()
    }

    /// Another owner of `self`.
    pub(crate) fn to_arc(&self) -> Arc<Shared> {
        // SAFETY: every scheduler lives in an `Arc`, which somebody holds while this borrow lasts.
        unsafe {
            Arc::increment_strong_count(self);
            Arc::from_raw(self)
        }
    }

    /// Wakes a worker to look for work, if one should come. Call it after the work is visible.
    #[inline]
    pub(super) fn notify(&self) {
        let _ = self.notify_one();
    }

    /// As `notify`; says whether it has woken one.
    #[inline]
    pub(super) fn notify_one(&self) -> bool {
        let claimed = self.idle.notify(self.poller.taken_by());
        claimed.inspect(|index| self.unpark(*index)).is_some()
    }

    #[cold]
    pub(super) fn unpark(&self, index: usize) {
        self.outside.wakes.add_shared(1);
        self.cores.get(index).parker.unpark(&self.driver);
    }

    #[cfg(test)]
    pub(crate) fn sleeping_workers(&self) -> usize {
        self.cores.iter().filter(|core| core.parker.is_asleep()).count()
    }

    /// The last searcher has found something to run: should another worker come? For what others have queued
    /// meanwhile, who have told nobody because of the searcher; for the poller; or for memory that was left. In this
    /// order: what one that rises from the poller has taken from a queue is gone after its seat is empty.
    pub(super) fn needs_another(&self) -> bool {
        self.is_any_queued() || self.poller.taken_by().is_none() || self.is_memory_left()
    }

    /// The poller was left to nobody a while ago: wakes a worker if it is empty still, or something is queued of which
    /// nobody may have been told.
    pub(crate) fn look_after_poller(&self) {
        // Pairs with the one in `is_watched`.
        full_fence();
        if self.poller.taken_by().is_none() || self.is_any_queued() {
            self.notify();
        }
    }

    /// Asked by who has pushed few fibers: was the poller left to nobody lately, so that the supervisor is still to
    /// look after it, and what is queued?
    pub(super) fn is_poller_seen_to(&self) -> bool {
        self.poller.is_watched() && Moment::now().since(self.poller.left()) < self.watch.soonest()
    }

    #[cfg(test)]
    pub(crate) fn looks(&self) -> u64 {
        self.watch.looks.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn relief(&self) -> std::time::Duration {
        self.watch.relief()
    }

    pub(super) fn end_watch(&self) {
        if self.poller.end_watch() || self.is_any_queued() {
            self.notify();
        }
    }

    /// Does nobody run, but for worker `except`? Nor has anybody stalled, or may a site of
    /// such fibers change.
    pub(super) fn all_rest(&self, except: Option<usize>) -> bool {
        let rests = |core: &Core| !core.is_held() || self.idle.is_parked(core.index);
        !self.sites.wants_a_look()
            && self.cores.iter().all(|core| Some(core.index) == except || rests(core))
    }

    pub(super) fn is_any_queued(&self) -> bool {
        let any_loot = || self.cores.iter().any(|core| self.has_loot(core));
        !self.injector.is_empty() || self.config.stealing && any_loot()
    }

    /// When the next worker should give memory of idle stacks back, as of `now`.
    pub(super) fn next_trim(&self, now: Moment) -> Moment {
        // What is due already, a worker that is awake sees to when it next sleeps, unless it is stalled. When the
        // rest is due it may sleep, and so need not say anew what it has in mind.
        let counts = |due: &Moment, core: &Core| {
            *due > now || self.idle.is_parked(core.index) || core.gate.is_stalled()
        };
        let all = self.cores.iter().map(|core| {
            let due = core.trim_due();
            if counts(&due, core) { due } else { Moment::NEVER }
        });
        all.min().unwrap_or(Moment::NEVER)
    }

    /// Wakes the workers that sleep over memory of idle stacks for too long; not the caller. What a stalled one
    /// has in mind is another's from now on.
    pub(super) fn wake_for_trim(&self, except: usize) {
        let now = Moment::now();
        if self.next_trim(now) > now {
            return;
        }
        let now = now.as_nanos();
        for core in self.cores.iter().filter(|core| core.index != except) {
            let due = core.trim_due.load(Ordering::Relaxed);
            if due > now {
                continue;
            }
            match core.gate.is_stalled() && core.leave_duty(due) {
                true => self.duty_is_left(),
                false => self.notify_worker(core.index),
            }
        }
    }

    /// Wakes every worker that is parked: what some of them wait for has come.
    #[cold]
    pub(super) fn wake_all(&self) {
        self.cores.iter().for_each(|core| self.notify_worker(core.index));
    }

    /// Wakes worker `index`, and no other, if it is parked.
    pub(super) fn notify_worker(&self, index: usize) {
        if self.idle.claim(index) {
            self.unpark(index);
        }
    }

    /// Anything that the worker of `core` could run or steal, or is asked for?
    pub(super) fn has_work_for(&self, core: &Core) -> bool {
        !self.injector.is_empty()
            || !core.mailbox.is_empty()
            || !core.slot.is_empty()
            || !core.ring.is_empty()
            || self.config.stealing && self.cores.iter().any(|victim| self.has_loot(victim))
    }

    /// Of a current-thread runtime with a core that is kept: does its thread block?
    pub(super) fn kept_is_blocked(&self) -> bool {
        let kept = self.cores.get(super::crew::KEPT);
        kept.is_held() && kept.gate.is_stalled()
    }

    /// Wakes the thread for which a core is kept if there is something for it. Called by a helper
    /// that goes to bed, with its parking announced.
    #[cold]
    pub(super) fn leave_to_kept(&self) {
        if self.has_work_for(self.cores.get(super::crew::KEPT)) {
            self.notify_worker(super::crew::KEPT);
        }
    }

    fn has_loot(&self, victim: &Core) -> bool {
        !victim.ring.is_empty() || self.has_mail_for_all(victim)
    }

    /// Does anything stand in the injector that did not overflow a worker's ring?
    pub(super) fn is_injected(&self) -> bool {
        !self.injector.is_empty() && self.injector.overflow_of().is_none()
    }

    /// Fibers that have been spawned and have not ended.
    pub(crate) fn live(&self) -> u64 {
        // Ends first: a fiber whose end is seen was spawned before, and that is seen then.
        let finished: u64 = self.counters().map(|stats| stats.finished.get()).sum();
        fence(Ordering::Acquire);
        let spawned: u64 = self.counters().map(|stats| stats.spawned.get()).sum();
        spawned.saturating_sub(finished)
    }

    pub(super) fn counters(&self) -> impl Iterator<Item = &Stats> {
        self.cores.iter().map(|core| &*core.stats).chain([&*self.outside, &*self.injected])
    }

    /// Fibers that wait in each worker's queues, and in the queue that all share.
    pub(crate) fn queued(&self) -> (Vec<usize>, usize) {
        (self.cores.iter().map(Core::queued).collect(), self.injector.len())
    }

    /// Cores that run, of those that may.
    pub(crate) fn running(&self) -> (usize, usize) {
        self.crew.running()
    }

    /// What each worker counted, and what others counted on top of that.
    pub(crate) fn counted(&self) -> (Vec<WorkerStats>, WorkerStats) {
        let workers = self.cores.iter().map(|core| core.stats.snapshot()).collect();
        let mut others = self.outside.snapshot();
        others += self.injected.snapshot();
        (workers, others)
    }

    pub(crate) fn blocking_sites(&self) -> Vec<BlockingSite> {
        self.sites.report()
    }

    #[inline]
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

    /// A thread begins to run fibers, or to wait for a core.
    pub(crate) fn thread_starts(&self) {
        self.threads.fetch_add(1, Ordering::AcqRel);
    }

    /// A thread leaves for good. The last one, after a stop, ends the fibers that never started; true for
    /// that one.
    pub(crate) fn thread_leaves(&self) -> bool {
        self.give_up_later_waits();
        let last = self.threads.fetch_sub(1, Ordering::AcqRel) == 1 && self.is_stopping();
        if last {
            self.drop_unstarted();
        }
        last
    }

    /// Ends the fibers that never started and never will: the scheduler stops. A worker that is stuck
    /// in a fiber's code is not disturbed: what it owns is taken as a thief takes it.
    pub(crate) fn drop_unstarted(&self) {
        let mut theirs = Batch::new();
        for core in self.cores.iter() {
            theirs.append(&mut core.mailbox.close());
            // Nobody comes a second time for what a visit leaves because somebody lists the fibers.
            let newest = core.gate.visit_in_turn(|| core.slot.take()).flatten();
            while !core.ring.is_empty() {
                theirs.append(&mut core.ring.steal_batch());
            }
            // The older ones first: it may be that the newest holds the handle of one of them, and joins it when it is
            // dropped.
            newest.into_iter().for_each(|fiber| theirs.push(fiber));
        }
        // Who forwards mail has taken it before that was closed, and must not abandon others' fibers: it may be a
        // waker, in the midst of its wait.
        while self.forwarding.load(Ordering::Acquire) != 0 {
            std::thread::yield_now();
        }
        let mut left = self.injector.close();
        left.append(&mut theirs);
        for fiber in left {
            self.abandon(fiber);
        }
    }

    /// How many have not ended, and those that have been ended before they could start.
    pub(crate) fn unfinished(&self) -> (u64, Unstarted) {
        let mut unstarted = self.unstarted.lock();
        (self.live(), std::mem::take(&mut unstarted))
    }

    /// Nobody will run `fiber`. One that has not started ends here, and its join says why; one that
    /// has keeps its stack, which others may borrow from.
    #[cold]
    pub(super) fn abandon(&self, fiber: FiberPtr) {
        if !fiber.state().load().is_fresh() {
            // A left-over entry goes, with the reference that it holds.
            let _ = fiber.has_entry();
            return;
        }
        if !fiber.admit() {
            return;
        }
        let payload = "the runtime was shut down before the fiber could start";
        let report = FiberReport::of_unstarted(fiber);
        // SAFETY: just started, not run.
        let woken = unsafe { fiber::fail(fiber, Box::new(payload)) };
        // Under one lock, so that it is counted once: as alive or as one that never started.
        let mut unstarted = self.unstarted.lock();
        unstarted.add(report);
        self.outside.finished.add_shared(1);
        drop(unstarted);
        woken.each(super::wake);
    }

    /// Tells every worker to leave.
    pub(crate) fn stop(&self) {
        self.inherits_no_more();
        self.stopping.store(true, Ordering::SeqCst);
        self.draining.store(true, Ordering::SeqCst);
        self.crew.stop();
        self.watch.wake();
        for index in 0..self.cores.len() {
            // Claimed or not: an unpark too many is taken by the worker's next sleep.
            let _ = self.idle.claim(index);
            self.unpark(index);
        }
    }
}
