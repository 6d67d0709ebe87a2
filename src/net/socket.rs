//! What the handles of one socket share: the descriptor, its time-outs, its mode.
//!
//! # Invariants
//!
//! 1. A system call that could wait does not, whatever the descriptor's mode: streams pass
//!    `MSG_DONTWAIT` each time, listeners keep `O_NONBLOCK` set (but see `listener.rs`).
//! 2. So a stream's descriptor stays in the mode that it came with, blocking if it is volt's own, and can become a
//!    standard one at any time.
//! 3. That an operation came up short says only of TCP that the next one would block: elsewhere a read may stop at the
//!    end of a datagram, or at a descriptor that comes along, with more behind it of which no event will tell.

use crate::io::{Readiness, Source, Wanted};
use crate::park;
use crate::primitives::sync::Arc;
use crate::primitives::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::net::{SocketType, ipproto};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A socket, shared by its clones.
#[derive(Debug)]
pub(super) struct Socket {
    source: Source,
    /// The user asked for `WouldBlock` instead of a wait.
    nonblocking: AtomicBool,
    /// What comes from outside may be another kind of socket.
    is_tcp: bool,
    read_timeout: StoredTimeout,
    write_timeout: StoredTimeout,
}

impl Socket {
    /// A socket that volt has just made.
    pub(super) fn new(fd: OwnedFd) -> Socket {
        Socket::from_source(Source::new(fd))
    }

    pub(super) fn from_source(source: Source) -> Socket {
        Socket {
            source,
            nonblocking: AtomicBool::new(false),
            is_tcp: true,
            read_timeout: StoredTimeout::default(),
            write_timeout: StoredTimeout::default(),
        }
    }

    /// A socket that comes from outside, with the time-outs that it has.
    pub(super) fn adopt(fd: OwnedFd) -> Socket {
        let mut socket = Socket::new(fd);
        socket.is_tcp = is_tcp(&socket);
        for (id, stored) in socket.timeouts() {
            // What is no socket has none; its operations will say so.
            stored.store(sockopt::socket_timeout(&socket, id).ok().flatten());
        }
        socket
    }

    /// A connection that `listener` has accepted, of the same kind and, as Linux has it, with the same time-outs.
    pub(super) fn accepted(fd: OwnedFd, listener: &Socket) -> Socket {
        let socket = Socket { is_tcp: listener.is_tcp, ..Socket::new(fd) };
        for ((_, own), (_, theirs)) in socket.timeouts().into_iter().zip(listener.timeouts()) {
            own.store(theirs.load());
        }
        socket
    }

    /// The descriptor for use outside volt: this one if `socket` is the last handle, else a
    /// duplicate. The time-outs and the mode go with it.
    ///
    /// # Errors
    ///
    /// The descriptor could not be duplicated.
    pub(super) fn release(socket: Arc<Socket>) -> io::Result<OwnedFd> {
        match Arc::try_unwrap(socket) {
            Ok(socket) => {
                socket.pass_settings()?;
                Ok(socket.source.into_fd())
            }
            Err(shared) => {
                // First: without a duplicate nothing leaves, and other handles keep the settings that they have.
                let fd = shared.duplicate()?;
                shared.pass_settings()?;
                Ok(fd)
            }
        }
    }

    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(self, 3)?)
    }

    /// Tells the kernel of the time-outs and the mode.
    fn pass_settings(&self) -> io::Result<()> {
        for (id, stored) in self.timeouts() {
            // Also that there is none: the kernel has what it had when the socket came to volt.
            let set = sockopt::set_socket_timeout(self, id, stored.load());
            // What is no socket has none.
            set.or_else(|error| if stored.load().is_none() { Ok(()) } else { Err(error) })?;
        }
        Ok(rustix::io::ioctl_fionbio(self, self.is_nonblocking())?)
    }

    fn timeouts(&self) -> [(Timeout, &StoredTimeout); 2] {
        [(Timeout::Recv, &self.read_timeout), (Timeout::Send, &self.write_timeout)]
    }

    pub(super) fn read_timeout(&self) -> &StoredTimeout {
        &self.read_timeout
    }

    pub(super) fn write_timeout(&self) -> &StoredTimeout {
        &self.write_timeout
    }

    pub(super) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    pub(super) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    pub(super) fn readable(&self) -> Readiness<'_> {
        Readiness::read(&self.source)
    }

    pub(super) fn writable(&self) -> Readiness<'_> {
        Readiness::write(&self.source)
    }

    /// Does an operation that takes something from the socket.
    #[inline]
    pub(super) fn read<R>(
        &self,
        reason: &'static str,
        operation: impl FnMut(BorrowedFd<'_>) -> Result<(R, bool), Errno>,
    ) -> io::Result<R> {
        self.operate(Wanted::read(reason, self.read_timeout.load()), operation)
    }

    /// Does an operation that hands something to the socket.
    #[inline]
    pub(super) fn write<R>(
        &self,
        reason: &'static str,
        operation: impl FnMut(BorrowedFd<'_>) -> Result<(R, bool), Errno>,
    ) -> io::Result<R> {
        self.operate(Wanted::write(reason, self.write_timeout.load()), operation)
    }

    /// Takes a connection, which serves one of those who wait for it.
    pub(super) fn accept<R>(
        &self,
        operation: impl FnMut(BorrowedFd<'_>) -> Result<(R, bool), Errno>,
    ) -> io::Result<R> {
        self.operate(Wanted::accept(self.read_timeout.load()), operation)
    }

    #[inline]
    fn operate<R>(
        &self,
        wanted: Wanted,
        mut operation: impl FnMut(BorrowedFd<'_>) -> Result<(R, bool), Errno>,
    ) -> io::Result<R> {
        if self.is_nonblocking() {
            return self.attempt(operation);
        }
        self.source.operate(wanted, |fd| {
            let (result, short) = operation(fd)?;
            Ok((result, short && self.is_tcp))
        })
    }

    /// Tries once. It is charged like an operation that could have waited: who tries again and again
    /// lets other fibers run at times.
    #[cold]
    fn attempt<R>(
        &self,
        mut operation: impl FnMut(BorrowedFd<'_>) -> Result<(R, bool), Errno>,
    ) -> io::Result<R> {
        if let Some(fiber) = park::current_fiber() {
            park::charge(fiber);
        }
        loop {
            match operation(self.source.as_fd()) {
                Ok((result, _)) => return Ok(result),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_tcp(socket: &Socket) -> bool {
    let is_stream = sockopt::socket_type(socket) == Ok(SocketType::STREAM);
    is_stream && sockopt::socket_protocol(socket) == Ok(Some(ipproto::TCP))
}

/// Not everywhere a socket can be asked.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_tcp(_: &Socket) -> bool {
    false
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }
}

/// A time-out that all clones share: nanoseconds, 0 for none.
#[derive(Debug, Default)]
pub(super) struct StoredTimeout(AtomicU64);

impl StoredTimeout {
    #[inline]
    pub(super) fn load(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Sets it from what a user gave.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for zero.
    pub(super) fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        refuse_zero(timeout)?;
        self.store(timeout);
        Ok(())
    }

    fn store(&self, timeout: Option<Duration>) {
        let nanos =
            timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        self.0.store(nanos, Ordering::Relaxed);
    }
}

/// A zero time-out would mean "none" to some and "at once" to others.
pub(super) fn refuse_zero(timeout: Option<Duration>) -> io::Result<()> {
    if timeout == Some(Duration::ZERO) {
        let message = "cannot set a 0 duration timeout";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}
