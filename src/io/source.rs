//! A file descriptor whose operations wait: on a fiber through the runtime's driver, on a plain
//! thread in `poll(2)`.
//!
//! # Invariants
//!
//! 1. The descriptor is registered with a driver when a fiber of that driver's runtime first has to
//!    wait for it (or a thread in a select, whose driver is the default runtime's), and stays so until it
//!    is closed. One that is used under two runtimes has a
//!    registration with each. That of a runtime which is gone keeps nothing of it but some memory.
//! 2. A registration is dropped before its descriptor is closed.
//! 3. System calls on fibers return their error by value, never through `errno`, whose address the
//!    compiler may keep from before a switch. So an operation is a `rustix` call.
//! 4. What the driver has not brought yet may be there all the same: no wait ends in an error before the operation has
//!    been tried once more.

use crate::cancel;
use crate::driver::{Direction, Driver, IoNode, Registration, Slot};
use crate::fiber::FiberPtr;
use crate::park::{self, Outcome, Parking, Wait, deadline_after};
use crate::primitives::clock::Moment;
use crate::primitives::is_forked;
use crate::primitives::sync::{Arc, Mutex, OnceLock};
use crate::scheduler::{self, Shared};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};
use std::time::Duration;

/// What an operation is and how long it may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) direction: Direction,
    /// A word for people, such as "accept".
    pub(crate) reason: &'static str,
    /// At most this long; `None` waits for ever.
    pub(crate) timeout: Option<Duration>,
    /// The error kind of a timeout: `WouldBlock` for reads and writes, as the standard library's on
    /// Unix.
    pub(crate) timeout_kind: io::ErrorKind,
}

impl Wanted {
    pub(crate) fn read(reason: &'static str, timeout: Option<Duration>) -> Wanted {
        let timeout_kind = io::ErrorKind::WouldBlock;
        Wanted { direction: Direction::Read, reason, timeout, timeout_kind }
    }

    pub(crate) fn write(reason: &'static str, timeout: Option<Duration>) -> Wanted {
        Wanted { direction: Direction::Write, ..Wanted::read(reason, timeout) }
    }

    /// A read that serves one of those who wait for it.
    pub(crate) fn accept(timeout: Option<Duration>) -> Wanted {
        Wanted { direction: Direction::Accept, ..Wanted::read("accept", timeout) }
    }

    fn serves_one(&self) -> bool {
        self.direction == Direction::Accept
    }

    /// The one whom an event chooses must not stand behind a busy worker while others sleep.
    fn on(self, fiber: FiberPtr) -> Wanted {
        // SAFETY: a fiber's scheduler outlives the fiber.
        match unsafe { (*Shared::of(fiber)).runs_anywhere() } {
            true => self,
            false => Wanted { direction: Direction::Read, ..self },
        }
    }
}

/// An owned descriptor and its registrations.
#[derive(Debug)]
pub(crate) struct Source {
    /// One for each runtime whose fibers waited here; nearly always one.
    registered: OnceLock<Registered>,
    /// Held while a registration is made.
    registering: Mutex<()>,
    /// Last, so that the registrations go first (invariant 2).
    fd: OwnedFd,
}

/// A registration, and the next one if a second runtime uses the socket.
#[derive(Debug)]
struct Registered {
    registration: Registration,
    next: OnceLock<Box<Registered>>,
}

impl Drop for Registered {
    /// One after the other: nobody knows how many runtimes a socket has seen.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut registered) = next {
            next = registered.next.take();
        }
    }
}

impl Source {
    pub(crate) fn new(fd: OwnedFd) -> Source {
        Source { registered: OnceLock::new(), registering: Mutex::new(()), fd }
    }

    /// The descriptor, registered nowhere any more.
    pub(crate) fn into_fd(self) -> OwnedFd {
        drop(self.registered);
        self.fd
    }

    /// Tries `operation` until it does not say `WOULDBLOCK`, waiting in between.
    ///
    /// The operation must not block by itself. It returns its result and whether it came up short,
    /// so that the next one need not be tried before an event.
    ///
    /// # Errors
    ///
    /// The operation's; a timeout; [`cancel::Cancelled`] on a fiber that was cancelled and would
    /// have to wait.
    #[inline]
    pub(crate) fn operate<R>(
        &self,
        wanted: Wanted,
        operation: impl FnMut(BorrowedFd<'_>) -> Result<(R, bool), Errno>,
    ) -> io::Result<R> {
        match park::current_fiber() {
            Some(fiber) => self.operate_on_fiber(fiber, wanted, operation),
            None => self.operate_on_thread(wanted, operation),
        }
    }

    #[inline]
    fn operate_on_fiber<R>(
        &self,
        fiber: FiberPtr,
        wanted: Wanted,
        mut operation: impl FnMut(BorrowedFd<'_>) -> Result<(R, bool), Errno>,
    ) -> io::Result<R> {
        park::charge(fiber);
        let (wanted, _passes_on) = match wanted.serves_one() {
            true => (wanted.on(fiber), Some(PassesOn { source: self, fiber })),
            false => (wanted, None),
        };
        let mut deadline = None;
        loop {
            let slot = self.slot(fiber);
            let tick = match slot {
                None => 0,
                Some(slot) => match slot.ready(wanted.direction) {
                    Some(tick) => tick,
                    None => match self.wait(slot, wanted, &mut deadline) {
                        Outcome::Woken(_) => continue,
                        ended => return self.try_at_the_end(wanted, ended, operation),
                    },
                },
            };
            match operation(self.fd.as_fd()) {
                Ok((result, short)) => {
                    if let (true, Some(slot)) = (short, slot) {
                        slot.clear_short(wanted.direction, tick);
                    }
                    return Ok(result);
                }
                Err(Errno::AGAIN) => match slot {
                    Some(slot) if slot.has_been_urgent() && self.is_interrupted(wanted) => {}
                    Some(slot) => slot.clear(wanted.direction, tick),
                    None => self.register(fiber, wanted.direction)?,
                },
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A read that begins at urgent data would block, says the kernel, whatever follows, where a signal has come.
    #[cold]
    fn is_interrupted(&self, wanted: Wanted) -> bool {
        // Not what poll says of errors, which may be there for long, and end no read.
        wanted.direction == Direction::Read
            && look_now(self.as_fd(), Direction::Read)
                .is_ok_and(|seen| seen.contains(PollFlags::IN))
    }

    /// The wait of an operation has ended in another way than by an event (invariant 4).
    #[cold]
    fn try_at_the_end<R>(
        &self,
        wanted: Wanted,
        ended: Outcome,
        mut operation: impl FnMut(BorrowedFd<'_>) -> Result<(R, bool), Errno>,
    ) -> io::Result<R> {
        let tried = loop {
            match operation(self.fd.as_fd()) {
                Err(Errno::INTR) => {}
                tried => break tried,
            }
        };
        match (tried, ended) {
            (Err(Errno::AGAIN), Outcome::TimedOut) => Err(wanted.timed_out()),
            (Err(Errno::AGAIN), _) => Err(cancel::error()),
            (tried, _) => {
                cancel::took_effect();
                Ok(tried?.0)
            }
        }
    }

    /// The slot with the driver of `fiber`'s runtime, if it knows the descriptor.
    #[inline]
    fn slot(&self, fiber: FiberPtr) -> Option<&Slot> {
        // SAFETY: a fiber's scheduler outlives the fiber.
        self.slot_with(unsafe { &(*Shared::of(fiber)).driver })
    }

    #[inline]
    pub(super) fn slot_with<'d>(&self, driver: &'d Arc<Driver>) -> Option<&'d Slot> {
        let mut at = self.registered.get();
        while let Some(registered) = at {
            let slot = registered.registration.slot(driver);
            if slot.is_some() {
                return slot;
            }
            at = registered.next.get().map(|next| &**next);
        }
        None
    }

    /// Registers with the driver of `fiber`'s runtime. `blocked` has just been seen not ready; if
    /// that has changed since, the kernel reports it at once.
    #[cold]
    fn register(&self, fiber: FiberPtr, blocked: Direction) -> io::Result<()> {
        // SAFETY: a fiber's scheduler outlives the fiber.
        self.register_with(unsafe { &(*Shared::of(fiber)).driver }, blocked)
    }

    /// As [`register`](Source::register).
    pub(super) fn register_with(&self, driver: &Arc<Driver>, blocked: Direction) -> io::Result<()> {
        // The kernel's poller is the parent's too.
        park::check_process();
        let _lock = self.registering.lock();
        if self.slot_with(driver).is_some() {
            return Ok(());
        }
        let registration = driver.register(self.fd.as_raw_fd(), blocked)?;
        let made = Registered { registration, next: OnceLock::new() };
        let Err(made) = self.registered.set(made) else { return Ok(()) };
        let mut last = &self.registered.get().expect("set before").next;
        while let Some(registered) = last.get() {
            last = &registered.next;
        }
        last.set(Box::new(made)).expect("the lock is held");
        Ok(())
    }

    #[inline(never)]
    fn wait(&self, slot: &Slot, wanted: Wanted, deadline: &mut Option<Moment>) -> Outcome {
        if let (None, Some(timeout)) = (*deadline, wanted.timeout) {
            *deadline = Some(deadline_after(timeout));
        }
        let parking = Parking::begin(wanted.reason);
        let mut node = pin!(IoNode::new(parking.waiter()));
        if !slot.enqueue(wanted.direction, node.as_mut()) {
            return Outcome::Woken(0);
        }
        let object = self.fd.as_raw_fd() as usize;
        let wait = Wait {
            object,
            deadline: *deadline,
            cancellable: true,
            outside: true,
            ..Wait::new(wanted.reason)
        };
        let linked = Linked { slot, direction: wanted.direction, node };
        let ended = parking.park(wait);
        if let Outcome::Woken(_) = ended {
            // By an event, which took it out.
            mem::forget(linked);
        }
        ended
    }

    #[cold]
    fn operate_on_thread<R>(
        &self,
        wanted: Wanted,
        mut operation: impl FnMut(BorrowedFd<'_>) -> Result<(R, bool), Errno>,
    ) -> io::Result<R> {
        let deadline = wanted.timeout.map(deadline_after);
        loop {
            match operation(self.fd.as_fd()) {
                Ok((result, _)) => return Ok(result),
                Err(Errno::AGAIN) => {
                    park::begin_to_block(wanted.reason);
                    poll_on_thread(self.fd.as_fd(), wanted, deadline)?;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// At the end of an operation that serves one, however it ends: whoever waits next looks whether there is more.
struct PassesOn<'a> {
    source: &'a Source,
    fiber: FiberPtr,
}

impl Drop for PassesOn<'_> {
    fn drop(&mut self) {
        // What waits is the parent's there.
        if is_forked() {
            return;
        }
        let is_there = || is_ready_now(self.source.fd.as_fd(), Direction::Accept);
        let slot = self.source.slot(self.fiber);
        if let Some(wake) = slot.and_then(|slot| slot.pass_on(is_there)) {
            // Behind the caller, who has a connection to serve, somebody else may be sooner.
            scheduler::wake_where_thieves_look(wake);
        }
    }
}

/// Takes a wait out of its slot when it goes, by a panic too.
struct Linked<'a> {
    slot: &'a Slot,
    direction: Direction,
    node: Pin<&'a mut IoNode>,
}

impl Drop for Linked<'_> {
    fn drop(&mut self) {
        self.slot.cancel(self.direction, self.node.as_mut());
    }
}

impl Wanted {
    fn timed_out(&self) -> io::Error {
        match self.timeout_kind {
            // What the kernel says when `SO_RCVTIMEO` runs out, with its number and its words.
            io::ErrorKind::WouldBlock => Errno::AGAIN.into(),
            kind => kind.into(),
        }
    }
}

/// Blocks the thread until the descriptor is ready, or a signal comes, or a timeout around it ends.
fn poll_on_thread(fd: BorrowedFd<'_>, wanted: Wanted, deadline: Option<Moment>) -> io::Result<()> {
    let bound = park::bound();
    let (deadline, cut_off) = bound.of_wait(deadline);
    if bound.over {
        bound.ended();
        return Err(cancel::error());
    }
    let left = deadline.map(|deadline| deadline.since(Moment::now()));
    let timeout = left.map(|left| Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: left.subsec_nanos().into(),
    });
    match rustix::event::poll(&mut [PollFd::new(&fd, flags(wanted.direction))], timeout.as_ref()) {
        Ok(0) if cut_off => {
            bound.ended();
            Err(cancel::error())
        }
        Ok(0) => Err(wanted.timed_out()),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What the kernel says of a descriptor.
pub(super) fn is_ready_now(fd: BorrowedFd<'_>, direction: Direction) -> bool {
    // Whatever is wrong, an operation says it better.
    look_now(fd, direction).map_or(true, |seen| !seen.is_empty())
}

pub(super) fn look_now(fd: BorrowedFd<'_>, direction: Direction) -> Result<PollFlags, Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(&fd, flags(direction))];
    loop {
        match rustix::event::poll(&mut fds, Some(&now)) {
            Ok(_) => return Ok(fds[0].revents()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn flags(direction: Direction) -> PollFlags {
    match direction {
        Direction::Read | Direction::Accept => PollFlags::IN,
        Direction::Write => PollFlags::OUT,
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
