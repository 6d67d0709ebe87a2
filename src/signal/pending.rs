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
use rustix::event::EventfdFlags;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Signals that have come and have not been received.
#[derive(Debug)]
pub(super) struct Pending {
    /// Bit `n - 1` for signal `n`. Set by handlers, taken by the receiver.
    bits: AtomicU64,
    event: Source,
}

impl Pending {
    pub(super) fn new() -> io::Result<Pending> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Pending { bits: AtomicU64::new(0), event: Source::new(event) })
    }

    /// Called in a signal handler.
    pub(super) fn raise(&self, bit: u64) {
        self.bits.fetch_or(bit, Ordering::Release);
        // Fails only if the counter is at its end, and then the descriptor is readable anyway.
        let _ = rustix::io::write(self.event.as_fd(), &1u64.to_ne_bytes());
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
            rustix::io::read(fd, &mut [0u8; 8])?;
            Ok(((), true))
        })
    }
}
