//! Where systems differ: Apple's have no flags for what a new descriptor is, nor for a send without `SIGPIPE`.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrAny, SocketFlags, SocketType, ipproto};
use std::os::fd::{BorrowedFd, OwnedFd};

const IS_APPLE: bool = cfg!(target_vendor = "apple");

/// A TCP socket in non-blocking mode that is closed by an `exec`.
pub(super) fn socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    #[cfg(not(target_vendor = "apple"))]
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    #[cfg(target_vendor = "apple")]
    let flags = SocketFlags::empty();
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    if IS_APPLE {
        rustix::io::ioctl_fionbio(&fd, true)?;
        prepare(&fd)?;
    }
    Ok(fd)
}

/// Takes a connection: in blocking mode, and closed by an `exec`.
pub(super) fn accept(fd: BorrowedFd<'_>) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
    #[cfg(not(target_vendor = "apple"))]
    let flags = SocketFlags::CLOEXEC;
    #[cfg(target_vendor = "apple")]
    let flags = SocketFlags::empty();
    let accepted = rustix::net::acceptfrom_with(fd, flags)?;
    if IS_APPLE {
        // It has the listener's mode there.
        rustix::io::ioctl_fionbio(&accepted.0, false)?;
        prepare(&accepted.0)?;
    }
    Ok(accepted)
}

/// Those of a send that neither waits nor raises `SIGPIPE`.
pub(super) fn send_flags() -> SendFlags {
    #[cfg(not(target_vendor = "apple"))]
    let silent = SendFlags::NOSIGNAL;
    // The socket says so, see below.
    #[cfg(target_vendor = "apple")]
    let silent = SendFlags::empty();
    SendFlags::DONTWAIT | silent
}

fn prepare(fd: &OwnedFd) -> Result<(), Errno> {
    #[cfg(target_vendor = "apple")]
    rustix::net::sockopt::set_socket_nosigpipe(fd, true)?;
    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)
}
