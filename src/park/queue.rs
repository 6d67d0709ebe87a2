//! Waiters in a row, inside the lock of the source that they wait for.
//!
//! A node stands on the stack of whoever waits and carries a word of the source's choice. [`wait`]
//! does all that a waiter must; whoever settles works on the [`Queue`] under the lock.
//!
//! # Invariants
//!
//! 1. A node is linked only inside [`wait`], which does not return before the node is unlinked, or by a
//!    select, which unlinks all its nodes before it returns.
//! 2. A waiter whose wait ended as `Woken` was popped first, under the lock. Only a wait that ended
//!    otherwise looks for its node again, and a select, which has others, does in any case.
//! 3. A node that was popped is not touched any more once its wait is settled: its stack goes on.
//! 4. A waiter that keeps its thread may see that it was settled before the settler has read whom to
//!    wake: it takes the lock once more before it goes on, and its block may end. A fiber that left its
//!    worker cannot go on before it is woken.

use super::{Late, Outcome, Parking, Wait, WaiterPtr, Wake};
use crate::primitives::sync::Lock;
use crate::util::few::Few;
use crate::util::list::{Linked, Links, List};
use std::cell::Cell;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::ptr::NonNull;

/// One who waits.
pub(crate) struct Node<T> {
    links: Links<Node<T>>,
    waiter: WaiterPtr,
    /// A select's: what the wait's result word says when this node's source has ended it, whatever
    /// result the source gives.
    result: Option<u32>,
    data: Cell<T>,
}

impl<T: Copy> Node<T> {
    /// A node of a select, to be linked by [`Queue::link`].
    pub(crate) fn of_select(waiter: WaiterPtr, result: u32, data: T) -> Node<T> {
        Node { links: Links::new(), waiter, result: Some(result), data: Cell::new(data) }
    }

    /// What it carries; for its owner, when it is in no list any more.
    pub(crate) fn data(&self) -> T {
        self.data.get()
    }
}

// SAFETY: always the same field, by a raw borrow.
unsafe impl<T> Linked for Node<T> {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: alive by the caller.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

/// Those who wait, first in, first out.
#[derive(Debug)]
pub(crate) struct Queue<T>(List<Node<T>>);

// SAFETY: the list points at nodes whose waiters may be settled from any thread, and whose data is
// reached through the queue alone.
unsafe impl<T: Send> Send for Queue<T> {}

impl<T: Copy> Queue<T> {
    pub(crate) const fn new() -> Queue<T> {
        Queue(List::new())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the first waiter carries.
    pub(crate) fn front(&self) -> Option<T> {
        // SAFETY: a linked node is alive (invariant 1).
        self.0.front().map(|node| unsafe { node.as_ref() }.data.get())
    }

    /// What the first waiter carries whose wait is open; those before it are taken out. For whoever may leave the first
    /// one without an offer: the owner of a wait that has ended may never come for its node.
    pub(crate) fn first_open(&mut self) -> Option<T> {
        while let Some(node) = self.0.front() {
            // SAFETY: as in `front`.
            let node = unsafe { node.as_ref() };
            // SAFETY: its node is linked, and the caller holds the lock by `&mut self`.
            if !unsafe { node.waiter.is_over() } {
                return Some(node.data.get());
            }
            self.0.pop_front();
        }
        None
    }

    /// What the first waiter is to carry, which its owner finds there.
    pub(crate) fn mark_front(&mut self, data: T) {
        if let Some(node) = self.0.front() {
            // SAFETY: as in `front`; and whoever reads it has the lock, or comes after the wait.
            unsafe { node.as_ref() }.data.set(data);
        }
    }

    /// Takes the first waiter out and ends its wait with `result`. `Err` if the wait had ended
    /// otherwise: what goes with the wake is the caller's still. `None` if nobody waits.
    pub(crate) fn offer_front(&mut self, result: u32) -> Option<Result<Option<Wake>, Late>> {
        let node = self.0.pop_front()?;
        // SAFETY: the node was linked, and the caller holds the lock by `&mut self`. The waiter is
        // copied out before the wait is settled (invariant 3).
        Some(unsafe {
            let node = node.as_ref();
            node.waiter.offer(Outcome::Woken(node.result.unwrap_or(result)))
        })
    }

    /// Appends the node of a select.
    ///
    /// # Safety
    ///
    /// It is in no list, its waiter is in an open wait, and it stays alive and where it is until
    /// [`unlink`](Queue::unlink), which comes before that wait returns.
    pub(crate) unsafe fn link(&mut self, node: NonNull<Node<T>>) {
        // SAFETY: passed on.
        unsafe { self.0.push_back(node) };
    }

    /// Removes the node of a select if it is still linked.
    ///
    /// # Safety
    ///
    /// It was linked here, and lives.
    pub(crate) unsafe fn unlink(&mut self, node: NonNull<Node<T>>) {
        // SAFETY: in this queue, or popped.
        unsafe { self.0.remove(node) };
    }

    /// Wakes the first whose wait has not ended otherwise; false if there is none.
    pub(crate) fn wake_one(&mut self, result: u32, wakes: &mut Wakes) -> bool {
        while let Some(offer) = self.offer_front(result) {
            if let Ok(wake) = offer {
                wakes.extend(wake);
                return true;
            }
        }
        false
    }

    /// Wakes all; returns how many were still waiting.
    pub(crate) fn wake_all(&mut self, result: u32, wakes: &mut Wakes) -> usize {
        let mut woken = 0;
        while self.wake_one(result, wakes) {
            woken += 1;
        }
        woken
    }
}

/// Wakes to be carried out when the source's lock is free again.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Wakes(Few<Wake>);

impl Wakes {
    pub(crate) fn new() -> Wakes {
        Wakes::default()
    }

    pub(crate) fn extend(&mut self, wake: Option<Wake>) {
        self.0.add(wake);
    }

    /// Makes them run, in the order of the queue.
    pub(crate) fn wake(self) {
        self.0.each(super::wake);
    }
}

/// Where a waiter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Front,
    Back,
}

/// How [`wait`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited<R> {
    /// There was no need to wait.
    Ready(R),
    /// A settler's result.
    Woken(u32),
    TimedOut,
    Cancelled,
}

/// What a wait needs of its source.
pub(crate) trait Source<'a> {
    /// What is under the lock.
    type Inner: 'a;
    /// What a node carries.
    type Data: Copy;
    /// What there is if one need not wait.
    type Ready;

    fn lock(&self) -> &'a Lock<Self::Inner>;

    fn queue<'q>(&self, inner: &'q mut Self::Inner) -> &'q mut Queue<Self::Data>;

    /// The last look, under the lock: `Some` if there is no need to wait.
    fn enter(&mut self, inner: &mut Self::Inner) -> Option<Self::Ready>;

    /// The node is linked and the lock free: what must not be done before, and not under the lock.
    fn entered(&mut self) {}

    /// The wait has ended without a wake, and its node is unlinked. It was `linked` until now unless
    /// somebody came too late to wake it. The wakes are for those who go on because of that.
    fn left(&mut self, _inner: &mut Self::Inner, _linked: bool, _wakes: &mut Wakes) {}
}

/// Waits in the queue of `source`, unless its `enter` says that there is no need to.
#[inline]
pub(crate) fn wait<'a, S: Source<'a>>(
    mut source: S,
    place: Place,
    data: S::Data,
    wait: Wait,
) -> Waited<S::Ready> {
    let parking = Parking::begin(wait.reason);
    let (waiter, data) = (parking.waiter(), Cell::new(data));
    let node = pin!(Node { links: Links::new(), waiter, result: None, data });
    let node = node.into_ref();
    {
        let mut inner = source.lock().lock();
        if let Some(ready) = source.enter(&mut inner) {
            return Waited::Ready(ready);
        }
        let queue = source.queue(&mut inner);
        // SAFETY: pinned here, in no list, and `Unlink` removes it before this function ends, by a
        // panic too.
        unsafe {
            match place {
                Place::Front => queue.0.push_front(pointer(node)),
                Place::Back => queue.0.push_back(pointer(node)),
            }
        }
    }
    let unlink = Unlink { source: &mut source, node, lock: PhantomData };
    unlink.source.entered();
    let outcome = parking.park(wait);
    if let Outcome::Woken(result) = outcome {
        // Popped already (invariant 2).
        std::mem::forget(unlink);
        if parking.keeps_thread() {
            // Invariant 4.
            drop(source.lock().lock());
        }
        return Waited::Woken(result);
    }
    drop(unlink);
    if outcome == Outcome::TimedOut { Waited::TimedOut } else { Waited::Cancelled }
}

/// Waits in a queue that is alone under its lock, unless `ready` says there that there is no need to.
pub(crate) fn wait_unless(
    queue: &Lock<Queue<()>>,
    how: Wait,
    ready: impl FnMut() -> bool,
) -> Waited<()> {
    wait(Alone { queue, ready }, Place::Back, (), how)
}

struct Alone<'a, F> {
    queue: &'a Lock<Queue<()>>,
    ready: F,
}

impl<'a, F: FnMut() -> bool> Source<'a> for Alone<'a, F> {
    type Inner = Queue<()>;
    type Data = ();
    type Ready = ();

    fn lock(&self) -> &'a Lock<Queue<()>> {
        self.queue
    }

    fn queue<'q>(&self, inner: &'q mut Queue<()>) -> &'q mut Queue<()> {
        inner
    }

    fn enter(&mut self, _: &mut Queue<()>) -> Option<()> {
        (self.ready)().then_some(())
    }
}

fn pointer<T>(node: Pin<&Node<T>>) -> NonNull<Node<T>> {
    NonNull::from(node.get_ref())
}

/// Takes a node out of its queue, whatever ended its wait.
struct Unlink<'w, 'a, S: Source<'a>> {
    source: &'w mut S,
    node: Pin<&'w Node<S::Data>>,
    lock: PhantomData<&'a ()>,
}

impl<'a, S: Source<'a>> Drop for Unlink<'_, 'a, S> {
    fn drop(&mut self) {
        let mut wakes = Wakes::new();
        {
            let mut inner = self.source.lock().lock();
            // SAFETY: in this queue, or popped.
            let linked = unsafe { self.source.queue(&mut inner).0.remove(pointer(self.node)) };
            self.source.left(&mut inner, linked, &mut wakes);
        }
        wakes.wake();
    }
}
