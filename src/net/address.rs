//! Addresses: which ones to try, and how the kernel's become the standard library's.

use crate::cancel;
use rustix::net::{AddressFamily, SocketAddrAny};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Tries `f` on each address until one succeeds or the caller is cancelled; fails with the last error.
///
/// # Errors
///
/// `InvalidInput` if there is no address at all.
pub(super) fn each<A, T>(
    addresses: A,
    mut f: impl FnMut(&SocketAddr) -> io::Result<T>,
) -> io::Result<T>
where
    A: ToSocketAddrs,
{
    let mut last = None;
    for address in addresses.to_socket_addrs()? {
        match f(&address) {
            Ok(value) => return Ok(value),
            // Of the caller, and not of this address.
            Err(error) if cancel::is_cancelled(&error) => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")
    }))
}

pub(super) fn family(address: &SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// The address of an IP socket.
///
/// # Errors
///
/// `InvalidInput` for a socket of another family, which a raw descriptor may have brought in.
pub(super) fn from_kernel(address: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
    address.and_then(|address| SocketAddr::try_from(address).ok()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the descriptor is not an IP socket")
    })
}
