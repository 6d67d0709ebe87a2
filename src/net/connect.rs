//! Making a connection: a `connect` that does not wait, then a wait until it has succeeded or failed.

use super::address;
use super::socket::{Socket, refuse_zero};
use super::system;
use crate::io::{Source, Wanted};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A socket connected to `peer`.
pub(super) fn connect(peer: &SocketAddr, timeout: Option<Duration>) -> io::Result<Socket> {
    refuse_zero(timeout)?;
    let source = Source::new(system::socket(address::family(peer))?);
    let timeout_kind = io::ErrorKind::TimedOut;
    let wanted = Wanted { timeout_kind, ..Wanted::write("connect", timeout) };
    source.operate(wanted, |fd| advance(fd, peer)).map_err(explain)??;
    rustix::io::ioctl_fionbio(source.as_fd(), false)?;
    Ok(Socket::from_source(source))
}

/// Begins the connection, or asks how it is getting on: a second `connect` says "already" while it
/// is under way, and hands out the error if it has failed. So one call serves both, and a wake-up
/// without a cause is no trouble.
///
/// It asks once right after the beginning: within one machine the handshake is over when the first
/// call returns, though that does not know it yet. This saves a wait, and registering with the driver.
///
/// The outcome is the inner result: an error of the connection must not be taken for "would block".
fn advance(fd: BorrowedFd<'_>, peer: &SocketAddr) -> Result<(Result<(), Errno>, bool), Errno> {
    let mut seen = rustix::net::connect(fd, peer);
    if seen == Err(Errno::INPROGRESS) {
        seen = rustix::net::connect(fd, peer);
    }
    match seen {
        Ok(()) | Err(Errno::ISCONN) => Ok((Ok(()), false)),
        Err(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) => Err(Errno::AGAIN),
        Err(error) => Ok((Err(error), false)),
    }
}

/// The standard library's words for a time-out.
fn explain(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::TimedOut => io::Error::new(io::ErrorKind::TimedOut, "connection timed out"),
        _ => error,
    }
}
