//! What a select can wait for: the open [`Case`], and the internals that every case brings.

use super::core::{Entry, Woken, deliver};
use super::error::{RecvError, SendError};
use super::node::{End, Wakes};
use super::parcel::Parcel;
use super::receiver::{Flavor, Receiver};
use super::selected::SelectedOperation;
use super::sender::Sender;
use super::state::{Received, Sent, Side};
use crate::fiber::WaiterPtr;
use crate::primitives::clock::Moment;
use crate::time::Instant;
use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;

/// Something that a select can wait for.
///
/// A case has one effect: a message is received, a place for one is taken, a time has come. Of the
/// cases of a select exactly one has its effect, and its output is that effect's. Cases stand in
/// [`select!`](crate::channel::select) as `wait(case) -> output => ...`, and in a
/// [`Select`](super::Select) by [`Select::case`](super::Select::case).
///
/// The trait is implemented in this crate only: what a case does under its source's lock is not for
/// others to get wrong.
///
/// ```
/// use std::time::Duration;
/// use volt::channel::{select, unbounded};
/// use volt::time::Instant;
///
/// let (s, r) = unbounded::<u8>();
/// let soon = Instant::now() + Duration::from_millis(2);
/// let late = select! {
///     wait(r) -> message => message.is_err(),
///     wait(soon) -> _ => true,
/// };
/// assert!(late);
/// # drop(s);
/// ```
pub trait Case: Source {
    /// What the case gives when it was chosen.
    type Output<'a>
    where
        Self: 'a;

    /// Completes the operation, which chose this case.
    #[doc(hidden)]
    fn complete<'a>(&'a self, chosen: SelectedOperation<'a>) -> Self::Output<'a>;
}

/// What became of an attempt at a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It is chosen. A received message is in the parcel, a sender has its promise.
    Chosen,
    /// It is chosen, and will fail since the channel is disconnected.
    Disconnected,
    /// A sender was chosen that makes its message now: this receiver must collect it.
    Promised,
    NotReady,
}

/// What an operation on a case is for: the effect, or only the news that it may be possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Effect,
    Watch,
}

/// The internals of a case; public in name only.
///
/// The select tries each case by `attempt`. If none is ready it links one node into each, waits, and
/// unlinks all; a node's end says what its source did.
#[doc(hidden)]
pub trait Source {
    /// Lets the case have its effect, if it can now.
    fn attempt(&self, parcel: &mut Parcel) -> Attempt;

    /// Could `attempt` succeed now?
    fn is_ready(&self) -> bool;

    /// Does it receive a message, into the parcel?
    fn receives(&self) -> bool {
        false
    }

    /// What is received into the parcel.
    fn layout(&self) -> Layout {
        Layout::new::<()>()
    }

    /// The time at which the case is ready, if nothing else tells.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Links `node` unless the case is ready; false if it is.
    ///
    /// # Safety
    ///
    /// The node keeps to the invariants of `node.rs`.
    unsafe fn link(&self, _node: &SelectNode, _purpose: Purpose) -> bool {
        !self.is_ready()
    }

    /// Unlinks `node` if it still is linked. Afterwards its end is complete.
    ///
    /// # Safety
    ///
    /// It was linked here for this purpose.
    unsafe fn unlink(&self, _node: &SelectNode, _purpose: Purpose) {}

    /// There is a message in the parcel, which the source put there.
    ///
    /// # Safety
    ///
    /// That is so.
    unsafe fn accept(&self, _parcel: &mut Parcel) {}

    /// Waits for the message that was promised; false if it was withdrawn.
    fn collect(&self, _parcel: &mut Parcel) -> bool {
        false
    }

    /// Gives a promise back.
    fn withdraw(&self) {}

    /// What tells this case from others.
    fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }
}

/// A node of a select.
pub struct SelectNode(Entry);

impl SelectNode {
    pub(super) fn new(waiter: WaiterPtr, result: u32, slot: *mut ()) -> SelectNode {
        SelectNode(Entry::new(waiter, result, slot))
    }

    pub(super) fn end(&self) -> End {
        self.0.end()
    }

    pub(super) fn reclaim(&self) {
        self.0.reclaim();
    }

    fn entry(&self) -> NonNull<Entry> {
        NonNull::from(&self.0)
    }
}

impl fmt::Debug for SelectNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SelectNode").field(&self.0.end()).finish()
    }
}

impl<T> Source for Sender<T> {
    fn attempt(&self, _parcel: &mut Parcel) -> Attempt {
        match self.core.with(|state, wakes| state.promise(wakes)) {
            Sent::Done => Attempt::Chosen,
            Sent::Disconnected => Attempt::Disconnected,
            Sent::Full => Attempt::NotReady,
        }
    }

    fn is_ready(&self) -> bool {
        self.core.lock().is_possible(Side::Send, None)
    }

    unsafe fn link(&self, node: &SelectNode, purpose: Purpose) -> bool {
        // SAFETY: passed on.
        unsafe { link(&self.core, node, send_side(purpose)) }
    }

    unsafe fn unlink(&self, node: &SelectNode, purpose: Purpose) {
        // SAFETY: passed on.
        unsafe { self.core.lock().unlink(node.entry(), send_side(purpose)) };
    }

    fn withdraw(&self) {
        self.core.with(|state, wakes| state.withdraw(wakes));
    }
}

fn send_side(purpose: Purpose) -> Side {
    match purpose {
        Purpose::Effect => Side::Send,
        Purpose::Watch => Side::WatchSend,
    }
}

fn receive_side(purpose: Purpose) -> Side {
    match purpose {
        Purpose::Effect => Side::Receive,
        Purpose::Watch => Side::WatchReceive,
    }
}

/// # Safety
///
/// As for [`Source::link`].
unsafe fn link<T>(core: &super::core::Core<T>, node: &SelectNode, side: Side) -> bool {
    let mut wakes: Woken = Wakes::new();
    let mut state = core.lock();
    if state.is_possible(side, Some(node.0.waiter())) {
        return false;
    }
    // SAFETY: passed on; not possible, under this lock.
    unsafe { state.link(node.entry(), side, &mut wakes) };
    drop(state);
    deliver(wakes);
    true
}

impl<T> Source for Receiver<T> {
    fn attempt(&self, parcel: &mut Parcel) -> Attempt {
        let to = parcel.room(Layout::new::<T>()).cast::<T>();
        let received = match &self.flavor {
            // SAFETY: room for a message.
            Flavor::Channel(core) => core.with(|state, wakes| unsafe { state.receive(to, wakes) }),
            Flavor::Timed(clock) => match clock.take(Moment::now()) {
                Some(message) => {
                    // SAFETY: as above.
                    unsafe { to.write(message) };
                    Received::Done
                }
                None => Received::Empty,
            },
            Flavor::Never => Received::Empty,
        };
        match received {
            Received::Done => {
                // SAFETY: so says the answer.
                unsafe { parcel.fill::<T>() };
                Attempt::Chosen
            }
            Received::Promised => Attempt::Promised,
            Received::Disconnected => Attempt::Disconnected,
            Received::Empty => Attempt::NotReady,
        }
    }

    fn is_ready(&self) -> bool {
        match &self.flavor {
            Flavor::Channel(core) => core.lock().is_possible(Side::Receive, None),
            Flavor::Timed(clock) => clock.due() <= Moment::now(),
            Flavor::Never => false,
        }
    }

    fn receives(&self) -> bool {
        true
    }

    fn layout(&self) -> Layout {
        Layout::new::<T>()
    }

    fn due(&self) -> Option<Instant> {
        match &self.flavor {
            Flavor::Timed(clock) => Some(Instant(clock.due())),
            Flavor::Channel(_) | Flavor::Never => None,
        }
    }

    unsafe fn link(&self, node: &SelectNode, purpose: Purpose) -> bool {
        match &self.flavor {
            // SAFETY: passed on.
            Flavor::Channel(core) => unsafe { link(core, node, receive_side(purpose)) },
            Flavor::Timed(_) | Flavor::Never => !self.is_ready(),
        }
    }

    unsafe fn unlink(&self, node: &SelectNode, purpose: Purpose) {
        if let Flavor::Channel(core) = &self.flavor {
            // SAFETY: passed on.
            unsafe { core.lock().unlink(node.entry(), receive_side(purpose)) };
        }
    }

    unsafe fn accept(&self, parcel: &mut Parcel) {
        // SAFETY: passed on.
        unsafe { parcel.fill::<T>() };
    }

    fn collect(&self, parcel: &mut Parcel) -> bool {
        let Flavor::Channel(core) = &self.flavor else { return false };
        let to = parcel.room(Layout::new::<T>()).cast::<T>();
        // SAFETY: room for a message, and the caller was promised one.
        let collected = unsafe { core.collect(to) };
        if collected {
            // SAFETY: so says the answer.
            unsafe { parcel.fill::<T>() };
        }
        collected
    }
}

/// A time that comes.
impl Source for Instant {
    fn attempt(&self, _parcel: &mut Parcel) -> Attempt {
        if self.is_ready() { Attempt::Chosen } else { Attempt::NotReady }
    }

    fn is_ready(&self) -> bool {
        self.0 <= Moment::now()
    }

    fn due(&self) -> Option<Instant> {
        Some(*self)
    }
}

impl<T> Case for Receiver<T> {
    type Output<'a>
        = Result<T, RecvError>
    where
        T: 'a;

    fn complete<'a>(&'a self, chosen: SelectedOperation<'a>) -> Result<T, RecvError> {
        chosen.recv(self)
    }
}

impl<T> Case for Sender<T> {
    type Output<'a>
        = Permit<'a, T>
    where
        T: 'a;

    fn complete<'a>(&'a self, chosen: SelectedOperation<'a>) -> Permit<'a, T> {
        Permit { sender: self, promised: chosen.into_promise(self.address()) }
    }
}

/// The output is the instant itself.
impl Case for Instant {
    type Output<'a> = Instant;

    fn complete(&self, chosen: SelectedOperation<'_>) -> Instant {
        chosen.into_promise(self.address());
        *self
    }
}

/// The right to send one message at once, which a [`Sender`] as a [`Case`] gives.
///
/// Dropped, it gives its place back.
///
/// ```
/// use volt::channel::{bounded, select};
///
/// let (s, r) = bounded(1);
/// select! {
///     wait(s) -> permit => permit.send("now").unwrap(),
/// }
/// assert_eq!(r.recv(), Ok("now"));
/// ```
pub struct Permit<'a, T> {
    sender: &'a Sender<T>,
    /// False if the channel was disconnected when it was chosen, and once it is used.
    promised: bool,
}

impl<T> Permit<'_, T> {
    /// Sends the message, without waiting.
    ///
    /// # Errors
    ///
    /// Every receiver is gone; the error holds the message.
    ///
    /// ```
    /// use volt::channel::{bounded, select};
    ///
    /// let (s, r) = bounded(1);
    /// drop(r);
    /// select! {
    ///     wait(s) -> permit => assert!(permit.send(1).is_err()),
    /// }
    /// ```
    pub fn send(mut self, msg: T) -> Result<(), SendError<T>> {
        if !std::mem::take(&mut self.promised) {
            return Err(SendError(msg));
        }
        self.sender.core.keep(msg)
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        if self.promised {
            self.sender.withdraw();
        }
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Permit { .. }")
    }
}
