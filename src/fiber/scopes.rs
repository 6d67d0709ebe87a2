//! What limits the waits of a fiber or plain thread besides its own cancel: timeouts, tokens, shields.
//!
//! Each is a [`Scope`] on the stack of whoever entered it, in a chain from the innermost outwards. A
//! scope costs nothing until a wait comes: the wait takes the nearest deadline of the chain for its
//! own, and links itself into the [`Interrupt`]s (`park` does both). A shield hides all that lies
//! outside of it, the cancel of the fiber itself included.
//!
//! # Invariants
//!
//! 1. The chain is written and read by its owner alone, the fiber or thread; only interrupts are
//!    reached from elsewhere, through their locks.
//! 2. A scope stands still from its entry to its exit and is left in the order of the stack, by a
//!    panic too. So every scope of a chain is alive.

use super::header::FiberPtr;
use super::interrupt::Interrupt;
use super::thread::ThreadBlock;
use super::tls;
use crate::primitives::clock::Moment;
use crate::primitives::sync::Arc;
use crate::primitives::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, Ordering};
use std::cell::Cell;
use std::fmt;
use std::ptr;

/// Why an operation of a cancelled fiber failed, and the payload with which its other waits unwind.
///
/// ```
/// use volt::cancel::Cancelled;
///
/// let fiber = volt::go(volt::thread::park);
/// fiber.cancel();
/// assert!(fiber.join().unwrap_err().is::<Cancelled>());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fiber has been cancelled")
    }
}

impl std::error::Error for Cancelled {}

/// The chain of one fiber or thread. Its own to read and write (invariant 1), as its [`Marks`] are, so
/// every access is relaxed.
#[derive(Debug, Default)]
pub(crate) struct Scopes(AtomicPtr<Scope<'static>>);

/// What one fiber or thread remembers of its cancels.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Errors that told of a cancel, but for those that a scope which is over was to blame for.
    refused: AtomicU8,
    /// It unwinds because of a cancel, not from a panic.
    unwinding: AtomicBool,
    /// How often a cancel has unwound it.
    unwindings: AtomicU16,
}

impl Marks {
    pub(super) const fn new() -> Marks {
        Marks {
            refused: AtomicU8::new(0),
            unwinding: AtomicBool::new(false),
            unwindings: AtomicU16::new(0),
        }
    }

    /// Counts an error that tells of a cancel, and returns how many there were before.
    pub(crate) fn refuse(&self) -> u8 {
        let before = self.refused.load(Ordering::Relaxed);
        self.refused.store(before.saturating_add(1), Ordering::Relaxed);
        before
    }

    /// Has a cancel refused something, or unwound?
    pub(crate) fn has_noticed(&self) -> bool {
        self.refused.load(Ordering::Relaxed) != 0 || self.unwindings() != 0
    }

    pub(crate) fn set_unwinding(&self, unwinding: bool) {
        self.unwinding.store(unwinding, Ordering::Relaxed);
    }

    pub(crate) fn count_unwinding(&self) {
        self.unwindings.store(self.unwindings().wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn unwindings(&self) -> u16 {
        self.unwindings.load(Ordering::Relaxed)
    }

    pub(crate) fn is_unwinding(&self) -> bool {
        self.unwinding.load(Ordering::Relaxed)
    }
}

/// What a scope does to the waits inside.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit<'a> {
    /// Nothing outside ends them.
    Shield,
    /// They end at this time.
    Deadline(Moment),
    /// They end when this is raised.
    Interrupt(&'a Interrupt),
}

/// An entered scope.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    outer: *mut Scope<'static>,
    limit: Limit<'a>,
    /// It has ended a wait; later ones end without looking at the clock.
    fired: Cell<bool>,
    /// The first that it has ended is the owner's last wait.
    just_fired: Cell<bool>,
    /// It has ended none yet, but was seen to be over when one further in did.
    passed: Cell<bool>,
}

impl Scopes {
    pub(super) const fn new() -> Scopes {
        Scopes(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// From the innermost outwards, a shield included, but nothing outside of it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Scope<'static>> {
        Scope::chain(self.0.load(Ordering::Relaxed), true)
    }

    /// As `iter`, what shields hide included.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Scope<'static>> {
        Scope::chain(self.0.load(Ordering::Relaxed), false)
    }

    /// The owner's last wait was ended, and has had its effect all the same: those that have ended no other have
    /// only passed.
    pub(crate) fn pardon(&self) {
        for scope in self.iter().filter(|scope| scope.just_fired.replace(false)) {
            scope.fired.set(false);
            scope.pass();
        }
    }

    /// Is the owner in a shield, so that its own cancel does not count?
    pub(crate) fn is_shielded(&self) -> bool {
        self.iter().any(Scope::is_shield)
    }
}

impl<'a> Scope<'a> {
    fn chain<'s>(
        first: *mut Scope<'static>,
        to_shield: bool,
    ) -> impl Iterator<Item = &'s Scope<'static>> {
        let mut next = first;
        std::iter::from_fn(move || {
            // SAFETY: invariant 2: a scope of the chain is alive, and nobody writes to it but by its
            // cell; the caller is the owner.
            let scope = unsafe { next.as_ref() }?;
            next = if to_shield && scope.is_shield() { ptr::null_mut() } else { scope.outer };
            Some(scope)
        })
    }

    pub(crate) fn limit(&self) -> Limit<'a> {
        self.limit
    }

    fn is_shield(&self) -> bool {
        matches!(self.limit, Limit::Shield)
    }

    /// It has ended a wait.
    pub(crate) fn has_fired(&self) -> bool {
        self.fired.get()
    }

    /// A wait of the owner's is over, which this scope `ended` or not.
    pub(crate) fn wait_is_over(&self, ended: bool) {
        self.just_fired.set(ended && !self.fired.get());
        if ended {
            self.fired.set(true);
        }
    }

    /// Its deadline has passed: later waits end by it, but what comes without one is no less good.
    pub(crate) fn pass(&self) {
        self.passed.set(true);
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.passed.get()
    }

    /// Ends every wait inside from now on, as far as is known without a look at the clock.
    pub(crate) fn is_over(&self) -> bool {
        self.fired.get()
            || self.passed.get()
            || match self.limit {
                Limit::Shield => false,
                Limit::Deadline(deadline) => deadline == Moment::PAST,
                Limit::Interrupt(interrupt) => interrupt.is_raised(),
            }
    }

    /// Does something outside of this scope, with no shield between, end the waits here too? `owner`
    /// is the one who entered it.
    pub(crate) fn is_over_outside(&self, owner: &Owner) -> bool {
        let outside = || Scope::chain(self.outer, true);
        outside().any(Scope::is_over)
            || owner.is_cancelled() && !self.is_shield() && !outside().any(Scope::is_shield)
    }
}

/// Whose chain it is: the calling fiber's, or plain thread's.
#[derive(Debug)]
pub(crate) enum Owner {
    Fiber(FiberPtr),
    Thread(Arc<ThreadBlock>),
}

impl Owner {
    #[inline]
    pub(crate) fn here() -> Owner {
        tls::current().map_or_else(|| Owner::Thread(tls::thread_block()), Owner::Fiber)
    }

    #[inline]
    pub(crate) fn scopes(&self) -> &Scopes {
        match self {
            Owner::Fiber(fiber) => &fiber.scopes,
            Owner::Thread(thread) => &thread.scopes,
        }
    }

    pub(crate) fn marks(&self) -> &Marks {
        match self {
            Owner::Fiber(fiber) => &fiber.state.marks,
            Owner::Thread(thread) => &thread.state.marks,
        }
    }

    /// Was the fiber cancelled, shielded or not?
    pub(crate) fn is_cancelled(&self) -> bool {
        match self {
            Owner::Fiber(fiber) => fiber.state().load().is_cancelled(),
            Owner::Thread(_) => false,
        }
    }

    /// Enters a scope for as long as `f` runs, which gets to see it.
    #[inline]
    pub(crate) fn within<R>(&self, limit: Limit<'_>, f: impl FnOnce(&Scope<'_>) -> R) -> R {
        let scopes = self.scopes();
        let outer = scopes.0.load(Ordering::Relaxed);
        let mut scope = Scope {
            outer,
            limit,
            fired: Cell::new(false),
            just_fired: Cell::new(false),
            passed: Cell::new(false),
        };
        let top = (&raw mut scope).cast::<Scope<'static>>();
        scopes.0.store(top, Ordering::Relaxed);
        // SAFETY: ours, shared with the chain from here on.
        let scope = unsafe { &*top.cast::<Scope<'_>>() };
        let refused = self.marks().refused.load(Ordering::Relaxed);
        let _leave = Leave { owner: self, scope, refused };
        f(scope)
    }
}

/// Takes the innermost scope out of the chain.
struct Leave<'a, 's> {
    owner: &'a Owner,
    scope: &'a Scope<'s>,
    refused: u8,
}

impl Drop for Leave<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        self.owner.scopes().0.store(self.scope.outer, Ordering::Relaxed);
        // Errors that nothing but this scope was to blame for do not count outside of it.
        if self.scope.has_fired() {
            self.forgive();
        }
    }
}

impl Leave<'_, '_> {
    #[cold]
    fn forgive(&self) {
        if !self.scope.is_over_outside(self.owner) {
            self.owner.marks().refused.store(self.refused, Ordering::Relaxed);
        }
    }
}
