//! The one way to wait, for fibers and for plain threads.
//!
//! Every room above waits like this:
//!
//! 1. [`Parking::begin`] opens the wait and gives the waiter;
//! 2. nodes with that waiter are linked into sources, each under its source's lock, where the
//!    condition is checked once more;
//! 3. [`Parking::park`] returns how the wait ended: one outcome, settled once;
//! 4. every node is unlinked, under its source's lock, before the waiting function returns.
//!
//! A fiber leaves its worker to others meanwhile. A plain thread sleeps; so does a fiber in
//! [`blocking()`] or [`pinned`], and one whose thread is unwinding from a panic, because the panic count
//! belongs to the thread and must not be left to another fiber. Its worker's core is handed on first.

mod blocking;
mod borrowers;
mod charge;
mod limits;
mod patience;
pub(crate) mod queue;

use crate::driver::Timer;
use crate::fiber::{self, Ends, FiberPtr, Scopes, State, ThreadBlock, Traits, Waiters};
use crate::primitives::clock::Moment;
use crate::primitives::sync::Arc;
use crate::primitives::{self, thread};
use crate::scheduler::{self, Shared};
use std::pin::pin;

pub(crate) use crate::fiber::{Late, Outcome, WaiterPtr, Wake};
pub(crate) use crate::fiber::{deadline_after, has_passed, note_if_close};
pub(crate) use crate::scheduler::{Destination, wake};
pub use blocking::blocking;
pub(crate) use blocking::pinned;
pub(crate) use borrowers::{check_wait, may_wait, wait_for_borrowers};
pub(crate) use charge::{
    charge, charge_current, charge_for, charge_who_gives, charge_without_yield, try_charge,
};
pub(crate) use limits::{bound, interrupts, is_any_scope_over};
pub(crate) use patience::{Patience, comes_soon, linger, running, spin, spin_on_fiber};

/// What a wait is for and how it may end besides by its sources.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    /// A word for people, such as "accept" or "join".
    pub(crate) reason: &'static str,
    /// The address of what is waited for; 0 for none.
    pub(crate) object: usize,
    pub(crate) deadline: Option<Moment>,
    /// A cancel ends it.
    pub(crate) cancellable: bool,
    /// The unpark permit ends it.
    pub(crate) permit: bool,
    /// It is not fibers that end it, but the kernel.
    pub(crate) outside: bool,
    /// Others take what the fiber is woken for, or wait behind it, until it comes.
    pub(crate) urgent: bool,
    /// A plain thread does not spin first: it has already, and long enough, or only time ends the wait.
    pub(crate) at_once: bool,
    /// A plain thread has spun for a moment.
    pub(crate) has_spun: bool,
}

impl Wait {
    /// A wait that only its sources end.
    pub(crate) fn new(reason: &'static str) -> Wait {
        Wait { reason, ..Wait::default() }
    }

    /// A wait that a cancel ends too; whoever waits so unwinds then (`cancel::unwind`). Where panics
    /// abort, a cancel does not end it.
    pub(crate) fn cancellable(reason: &'static str) -> Wait {
        Wait { cancellable: cfg!(panic = "unwind"), ..Wait::new(reason) }
    }

    /// Might others end it within the microseconds that a thread spins?
    fn may_be_short(&self) -> bool {
        !self.at_once && !self.outside && self.deadline != Some(Moment::PAST)
    }

    #[inline(always)]
    fn ends(&self) -> Ends {
        let ends = Ends::PERMIT.only_if(self.permit).or(Ends::CANCEL.only_if(self.cancellable));
        ends.or(Ends::OUTSIDE.only_if(self.outside))
    }
}

/// The calling fiber, if it may leave its worker now.
#[inline]
pub(crate) fn current_fiber() -> Option<FiberPtr> {
    fiber::current().filter(|fiber| !stays(*fiber))
}

/// Must `fiber`, which runs here, keep its thread now?
#[inline]
fn stays(fiber: FiberPtr) -> bool {
    // SAFETY: the calling fiber's own.
    let pinned = fiber.pinned.with(|pinned| unsafe { *pinned });
    pinned || thread::panicking()
}

/// An open wait of the calling fiber or thread.
#[derive(Debug)]
pub(crate) struct Parking(Who);

#[derive(Debug)]
enum Who {
    Fiber(FiberPtr),
    /// A fiber that must not leave its thread now.
    Blocking(FiberPtr),
    Thread(Arc<ThreadBlock>),
}

impl Parking {
    /// Opens a wait; the one before has unlinked all its nodes. It is refused here or not at all: once a node is linked
    /// the wait may be settled, and what came of it would be lost with the panic.
    #[inline]
    pub(crate) fn begin(reason: &str) -> Parking {
        check_process();
        let Some(fiber) = fiber::current() else {
            let thread = fiber::thread_block();
            thread.state().begin_wait();
            return Parking(Who::Thread(thread));
        };
        let who = if stays(fiber) {
            check_who_stays(fiber, reason);
            Who::Blocking(fiber)
        } else {
            check_stack(fiber, reason);
            Who::Fiber(fiber)
        };
        fiber.state().begin_wait();
        Parking(who)
    }

    fn state(&self) -> &State {
        match &self.0 {
            Who::Fiber(fiber) | Who::Blocking(fiber) => fiber.state(),
            Who::Thread(thread) => thread.state(),
        }
    }

    #[inline]
    fn scopes(&self) -> &Scopes {
        match &self.0 {
            Who::Fiber(fiber) | Who::Blocking(fiber) => &fiber.scopes,
            Who::Thread(thread) => &thread.scopes,
        }
    }

    /// Takes the unpark permit if it is there; no wait is needed then.
    pub(crate) fn take_permit(&self) -> bool {
        self.state().take_permit()
    }

    pub(crate) fn waiter(&self) -> WaiterPtr {
        match &self.0 {
            Who::Fiber(fiber) | Who::Blocking(fiber) => fiber.as_waiter(),
            Who::Thread(thread) => WaiterPtr::of_thread(thread),
        }
    }

    /// Does the waiter keep its thread, so that whoever settles its wait looks at its block afterwards?
    #[inline]
    pub(crate) fn keeps_thread(&self) -> bool {
        !matches!(self.0, Who::Fiber(_))
    }

    /// Ends the wait before it was parked, because something else was found to do: with the result
    /// `Woken(result)`, unless a source settled it meanwhile. Returns how it ended.
    pub(crate) fn end(&self, result: u32) -> Outcome {
        let state = match &self.0 {
            Who::Fiber(fiber) | Who::Blocking(fiber) => fiber.state(),
            Who::Thread(thread) => thread.state(),
        };
        let _ = state.settle(Outcome::Woken(result));
        state.load().outcome()
    }

    /// Waits until the wait is settled.
    ///
    /// Inlined is what a fiber does that has no time limit: there the wait's fields are known.
    #[inline(always)]
    pub(crate) fn park(&self, wait: Wait) -> Outcome {
        match &self.0 {
            Who::Fiber(fiber) if wait.deadline.is_none() && fiber.scopes.is_empty() => {
                let ends = noted(*fiber, wait);
                // SAFETY: the calling fiber, on its worker.
                unsafe { scheduler::park(*fiber, ends) };
                fiber.state().load().outcome()
            }
            _ => self.park_in_any_way(wait),
        }
    }

    /// As `park`, whoever waits, and however.
    #[inline(never)]
    fn park_in_any_way(&self, wait: Wait) -> Outcome {
        let scopes = self.scopes();
        if scopes.is_empty() || !wait.cancellable {
            return self.park_plainly(wait);
        }
        // What unwinds already is not ended once more.
        if !matches!(self.0, Who::Fiber(_)) && thread::panicking() {
            return self.park_plainly(wait);
        }
        self.park_in_scopes(scopes, wait)
    }

    /// Charges a fiber that may leave its thread for a wait that is none; see [`charge`](fn@charge).
    fn charge(&self) {
        if let Who::Fiber(fiber) = &self.0 {
            charge(*fiber);
        }
    }

    /// Waits until the wait is settled, whatever scopes there are.
    fn park_plainly(&self, wait: Wait) -> Outcome {
        match &self.0 {
            Who::Fiber(fiber) => park_fiber(*fiber, wait),
            Who::Blocking(fiber) => {
                // SAFETY: the calling fiber, on its worker.
                unsafe { scheduler::hand_off(*fiber) };
                let ends = wait.ends();
                let refused = Ends::CANCEL.only_if(thread::panicking());
                fiber.wait_blocking(ends.but(refused), wait.deadline)
            }
            Who::Thread(thread) => {
                let (state, ends) = (thread.state(), wait.ends());
                if wait.may_be_short() {
                    let ended = || !state.stays_open(ends);
                    if wait.has_spun || !spin(ended) {
                        patience::spin_on(&thread.spins, wait.deadline, ended);
                    }
                }
                thread.wait(state, ends, wait.deadline)
            }
        }
    }
}

/// Waits for the end of `joined`, which has not started, if the caller can run it meanwhile on this
/// worker; `None`, with nothing done, if not. The caller holds its join handle, and is linked.
pub(crate) fn join_by_running(parking: &Parking, wait: Wait, joined: FiberPtr) -> Option<Outcome> {
    let Who::Fiber(fiber) = &parking.0 else { return None };
    if !fiber.scopes.is_empty() {
        return None;
    }
    if !scheduler::start_to_join(joined) {
        return None;
    }
    let ends = noted(*fiber, wait);
    // SAFETY: the calling fiber, on its worker; `joined` was just started.
    unsafe { scheduler::park_and_run(*fiber, ends, joined) };
    Some(fiber.state().load().outcome())
}

#[inline]
fn park_fiber(fiber: FiberPtr, wait: Wait) -> Outcome {
    let ends = noted(fiber, wait);
    match wait.deadline {
        // SAFETY: the calling fiber, on its worker.
        None | Some(Moment::NEVER) => unsafe { scheduler::park(fiber, ends) },
        Some(Moment::PAST) => {
            charge(fiber);
            return fiber.state().time_out(ends);
        }
        Some(deadline) => park_until(fiber, ends, deadline),
    }
    fiber.state().load().outcome()
}

/// Notes the wait, and says what ends it besides its sources.
#[inline(always)]
fn noted(fiber: FiberPtr, wait: Wait) -> Ends {
    let outside = wait.outside || wait.deadline.is_some_and(|deadline| deadline != Moment::NEVER);
    // SAFETY: the calling fiber's own.
    unsafe { fiber.note_wait(wait.reason, wait.object, Traits::new(outside, wait.urgent)) };
    wait.ends()
}

/// A signal handler that runs on the alternate stack must not leave its thread.
#[inline(always)]
fn check_stack(fiber: FiberPtr, reason: &str) {
    if !is_on_stack(fiber) {
        off_stack(reason);
    }
}

#[inline(always)]
fn is_on_stack(fiber: FiberPtr) -> bool {
    let place = 0u8;
    let (here, size) =
        (primitives::stack_pointer().unwrap_or((&raw const place).addr()), fiber.size);
    // SAFETY: the calling fiber's own, on which it runs unless a handler interrupted it. It knows its size
    // too, in a line of the cache that nothing else here needs.
    unsafe { fiber.stack() }.is_some_and(|stack| size.holds(stack.addr().get(), here))
}

#[cold]
#[inline(never)]
fn off_stack(reason: &str) -> ! {
    panic!(
        "a wait ({reason}) inside a signal handler, or on another stack than the fiber's: nothing of volt may wait there"
    );
}

/// Who keeps its thread waits for somebody in a way of its own: others take its worker's place, if it is a fiber.
pub(crate) fn begin_to_block(reason: &str) {
    if let Some(fiber) = fiber::current().filter(|fiber| stays(*fiber)) {
        hand_off(fiber, reason);
    }
}

/// The calling fiber is about to block its thread: its worker's core goes on without it, if it has that still.
fn hand_off(fiber: FiberPtr, reason: &str) {
    check_who_stays(fiber, reason);
    // SAFETY: as above.
    unsafe { scheduler::hand_off(fiber) };
}

/// Who keeps its thread, and has no core any more, may wait on any stack.
#[cold]
fn check_who_stays(fiber: FiberPtr, reason: &str) {
    // SAFETY: the calling fiber, on its worker.
    if unsafe { scheduler::holds_core() } {
        check_process();
        check_stack(fiber, reason);
    }
}

/// Refuses waits in a `fork`ed child, which has none of the threads that would end them.
#[inline(always)]
pub(crate) fn check_process() {
    primitives::check_process("a wait");
}

#[inline(never)]
fn park_until(fiber: FiberPtr, ends: Ends, deadline: Moment) {
    // SAFETY: a fiber's scheduler outlives the fiber.
    let driver = unsafe { &(*Shared::of(fiber)).driver };
    let mut timer = pin!(Timer::new(fiber.as_waiter(), deadline));
    let index = scheduler::current_worker_index().unwrap_or(0);
    let (armed, due) = driver.timers.arm(index, timer.as_mut(), fiber::is_close(deadline));
    if let Some(due) = due {
        driver.earlier_deadline(due);
    }
    // SAFETY: the calling fiber, on its worker.
    unsafe { scheduler::park(fiber, ends) };
    if fiber.state().load().outcome() == Outcome::TimedOut {
        armed.fired();
    }
}

/// Lets other fibers of this worker run; on a plain thread, other threads.
#[inline]
pub(crate) fn yield_now() {
    match current_fiber() {
        // SAFETY: the calling fiber, on its worker.
        Some(fiber) => unsafe { scheduler::yield_now(fiber) },
        None => {
            // Whom it waits for may be a fiber of its own worker.
            begin_to_block("yield");
            thread::yield_now();
        }
    }
}

/// Is the caller a fiber after which one that was put there (`to`) may run at once?
pub(crate) fn is_near(to: Destination) -> bool {
    current_fiber().is_some() && scheduler::is_near_worker(to)
}

/// Is the caller a fiber on a thread whose place among the workers another has taken?
pub(crate) fn is_beside_workers() -> bool {
    current_fiber().is_some() && scheduler::is_beside_workers()
}

/// Sleeps until `deadline`, or until the sleep is cancelled.
pub(crate) fn sleep_until(deadline: Moment) -> Outcome {
    let wait = Wait { deadline: Some(deadline), at_once: true, ..Wait::cancellable("sleep") };
    Parking::begin(wait.reason).park(wait)
}

/// What becomes of a wait that may be cancelled and whose time is over before it begins: cancelled if the caller is
/// asked to end, so that a loop ends however short its waits are, and timed out otherwise.
pub(crate) fn wait_for_no_time(reason: &'static str) -> Outcome {
    let wait = Wait { deadline: Some(Moment::PAST), ..Wait::cancellable(reason) };
    Parking::begin(reason).park(wait)
}

/// Waits among `waiters` until `over`, which ends it as `Woken`, or until it is timed out or cancelled.
/// Whoever makes `over` true settles the waiters afterwards.
pub(crate) fn wait_until(waiters: &Waiters, wait: Wait, mut over: impl FnMut() -> bool) -> Outcome {
    loop {
        let parking = Parking::begin(wait.reason);
        if !waiters.link(parking.waiter(), &mut over) {
            return Outcome::Woken(0);
        }
        let linked = waiters.linked(parking.waiter());
        let outcome = parking.park(wait);
        drop(linked);
        if !matches!(outcome, Outcome::Woken(_)) {
            return outcome;
        }
    }
}
