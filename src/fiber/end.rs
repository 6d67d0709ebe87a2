//! The end of a fiber, between the fiber and its join handle: who drops the result, who wakes the
//! joiner, who frees the block.
//!
//! # Protocol
//!
//! `finish` and `detach` are transitions of one word, so one of them comes first. The fiber first: the
//! result is the handle's. The handle first: it is the fiber's own.
//!
//! A joiner links itself under the join lock, unless the fiber is done; the fiber becomes done under
//! that lock and takes a joiner out. Having seen the end, the handle takes the lock once more before
//! it lets go of the block, so that the fiber has let go of the lock by then.
//!
//! Selects that borrow the handle may be joiners at the same time, any number. The end settles all whose
//! wait is still open: none may depend on another's getting to run.

use super::header::FiberPtr;
use super::reference::release_block;
use super::waiter::{WaiterPtr, Wake};
use super::word::Outcome;
use super::{drop_left_result, drop_locals, drop_own_result};
use crate::primitives::sync::UnsafeCell;
use crate::util::few::Few;
use std::ptr::NonNull;

/// One who waits for a fiber's end; stands on the stack of whoever waits.
///
/// Linked, it is alive and does not move, and its waiter is in the wait that it was linked for.
#[derive(Debug)]
pub(crate) struct Joiner {
    waiter: WaiterPtr,
    /// What the wait's result word says when the fiber's end has ended it.
    result: u32,
    /// Read and written under the join lock.
    place: UnsafeCell<Place>,
}

/// A joiner's neighbours; none while it is in no list.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    prev: Option<NonNull<Joiner>>,
    next: Option<NonNull<Joiner>>,
}

impl Joiner {
    pub(crate) fn new(waiter: WaiterPtr, result: u32) -> Joiner {
        Joiner { waiter, result, place: UnsafeCell::new(Place::default()) }
    }
}

/// Those who wait for the fiber's end, in the order of their coming. Locked by a joiner, and by the fiber
/// as it ends.
///
/// A ring, of which this is the first: a fiber's head has room for one word only, and the last one stands
/// before the first.
#[derive(Debug, Default)]
pub(crate) struct Join(Option<NonNull<Joiner>>);

// SAFETY: joiners are reached under the lock that a `Join` is in, from any thread; their waiters may be
// settled from any.
unsafe impl Send for Join {}

impl Join {
    /// Behind all others.
    fn push(&mut self, joiner: &Joiner) {
        let joiner = NonNull::from(joiner);
        let first = *self.0.get_or_insert(joiner);
        // SAFETY: the joiner is alive and in no list, the others are linked. One that is alone is its own
        // neighbour on either side.
        unsafe {
            let last = self.at(first, |place| place.prev.replace(joiner)).unwrap_or(joiner);
            self.at(last, |place| place.next = Some(joiner));
            self.at(joiner, |place| *place = Place { prev: Some(last), next: Some(first) });
        }
    }

    fn pop(&mut self) -> Option<NonNull<Joiner>> {
        let first = self.0?;
        // SAFETY: linked, so alive.
        self.remove(unsafe { first.as_ref() });
        Some(first)
    }

    /// Nothing, if it is not linked.
    fn remove(&mut self, joiner: &Joiner) {
        let joiner = NonNull::from(joiner);
        // SAFETY: alive, and in this list or in none.
        let place = unsafe { self.at(joiner, std::mem::take) };
        let Place { prev: Some(prev), next: Some(next) } = place else { return };
        if next == joiner {
            self.0 = None;
            return;
        }
        // SAFETY: neighbours of one that was linked.
        unsafe {
            self.at(prev, |place| place.next = Some(next));
            self.at(next, |place| place.prev = Some(prev));
        }
        if self.0 == Some(joiner) {
            self.0 = Some(next);
        }
    }

    /// # Safety
    ///
    /// The joiner is alive, and in this list or in none.
    #[inline(always)]
    unsafe fn at<R>(&mut self, joiner: NonNull<Joiner>, f: impl FnOnce(&mut Place) -> R) -> R {
        // SAFETY: by the caller; who has `self` to change has the join lock.
        unsafe { joiner.as_ref().place.with_mut(|place| f(&mut *place)) }
    }

    /// Takes all joiners out and ends their waits.
    fn settle_all(&mut self) -> Woken {
        let mut woken = Woken::Nobody;
        while let Some(joiner) = self.pop() {
            // SAFETY: linked until now, and the lock is held; not touched once it is settled.
            let joiner = unsafe { joiner.as_ref() };
            // SAFETY: as above.
            if let Ok(wake) = unsafe { joiner.waiter.offer(Outcome::Woken(joiner.result)) } {
                woken = woken.and(wake);
            }
        }
        woken
    }
}

/// Whom a fiber's end has woken: small, because hardly ever anybody selects on what others join.
#[derive(Debug)]
#[must_use]
pub(crate) enum Woken {
    Nobody,
    One(Wake),
    More(Box<Few<Wake>>),
}

impl Woken {
    fn and(self, wake: Option<Wake>) -> Woken {
        let Some(wake) = wake else { return self };
        match self {
            Woken::Nobody => Woken::One(wake),
            Woken::One(first) => {
                let mut few = Few::new();
                few.add(Some(first));
                few.add(Some(wake));
                Woken::More(Box::new(few))
            }
            Woken::More(mut few) => {
                few.add(Some(wake));
                Woken::More(few)
            }
        }
    }

    #[inline(always)]
    pub(crate) fn is_somebody(&self) -> bool {
        !matches!(self, Woken::Nobody)
    }

    #[inline(always)]
    pub(crate) fn each(self, mut f: impl FnMut(Wake)) {
        match self {
            Woken::Nobody => {}
            Woken::One(wake) => f(wake),
            Woken::More(few) => few.each(f),
        }
    }
}

/// Keeps those who look at a running fiber from outside away from its end.
pub(crate) trait Seen {
    /// The fiber's end is about to be published: from here on nobody outside may look at it, until
    /// the scheduler is told that it has finished.
    ///
    /// # Safety
    ///
    /// Called by the fiber itself.
    unsafe fn before_end(fiber: FiberPtr);

    /// The end was put off: the fiber's code runs on.
    ///
    /// # Safety
    ///
    /// Called by the fiber itself.
    unsafe fn not_yet(fiber: FiberPtr);
}

/// A fiber that has never run: nobody looks at it.
pub(super) struct Unseen;

impl Seen for Unseen {
    unsafe fn before_end(_: FiberPtr) {}

    unsafe fn not_yet(_: FiberPtr) {}
}

/// What a fiber's code has left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// A result whose destructor may do anything.
    Result,
    /// One without a destructor, so nothing that anybody would have to drop.
    Nothing,
}

/// Publishes the end of a fiber and frees its block if nobody holds it. The block is not the
/// caller's any more after it, and nobody outside sees it.
///
/// # Safety
///
/// The result is in its place; called once.
#[inline]
pub(super) unsafe fn complete<S: Seen>(fiber: FiberPtr, left: Left) -> Woken {
    if fiber.state().load().has_join_handle() {
        let mut join = fiber.join().lock();
        // SAFETY: called by the fiber, or by whoever ends it in its place.
        unsafe { S::before_end(fiber) };
        // After this the block is touched only to unlock: the handle takes that lock before it lets
        // go of the block.
        if fiber.state().finish(true).is_ok() {
            return join.settle_all();
        }
        // SAFETY: as above.
        unsafe { S::not_yet(fiber) };
    }
    // The join handle is gone for good: the result is the fiber's own to drop.
    if left == Left::Result {
        // SAFETY: the result is there; its destructor may have made locals.
        unsafe {
            drop_own_result(fiber);
            drop_locals(fiber);
        }
    }
    // SAFETY: as above.
    unsafe { S::before_end(fiber) };
    if !fiber.state().load().is_exclusive() {
        fiber.state().finish(false).expect("a join handle does not come back");
    }
    // SAFETY: done, and no join handle. One that is exclusive is not even marked: nobody can look.
    unsafe { release_block(fiber) };
    Woken::Nobody
}

/// Has the fiber of this join handle ended, and let go of its join lock?
pub(crate) fn has_ended(fiber: FiberPtr) -> bool {
    let done = fiber.state().load().is_done();
    if done {
        drop(fiber.join().lock());
    }
    done
}

/// Links one who waits for the end by this join handle, unless the fiber has ended.
///
/// The holder of the handle asks [`has_ended`] after the fiber's end has settled its wait; where something
/// else has ended it, it calls [`unlink_joiner`].
///
/// # Safety
///
/// The joiner is in no list, and stays where it is until it is unlinked or the fiber's end has settled
/// its wait.
#[must_use]
pub(crate) unsafe fn link_joiner(fiber: FiberPtr, joiner: &Joiner) -> bool {
    let mut join = fiber.join().lock();
    let lives = !fiber.state().load().is_done();
    if lives {
        join.push(joiner);
    }
    lives
}

/// Unlinks a joiner whose wait has ended, if it still is linked.
pub(crate) fn unlink_joiner(fiber: FiberPtr, joiner: &Joiner) {
    fiber.join().lock().remove(joiner);
}

/// The join handle goes away, its result not taken.
///
/// # Safety
///
/// The caller is the join handle and does not use the fiber afterwards.
#[inline(never)]
pub(crate) unsafe fn drop_handle(fiber: FiberPtr) {
    if fiber.state().detach().is_err() {
        // SAFETY: passed on; the fiber was done first.
        unsafe { drop_finished(fiber) };
    }
}

/// The fiber was done first: its result is the handle's to drop. A panic of its destructor ends here,
/// as it would have on the fiber, whoever is first.
///
/// # Safety
///
/// As `drop_handle`, and the fiber is done.
#[cold]
unsafe fn drop_finished(fiber: FiberPtr) {
    drop(fiber.join().lock());
    // SAFETY: the fiber is done and the handle owns its result; the join lock was taken since.
    unsafe {
        drop_left_result(fiber);
        release_block(fiber);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::fiber::ThreadBlock;

    /// Several selects on a shared handle, any of which leaves early.
    #[test]
    fn joiners_stay_in_the_order_of_their_coming_when_others_leave() {
        let thread = ThreadBlock::new();
        let joiners: [_; 6] =
            std::array::from_fn(|n| Joiner::new(WaiterPtr::of_thread(&thread), n as u32));
        for leaving in [&[][..], &[2], &[0], &[5], &[0, 5], &[3, 1, 4], &[5, 4, 3, 2, 1, 0]] {
            let mut join = Join::default();
            joiners.iter().for_each(|joiner| join.push(joiner));
            // The second time it is in no list.
            for &n in leaving.iter().chain(leaving) {
                join.remove(&joiners[n]);
            }
            let left = std::iter::from_fn(|| join.pop());
            // SAFETY: the joiners live to the end of the test.
            let left: Vec<_> = left.map(|one| unsafe { one.as_ref() }.result as usize).collect();
            let expected: Vec<_> = (0..6).filter(|n| !leaving.contains(n)).collect();
            assert_eq!(left, expected, "{leaving:?} have left");
        }
    }
}
