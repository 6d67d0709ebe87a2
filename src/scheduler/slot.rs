//! The LIFO slot: the fiber that a worker woke last, which it runs next while the cache is warm.
//!
//! After Go's `runnext` and Tokio's LIFO slot. The owner puts in and takes out, inside its core's
//! gate; so do the supervisor and thieves, as visitors, when the slot has aged behind a fiber that does not
//! stop. Plain loads and stores do, since the gate orders them. Others only look whether something is
//! there.

use super::gate::Gate;
use crate::fiber::{FiberPtr, Header};
use crate::primitives::sync::atomic::{AtomicPtr, Ordering};
use std::ptr::{self, NonNull};

#[derive(Debug)]
pub(crate) struct LifoSlot(AtomicPtr<Header>);

impl LifoSlot {
    pub(crate) fn new() -> LifoSlot {
        LifoSlot(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    fn get(&self) -> Option<FiberPtr> {
        NonNull::new(self.0.load(Ordering::Relaxed)).map(FiberPtr::from_non_null)
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.get().is_none()
    }

    /// Inside the gate: was the one that is there woken for what others take, or wait for behind it?
    #[cfg(not(loom))]
    pub(crate) fn is_urgent(&self) -> bool {
        self.get().is_some_and(|fiber| fiber.traits().urgent())
    }

    /// Inside the gate: puts `fiber` in and returns the one that was there.
    #[inline(always)]
    #[must_use]
    pub(crate) fn put(&self, fiber: FiberPtr) -> Option<FiberPtr> {
        let before = self.get();
        self.0.store(fiber.as_ptr(), Ordering::Release);
        before
    }

    /// Inside the gate: takes what is there.
    #[inline(always)]
    pub(crate) fn take(&self) -> Option<FiberPtr> {
        let fiber = self.get()?;
        self.0.store(ptr::null_mut(), Ordering::Relaxed);
        Some(fiber)
    }

    /// Owner, outside the gate: the join handle of `fiber` goes away, if `fiber` is here and fresh. Nobody
    /// takes it out while the owner is inside, so no read-modify-write is needed.
    #[inline(always)]
    #[must_use]
    pub(crate) fn detach(&self, gate: &Gate, fiber: FiberPtr) -> bool {
        if !self.holds(fiber) {
            return false;
        }
        gate.enter();
        let detached = self.holds(fiber) && fiber.state().detach_queued();
        gate.exit();
        detached
    }

    /// Is it `fiber` that waits here?
    #[inline(always)]
    pub(crate) fn holds(&self, fiber: FiberPtr) -> bool {
        self.get() == Some(fiber)
    }
}

/// Under loom: a handle goes away while others reach its fiber.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::primitives::models::check;
    use crate::primitives::sync::Arc;
    use loom::thread;

    const PREEMPTIONS: usize = 3;

    struct Place {
        gate: Gate,
        slot: LifoSlot,
    }

    /// A fiber in the slot.
    fn place() -> (Arc<Place>, FiberPtr) {
        let place = Arc::new(Place { gate: Gate::new(), slot: LifoSlot::new() });
        let fiber = FiberPtr::fresh();
        place.gate.enter();
        assert!(place.slot.put(fiber).is_none());
        place.gate.exit();
        (place, fiber)
    }

    fn drops_handle(place: &Place, fiber: FiberPtr) {
        if !place.slot.detach(&place.gate, fiber) {
            fiber.state().detach().expect("it does not end here");
        }
    }

    /// What a worker does that takes it out, and how its end finds it.
    fn runs(fiber: FiberPtr) {
        assert!(fiber.admit(), "nobody has started it");
    }

    fn finish(fiber: FiberPtr) {
        let state = fiber.state().load();
        assert!(!state.has_join_handle() && !state.is_fresh(), "{state:?}");
        // SAFETY: every thread has ended.
        let _ = unsafe { fiber.destroy() };
    }

    #[test]
    fn a_handle_goes_away_while_its_fiber_is_taken_out() {
        check(PREEMPTIONS, || {
            let (place, fiber) = place();
            let theirs = Arc::clone(&place);
            let visitor = thread::spawn(move || {
                let taken = theirs.gate.visit(|| theirs.slot.take()).flatten();
                taken.into_iter().for_each(runs);
                taken.is_some()
            });
            drops_handle(&place, fiber);
            place.gate.enter();
            let left = place.slot.take();
            place.gate.exit();
            left.into_iter().for_each(runs);
            assert_ne!(visitor.join().unwrap(), left.is_some(), "run by one");
            finish(fiber);
        });
    }

    #[test]
    fn a_handle_goes_away_while_a_reference_brings_a_permit() {
        check(PREEMPTIONS, || {
            let (place, fiber) = place();
            let reference = fiber.reference();
            let other = thread::spawn(move || assert!(reference.unpark().is_none()));
            drops_handle(&place, fiber);
            other.join().unwrap();
            place.gate.enter();
            place.slot.take().into_iter().for_each(runs);
            place.gate.exit();
            assert!(fiber.state().take_permit(), "the permit was lost");
            finish(fiber);
        });
    }
}
