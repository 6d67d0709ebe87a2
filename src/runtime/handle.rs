//! A reference to a runtime, to spawn on it from anywhere.

use super::default::default_runtime;
use super::join::JoinHandle;
use crate::park;
use crate::primitives::clock::Moment;
use crate::primitives::sync::Arc;
use crate::scheduler::{
    self, BlockingSite, BlockingStats, FiberReport, Shared, SpawnOptions, Target, WorkerStats,
};
use std::panic::Location;

/// A counted reference to a runtime. It does not keep the runtime from being shut down.
///
/// ```
/// let runtime = volt::runtime::Handle::current();
/// let fiber = std::thread::spawn(move || runtime.go(|| 6 * 7)).join().unwrap();
/// assert_eq!(fiber.join().unwrap(), 42);
/// ```
#[derive(Clone, Debug)]
pub struct Handle(pub(super) Arc<Shared>);

// Nothing of it is left half changed by a panic.
impl std::panic::UnwindSafe for Handle {}
impl std::panic::RefUnwindSafe for Handle {}

/// Figures of a runtime.
///
/// ```
/// use volt::runtime::{Handle, Stats};
///
/// let stats: Stats = volt::run(|| Handle::current().stats());
/// assert!(stats.live >= 1, "the fiber that asked");
/// println!("{} of {} fibers wait to run", stats.queue.size, stats.live);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Fibers that have been spawned and have not ended.
    pub live: u64,
    /// The sum over all workers, and over what plain threads did.
    pub total: WorkerStats,
    /// Each worker's own counters; those that replaced stalled ones stand behind the others.
    pub workers: Vec<WorkerStats>,
    /// Fibers that wait for each of those workers. A worker that blocks or has stalled keeps none.
    pub queued: Vec<usize>,
    /// All workers' queues as one.
    pub queue: QueueStats,
    /// Figures of [`volt::blocking`](crate::blocking).
    pub blocking: BlockingStats,
}

/// The queues of runnable fibers, taken together.
///
/// ```
/// use volt::runtime::{Handle, QueueStats};
///
/// let queue: QueueStats = Handle::current().stats().queue;
/// assert_eq!(queue.enqueued, queue.dequeued + queue.size as u64);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Fibers that the workers' own queues hold; those beyond stand in the shared one, which has no
    /// bound.
    pub capacity: usize,
    /// Workers that the runtime has; none of a current-thread runtime that nobody runs.
    pub workers: usize,
    /// Workers that may run fibers at present, neither blocked nor stalled.
    pub concurrency: usize,
    /// Fibers that wait to run.
    pub size: usize,
    /// Times that a fiber has come to wait so. Not counted but reckoned, as `dequeued` and `size` together, so that no
    /// push pays for it: one that yields while nobody else waits counts too, and while one is stolen it is not in
    /// `size`.
    pub enqueued: u64,
    /// Times that one has been given the processor.
    pub dequeued: u64,
}

impl Handle {
    /// The runtime that the calling fiber belongs to; the default runtime on a plain thread.
    ///
    /// # Panics
    ///
    /// On a plain thread, if the default runtime cannot be started.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use volt::runtime::{Builder, Handle};
    ///
    /// let runtime = Builder::new().workers(1).build()?;
    /// let sum = runtime.run(|| Handle::current().go(|| 1 + 1).join().unwrap());
    /// assert_eq!(sum, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn current() -> Handle {
        with_scheduler_here(|shared| Handle(shared.to_arc()))
    }

    /// Starts a fiber that runs `f` on this runtime, from any thread.
    ///
    /// After the runtime's shutdown nothing is spawned, and the handle's `join` says so.
    ///
    /// ```
    /// let fiber = volt::runtime::Handle::current().go(|| 6 * 7);
    /// assert_eq!(fiber.join().unwrap(), 42);
    /// ```
    #[track_caller]
    pub fn go<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let options = SpawnOptions { name: None, size: None, site: Location::caller() };
        // SAFETY: both are 'static.
        unsafe { JoinHandle::spawn(Target::On(&self.0), options, f) }
    }

    /// Counters at this moment.
    ///
    /// ```
    /// let stats = volt::runtime::Handle::current().stats();
    /// assert_eq!(stats.queued.len(), stats.workers.len());
    /// ```
    pub fn stats(&self) -> Stats {
        // Each counter is read once, so that the sum is of these very figures.
        let (workers, mut total) = self.0.counted();
        workers.iter().for_each(|worker| total += *worker);
        let (queued, shared) = self.0.queued();
        let (concurrency, may_run) = self.0.running();
        let size = queued.iter().sum::<usize>() + shared;
        let queue = QueueStats {
            capacity: may_run * scheduler::QUEUE_CAPACITY,
            workers: may_run,
            concurrency,
            size,
            enqueued: total.dispatched + size as u64,
            dequeued: total.dispatched,
        };
        Stats {
            live: self.0.live(),
            total,
            workers,
            queued,
            queue,
            blocking: self.0.blocking.stats(),
        }
    }

    /// The fibers that have started and not ended, at most `most` of them, in no order: who each is and
    /// what it waits for. Also from plain threads, and from any fiber, which finds itself running.
    ///
    /// All of them at one moment: meanwhile no other fiber of the runtime is dispatched or ends, and those
    /// that run come as far as their next wait. That takes some 10 ns for each that is listed, 80 ns where
    /// there are a million, so there `most` should be a number; and as long as the system keeps the
    /// caller from the processor in the middle of it, so this is not for a thread of the lowest priority.
    /// Who asks again at once is kept waiting for eight times as long as the last list took. Nobody pays
    /// while nobody asks.
    ///
    /// By the time that the list is read, any of them may have gone on. [`Stats::live`] counts those too
    /// that have not started.
    ///
    /// # Cancel
    ///
    /// Does not end it; the list is made at once then.
    ///
    /// # Panics
    ///
    /// In a `fork`ed child, where nobody is left to list.
    ///
    /// ```
    /// use volt::runtime::Handle;
    ///
    /// let fiber = volt::go(volt::thread::park);
    /// let mine = || {
    ///     let fibers = Handle::current().fibers(usize::MAX);
    ///     fibers.into_iter().find(|report| report.id == fiber.thread().id())
    /// };
    /// // It may not have started, or not come so far.
    /// while mine().and_then(|report| report.waits_for) != Some("park") {
    ///     volt::yield_now();
    /// }
    /// // Such as: fiber '<unnamed>' spawned at src/main.rs:3:17 waits for park since 1.2ms
    /// println!("{}", mine().unwrap());
    /// fiber.thread().unpark();
    /// fiber.join().unwrap();
    /// ```
    pub fn fibers(&self, most: usize) -> Vec<FiberReport> {
        park::check_process();
        let turn = self.0.turn_to_list();
        if turn > Moment::now() {
            // However that ends.
            let _ = park::sleep_until(turn);
        }
        self.0.fibers(most)
    }

    /// The places in the code whose fibers have stalled a worker.
    ///
    /// ```
    /// for site in volt::runtime::Handle::current().blocking_sites() {
    ///     println!("fibers spawned at {} have stalled {} times", site.site, site.stalls);
    /// }
    /// ```
    pub fn blocking_sites(&self) -> Vec<BlockingSite> {
        self.0.blocking_sites()
    }
}

/// Hands `f` the scheduler that the caller is on, or the default runtime's.
#[inline]
pub(crate) fn with_scheduler_here<R>(f: impl FnOnce(&Shared) -> R) -> R {
    match scheduler::current() {
        // SAFETY: it lives while one of its workers runs us.
        Some(shared) => f(unsafe { &*shared }),
        None => f(&default_runtime().handle().0),
    }
}
