//! What a select can wait for: [`Selectable`], its internals, and channels as cases. Other cases are in
//! `cases`, and in the rooms above that have them; those of others in `open`.

use super::core::{Woken, deliver};
use super::error::{RecvError, SendError};
use super::node::{Side, Wakes};
use super::open::Open;
use super::parcel::Parcel;
use super::receiver::{Flavor, Receiver};
use super::select_node::SelectNode;
use super::selected::SelectedOperation;
use super::sender::Sender;
use super::state::{Received, Sent};
use crate::park::has_passed;
use crate::time::Instant;
use std::alloc::Layout;
use std::fmt;

/// What a select can wait for: a case has one effect, and of the cases of a select exactly one has its
/// effect, whose output it gives.
///
/// Cases stand in [`select!`](macro@crate::channel::select) as `wait(case) -> output => ...`, and in a
/// [`Select`](super::Select) by [`Select::case`](super::Select::case). To make one of your own implement
/// [`Case`](super::Case), which is open; this trait follows from it.
///
/// | case | it is chosen when | the effect | the output |
/// |---|---|---|---|
/// | [`Receiver`] | a message comes, or all senders are gone | it is received | as of `recv` |
/// | [`Sender`] | there is room, or all receivers are gone | a place is taken | a [`Permit`] |
/// | [`time::Instant`](crate::time::Instant), as of [`time::after`](crate::time::after) | it has come | none | the instant |
/// | [`JoinHandle`](crate::JoinHandle), [`ScopedJoinHandle`](crate::thread::ScopedJoinHandle) | the fiber has ended | none: `join` gives the result, at once | `()` |
/// | [`JoinSet`](crate::scope::JoinSet) | one of its fibers has ended | none: `join_next` gives the result, at once | `()` |
/// | [`cancel::Token`](crate::cancel::Token) | it is cancelled | none | `()` |
/// | [`sync::Event`](crate::sync::Event) | it is set | none | `()` |
/// | [`sync::Notify`](crate::sync::Notify) | there is a notification | it is taken | `()` |
/// | `readable()`, `writable()` of the sockets of [`net`](crate::net) | an operation need not wait | none | `io::Result<()>` |
/// | any [`Case`](super::Case) | it says so | its own | its own |
///
/// ```
/// use std::time::Duration;
/// use volt::cancel::Token;
/// use volt::channel::{select, unbounded};
///
/// let (s, r) = unbounded::<u8>();
/// let stop = Token::new();
/// let fiber = volt::go(|| 7);
/// select! {
///     recv(r) -> _ => unreachable!("nobody sends"),
///     wait(stop) -> () => unreachable!("nobody cancels"),
///     wait(volt::time::after(Duration::from_secs(60))) -> _ => unreachable!("not so long"),
///     wait(fiber) -> () => assert_eq!(fiber.join().unwrap(), 7),
/// }
/// # drop(s);
/// ```
pub trait Selectable: Source {
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

/// What a case is, whatever happens.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// It receives such a message, into the parcel.
    pub(crate) receives: Option<Layout>,
    /// Something else than fibers may end a wait for it.
    pub(crate) outside: bool,
    /// It is somebody else's code, which has the waiter before the wait begins.
    pub(crate) open: bool,
}

impl Kind {
    pub(crate) const PLAIN: Kind = Kind { receives: None, outside: false, open: false };
}

/// The internals of a case; public in name only.
///
/// The select tries each case by `attempt`. If none is ready it links one node into each, waits, and
/// unlinks all. Who settles the wait says by its result word which node's source it was; what that
/// means, the node's end says for a channel, and `handed` for all others.
#[doc(hidden)]
pub trait Source {
    /// Lets the case have its effect, if it can now.
    fn attempt(&self, parcel: &mut Parcel) -> Attempt;

    /// Could `attempt` succeed now?
    fn is_ready(&self) -> bool;

    /// What does not change. Asked at once: each question is a call through a table.
    fn kind(&self) -> Kind {
        Kind::PLAIN
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

    /// For a case without an `End`, after its source has ended the wait: `None` if the select has to look
    /// again. Otherwise it is chosen; is there something to [withdraw](Source::withdraw)?
    fn handed(&self, _node: &SelectNode) -> Option<bool> {
        None
    }

    /// The case as somebody else's code, if it [is that](Kind::open).
    fn open(&self) -> Option<&dyn Open> {
        None
    }

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

    /// Takes the message back that came into the parcel, if it did.
    fn take_back(&self, _parcel: &mut Parcel) {}

    /// Gives a promise back.
    fn withdraw(&self) {}

    /// What tells this case from others.
    fn identity(&self) -> Identity {
        Identity { address: std::ptr::from_ref(self).cast(), open: false }
    }
}

/// A case, as one can tell it from others that live at the same time. One of somebody's own may have the
/// address of one of volt's, if that is its first field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub(super) address: *const (),
    pub(super) open: bool,
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
        unsafe { self.core.unlink(node.entry(), send_side(purpose)) };
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
    if state.is_possible(side, Some(node.waiter())) {
        return false;
    }
    if !state.is_by_bias() {
        core.hint.leave(node.entry().as_ptr(), node.waiter().address(), side);
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
            Flavor::Channel(core) => unsafe { core.receive_at_once(to) },
            Flavor::Timed(clock) => match clock.take(None) {
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
            Flavor::Timed(clock) => has_passed(clock.due()),
            Flavor::Never => false,
        }
    }

    fn kind(&self) -> Kind {
        Kind { receives: Some(Layout::new::<T>()), ..Kind::PLAIN }
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
            // What is due by now ends the wait, which has that for its deadline.
            Flavor::Timed(_) | Flavor::Never => true,
        }
    }

    unsafe fn unlink(&self, node: &SelectNode, purpose: Purpose) {
        if let Flavor::Channel(core) = &self.flavor {
            // SAFETY: passed on.
            unsafe { core.unlink(node.entry(), receive_side(purpose)) };
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

    fn take_back(&self, parcel: &mut Parcel) {
        // What a clock makes does not come to who waits, but is found when he looks.
        let Flavor::Channel(core) = &self.flavor else { return };
        // SAFETY: this receiver filled it, so with its type.
        if let Some(message) = unsafe { parcel.take::<T>() } {
            core.with(|state, wakes| state.take_back(message, wakes));
        }
    }
}

impl<T> Selectable for Receiver<T> {
    type Output<'a>
        = Result<T, RecvError>
    where
        T: 'a;

    fn complete<'a>(&'a self, chosen: SelectedOperation<'a>) -> Result<T, RecvError> {
        chosen.recv(self)
    }
}

impl<T> Selectable for Sender<T> {
    type Output<'a>
        = Permit<'a, T>
    where
        T: 'a;

    fn complete<'a>(&'a self, chosen: SelectedOperation<'a>) -> Permit<'a, T> {
        Permit { sender: self, promised: chosen.into_promise(self.identity()) }
    }
}

/// The right to send one message at once, which a [`Sender`] as a case gives.
///
/// Dropped, it gives its place back. Over a channel of capacity zero it holds a receiver, which waits for
/// the message whatever its time-out or a cancel says, [`try_recv`](super::Receiver::try_recv) too: so send, or
/// drop it, soon.
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
