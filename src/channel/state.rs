//! What stands under a channel's lock: one state machine for rendezvous, bounded and unbounded.
//!
//! Messages in order, and those who wait on either side. An operation either takes effect here, as a
//! whole, or says that it cannot yet; then its node is linked under the same lock. So at any time
//! outside the lock (nodes whose wait has ended otherwise and that are still linked do not count):
//!
//! 1. if a receiver waits, there is no message, and for a rendezvous no sender;
//! 2. if a sender waits, no place is free: messages plus promises are the capacity, or more (`take_back`);
//! 3. a message that was sent is in the queue, or was received, or is in `handed` for a receiver that
//!    has been promised it.
//!
//! # Promises
//!
//! The sender of a `select` makes its message after it was chosen, by code of the user's. What it was
//! chosen for must stay possible meanwhile: a bounded channel keeps a place (`promised`), a rendezvous
//! a receiver, which has given up its time-out and its cancel and collects the message (`collecting`),
//! or learns that the sender withdrew.

use super::node::{End, Lost, Node, Party, Side, Wakes, close};
use crate::util::chunks::Chunks;
use crate::util::list::List;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// What became of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Sent {
    Done,
    Full,
    Disconnected,
}

/// What became of an attempt to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Received {
    /// The message is where it was to go.
    Done,
    /// A sender was chosen, which makes its message now: it must be collected.
    Promised,
    Empty,
    Disconnected,
}

/// What became of an attempt to collect a promised message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Collected {
    Done,
    Withdrawn,
    NotYet,
}

pub(super) struct State<T, W> {
    queue: Chunks<T>,
    /// `usize::MAX` for none.
    capacity: usize,
    /// Places of the queue that are kept for chosen senders.
    promised: usize,
    senders: List<Node<W>>,
    receivers: List<Node<W>>,
    send_watchers: List<Node<W>>,
    receive_watchers: List<Node<W>>,
    collecting: List<Node<W>>,
    /// Kept promises of a rendezvous, and withdrawn ones, whose receivers are on their way.
    handed: VecDeque<Option<T>>,
    disconnected: bool,
}

// SAFETY: the lists' nodes are reached under the lock that this stands in.
unsafe impl<T: Send, W: Send> Send for State<T, W> {}

type Node_<W> = NonNull<Node<W>>;

impl<T, W: Party> State<T, W> {
    pub(super) fn new(capacity: Option<usize>) -> State<T, W> {
        State {
            queue: Chunks::new(),
            capacity: capacity.unwrap_or(usize::MAX),
            promised: 0,
            senders: List::new(),
            receivers: List::new(),
            send_watchers: List::new(),
            receive_watchers: List::new(),
            collecting: List::new(),
            handed: VecDeque::new(),
            disconnected: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// No place for a message: none free, and none kept.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() + self.promised >= self.capacity
    }

    /// Sends the message in `from` if there is a place and nobody is to be told: in a stream, mostly. It neither
    /// calls anything nor panics, so that it is small enough to stand in whoever sends. Where the receivers are gone
    /// the queue was taken, and has no place.
    ///
    /// # Safety
    ///
    /// `from` holds a message; it has been moved if this is true.
    #[inline(always)]
    pub(super) unsafe fn send_quietly(&mut self, from: *mut T) -> bool {
        let is_quiet = self.receivers.is_empty() && self.receive_watchers.is_empty();
        // SAFETY: passed on.
        is_quiet && !self.is_full() && unsafe { self.queue.push_in_place(from) }
    }

    /// Receives into `to` if there is a message and nobody is to be told; as [`send_quietly`](State::send_quietly).
    ///
    /// # Safety
    ///
    /// `to` is room for a message; it holds one if this is true.
    #[inline(always)]
    pub(super) unsafe fn receive_quietly(&mut self, to: *mut T) -> bool {
        let is_quiet = self.senders.is_empty() && self.send_watchers.is_empty();
        // SAFETY: passed on.
        is_quiet && unsafe { self.queue.pop_in_place(to) }
    }

    /// Sends as [`send`](State::send) if that tells nobody; `None`, with nothing done, if it may.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub(super) unsafe fn try_send_quietly(&mut self, from: *mut T) -> Option<Sent> {
        // SAFETY: passed on.
        if unsafe { self.send_quietly(from) } {
            return Some(Sent::Done);
        }
        let stays = self.is_full() && self.receivers.is_empty() && !self.disconnected;
        stays.then_some(Sent::Full)
    }

    /// Receives as [`receive`](State::receive) if that tells nobody; `None`, with nothing done, if it may.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub(super) unsafe fn try_receive_quietly(&mut self, to: *mut T) -> Option<Received> {
        // SAFETY: passed on.
        if unsafe { self.receive_quietly(to) } {
            return Some(Received::Done);
        }
        // Where there are places, who waits to send has found none free. Memory is given up by the loud way.
        (self.queue.is_quietly_empty() && self.capacity != 0).then(|| self.nothing())
    }

    /// Sends the message in `from`, or leaves it there.
    ///
    /// # Safety
    ///
    /// `from` holds a message; if the answer is `Done` it has been moved out.
    #[inline]
    pub(super) unsafe fn send(&mut self, from: *mut T, wakes: &mut Wakes<W::Wake>) -> Sent {
        if self.disconnected {
            return Sent::Disconnected;
        }
        // SAFETY: passed on.
        if unsafe { self.hand_to_receiver(from, wakes) } {
            return Sent::Done;
        }
        if self.is_full() {
            return Sent::Full;
        }
        // SAFETY: passed on.
        unsafe { self.queue.push_from(from) };
        self.tell(Side::WatchReceive, wakes);
        Sent::Done
    }

    /// Gives the message to the receiver that has waited longest.
    ///
    /// # Safety
    ///
    /// As for `send`; it has been moved if this is true.
    #[inline]
    unsafe fn hand_to_receiver(&mut self, from: *mut T, wakes: &mut Wakes<W::Wake>) -> bool {
        while let Some(node) = self.receivers.pop_front() {
            // SAFETY: just popped, under the lock; a receiver's slot is empty room for a message.
            let closed = unsafe {
                close(node, End::Done, |to| to.cast::<T>().copy_from_nonoverlapping(from, 1))
            };
            if let Ok(wake) = closed {
                wakes.add(wake);
                return true;
            }
        }
        false
    }

    /// Receives into `to`.
    ///
    /// # Safety
    ///
    /// `to` is room for a message; it holds one if the answer is `Done`.
    #[inline(always)]
    pub(super) unsafe fn receive(&mut self, to: *mut T, wakes: &mut Wakes<W::Wake>) -> Received {
        // SAFETY: passed on.
        if unsafe { self.queue.pop_to(to) } {
            self.refill(wakes);
            return Received::Done;
        }
        if self.capacity == 0 {
            // SAFETY: passed on.
            return unsafe { self.meet(to, wakes) };
        }
        self.nothing()
    }

    fn nothing(&mut self) -> Received {
        self.queue.found_empty();
        if self.disconnected { Received::Disconnected } else { Received::Empty }
    }

    /// Takes from a sender that waits, where messages do not wait.
    ///
    /// # Safety
    ///
    /// As for [`receive`](State::receive).
    #[inline(never)]
    unsafe fn meet(&mut self, to: *mut T, wakes: &mut Wakes<W::Wake>) -> Received {
        while let Some(node) = self.senders.pop_front() {
            // SAFETY: linked until now.
            let ready = unsafe { node.as_ref() }.has_slot();
            if !ready && !W::may_wait() {
                // SAFETY: just popped, under the lock.
                unsafe { self.senders.push_front(node) };
                break;
            }
            let end = if ready { End::Done } else { End::Promised };
            // SAFETY: just popped, under the lock; a sender's slot, if it has one, holds a message.
            let closed = unsafe {
                close(node, end, |from| {
                    if ready {
                        to.copy_from_nonoverlapping(from.cast::<T>(), 1);
                    }
                })
            };
            if let Ok(wake) = closed {
                wakes.add(wake);
                return if ready { Received::Done } else { Received::Promised };
            }
        }
        self.nothing()
    }

    /// Places became free: those who wait for one get it, in order.
    #[inline]
    fn refill(&mut self, wakes: &mut Wakes<W::Wake>) {
        while !self.is_full() {
            let Some(node) = self.senders.pop_front() else {
                return self.tell(Side::WatchSend, wakes);
            };
            if let Ok(wake) = self.admit(node) {
                wakes.add(wake);
            }
        }
    }

    /// Gives a waiting sender a free place.
    #[inline]
    fn admit(&mut self, node: Node_<W>) -> Result<Option<W::Wake>, Lost> {
        // SAFETY: linked until now.
        if unsafe { node.as_ref() }.has_slot() {
            let queue = &mut self.queue;
            // SAFETY: just popped, under the lock; the slot holds a message.
            unsafe { close(node, End::Done, |from| queue.push_from(from.cast::<T>())) }
        } else {
            // SAFETY: as above; there is no slot.
            let wake = unsafe { close(node, End::Promised, |_| {}) }?;
            self.promised += 1;
            Ok(wake)
        }
    }

    /// Keeps a place, or a receiver, for a sender that has no message yet.
    #[inline]
    pub(super) fn promise(&mut self, wakes: &mut Wakes<W::Wake>) -> Sent {
        if self.disconnected {
            return Sent::Disconnected;
        }
        if self.capacity == 0 {
            return self.promise_rendezvous(wakes);
        }
        if self.is_full() {
            return Sent::Full;
        }
        self.promised += 1;
        Sent::Done
    }

    fn promise_rendezvous(&mut self, wakes: &mut Wakes<W::Wake>) -> Sent {
        while let Some(node) = self.receivers.pop_front() {
            // SAFETY: just popped, under the lock; the slot stays as it is.
            if let Ok(wake) = unsafe { close(node, End::Promised, |_| {}) } {
                wakes.add(wake);
                return Sent::Done;
            }
        }
        Sent::Full
    }

    /// Sends a message for which there is a promise. Fails only if the receivers are gone.
    ///
    /// # Safety
    ///
    /// As for `send`, and a promise of the caller's ends with this.
    pub(super) unsafe fn keep(&mut self, from: *mut T, wakes: &mut Wakes<W::Wake>) -> Sent {
        if self.capacity == 0 {
            // SAFETY: by the caller.
            self.hand_over(Some(unsafe { from.read() }), wakes);
            return Sent::Done;
        }
        self.promised -= 1;
        if self.disconnected {
            return Sent::Disconnected;
        }
        // SAFETY: passed on.
        if unsafe { self.hand_to_receiver(from, wakes) } {
            // Past the place that was kept for it.
            self.give_up_place(wakes);
        } else {
            // SAFETY: passed on. There is that place, whatever was taken back meanwhile.
            unsafe { self.queue.push_from(from) };
            self.tell(Side::WatchReceive, wakes);
        }
        Sent::Done
    }

    /// Ends a promise without a message.
    pub(super) fn withdraw(&mut self, wakes: &mut Wakes<W::Wake>) {
        if self.capacity == 0 {
            return self.hand_over(None, wakes);
        }
        self.promised -= 1;
        self.give_up_place(wakes);
    }

    /// Takes a message back that came out for a receiver, where messages do not wait too.
    pub(super) fn take_back(&mut self, message: T, wakes: &mut Wakes<W::Wake>) {
        self.queue.push_front(message);
        self.give_up_place(wakes);
    }

    /// A place may be free, or a message back, while receivers may wait: what there is, is theirs.
    fn give_up_place(&mut self, wakes: &mut Wakes<W::Wake>) {
        self.refill(wakes);
        while !self.receivers.is_empty() {
            let Some(message) = self.queue.pop_front() else { return };
            let mut message = ManuallyDrop::new(message);
            // SAFETY: it holds a message.
            if !unsafe { self.hand_to_receiver(&raw mut *message, wakes) } {
                self.queue.push_front(ManuallyDrop::into_inner(message));
            }
            self.refill(wakes);
        }
        if !self.queue.is_empty() {
            self.tell(Side::WatchReceive, wakes);
        }
    }

    fn hand_over(&mut self, message: Option<T>, wakes: &mut Wakes<W::Wake>) {
        let Some(node) = self.collecting.pop_front() else { return self.handed.push_back(message) };
        let end = if message.is_some() { End::Done } else { End::Look };
        // SAFETY: just popped, under the lock; the slot is empty room for a message.
        let closed = unsafe {
            close(node, end, |to| {
                if let Some(message) = message {
                    to.cast::<T>().write(message);
                }
            })
        };
        let Ok(wake) = closed else { unreachable!("nothing else ends the wait for a promise") };
        wakes.add(wake);
    }

    /// Receives a promised message into `to`, if its sender has made it.
    ///
    /// # Safety
    ///
    /// As for `receive`, and the caller was promised a message.
    pub(super) unsafe fn collect(&mut self, to: *mut T) -> Collected {
        match self.handed.pop_front() {
            Some(Some(message)) => {
                // SAFETY: by the caller.
                unsafe { to.write(message) };
                Collected::Done
            }
            Some(None) => Collected::Withdrawn,
            None => Collected::NotYet,
        }
    }

    /// May an operation of `side` take effect now, for a party other than `waiter`?
    pub(super) fn is_possible(&self, side: Side, waiter: Option<W>) -> bool {
        let other = |list: &List<Node<W>>| {
            // SAFETY: linked, under the lock.
            list.iter().any(|node| Some(unsafe { node.as_ref() }.waiter()) != waiter)
        };
        match side {
            _ if self.disconnected => true,
            Side::Send | Side::WatchSend if self.capacity == 0 => other(&self.receivers),
            Side::Send | Side::WatchSend => !self.is_full(),
            Side::Receive | Side::WatchReceive => {
                !self.queue.is_empty() || self.capacity == 0 && other(&self.senders)
            }
            Side::Collect => !self.handed.is_empty(),
        }
    }

    /// Links `node`, and tells those who watch for a partner.
    ///
    /// # Safety
    ///
    /// The node keeps to the invariants of `node.rs`; the caller has seen, under this lock, that
    /// its operation is not possible.
    #[inline(always)]
    pub(super) unsafe fn link(&mut self, node: Node_<W>, side: Side, wakes: &mut Wakes<W::Wake>) {
        // SAFETY: passed on.
        unsafe { self.list(side).push_back(node) };
        match side {
            Side::Send if self.capacity == 0 => self.tell(Side::WatchReceive, wakes),
            Side::Receive if self.capacity == 0 => self.tell(Side::WatchSend, wakes),
            _ => {}
        }
    }

    /// Unlinks `node` if it still is linked.
    ///
    /// # Safety
    ///
    /// It is alive and was linked here with this side.
    pub(super) unsafe fn unlink(&mut self, node: Node_<W>, side: Side) {
        // SAFETY: passed on.
        unsafe { self.list(side).remove(node) };
    }

    #[inline(always)]
    fn list(&mut self, side: Side) -> &mut List<Node<W>> {
        match side {
            Side::Send => &mut self.senders,
            Side::Receive => &mut self.receivers,
            Side::WatchSend => &mut self.send_watchers,
            Side::WatchReceive => &mut self.receive_watchers,
            Side::Collect => &mut self.collecting,
        }
    }

    #[inline]
    fn tell(&mut self, side: Side, wakes: &mut Wakes<W::Wake>) {
        self.end(side, End::Look, wakes);
    }

    #[inline]
    fn end(&mut self, side: Side, end: End, wakes: &mut Wakes<W::Wake>) {
        if !self.list(side).is_empty() {
            wakes.append(self.end_all(side, end));
        }
    }

    #[cold]
    #[inline(never)]
    fn end_all(&mut self, side: Side, end: End) -> Wakes<W::Wake> {
        let mut wakes = Wakes::new();
        while let Some(node) = self.list(side).pop_front() {
            // SAFETY: just popped, under the lock; the slot stays as it is.
            if let Ok(wake) = unsafe { close(node, end, |_| {}) } {
                wakes.add(wake);
            }
        }
        wakes
    }

    /// One side is gone: ends every wait. Returns the messages that nobody will receive, for the
    /// caller to drop without the lock.
    #[must_use]
    pub(super) fn disconnect(
        &mut self,
        receivers_gone: bool,
        wakes: &mut Wakes<W::Wake>,
    ) -> Option<Chunks<T>> {
        self.disconnected = true;
        self.end(Side::Send, End::Disconnected, wakes);
        self.end(Side::Receive, End::Disconnected, wakes);
        self.tell(Side::WatchSend, wakes);
        self.tell(Side::WatchReceive, wakes);
        receivers_gone.then(|| std::mem::take(&mut self.queue))
    }
}
