//! A channel: its state under a lock, the counts of its handles, and the wait of a send or a receive. Those are in
//! `plain`, and selects in `engine`.

use super::error::SendError;
use super::hint::Hint;
use super::node::{End, Lost, Node, Party, Side, Wakes};
use super::state::{Collected, Sent, State};
use crate::cancel;
use crate::fiber;
use crate::park::{self, Late, Outcome, Parking, Wait, WaiterPtr, Wake};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};
use crate::primitives::sync::{BiasedGuard, BiasedLock, Caller};
use crate::util::drop_all::drop_all;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

impl Party for WaiterPtr {
    type Wake = Wake;

    #[inline]
    unsafe fn settle(self, result: u32) -> Result<Option<Wake>, Lost> {
        // SAFETY: passed on.
        unsafe { self.offer(Outcome::Woken(result)) }.map_err(|Late| Lost)
    }

    fn may_wait() -> bool {
        park::may_wait()
    }
}

pub(super) type Entry = Node<WaiterPtr>;
pub(super) type Woken = Wakes<Wake>;
pub(super) type Locked<'a, T> = BiasedGuard<'a, State<T, WaiterPtr>>;

/// What the handles of one channel share.
pub(super) struct Core<T> {
    pub(super) state: BiasedLock<State<T, WaiterPtr>>,
    pub(super) hint: Hint,
    capacity: Option<usize>,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

pub(super) const SEND: &str = "send to a channel";
pub(super) const RECEIVE: &str = "receive from a channel";

#[inline]
pub(super) fn is_over(deadline: Option<Moment>) -> bool {
    deadline.is_some_and(park::has_passed)
}

/// The time is over; unwinds if the caller is asked to end.
pub(super) fn give_up(reason: &'static str) {
    if park::wait_for_no_time(reason) == Outcome::Cancelled {
        cancel::unwind();
    }
}

#[inline(always)]
pub(super) fn deliver(wakes: Woken) {
    wakes.each(wake);
}

/// One copy for all: it is long, and who sends or receives without a partner goes past it.
#[inline(never)]
fn wake(wake: Wake) {
    park::wake(wake);
}

impl<T> Core<T> {
    /// With one sender and one receiver.
    pub(super) fn new(capacity: Option<usize>) -> Core<T> {
        Core {
            hint: Hint::default(),
            state: BiasedLock::new(State::new(capacity)),
            capacity,
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
        }
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.lock().is_full()
    }

    /// As waits name it.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    #[inline]
    pub(super) fn lock(&self) -> Locked<'_, T> {
        self.state.lock(fiber::caller())
    }

    /// As `lock`, by who may settle one that waits on `side`.
    #[inline(always)]
    pub(super) fn lock_for(&self, side: Side, caller: Caller) -> Locked<'_, T> {
        self.state.lock_after(caller, || self.hint.follow(side))
    }

    /// Unlinks `node`, of a wait that has ended otherwise, if it still is linked.
    ///
    /// # Safety
    ///
    /// As for [`State::unlink`].
    pub(super) unsafe fn unlink(&self, node: NonNull<Entry>, side: Side) {
        let mut state = self.lock();
        // SAFETY: passed on.
        unsafe { state.unlink(node, side) };
        if !state.is_by_bias() {
            self.hint.withdraw(node.as_ptr());
        }
    }

    /// Runs `step` on the state, then wakes whom it settled.
    #[inline]
    pub(super) fn with<R>(
        &self,
        step: impl FnOnce(&mut State<T, WaiterPtr>, &mut Woken) -> R,
    ) -> R {
        let mut wakes = Wakes::new();
        let result = step(&mut self.lock(), &mut wakes);
        deliver(wakes);
        result
    }

    /// Sends by a promise, which ends with this.
    pub(super) fn keep(&self, message: T) -> Result<(), SendError<T>> {
        let mut message = ManuallyDrop::new(message);
        // SAFETY: it holds a message; the promise is the caller's.
        match self.with(|state, wakes| unsafe { state.keep(&raw mut *message, wakes) }) {
            Sent::Done => Ok(()),
            Sent::Full | Sent::Disconnected => Err(SendError(ManuallyDrop::into_inner(message))),
        }
    }

    /// Waits for a message that was promised, which neither a time-out nor a cancel may end: its
    /// sender counts on this receiver. False if the sender withdrew.
    ///
    /// # Safety
    ///
    /// `to` is room for a message and stays; it holds one if this is true. The caller was promised
    /// a message.
    #[cold]
    pub(super) unsafe fn collect(&self, to: *mut T) -> bool {
        let mut state = self.lock();
        // SAFETY: passed on.
        match unsafe { state.collect(to) } {
            Collected::Done => true,
            Collected::Withdrawn => false,
            Collected::NotYet => {
                // SAFETY: not possible yet, under this lock.
                let end = unsafe { self.wait(state, Side::Collect, to.cast(), None) };
                end == Ok(End::Done)
            }
        }
    }

    /// Links a node and waits: the node's end, or how else the wait ended. The node is unlinked in
    /// any case.
    ///
    /// # Safety
    ///
    /// `state` is locked since the operation was found not possible; `slot` is as invariant 3 of
    /// `node.rs` says.
    // Inline: a wait has one frame of the channel's then, some fifty instructions less.
    #[inline(always)]
    pub(super) unsafe fn wait(
        &self,
        mut state: Locked<'_, T>,
        side: Side,
        slot: *mut (),
        deadline: Option<Moment>,
    ) -> Result<End, Outcome> {
        let reason = match side {
            Side::Collect => "receive from a chosen sender",
            Side::Send => SEND,
            _ => RECEIVE,
        };
        let parking = Parking::begin(reason);
        let node = Entry::new(parking.waiter(), 0, slot);
        if !state.is_by_bias() {
            self.hint.leave(&raw const node, parking.waiter().address(), side);
        }
        let linked = Linked { core: self, node: NonNull::from(&node), side };
        // Of those whom the attempt found nobody has been settled, or it would have succeeded.
        let mut wakes = Wakes::new();
        // SAFETY: `linked` unlinks it before it goes, however this ends.
        unsafe { state.link(linked.node, side, &mut wakes) };
        drop(state);
        deliver(wakes);
        let object = self.address();
        let outcome = parking.park(match side {
            Side::Collect => Wait { object, ..Wait::new(reason) },
            _ => Wait { object, deadline, ..Wait::cancellable(reason) },
        });
        let Outcome::Woken(_) = outcome else { return Err(outcome) };
        if node.end() == End::Open {
            // Settled, and the settler still holds the lock.
            drop(self.lock());
        }
        std::mem::forget(linked);
        node.reclaim();
        Ok(node.end())
    }

    pub(super) fn add_sender(&self) {
        add(&self.senders);
    }

    pub(super) fn add_receiver(&self) {
        add(&self.receivers);
    }

    pub(super) fn drop_sender(&self) {
        if self.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.disconnect(false);
        }
    }

    pub(super) fn drop_receiver(&self) {
        if self.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.disconnect(true);
        }
    }

    #[cold]
    fn disconnect(&self, receivers_gone: bool) {
        // The messages are the user's: dropped without the lock, after those who wait were told.
        if let Some(mut left) = self.with(|state, wakes| state.disconnect(receivers_gone, wakes)) {
            drop_all(|| left.pop_front());
        }
    }
}

/// One more handle. So many that the count might wrap end the process, as for `Arc`.
fn add(count: &AtomicUsize) {
    if count.fetch_add(1, Ordering::Relaxed) > isize::MAX as usize {
        std::process::abort();
    }
}

/// Unlinks a node when it goes.
struct Linked<'a, T> {
    core: &'a Core<T>,
    node: NonNull<Entry>,
    side: Side,
}

impl<T> Drop for Linked<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the node outlives this, and was linked with this side or not yet.
        unsafe { self.core.unlink(self.node, self.side) };
    }
}

#[cfg(all(test, loom))]
#[path = "core_models.rs"]
mod models;
