//! Waits inside timeouts and tokens.
//!
//! A wait that may be cancelled is bounded by the nearest deadline of its owner's scopes, and linked
//! into their interrupts. Where one of them ends it, it is cancelled, whatever its own deadline.

use super::{Outcome, Parking, Wait};
use crate::fiber::{Interrupt, Limit, Owner, Scope, Scopes, WaiterPtr};
use crate::primitives::clock::Moment;
use crate::primitives::thread;

/// What the scopes make of one wait.
struct Limits {
    nearest: Moment,
    /// One of them is over.
    over: bool,
    shielded: bool,
    /// There are interrupts, to which the wait is linked.
    linked: bool,
}

impl Limits {
    /// Looks at all scopes that count, and links `waiter` into their interrupts.
    fn enter(scopes: &Scopes, waiter: WaiterPtr) -> Limits {
        let mut limits =
            Limits { nearest: Moment::NEVER, over: false, shielded: false, linked: false };
        for scope in scopes.iter() {
            match scope.limit() {
                Limit::Deadline(deadline) => {
                    limits.nearest = limits.nearest.min(deadline);
                    limits.over |= scope.is_over();
                }
                Limit::Interrupt(interrupt) => {
                    limits.linked = true;
                    limits.over |= !interrupt.link(waiter);
                }
                Limit::Shield => limits.shielded = true,
            }
        }
        limits
    }

    /// Unlinks the wait, and tells those scopes that have ended it.
    #[cold]
    fn leave(&self, scopes: &Scopes, cancelled: bool, timed_out: bool) {
        // Who does not wait in one that is over comes back at once, maybe for ever: nobody but this looks
        // whether others are over by now.
        let passed = if self.over { Moment::now() } else { Moment::PAST };
        for scope in scopes.iter() {
            let ended_it = match scope.limit() {
                Limit::Shield => false,
                Limit::Deadline(deadline) => {
                    let ended_it = scope.is_over() || timed_out && deadline == self.nearest;
                    if !ended_it && deadline <= passed {
                        scope.pass();
                    }
                    ended_it
                }
                Limit::Interrupt(interrupt) => interrupt.unlink(),
            };
            scope.wait_is_over(ended_it && cancelled);
        }
    }
}

impl Parking {
    /// As [`park`](Parking::park), for a wait that may be cancelled, where there are scopes.
    #[inline(never)]
    pub(super) fn park_in_scopes(&self, scopes: &Scopes, wait: Wait) -> Outcome {
        let limits = Limits::enter(scopes, self.waiter());
        let own = match wait.deadline {
            None | Some(Moment::NEVER) => Moment::NEVER,
            Some(own) => own.or_past(),
        };
        let outcome = if limits.over {
            // It does not wait, but others may: a loop of such waits lets them run.
            self.charge();
            self.end_cancelled()
        } else {
            let cancellable = !limits.shielded;
            self.park_plainly(Wait { deadline: Some(own.min(limits.nearest)), cancellable, ..wait })
        };
        let timed_out = outcome == Outcome::TimedOut && comes_first(limits.nearest, own);
        let cancelled = timed_out || outcome == Outcome::Cancelled;
        if cancelled || limits.linked {
            limits.leave(scopes, cancelled, timed_out);
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

/// Is it the scopes' deadline that has passed, and not the wait's own? A wait for no time has none to compare with.
fn comes_first(nearest: Moment, own: Moment) -> bool {
    match own {
        Moment::PAST => nearest != Moment::NEVER && nearest <= Moment::now(),
        own => nearest < own,
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

impl Bound {
    /// Of a wait with a deadline of its own, if it has one, the one that ends it; and is that this?
    pub(crate) fn of_wait(&self, own: Option<Moment>) -> (Option<Moment>, bool) {
        let cuts_off = comes_first(self.deadline, own.unwrap_or(Moment::NEVER));
        (if cuts_off { Some(self.deadline) } else { own }, cuts_off)
    }

    /// The wait was ended by it: the scopes that did so are told.
    pub(crate) fn ended(&self) {
        let owner = Owner::here();
        let now = Moment::now();
        // A token may have ended it long before the deadline.
        let ended = self.deadline.min(now);
        for scope in owner.scopes().iter() {
            let is_by =
                |moment| matches!(scope.limit(), Limit::Deadline(deadline) if deadline <= moment);
            let ended_it = scope.is_over() || is_by(ended);
            if !ended_it && self.over && is_by(now) {
                scope.pass();
            }
            scope.wait_is_over(ended_it);
        }
    }
}

/// What may end the waits of the caller at any time, as long as it is inside the scopes that it is in now.
#[derive(Debug)]
pub(crate) struct Interrupts<'a>(Vec<&'a Interrupt>);

/// Of the caller's scopes, up to a shield; `owner` is the caller. None while it unwinds.
pub(crate) fn interrupts(owner: &Owner) -> Interrupts<'_> {
    if thread::panicking() {
        return Interrupts(Vec::new());
    }
    let interrupt = |scope: &Scope<'static>| match scope.limit() {
        Limit::Interrupt(interrupt) => Some(interrupt),
        Limit::Shield | Limit::Deadline(_) => None,
    };
    Interrupts(owner.scopes().iter().filter_map(interrupt).collect())
}

impl Interrupts<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn is_any_raised(&self) -> bool {
        self.0.iter().any(|interrupt| interrupt.is_raised())
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
