//! The cooperative budget: what an operation that could have waited and did not is charged.
//!
//! A fiber whose operations are used up yields before its next one, best before it takes something of which there are
//! few, such as a pooled connection or a permit: to yield with that in hand makes others wait for it, and who waits for
//! it is handed it from then on, one after the other, a switch each time. Whether an operation takes or gives back
//! nobody says. But turns of two come out even (a leg has an even number of operations, and that before which it yields
//! is the first of the next one): who yields before it takes does so ever after. Who has waited begins with what it got
//! in hand, so its operations end where it gives that back. There it is let through once (`charge_who_gives`), and
//! yields before the next one.

use super::current_fiber;
use crate::fiber::{self, FiberPtr, Seat};
use crate::primitives::sync::Caller;
use crate::scheduler;

/// Charges the running fiber for an operation that could have waited and did not. Called before
/// the operation: a fiber that has used up its budget yields first.
#[inline]
pub(crate) fn charge(fiber: FiberPtr) {
    // SAFETY: a fiber runs on a worker; the seat is valid until the next switch.
    let seat = unsafe { &*fiber::seat() };
    if seat.operations() != 0 || goes_on(seat) {
        return seat.charge();
    }
    scheduler::count_budget_yield();
    // SAFETY: the calling fiber, on its worker. A new dispatch brings a new budget.
    unsafe { scheduler::yield_now(fiber) };
    // SAFETY: as above; maybe another one.
    unsafe { &*fiber::seat() }.charge();
}

/// The running fiber has no operations left: has it another leg? Then those of the last one are counted: a turn is a
/// long time for a thief that measures how fast this worker is.
#[cold]
fn goes_on(seat: &Seat) -> bool {
    let goes_on = seat.goes_on();
    if goes_on {
        scheduler::count_leg();
    }
    goes_on
}

/// Charges the caller if it is a fiber; see [`charge`](fn@charge). One look at the seat.
#[inline]
pub(crate) fn charge_current() {
    charge_unless(|_| false);
}

/// As [`charge_current`], for whoever goes on with a biased lock, in an operation that gives something back if the
/// caller's last wait was for `got` at `object`. Then it is let through once.
#[inline]
pub(crate) fn charge_who_gives(got: &'static str, object: usize) -> Caller {
    // SAFETY: the calling fiber's own.
    charge_unless(|fiber| unsafe { fiber.forget_wait(got, object) })
}

/// Charges the caller for an operation that never waits, and lets nobody else run either: who does so may hold what no
/// wait may be held over. One without operations left makes way before the next that can wait; meanwhile his are
/// counted, or he would seem to stand still.
#[inline]
pub(crate) fn charge_without_yield() -> Caller {
    let seat = fiber::seat();
    // SAFETY: valid until the next switch; none comes here.
    if let Some(seat) = unsafe { seat.as_ref() } {
        if seat.current().is_some() {
            if seat.operations() != 0 || goes_on(seat) {
                seat.charge();
            } else if seat.overdraw() {
                scheduler::count_leg();
            }
        }
    }
    // SAFETY: as `fiber::caller`; there was no switch.
    unsafe { Caller::of(seat) }
}

/// `let_through` is asked of a fiber that has no operations left.
#[inline]
fn charge_unless(let_through: impl FnOnce(FiberPtr) -> bool) -> Caller {
    let seat = fiber::seat();
    // SAFETY: valid until the next switch, and not used after it.
    if let Some(seat) = unsafe { seat.as_ref() } {
        match (seat.current(), seat.operations()) {
            (None, _) => {}
            (Some(fiber), 0) if let_through(fiber) => {}
            (Some(_), 0) => return charge_last(),
            (Some(_), _) => seat.charge(),
        }
    }
    // SAFETY: as `fiber::caller`; there was no switch.
    unsafe { Caller::of(seat) }
}

/// What `enter` has for the caller, who is charged for it; `None` also for one without operations left, or a plain
/// thread. On a worker's own stack the charge is nobody's.
#[inline(always)]
pub(crate) fn charge_for<R>(enter: impl FnOnce(Caller) -> Option<R>) -> Option<R> {
    // SAFETY: valid until the next switch, and not used after it.
    let seat = unsafe { fiber::seat().as_ref() }?;
    if seat.operations() == 0 {
        return None;
    }
    // SAFETY: as `fiber::caller`; there was no switch.
    let entered = enter(unsafe { Caller::of(seat) })?;
    seat.charge();
    Some(entered)
}

#[cold]
fn charge_last() -> Caller {
    if let Some(fiber) = current_fiber() {
        charge(fiber);
    }
    fiber::caller()
}

/// Charges the caller if it is a fiber that has operations left; false if it must let others run first.
#[inline]
pub(crate) fn try_charge() -> bool {
    // SAFETY: valid until the next switch, and not used after it.
    let Some(seat) = (unsafe { fiber::seat().as_ref() }) else { return true };
    match (seat.current(), seat.operations()) {
        (None, _) => true,
        (Some(_), 0) if !goes_on(seat) => false,
        (Some(_), _) => {
            seat.charge();
            true
        }
    }
}
