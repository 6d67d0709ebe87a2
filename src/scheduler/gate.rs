//! The gate of a core: what keeps visitors out while the owner is at its LIFO slot, and the other way
//! round.
//!
//! A biased lock. The owner goes in and out at every dispatch and wake, with two plain stores and a load; visitors come
//! seldom, and pay a `membarrier` for both. They do not wait for the owner: where one finds it inside, the owner is at
//! work, and there is nothing to do for it. They are the supervisor, a few times a second at most and for a few
//! instructions; a thief that takes who stands in the slot behind a fiber that does not stop; whoever ends a scheduler,
//! once; and whoever lists the fibers, for as long as that takes (`census.rs` sees to it that this is not all the
//! time).
//!
//! # Protocol
//!
//! - The owner stores `inside`, light fence, loads `asked`. Where there are no light fences, [`FENCED`] stands
//!   there from the beginning: it makes up for the fence and loads again. A visitor sets [`VISITED`] in `asked`,
//!   heavy fence, loads `inside`. Of the two loads one at least sees the other's store, so never both
//!   go on.
//! - The owner that sees a visitor steps back and waits for it.
//! - What one did is seen by the other: the owner leaves by a Release store, which the visitor's
//!   load of `inside` reads with Acquire; the visitor leaves by a Release change of `asked`, which the
//!   owner loads with Acquire. An owner whose load misses a whole visit cannot be: then the visitor
//!   had seen `inside`.

use crate::primitives::asymmetric;
use crate::primitives::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::primitives::sync::full_fence;
use crate::primitives::thread;

/// A visitor is, or wants to be, inside.
const VISITED: u32 = 1;
/// The owner should come to its own stack: the supervisor has replaced it.
const STALLED: u32 = 2;
/// Set for good where the kernel does not do the owner's part of the fences: it looks at this word anyway.
const FENCED: u32 = 4;

#[derive(Debug)]
pub(crate) struct Gate {
    /// Written by the owner.
    inside: AtomicBool,
    /// Written by visitors; [`STALLED`] is cleared by the owner, [`FENCED`] as made.
    asked: AtomicU32,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        // Under loom always, but for what `light` makes.
        let asked = if asymmetric::is_light() && !cfg!(loom) { 0 } else { FENCED };
        Gate { inside: AtomicBool::new(false), asked: AtomicU32::new(asked) }
    }

    /// Owner: goes in. Not to be called inside.
    #[inline(always)]
    pub(crate) fn enter(&self) {
        debug_assert!(!self.is_inside(), "the owner is inside already");
        self.inside.store(true, Ordering::Relaxed);
        #[cfg(all(test, loom))]
        self.fence_if_light();
        asymmetric::no_more_than_light();
        if self.asked.load(Ordering::Acquire) & (VISITED | FENCED) != 0 {
            self.enter_slowly();
        }
    }

    /// Owner: is it? Others learn nothing by it.
    #[inline(always)]
    pub(crate) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed)
    }

    /// Owner: goes out.
    #[inline(always)]
    pub(crate) fn exit(&self) {
        debug_assert!(self.is_inside(), "the owner is outside already");
        self.inside.store(false, Ordering::Release);
    }

    /// The fence that was not light, and the visitor that is there.
    #[cold]
    fn enter_slowly(&self) {
        full_fence();
        while self.asked.load(Ordering::Acquire) & VISITED != 0 {
            self.inside.store(false, Ordering::Release);
            while self.asked.load(Ordering::Acquire) & VISITED != 0 {
                thread::yield_now();
            }
            self.inside.store(true, Ordering::Relaxed);
            full_fence();
        }
    }

    /// Anyone but the owner: runs `f` while the owner is outside; not at all if it is inside, or if
    /// there is another visitor.
    pub(crate) fn visit<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        self.close().then(|| {
            let result = f();
            self.open();
            result
        })
    }

    /// As [`visit`](Self::visit), but after other visitors.
    pub(crate) fn visit_in_turn<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        while self.asked.fetch_or(VISITED, Ordering::AcqRel) & VISITED != 0 {
            thread::yield_now();
        }
        let result = self.is_left().then(f);
        self.open();
        result
    }

    /// A visit that lasts until [`open`](Self::open). False, with nothing to open, if it cannot be.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        if self.asked.fetch_or(VISITED, Ordering::AcqRel) & VISITED != 0 {
            return false;
        }
        let closed = self.is_left();
        if !closed {
            self.open();
        }
        closed
    }

    /// A visitor that has said so: is the owner outside?
    fn is_left(&self) -> bool {
        asymmetric::heavy();
        !self.inside.load(Ordering::Acquire)
    }

    /// The visitor leaves.
    pub(crate) fn open(&self) {
        self.asked.fetch_and(!VISITED, Ordering::AcqRel);
    }

    /// A visitor, inside: the owner has been replaced.
    pub(crate) fn mark_stalled(&self) {
        self.asked.fetch_or(STALLED, Ordering::AcqRel);
    }

    /// Owner: it is back.
    pub(crate) fn clear_stalled(&self) {
        self.asked.fetch_and(!STALLED, Ordering::AcqRel);
    }

    #[inline(always)]
    pub(crate) fn is_stalled(&self) -> bool {
        self.asked.load(Ordering::Relaxed) & STALLED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_visitor_does_not_wait_for_the_owner() {
        let gate = Gate::new();
        gate.enter();
        assert_eq!(gate.visit(|| ()), None);
        gate.exit();
        assert_eq!(gate.visit(|| 7), Some(7));
        assert_eq!(gate.visit(|| gate.visit(|| ())), Some(None), "one at a time");
    }

    #[test]
    fn a_visitor_may_wait_for_another() {
        let gate = Gate::new();
        assert!(gate.close());
        std::thread::scope(|scope| {
            let visitor = scope.spawn(|| gate.visit_in_turn(|| 7));
            std::thread::yield_now();
            gate.open();
            assert_eq!(visitor.join().unwrap(), Some(7));
        });
        gate.enter();
        assert_eq!(gate.visit_in_turn(|| 7), None, "the owner is at work");
    }

    #[test]
    fn a_stall_does_not_keep_the_owner_out() {
        let gate = Gate::new();
        gate.visit(|| gate.mark_stalled());
        gate.enter();
        gate.exit();
        assert!(gate.is_stalled());
        gate.clear_stalled();
        assert!(!gate.is_stalled());
    }
}

/// Under loom: owner and visitors are never inside together, and each sees what the other did.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::primitives::models::check;
    use crate::primitives::sync::{Arc, UnsafeCell};
    use loom::thread;

    struct Room {
        gate: Gate,
        slot: UnsafeCell<u32>,
    }

    // SAFETY: the cell is reached inside the gate only; loom checks it.
    unsafe impl Sync for Room {}
    // SAFETY: as above.
    unsafe impl Send for Room {}

    impl Gate {
        /// Where the kernel does the owner's part.
        fn light() -> Gate {
            Gate { inside: AtomicBool::new(false), asked: AtomicU32::new(0) }
        }

        pub(super) fn fence_if_light(&self) {
            if self.asked.load(Ordering::Relaxed) & FENCED == 0 {
                asymmetric::light();
            }
        }
    }

    const KINDS: [fn() -> Gate; 2] = [Gate::new, Gate::light];

    impl Room {
        fn new(gate: fn() -> Gate) -> Arc<Room> {
            Arc::new(Room { gate: gate(), slot: UnsafeCell::new(0) })
        }

        /// SAFETY: called inside.
        fn add(&self, n: u32) -> u32 {
            self.slot.with_mut(|slot| unsafe {
                *slot += n;
                *slot
            })
        }
    }

    #[test]
    fn owner_and_visitor_take_turns() {
        KINDS.into_iter().for_each(|gate| {
            loom::model(move || {
                let room = Room::new(gate);
                let theirs = Arc::clone(&room);
                let visitor = thread::spawn(move || theirs.gate.visit(|| theirs.add(10)).is_some());
                for _ in 0..2 {
                    room.gate.enter();
                    room.add(1);
                    room.gate.exit();
                }
                let visited = visitor.join().unwrap();
                room.gate.enter();
                assert_eq!(room.add(0), 2 + if visited { 10 } else { 0 });
            })
        });
    }

    #[test]
    fn one_visitor_waits_for_another() {
        KINDS.into_iter().for_each(|gate| {
            loom::model(move || {
                let room = Room::new(gate);
                let theirs = Arc::clone(&room);
                let other = thread::spawn(move || theirs.gate.visit(|| theirs.add(10)).is_some());
                let mine = room.gate.visit_in_turn(|| room.add(10));
                assert!(mine.is_some(), "the owner is outside");
                let visits = 1 + u32::from(other.join().unwrap());
                room.gate.enter();
                assert_eq!(room.add(0), 10 * visits);
            })
        });
    }

    #[test]
    fn of_two_visitors_none_disturbs_the_other() {
        // Three threads: all interleavings take minutes.
        KINDS.into_iter().for_each(|gate| {
            check(3, move || {
                let room = Room::new(gate);
                let visitor = |room: &Arc<Room>| {
                    let room = Arc::clone(room);
                    thread::spawn(move || u32::from(room.gate.visit(|| room.add(10)).is_some()))
                };
                let visitors = [visitor(&room), visitor(&room)];
                room.gate.enter();
                room.add(1);
                room.gate.exit();
                let visited: u32 =
                    visitors.into_iter().map(|visitor| visitor.join().unwrap()).sum();
                room.gate.enter();
                assert_eq!(room.add(0), 1 + 10 * visited);
            })
        });
    }

    /// A fiber's slot: who runs there, and whether that one's block is there.
    struct Slot {
        gate: Gate,
        owner: AtomicBool,
        block: UnsafeCell<bool>,
        cancelling: AtomicBool,
        cancelled: AtomicBool,
    }

    // SAFETY: the cell is reached as the protocol says; loom checks it.
    unsafe impl Sync for Slot {}
    // SAFETY: as above.
    unsafe impl Send for Slot {}

    fn slot(gate: fn() -> Gate, owner: bool) -> Arc<Slot> {
        Arc::new(Slot {
            gate: gate(),
            owner: AtomicBool::new(owner),
            block: UnsafeCell::new(true),
            cancelling: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
        })
    }

    #[test]
    fn a_fiber_that_is_found_is_alive() {
        KINDS.into_iter().for_each(|gate| {
            loom::model(move || {
                let slot = slot(gate, true);
                let theirs = Arc::clone(&slot);
                let lister = thread::spawn(move || {
                    theirs.gate.visit(|| {
                        if theirs.owner.load(Ordering::Acquire) {
                            // SAFETY: not freed before the owner has been inside; loom checks it.
                            assert!(theirs.block.with(|block| unsafe { *block }));
                        }
                    })
                });
                // `before_end`, and the end.
                slot.gate.enter();
                slot.owner.store(false, Ordering::Release);
                // SAFETY: inside; nobody finds it any more.
                slot.block.with_mut(|block| unsafe { *block = false });
                slot.gate.exit();
                lister.join().unwrap();
            })
        });
    }

    #[test]
    fn a_fiber_that_starts_as_all_are_cancelled_is_one_of_them() {
        KINDS.into_iter().for_each(|gate| {
            loom::model(move || {
                let slot = slot(gate, false);
                let theirs = Arc::clone(&slot);
                let canceller = thread::spawn(move || {
                    theirs.cancelling.store(true, Ordering::SeqCst);
                    // Where it finds the owner inside, it comes again.
                    let came = theirs.gate.close();
                    if came {
                        if theirs.owner.load(Ordering::Acquire) {
                            theirs.cancelled.store(true, Ordering::Relaxed);
                        }
                        theirs.gate.open();
                    }
                    came
                });
                // `settle_in`.
                slot.gate.enter();
                slot.owner.store(true, Ordering::Release);
                if slot.cancelling.load(Ordering::Relaxed) {
                    slot.cancelled.store(true, Ordering::Relaxed);
                }
                slot.gate.exit();
                let came = canceller.join().unwrap();
                assert!(slot.cancelled.load(Ordering::Relaxed) || !came, "it was missed");
            })
        });
    }
}
