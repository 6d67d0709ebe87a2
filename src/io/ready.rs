//! A descriptor's readiness as a case of a select.
//!
//! The node waits in the descriptor's slot as that of an operation does, also a plain thread's,
//! whose operations need none: it is the default runtime's driver that tells it. An event says that it is
//! worth looking, and the look is `poll(2)`: so the case is chosen only when it is true.

use super::source::{Source, is_ready_now};
use crate::channel::{
    Attempt, Kind, Other, Parcel, Purpose, SelectNode, Selectable, SelectedOperation,
    Source as CaseSource,
};
use crate::driver::{Direction, Driver, IoNode, Slot};
use crate::fiber;
use crate::primitives::sync::{Arc, Mutex};
use crate::runtime::with_scheduler_here;
use crate::scheduler::Shared;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;

/// That a socket is readable or writable, as a [case](Selectable) of a select: an operation need not wait
/// then, be it that there is something, room for something, an end or an error.
///
/// Made by `readable` and `writable` of the sockets of [`net`](crate::net). The operation is not carried
/// out: somebody else may be faster, and on a socket in its usual mode it would wait then. A connection
/// that many use is put into non-blocking mode.
///
/// The output is an error only if the socket cannot be watched. On a plain thread the default runtime
/// watches it, and is started if need be.
///
/// ```
/// use volt::channel::select;
/// use volt::net::{Readiness, TcpListener};
///
/// # fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let connection: Readiness<'_> = listener.readable();
/// select! {
///     wait(connection) -> _ => unreachable!("nobody connects"),
///     default => {}
/// }
/// # Ok(())
/// # }
/// ```
pub struct Readiness<'s> {
    source: &'s Source,
    direction: Direction,
    /// Why the driver refused the descriptor, until the case tells it.
    refused: Mutex<Option<io::Error>>,
}

impl<'s> Readiness<'s> {
    pub(crate) fn read(source: &'s Source) -> Readiness<'s> {
        Readiness { source, direction: Direction::Read, refused: Mutex::new(None) }
    }

    pub(crate) fn write(source: &'s Source) -> Readiness<'s> {
        Readiness { direction: Direction::Write, ..Readiness::read(source) }
    }

    /// Is it so now? If not, a wait may follow, in which no runtime can be started any more.
    fn look(&self) -> bool {
        let ready = self.poll();
        if !ready && fiber::current().is_none() {
            drop(driver_here());
        }
        ready
    }

    /// What the kernel says.
    pub(crate) fn poll(&self) -> bool {
        is_ready_now(self.source.as_fd(), self.direction)
    }

    /// Is it noted that the socket is ready, and does `look` say so too? What a short operation or an attempt
    /// has seen is not noted everywhere.
    pub(super) fn is_noted(&self, slot: &Slot, look: impl FnOnce() -> bool) -> bool {
        // Before the look, so that an event after it counts.
        let Some(tick) = slot.ready(self.direction) else { return false };
        let ready = look();
        if !ready {
            slot.clear(self.direction, tick);
        }
        ready
    }

    fn is_refused(&self) -> bool {
        self.refused.lock().is_some()
    }

    fn register<'d>(&self, driver: &'d Arc<Driver>) -> io::Result<&'d Slot> {
        if self.source.slot_with(driver).is_none() {
            self.source.register_with(driver, self.direction)?;
        }
        Ok(self.source.slot_with(driver).expect("registered just now"))
    }
}

/// That of the caller's runtime, or of the default one.
pub(super) fn driver_here() -> Arc<Driver> {
    match fiber::current() {
        // SAFETY: a fiber's scheduler outlives the fiber.
        Some(fiber) => Arc::clone(unsafe { &(*Shared::of(fiber)).driver }),
        None => with_scheduler_here(|shared| Arc::clone(&shared.driver)),
    }
}

impl CaseSource for Readiness<'_> {
    fn attempt(&self, _parcel: &mut Parcel) -> Attempt {
        if self.look() {
            return Attempt::Chosen;
        }
        if self.is_refused() { Attempt::Disconnected } else { Attempt::NotReady }
    }

    fn is_ready(&self) -> bool {
        self.look() || self.is_refused()
    }

    fn kind(&self) -> Kind {
        Kind { outside: true, ..Kind::PLAIN }
    }

    unsafe fn link(&self, node: &SelectNode, _purpose: Purpose) -> bool {
        let driver = driver_here();
        let slot = match self.register(&driver) {
            Ok(slot) => slot,
            Err(error) => {
                *self.refused.lock() = Some(error);
                return false;
            }
        };
        if self.is_noted(slot, || self.poll()) {
            return false;
        }
        // SAFETY: in no list yet, so nobody else reaches its place; it stays there until it is unlinked.
        let made = unsafe {
            *node.other() = Other::Io(IoNode::with_result(node.waiter(), node.result()));
            io_node(node.other())
        };
        made.is_some_and(|made| slot.enqueue(self.direction, made))
    }

    unsafe fn unlink(&self, node: &SelectNode, _purpose: Purpose) {
        let driver = driver_here();
        // SAFETY: the node's owner asks.
        let made = unsafe { io_node(node.other()) };
        if let (Some(slot), Some(made)) = (self.source.slot_with(&driver), made) {
            slot.cancel(self.direction, made);
        }
    }
}

/// # Safety
///
/// The place is that of a node whose owner asks, and stays as long as the result.
unsafe fn io_node<'n>(place: *mut Other) -> Option<Pin<&'n mut IoNode>> {
    // SAFETY: it is the owner's, but for the links, which are cells and known to be shared.
    match unsafe { &mut *place } {
        // SAFETY: it stays where it is as long as it is linked.
        Other::Io(made) => Some(unsafe { Pin::new_unchecked(made) }),
        _ => None,
    }
}

impl<'s> Selectable for Readiness<'s> {
    type Output<'a>
        = io::Result<()>
    where
        's: 'a;

    fn complete<'a>(&'a self, chosen: SelectedOperation<'a>) -> io::Result<()> {
        if chosen.into_promise(self.identity()) {
            return Ok(());
        }
        Err(self.refused.lock().take().unwrap_or_else(|| {
            io::Error::other("the socket could not be watched; another select was told why")
        }))
    }
}

impl fmt::Debug for Readiness<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness").field("direction", &self.direction).finish_non_exhaustive()
    }
}
