//! One party's entry in a channel's lists, and how its wait is ended with something in hand.
//!
//! A wait that a channel ends goes through three steps, under the channel's lock, after the node was
//! taken out of its list: the waiter is **settled** (one compare-and-swap, against its time-out, its
//! cancel and the other channels of a select); the message is **handed over**, into or out of the
//! node's slot; the node's **end** is published. Whoever lost the first step does none of the others.
//!
//! # Why the waiter may go on without the lock
//!
//! A settled waiter may run before the hand-over is complete. It reads the end of its node: if that
//! is published (Release, read with Acquire), so is the hand-over, and nobody touches node or waiter
//! after that store. If not, it takes the channel's lock, which the settler holds until then.
//!
//! # Invariants
//!
//! 1. A linked node is alive, does not move, and its waiter is in the wait that it was linked for.
//!    The waiter unlinks it, under the lock, unless its end is published.
//! 2. Only the one who settled the wait with this node's result touches the slot until the end is
//!    published; then it is the waiter's again.
//! 3. A slot holds a `T` of the channel's exactly while the node is a sender's whose end is not
//!    [`End::Done`], or a receiver's whose end is.

use crate::primitives::sync::UnsafeCell;
use crate::primitives::sync::atomic::{AtomicU8, Ordering};
use crate::util::few::Few;
use crate::util::list::{Linked, Links};
use std::ptr::NonNull;

/// Who waits, as a channel sees it: `park`'s waiter, the runtime's or that of the models.
pub(super) trait Party: Copy + PartialEq {
    /// The right to make a settled waiter run.
    type Wake;

    /// Ends the waiter's current wait with `result`; `Err` if somebody else ended it.
    ///
    /// # Safety
    ///
    /// The caller holds the lock under which a node of this waiter is, or was until now, linked.
    unsafe fn settle(self, result: u32) -> Result<Option<Self::Wake>, Lost>;

    /// May the caller wait, for what it is promised say?
    fn may_wait() -> bool;
}

/// The wait was ended by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost;

/// How a channel ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum End {
    /// Not at all, or not completely.
    Open = 0,
    /// The message has changed hands.
    Done = 1,
    /// It will: a receiver has to collect it, a sender has its place or its receiver.
    Promised = 2,
    /// The other side is gone.
    Disconnected = 3,
    /// Something changed: look again.
    Look = 4,
}

impl End {
    fn of(code: u8) -> End {
        match code {
            1 => End::Done,
            2 => End::Promised,
            3 => End::Disconnected,
            4 => End::Look,
            _ => End::Open,
        }
    }
}

/// On which side a node waits, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Send,
    Receive,
    /// To be told when a send may be possible.
    WatchSend,
    WatchReceive,
    /// For a message that was promised.
    Collect,
}

/// An entry in one list of one channel.
pub(super) struct Node<W> {
    links: Links<Node<W>>,
    waiter: W,
    /// What the wait's result word says when this node's channel ended it.
    result: u32,
    /// Where the message is (a sender's) or goes (a receiver's). Null for the sender of a select,
    /// which makes its message when it was chosen, and for those who only watch.
    /// A cell, so that loom sees who reaches for the message.
    slot: UnsafeCell<*mut ()>,
    end: AtomicU8,
}

// SAFETY: the slot is reached as invariant 2 says; it points at a message of a channel, whose
// messages are `Send` if it is shared between threads.
unsafe impl<W: Send> Send for Node<W> {}
// SAFETY: as above.
unsafe impl<W: Sync> Sync for Node<W> {}

// SAFETY: always the same field, by a raw borrow.
unsafe impl<W> Linked for Node<W> {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: alive by the caller.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

impl<W: Party> Node<W> {
    pub(super) fn new(waiter: W, result: u32, slot: *mut ()) -> Node<W> {
        Node {
            links: Links::new(),
            waiter,
            result,
            slot: UnsafeCell::new(slot),
            end: AtomicU8::new(End::Open as u8),
        }
    }

    pub(super) fn waiter(&self) -> W {
        self.waiter
    }

    /// How this node's channel ended the wait, if it did.
    pub(super) fn end(&self) -> End {
        End::of(self.end.load(Ordering::Acquire))
    }

    pub(super) fn has_slot(&self) -> bool {
        // SAFETY: the pointer is never changed.
        self.slot.with(|slot| unsafe { !(*slot).is_null() })
    }

    /// The message at the slot is the waiter's again; its end was published, or the lock taken.
    #[inline]
    pub(super) fn reclaim(&self) {
        self.slot.with_mut(|_| ());
    }
}

/// Ends the wait of `node` as `end` says; `hand_over` gets the slot.
///
/// # Safety
///
/// The channel's lock is held and the node was in one of its lists until now. It is not touched
/// again if this succeeds.
#[inline]
pub(super) unsafe fn close<W: Party>(
    node: NonNull<Node<W>>,
    end: End,
    hand_over: impl FnOnce(*mut ()),
) -> Result<Option<W::Wake>, Lost> {
    // SAFETY: alive until its end is published, or until the lock is released if it is not.
    let node = unsafe { node.as_ref() };
    // SAFETY: the lock is held.
    let wake = unsafe { node.waiter.settle(node.result) }?;
    // SAFETY: invariant 2.
    node.slot.with_mut(|slot| hand_over(unsafe { *slot }));
    node.end.store(end as u8, Ordering::Release);
    Ok(wake)
}

/// The wakes of one critical section, to be delivered after it.
pub(super) type Wakes<K> = Few<K>;
