//! Who lives: the fibers of a runtime, found by their stacks.
//!
//! A slab's slots name the fiber that runs on each (`stack`), so finding all fibers costs nothing as
//! long as nobody asks. Whoever asks *freezes* the runtime for that time: it closes the gate of every
//! core, which a worker passes at each dispatch and at each end of a fiber. A worker goes on in the
//! code of its fiber, and no further.
//!
//! # What holds while a runtime is frozen
//!
//! 1. A fiber whose slot names it is alive: before its end is published it clears that place, inside
//!    the gate, or under `coreless` where its worker has no core.
//! 2. A fiber that is parked, and does not block its thread, does not run: a wake puts it into a
//!    queue, out of which a worker takes it to its own stack at most; then comes a gate, also where
//!    its worker is about to hand on its core. So what it noted about its wait can be read.
//! 3. No core is added and none changes hands: `crew` is held.
//!
//! Fibers that have not started have no stack, and are not found.
//!
//! A frozen worker stands still, so lists have their [turns](super::list_turns::ListTurns): a monitor that asks in a
//! loop would leave workers so little that the supervisor took them for blocked.

use super::shared::Shared;
use crate::fiber::{FiberPtr, Header, ThreadId, Wake};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use crate::primitives::thread;
use crate::stack::{self, Place};
use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;
use std::time::Duration;

/// The most fibers that a report of a deadlock or of a shutdown names.
pub(crate) const LISTED: usize = 100;

/// A fiber that has not ended, as a report has it.
///
/// In lists that one asks for ([`Handle::fibers`](crate::runtime::Handle::fibers)), of deadlocks
/// ([`Deadlock`](crate::runtime::Deadlock)), and of what a shutdown left
/// ([`ShutdownError`](crate::runtime::ShutdownError)).
///
/// ```
/// use volt::runtime::{Builder, FiberReport};
///
/// fn line(fiber: &FiberReport) -> String {
///     format!("{}: {}", fiber.site, fiber.waits_for.unwrap_or("runs"))
/// }
///
/// let builder = Builder::new().on_deadlock(|deadlock| {
///     deadlock.fibers.iter().for_each(|fiber| eprintln!("{}", line(fiber)));
/// });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FiberReport {
    /// As its [`Thread`](crate::thread::Thread) has it.
    pub id: ThreadId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub site: &'static Location<'static>,
    /// What it waits for, in a word such as "join" or "lock"; "its start" if it never ran; `None` if it
    /// runs, or is about to, or blocks its thread.
    pub waits_for: Option<&'static str>,
    /// The address of that, to tell whether two wait for the same; 0 if it has none.
    pub object: usize,
    /// For how long it has been waiting, to within some milliseconds, and longer if its worker was busy
    /// with few fibers.
    pub waiting: Duration,
}

impl fmt::Display for FiberReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("<unnamed>");
        write!(f, "fiber '{name}' spawned at {}", self.site)?;
        let Some(what) = self.waits_for else { return f.write_str(" runs") };
        write!(f, " waits for {what}")?;
        if self.object != 0 {
            write!(f, " ({:#x})", self.object)?;
        }
        match self.waiting {
            Duration::ZERO => Ok(()),
            waiting => write!(f, " since {waiting:?}"),
        }
    }
}

impl FiberReport {
    /// Of a fiber that nobody will run.
    pub(super) fn of_unstarted(fiber: FiberPtr) -> FiberReport {
        FiberReport { waits_for: Some("its start"), ..FiberReport::new(fiber) }
    }

    /// Of a fiber that does not wait.
    fn new(fiber: FiberPtr) -> FiberReport {
        FiberReport {
            id: ThreadId::of_fiber(fiber.id()),
            name: fiber.name().map(str::to_owned),
            site: fiber.site,
            waits_for: None,
            object: 0,
            waiting: Duration::ZERO,
        }
    }
}

/// Fibers that a stopped scheduler has ended before they could start.
#[derive(Debug, Default)]
pub(crate) struct Unstarted {
    pub(crate) count: u64,
    /// The first [`LISTED`] of them.
    pub(crate) fibers: Vec<FiberReport>,
}

impl Unstarted {
    pub(super) fn add(&mut self, report: FiberReport) {
        self.count += 1;
        if self.fibers.len() < LISTED {
            self.fibers.push(report);
        }
    }
}

/// A fiber of a frozen runtime.
pub(super) struct Found(FiberPtr);

impl Found {
    fn at(owner: NonNull<()>) -> Found {
        Found(FiberPtr::from_non_null(owner.cast::<Header>()))
    }

    /// It waits, and only another fiber, or a thread, can end that.
    pub(super) fn waits_for_fibers(&self) -> bool {
        self.is_parked() && !self.0.traits().outside()
    }

    fn is_parked(&self) -> bool {
        let now = self.0.state().load();
        now.is_parked() && !now.blocks()
    }

    pub(super) fn report(&self, now: Moment) -> FiberReport {
        let runs = FiberReport::new(self.0);
        if !self.is_parked() {
            return runs;
        }
        // SAFETY: parked, so it does not run (invariant 2).
        let wait = self.0.wait.with(|wait| unsafe { *wait });
        let waiting = now.since(wait.since);
        FiberReport { waits_for: Some(wait.reason), object: wait.object, waiting, ..runs }
    }

    fn cancel(&self) -> Option<Wake> {
        let settle = self.0.state().cancel();
        // SAFETY: from this waiter's state just now; alive (invariant 1).
        unsafe { self.0.as_waiter().wake(settle) }
    }
}

impl Shared {
    /// When the caller may ask for [`fibers`](Self::fibers).
    pub(crate) fn turn_to_list(&self) -> Moment {
        self.lists.turn(Moment::now())
    }

    /// Freezes the runtime and shows `f` its fibers, until that returns false; says where that was. `f` must neither
    /// wait nor wake.
    pub(super) fn each_fiber(&self, mut f: impl FnMut(Found) -> bool) -> Option<Place> {
        self.freeze(|domain| stack::each_owner(domain, |owner| f(Found::at(owner))))
    }

    /// As [`each_fiber`](Self::each_fiber), but the one at `place` alone, if there is one of this runtime.
    pub(super) fn fiber_at<R>(&self, place: Place, f: impl FnOnce(Found) -> R) -> Option<R> {
        self.freeze(|domain| place.owner_in(domain).map(|owner| f(Found::at(owner))))
    }

    /// Calls `look` with what the owners of its stacks belong to.
    fn freeze<R>(&self, look: impl FnOnce(*const ()) -> R) -> R {
        let _coreless = self.coreless.lock();
        let _crew = self.crew.hold();
        for core in self.cores.iter() {
            // Its worker is inside for a few instructions, or the supervisor is.
            while !core.gate.close() {
                thread::yield_now();
            }
        }
        let found = look(std::ptr::from_ref(self).cast());
        self.cores.iter().for_each(|core| core.gate.open());
        found
    }

    /// At most `most` of the fibers that have started and not ended.
    pub(crate) fn fibers(&self, most: usize) -> Vec<FiberReport> {
        let start = Moment::now();
        // As far as can be told, not while the workers stand still.
        let mut fibers = Vec::with_capacity(most.min(self.live() as usize));
        self.each_fiber(|fiber| {
            if fibers.len() < most {
                fibers.push(fiber.report(start));
            }
            fibers.len() < most
        });
        let now = Moment::now();
        self.lists.rest(now, now.since(start));
        fibers
    }

    /// Of a scheduler that has stopped with fibers that have not ended: those who wait are not woken any more, and must
    /// not be given what others wait for as well.
    pub(crate) fn give_up_waits(&self) {
        // First: a thread that looks there before this has left its last fiber where the walk finds it.
        self.gives_up.store(true, Ordering::SeqCst);
        self.each_fiber(|fiber| {
            fiber.0.state().give_up();
            true
        });
    }

    /// A thread has left its last fiber, which waits since.
    pub(super) fn give_up_later_waits(&self) {
        if self.gives_up.load(Ordering::SeqCst) {
            self.give_up_waits();
        }
    }

    /// Cancels every fiber, those that will start included.
    pub(crate) fn cancel_all(&self) {
        self.cancelling.store(true, Ordering::SeqCst);
        let mut wakes = Vec::new();
        self.each_fiber(|fiber| {
            wakes.extend(fiber.cancel());
            true
        });
        wakes.into_iter().for_each(super::wake);
    }
}
