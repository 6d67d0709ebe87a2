//! Notices when every fiber waits for another one.
//!
//! Looked at when the runtime has been quiet for a while: by the supervisor before it goes to sleep;
//! where there is none, by the last worker, on its second sleep without work in between. Certain
//! before it speaks up: every fiber that lives is parked, in a wait that neither a deadline nor the
//! kernel ends, and every thread of the process is either the runtime's own, which run no fiber then, or
//! sleeps in such a wait itself. What it cannot see it takes for something that may wake a fiber: the
//! threads of other runtimes, plain threads that do anything else, systems without `/proc`.
//!
//! A fiber that waits for the kernel or a timer is proof enough that there is none, so each look begins with the one at
//! which the last one has ended, and mostly ends with it.
//!
//! A thread that is awake may yet go to sleep, as one that waits for the very fibers does which it has just spawned: so
//! where the fibers are stuck and nothing but such a thread is in the way, it looks again some times, for a second and
//! a half in all.
//!
//! A deadlock is told of once. Who looks is woken by other things too, by a worker that gives back
//! memory say; but whom a report named must be dispatched to run again, so if none was since, the
//! deadlock is the one that was told.

use super::census::{self, FiberReport, LISTED};
use super::shared::Shared;
use crate::fiber;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use std::fmt;
use std::time::Duration;

/// How long a worker without supervisor sleeps before it looks, and who has to look again.
pub(super) const QUIET: Duration = Duration::from_millis(50);
/// So often, and each time after twice as long.
const LOOKS: u32 = 5;

/// What a look has come to.
enum Found {
    Nothing,
    /// Only a thread that is awake can wake them.
    Undecided,
    Deadlock(Deadlock),
}

/// The looks since anything ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looks(u32);

impl Looks {
    pub(super) const NONE: Looks = Looks(0);

    /// One more, which may have to come `again`, and when. `None` if there is nothing to look for any more.
    pub(super) fn next(&mut self, look: impl FnOnce() -> bool) -> Option<Duration> {
        if self.0 < LOOKS {
            self.0 = if look() { self.0 + 1 } else { LOOKS };
        }
        self.again()
    }

    /// When the next one is due.
    pub(super) fn again(self) -> Option<Duration> {
        (self.0 < LOOKS).then(|| QUIET * (1 << self.0))
    }
}

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
    /// Looks, and tells whoever wants to know, which may take long: after `before_hook`. `true` if another look may
    /// find what this one could not tell.
    #[cold]
    pub(crate) fn look_for_deadlock(&self, before_hook: impl FnOnce()) -> bool {
        let Some(hook) = self.hooks().on_deadlock else { return false };
        // Before the search: whatever is dispatched since makes the next one another deadlock.
        let dispatched = self.dispatched();
        let deadlock = match self.find_deadlock() {
            Found::Nothing => return false,
            Found::Undecided => return true,
            Found::Deadlock(deadlock) => deadlock,
        };
        // Or this one: then it is for whoever dispatched last, who looks afterwards as well.
        if self.dispatched() == dispatched
            && self.deadlock_at.swap(dispatched, Ordering::AcqRel) != dispatched
        {
            before_hook();
            crate::util::forget_panics(|| hook(&deadlock));
        }
        false
    }

    pub(super) fn dispatched(&self) -> u64 {
        self.counters().map(|stats| stats.dispatched.get()).sum()
    }

    fn find_deadlock(&self) -> Found {
        if self.live() == 0 || self.goes_on_where_it_did() {
            return Found::Nothing;
        }
        let Some(alone) = self.is_alone() else { return Found::Nothing };
        let now = Moment::now();
        let (mut count, mut fibers, mut stuck) = (0, Vec::new(), true);
        let ended = self.each_fiber(|fiber| {
            stuck = self.is_stuck(&fiber);
            count += 1;
            if stuck && fibers.len() < LISTED {
                fibers.push(fiber.report(now));
            }
            // Where it cannot be certain, some of them will do.
            stuck && (alone || count < LISTED)
        });
        if !stuck {
            *self.no_deadlock_for.lock() = ended;
        }
        // Those that were not found have not started, or are about to end.
        let all = count as u64 == self.live();
        match stuck && (all || !alone) {
            false => Found::Nothing,
            // Once more: a thread that was woken since was woken by a fiber that ran.
            true if alone && self.is_alone() == Some(true) => {
                Found::Deadlock(Deadlock { fibers, count })
            }
            true => Found::Undecided,
        }
    }

    /// Does the fiber at which the last look has ended still not wait for others? It may be one that accepts
    /// connections, and come after 100,000 that wait for a message each.
    fn goes_on_where_it_did(&self) -> bool {
        let place = *self.no_deadlock_for.lock();
        let stuck = place.and_then(|place| self.fiber_at(place, |fiber| self.is_stuck(&fiber)));
        stuck == Some(false)
    }

    fn is_stuck(&self, fiber: &census::Found) -> bool {
        #[cfg(test)]
        self.looked_at.fetch_add(1, Ordering::Relaxed);
        fiber.waits_for_fibers()
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
