//! To and from the standard library's sockets and descriptors.
//!
//! A handle that leaves volt while clones of it live takes a duplicate of the descriptor along; the
//! last one takes the descriptor itself.

use super::listener::TcpListener;
use super::socket::Socket;
use super::stream::TcpStream;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// Why an infallible conversion panics.
const NO_DUPLICATE: &str = "a clone of the socket lives, and its descriptor could not be duplicated \
     (use `into_std` to handle this error)";

impl TcpStream {
    /// The connection as the standard library's, in blocking mode unless
    /// [`set_nonblocking`](TcpStream::set_nonblocking) said otherwise.
    ///
    /// # Errors
    ///
    /// A clone lives, and the process has no descriptor left for a duplicate.
    ///
    /// ```
    /// use std::io::Write;
    /// use volt::net::{TcpListener, TcpStream};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut stream = TcpStream::connect(listener.local_addr()?)?.into_std()?;
    /// stream.write_all(b"blocks its thread")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_std(self) -> io::Result<std::net::TcpStream> {
        Socket::release(self.0).map(std::net::TcpStream::from)
    }
}

impl TcpListener {
    /// The listener as the standard library's, in blocking mode unless
    /// [`set_nonblocking`](TcpListener::set_nonblocking) said otherwise.
    ///
    /// The mode belongs to the socket, not to a handle. A clone that stays with volt goes on to work
    /// and asks before each `accept` whether a connection is there; if another handle takes it in
    /// this very moment, the clone's `accept` blocks its thread until the next connection. Give
    /// the last handle away, or accept on one side only, where that matters.
    ///
    /// # Errors
    ///
    /// A clone lives, and the process has no descriptor left for a duplicate.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let listener = volt::net::TcpListener::bind("127.0.0.1:0")?;
    /// let address = listener.local_addr()?;
    /// assert_eq!(listener.into_std()?.local_addr()?, address);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_std(self) -> io::Result<std::net::TcpListener> {
        self.release().map(std::net::TcpListener::from)
    }
}

/// The connection waits on fibers from now on. Clones that stay with the standard library still block.
impl From<std::net::TcpStream> for TcpStream {
    fn from(stream: std::net::TcpStream) -> TcpStream {
        TcpStream::from(OwnedFd::from(stream))
    }
}

/// The socket is put into non-blocking mode, and so are clones that stay with the standard library.
impl From<std::net::TcpListener> for TcpListener {
    fn from(listener: std::net::TcpListener) -> TcpListener {
        TcpListener::from(OwnedFd::from(listener))
    }
}

/// See [`TcpStream::into_std`]; panics where that fails.
impl From<TcpStream> for std::net::TcpStream {
    fn from(stream: TcpStream) -> std::net::TcpStream {
        stream.into_std().expect(NO_DUPLICATE)
    }
}

/// See [`TcpListener::into_std`]; panics where that fails.
impl From<TcpListener> for std::net::TcpListener {
    fn from(listener: TcpListener) -> std::net::TcpListener {
        listener.into_std().expect(NO_DUPLICATE)
    }
}

impl From<OwnedFd> for TcpStream {
    fn from(fd: OwnedFd) -> TcpStream {
        TcpStream::from_socket(Socket::adopt(fd))
    }
}

/// The socket is put into non-blocking mode.
impl From<OwnedFd> for TcpListener {
    fn from(fd: OwnedFd) -> TcpListener {
        TcpListener::adopt(fd)
    }
}

/// See [`TcpStream::into_std`]; panics where that fails.
impl From<TcpStream> for OwnedFd {
    fn from(stream: TcpStream) -> OwnedFd {
        Socket::release(stream.0).expect(NO_DUPLICATE)
    }
}

/// See [`TcpListener::into_std`]; panics where that fails.
impl From<TcpListener> for OwnedFd {
    fn from(listener: TcpListener) -> OwnedFd {
        listener.release().expect(NO_DUPLICATE)
    }
}

/// The descriptor of all clones. It is in blocking mode, unless it was not when it came from outside; volt does not
/// depend on that.
impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The descriptor of all clones. It is in non-blocking mode and has to stay so.
impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl AsRawFd for TcpStream {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl IntoRawFd for TcpStream {
    fn into_raw_fd(self) -> RawFd {
        OwnedFd::from(self).into_raw_fd()
    }
}

impl IntoRawFd for TcpListener {
    fn into_raw_fd(self) -> RawFd {
        OwnedFd::from(self).into_raw_fd()
    }
}

impl FromRawFd for TcpStream {
    unsafe fn from_raw_fd(fd: RawFd) -> TcpStream {
        // SAFETY: the caller owns the descriptor, as the trait requires.
        TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

impl FromRawFd for TcpListener {
    unsafe fn from_raw_fd(fd: RawFd) -> TcpListener {
        // SAFETY: the caller owns the descriptor, as the trait requires.
        TcpListener::from(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}
