//! What a signal handler leaves for whoever waits.
//!
//! # Protocol
//!
//! The handler sets the signal's bit first and writes to the event descriptor after. The receiver
//! takes all bits; if there are none it reads the descriptor, which empties it, and takes the bits
//! again. A bit that was set before that read is seen after it; one that is set later is followed by
//! a write, which ends the next wait. A write whose bit has been taken already costs one round.
//!
//! The handler may interrupt anything, so it does nothing but an atomic "or" and a system call, which
//! returns its error by value.

use crate::io::{Source, Wanted};
use crate::primitives::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Signals that have come and have not been received.
#[derive(Debug)]
pub(super) struct Pending {
    /// Bit `n - 1` for signal `n`. Set by handlers, taken by the receiver.
    bits: AtomicU64,
    event: Source,
    /// Where handlers write, if that is another descriptor.
    end: Option<OwnedFd>,
}

/// What is read, and what is written to if that is another one: a pipe's two ends, where there is no `eventfd`.
#[cfg(not(target_vendor = "apple"))]
fn event() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    use rustix::event::EventfdFlags;
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    Ok((event, None))
}

#[cfg(target_vendor = "apple")]
fn event() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    near.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    Ok((near.into(), Some(far.into())))
}

impl Pending {
    pub(super) fn new() -> io::Result<Pending> {
        let (event, end) = event()?;
        Ok(Pending { bits: AtomicU64::new(0), event: Source::new(event), end })
    }

    /// Called in a signal handler.
    pub(super) fn raise(&self, bit: u64) {
        self.bits.fetch_or(bit, Ordering::Release);
        // Fails only where so much is unread already that the descriptor is readable anyway.
        let end = self.end.as_ref().map_or(self.event.as_fd(), AsFd::as_fd);
        let _ = rustix::io::write(end, &1u64.to_ne_bytes());
    }

    /// All that have come; 0 if none has.
    pub(super) fn take(&self) -> u64 {
        self.bits.swap(0, Ordering::Acquire)
    }

    /// Waits until one may have come.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout_kind = io::ErrorKind::TimedOut;
        let wanted = Wanted { timeout_kind, ..Wanted::read("signal", timeout) };
        self.event.operate(wanted, |fd| {
            let mut buffer = [0u8; 512];
            let n = rustix::io::read(fd, &mut buffer)?;
            Ok(((), n < buffer.len()))
        })
    }
}
