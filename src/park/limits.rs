//! Waits inside timeouts and tokens.
//!
//! A wait that may be cancelled is bounded by the nearest deadline of its owner's scopes, and linked
//! into their interrupts. Where one of them ends it, it is cancelled, whatever its own deadline.

use super::{Outcome, Parking, Wait};
use crate::fiber::{Limit, Owner, Scopes};
use crate::primitives::clock::Moment;
use crate::primitives::thread;

impl Parking {
    /// As [`park`](Parking::park), for a wait that may be cancelled, where there are scopes.
    #[cold]
    #[inline(never)]
    pub(super) fn park_in_scopes(&self, scopes: &Scopes, wait: Wait) -> Outcome {
        let waiter = self.waiter();
        let mut over = false;
        for scope in scopes.iter() {
            over |= match scope.limit() {
                Limit::Interrupt(interrupt) => !interrupt.link(waiter),
                Limit::Deadline(_) | Limit::Shield => scope.is_over(),
            };
        }
        let own = wait.deadline.unwrap_or(Moment::NEVER);
        let nearest = nearest_deadline(scopes);
        let outcome = if over {
            self.end_cancelled()
        } else {
            let deadline = Some(own.min(nearest));
            self.park_plainly(Wait {
                deadline,
                cancellable: wait.cancellable && !scopes.is_shielded(),
                ..wait
            })
        };
        let timed_out = outcome == Outcome::TimedOut && nearest < own;
        let cancelled = timed_out || outcome == Outcome::Cancelled;
        for scope in scopes.iter() {
            match scope.limit() {
                Limit::Shield => {}
                Limit::Deadline(deadline) => {
                    let ended_it =
                        cancelled && (scope.is_over() || timed_out && deadline == nearest);
                    ended_it.then(|| scope.fire());
                }
                Limit::Interrupt(interrupt) => {
                    (interrupt.unlink() && cancelled).then(|| scope.fire());
                }
            }
        }
        if cancelled { Outcome::Cancelled } else { outcome }
    }

    /// Ends the open wait as cancelled before it was parked, unless a source was first.
    fn end_cancelled(&self) -> Outcome {
        let state = self.state();
        let _ = state.settle(Outcome::Cancelled);
        state.load().outcome()
    }
}

/// The deadline that the calling fiber's or thread's waits are bounded by; `NEVER` for none.
fn nearest_deadline(scopes: &Scopes) -> Moment {
    let deadlines = scopes.iter().map(|scope| match scope.limit() {
        Limit::Deadline(deadline) => deadline,
        Limit::Shield | Limit::Interrupt(_) => Moment::NEVER,
    });
    deadlines.min().unwrap_or(Moment::NEVER)
}

/// How a wait of the calling plain thread that does not go through [`Parking`] (it blocks in the
/// kernel) is bounded.
#[derive(Debug)]
pub(crate) struct Bound {
    /// No later than this.
    pub(crate) deadline: Moment,
    /// A scope has ended already.
    pub(crate) over: bool,
}

/// The bound of a wait of the caller's.
pub(crate) fn bound() -> Bound {
    let owner = Owner::here();
    let scopes = owner.scopes();
    if thread::panicking() {
        return Bound { deadline: Moment::NEVER, over: false };
    }
    let cancelled = owner.is_cancelled() && !scopes.is_shielded();
    let over = cancelled || scopes.iter().any(|scope| scope.is_over());
    Bound { deadline: nearest_deadline(scopes), over }
}

/// A wait within that bound was ended by it: the scopes that did so are told.
pub(crate) fn bound_ended() {
    let owner = Owner::here();
    let now = Moment::now();
    for scope in owner.scopes().iter() {
        let passed = matches!(scope.limit(), Limit::Deadline(deadline) if deadline <= now);
        (passed || scope.is_over()).then(|| scope.fire());
    }
}

/// Is a scope of the caller's over, behind a shield or not?
pub(crate) fn is_any_scope_over() -> bool {
    let owner = Owner::here();
    let scopes = owner.scopes();
    if scopes.is_empty() {
        return false;
    }
    let now = Moment::now();
    scopes.all().any(|scope| match scope.limit() {
        Limit::Deadline(deadline) => deadline <= now,
        Limit::Interrupt(_) | Limit::Shield => scope.is_over(),
    })
}
