//! Notices when every fiber waits for another one.
//!
//! Looked at when the runtime has been quiet for a while: by the supervisor before it goes to sleep;
//! where there is none, by the last worker, on its second sleep without work in between. Certain
//! before it speaks up: every fiber that lives is parked, in a wait that neither a deadline nor the
//! kernel ends, and every thread of the process is either the runtime's own, which run no fiber then, or
//! sleeps in such a wait itself. What it cannot see it takes for something that may wake a fiber: the
//! threads of other runtimes, plain threads that do anything else, systems without `/proc`.
//!
//! A deadlock is told of once. Who looks is woken by other things too, by a worker that gives back
//! memory say; but whom a report named must be dispatched to run again, so if none was since, the
//! deadlock is the one that was told.

use super::census::{FiberReport, LISTED};
use super::shared::Shared;
use crate::fiber;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use std::fmt;

/// Every fiber waits, and nothing is left that could wake one.
///
/// ```
/// use volt::runtime::{Builder, Deadlock};
///
/// fn report(deadlock: &Deadlock) {
///     eprintln!("{} fibers wait for each other:\n{deadlock}", deadlock.count);
/// }
///
/// let builder = Builder::new().on_deadlock(report);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// The fibers, of more than a hundred only some.
    pub fibers: Vec<FiberReport>,
    /// How many there are.
    pub count: usize,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => {
                write!(f, "possible deadlock: the only fiber waits, and nobody is left to wake it")?
            }
            n => write!(f, "possible deadlock: all {n} fibers wait for each other")?,
        }
        for fiber in &self.fibers {
            write!(f, "\n  {fiber}")?;
        }
        match self.count - self.fibers.len() {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl Shared {
    /// Is anybody told of a deadlock?
    pub(super) fn watches_for_deadlocks(&self) -> bool {
        self.config.on_deadlock.is_some()
    }

    /// Looks, and tells whoever wants to know.
    #[cold]
    pub(super) fn look_for_deadlock(&self) {
        let Some(hook) = &self.config.on_deadlock else { return };
        // Before the search: whatever is dispatched since makes the next one another deadlock.
        let dispatched = self.dispatched();
        let Some(deadlock) = self.find_deadlock() else { return };
        // Or this one: then it is for whoever dispatched last, who looks afterwards as well.
        if self.dispatched() != dispatched {
            return;
        }
        if self.deadlock_at.swap(dispatched, Ordering::AcqRel) != dispatched {
            fiber::forget_panics(|| hook(&deadlock));
        }
    }

    pub(super) fn dispatched(&self) -> u64 {
        self.counters().map(|stats| stats.dispatched.get()).sum()
    }

    fn find_deadlock(&self) -> Option<Deadlock> {
        if self.live() == 0 || !self.is_alone()? {
            return None;
        }
        let now = Moment::now();
        let (mut count, mut fibers, mut stuck) = (0, Vec::new(), true);
        self.each_fiber(|fiber| {
            stuck = fiber.waits_for_fibers();
            count += 1;
            if stuck && fibers.len() < LISTED {
                fibers.push(fiber.report(now));
            }
            stuck
        });
        // Those that were not found have not started, or are about to end.
        let all = count as u64 == self.live();
        // Once more: a thread that was woken since was woken by a fiber that ran.
        (stuck && all && self.is_alone()?).then_some(Deadlock { fibers, count })
    }

    /// Are all threads of the process this runtime's, or asleep until somebody wakes them?
    fn is_alone(&self) -> Option<bool> {
        let asleep = fiber::asleep();
        let ours = self.threads.load(Ordering::Acquire) + self.drivers.load(Ordering::Acquire);
        Some(threads_of_process()? == ours + asleep)
    }
}

/// How many threads the process has, where the system tells.
fn threads_of_process() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}
