//! What each worker counted. Owner-written, read by anyone, so plain loads and stores.

use crate::primitives::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        // One writer: no read-modify-write is needed.
        // Release: who sees the end of a fiber sees its spawn.
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Release);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// For the few counters that several threads write.
    pub(crate) fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Release);
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One worker's counters.
        #[derive(Debug, Default)]
        pub(crate) struct Stats {
            $(pub(crate) $name: Counter,)*
        }

        /// A worker's counters, or the sum of several workers', since the runtime began.
        ///
        /// ```
        /// use volt::runtime::{Handle, WorkerStats};
        ///
        /// let total: WorkerStats = volt::run(|| Handle::current().stats().total);
        /// assert!(total.dispatched >= 1, "the fiber that asked");
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            pub(crate) fn snapshot(&self) -> WorkerStats {
                WorkerStats { $($name: self.$name.get(),)* }
            }
        }

        impl WorkerStats {
            /// Every counter by name, for reports.
            ///
            /// ```
            /// for (name, count) in volt::runtime::Handle::current().stats().total.iter() {
            ///     println!("{name} {count}");
            /// }
            /// ```
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }

        impl std::ops::AddAssign for WorkerStats {
            fn add_assign(&mut self, other: WorkerStats) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Fibers spawned by fibers of this worker.
    spawned,
    /// Fibers that ended on this worker.
    finished,
    /// Times that a fiber was given the processor.
    dispatched,
    /// Operations that could have waited, and did not or were tried first: each time that a fiber was charged for
    /// one. Those of a fiber are counted when it waits, yields or ends.
    operations,
    /// Fibers taken from other workers.
    stolen,
    /// Other workers' rings looked at.
    steals_tried,
    /// Times that the worker went to sleep, or to bed to look at the sockets first, of which something came.
    parked,
    /// Dispatches from the LIFO slot.
    lifo_hits,
    /// Times that others had their turn before the fiber in the LIFO slot, after three dispatches from there in a row:
    /// it was flushed to the ring, or stayed until four of a long ring had run, if it was woken for a lock.
    lifo_flushes,
    /// Times that it was not, since those in the ring take so long that three in a row were no share.
    lifo_extended,
    /// Times that the ring was full and half of it went to the injector.
    overflows,
    /// Batches taken from the injector.
    batches,
    /// Turns of the driver, and looks at the sockets of one who stays awake for them.
    polls,
    /// Ticks completed.
    ticks,
    /// Yields because a fiber had used up its operations.
    budget_yields,
    /// Fibers that came from another worker because every resume is to move them.
    migrated,
    /// Fibers that ran at once because they were joined before they had started.
    run_next,
    /// Parked workers that were woken. Counted for the whole runtime.
    wakes,
    /// Times that the worker handed its core on, for a fiber that blocks its thread.
    hand_offs,
    /// Calls of [`blocking`](crate::blocking) that kept the core, because calls there return soon.
    brief_calls,
    /// Times that it came back from a stall and went on.
    rejoined,
    /// Times that it came back from a stall and had been replaced.
    retired,
    /// Stalls that the supervisor saw. Counted for the whole runtime, as are those that follow.
    stalls,
    /// Calls that had kept the core and lost it to the supervisor, since they did not return.
    overdue_calls,
    /// Fibers that it took out of the LIFO slot of a worker that did not come to it.
    slots_freed,
    /// Threads started to take a core over.
    threads_started,
    /// Threads that the system refused. The first one, until there is one again, is told of on stderr.
    threads_refused,
}

impl Stats {
    /// How much the worker has done, as far as that can be told of what fibers do.
    pub(crate) fn work(&self) -> u64 {
        self.dispatched.get() + self.operations.get()
    }
}
