//! A TCP connection.

use super::Readiness;
use super::address;
use super::connect::connect;
use super::socket::Socket;
use super::system::send_flags;
use crate::fiber;
use crate::primitives::sync::Arc;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, sockopt};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

/// Most buffers that the kernel takes in one call.
const IOV_MAX: usize = 1024;

/// A TCP connection between a local and a remote socket; mirrors [`std::net::TcpStream`].
///
/// It is closed when the last clone is dropped. Reads and writes work on the value and on a shared
/// reference, so one fiber may read while another writes.
///
/// # Cancellation
///
/// Operations of a cancelled fiber that would have to wait return an error for which
/// [`is_cancelled`](crate::cancel::is_cancelled) holds. On a plain thread they block it.
///
/// ```
/// use std::io::prelude::*;
/// use volt::net::{Shutdown, TcpListener, TcpStream};
///
/// # fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr()?)?;
/// let (mut server, _) = listener.accept()?;
/// assert_eq!(server.peer_addr()?, client.local_addr()?);
///
/// client.try_clone()?.write_all(b"ping")?;
/// client.shutdown(Shutdown::Write)?;
/// assert_eq!(server.peek(&mut [0; 4])?, 4);
/// let mut text = String::new();
/// server.read_to_string(&mut text)?;
/// assert_eq!(text, "ping");
/// # Ok(())
/// # }
/// ```
///
/// The options:
///
/// ```
/// # use volt::net::{TcpListener, TcpStream};
/// # use volt::time::Duration;
/// # fn main() -> std::io::Result<()> {
/// # let listener = TcpListener::bind("127.0.0.1:0")?;
/// # let second = Duration::from_secs(1);
/// let stream = TcpStream::connect_timeout(&listener.local_addr()?, second)?;
/// stream.set_nodelay(true)?;
/// stream.set_ttl(32)?;
/// stream.set_read_timeout(Some(second))?;
/// stream.set_write_timeout(Some(second))?;
/// stream.set_nonblocking(false)?;
/// assert_eq!((stream.nodelay()?, stream.ttl()?), (true, 32));
/// assert_eq!((stream.read_timeout()?, stream.write_timeout()?), (Some(second), Some(second)));
/// assert!(stream.take_error()?.is_none());
/// # Ok(())
/// # }
/// ```
pub struct TcpStream(pub(super) Arc<Socket>);

impl UnwindSafe for TcpStream {}
impl RefUnwindSafe for TcpStream {}

impl TcpStream {
    /// Opens a connection to a remote host. If there are several addresses, tries each in turn. A host name
    /// is looked up first, which blocks the thread; neither a cancel nor a timeout ends that.
    ///
    /// # Errors
    ///
    /// The last address's error, such as `ConnectionRefused`; `InvalidInput` if there is none. A
    /// [cancel](crate::cancel)'s error, after which no other address is tried.
    pub fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        address::each(addr, |peer| connect(peer, None)).map(TcpStream::from_socket)
    }

    /// Opens a connection to `addr`, waiting at most for `timeout`.
    ///
    /// # Errors
    ///
    /// `TimedOut`; `InvalidInput` for a timeout of zero; as [`connect`](TcpStream::connect).
    pub fn connect_timeout(addr: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        connect(addr, Some(timeout)).map(TcpStream::from_socket)
    }

    pub(super) fn from_socket(socket: Socket) -> TcpStream {
        TcpStream(Arc::new(socket))
    }

    /// The address of the remote end.
    ///
    /// # Errors
    ///
    /// `NotConnected` once the connection is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        address::from_kernel(rustix::net::getpeername(&*self.0)?)
    }

    /// The address of the local end.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        address::from_kernel(Some(rustix::net::getsockname(&*self.0)?))
    }

    /// Shuts down the reading half, the writing half or both. Whoever waits in that half wakes up,
    /// as on any clone.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the connection is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => rustix::net::Shutdown::Read,
            Shutdown::Write => rustix::net::Shutdown::Write,
            Shutdown::Both => rustix::net::Shutdown::Both,
        };
        Ok(rustix::net::shutdown(&*self.0, how)?)
    }

    /// Another handle of the same connection: one descriptor, shared.
    ///
    /// # Errors
    ///
    /// None today; the signature is the standard library's.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        Ok(TcpStream(Arc::clone(&self.0)))
    }

    /// Lets reads wait at most for `timeout`; `None` for ever. They then fail with `WouldBlock`, as
    /// the standard library's do on Unix. Shared by all clones.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.read_timeout().set(timeout)
    }

    /// Lets writes wait at most for `timeout`; see [`set_read_timeout`](TcpStream::set_read_timeout).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.write_timeout().set(timeout)
    }

    /// How long reads wait at most.
    ///
    /// # Errors
    ///
    /// None today; the signature is the standard library's.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.read_timeout().load())
    }

    /// How long writes wait at most.
    ///
    /// # Errors
    ///
    /// None today; the signature is the standard library's.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.write_timeout().load())
    }

    /// That a read need not wait, as a [case](crate::channel::Selectable) of a select: there is data, or the
    /// end of it, or an error.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use volt::channel::{select, unbounded};
    /// use volt::net::{TcpListener, TcpStream};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// let (mut server, _) = listener.accept()?;
    /// let (_s, orders) = unbounded::<u8>();
    /// client.write_all(b"hello")?;
    /// select! {
    ///     recv(orders) -> _ => unreachable!("nobody sends"),
    ///     wait(server.readable()) -> ready => {
    ///         ready?;
    ///         let mut word = [0; 5];
    ///         server.read_exact(&mut word)?;
    ///         assert_eq!(&word, b"hello");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn readable(&self) -> Readiness<'_> {
        self.0.readable()
    }

    /// That a write need not wait, as a [case](crate::channel::Selectable) of a select: there is room, or an
    /// error.
    ///
    /// ```
    /// use volt::channel::select;
    /// use volt::net::{TcpListener, TcpStream};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// select! {
    ///     wait(client.writable()) -> ready => ready?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn writable(&self) -> Readiness<'_> {
        self.0.writable()
    }

    /// Receives data without taking it off the connection: the next read gets it again.
    ///
    /// # Errors
    ///
    /// As reads.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        // Never short: what was seen is still there, and so is the readiness.
        self.0.read("peek", |fd| Ok((rustix::net::recv(fd, &mut *buf, flags)?.1, false)))
    }

    /// Sends small writes at once (`TCP_NODELAY`) instead of gathering them.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(&*self.0, nodelay)?)
    }

    /// Is `TCP_NODELAY` set?
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_nodelay(&*self.0)?)
    }

    /// Sends acknowledgements at once (`TCP_QUICKACK`), until the system thinks otherwise again; as the standard
    /// library's `std::os::linux::net::TcpStreamExt` does.
    ///
    /// # Errors
    ///
    /// What the system says.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_quickack(&*self.0, quickack)?)
    }

    /// Does it at present?
    ///
    /// # Errors
    ///
    /// What the system says.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn quickack(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_quickack(&*self.0)?)
    }

    /// Sets the time-to-live of the packets sent (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// What the system says, such as that `ttl` is out of its range.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_ttl(&*self.0, ttl)?)
    }

    /// The time-to-live of the packets sent.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(sockopt::ip_ttl(&*self.0)?)
    }

    /// Takes the pending error of the socket (`SO_ERROR`).
    ///
    /// # Errors
    ///
    /// What the system says if it cannot be asked.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(sockopt::socket_error(&*self.0)?.err().map(io::Error::from))
    }

    /// Makes operations that would have to wait fail with `WouldBlock` instead. Shared by all clones. On a fiber they
    /// let others run at times all the same.
    ///
    /// # Errors
    ///
    /// None today; the signature is the standard library's.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking);
        Ok(())
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("TcpStream");
        if let Ok(address) = self.local_addr() {
            out.field("addr", &address);
        }
        if let Ok(peer) = self.peer_addr() {
            out.field("peer", &peer);
        }
        out.field("fd", &self.0.as_fd().as_raw_fd()).finish()
    }
}

/// `done` of `wanted` bytes, noted, and whether they used up what there was. Nothing at all says something else: the
/// end, or that nothing was wanted.
#[inline]
fn received(done: usize, wanted: usize) -> (usize, bool) {
    fiber::note_received(done);
    (done, 0 < done && done < wanted)
}

#[inline]
fn sent(done: usize, wanted: usize) -> (usize, bool) {
    fiber::note_sent(done);
    (done, 0 < done && done < wanted)
}

impl Read for &TcpStream {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf.len();
        self.0.read("read", |fd| {
            let (_, n) = rustix::net::recv(fd, &mut *buf, RecvFlags::DONTWAIT)?;
            Ok(received(n, len))
        })
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let count = bufs.len().min(IOV_MAX);
        let bufs = &mut bufs[..count];
        let len = bufs.iter().map(|buf| buf.len()).sum();
        if len == 0 {
            // As `readv`, which does not wait to read nothing; `recvmsg` does.
            return Ok(0);
        }
        self.0.read("read", |fd| {
            let control = &mut RecvAncillaryBuffer::default();
            let n = rustix::net::recvmsg(fd, bufs, control, RecvFlags::DONTWAIT)?.bytes;
            Ok(received(n, len))
        })
    }
}

impl Write for &TcpStream {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write("write", |fd| {
            let n = rustix::net::send(fd, buf, send_flags())?;
            Ok(sent(n, buf.len()))
        })
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let bufs = &bufs[..bufs.len().min(IOV_MAX)];
        let len = bufs.iter().map(|buf| buf.len()).sum();
        if len == 0 {
            return Ok(0);
        }
        self.0.write("write", |fd| {
            let control = &mut SendAncillaryBuffer::default();
            let flags = send_flags();
            let n = rustix::net::sendmsg(fd, bufs, control, flags)?;
            Ok(sent(n, len))
        })
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl Write for TcpStream {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::runtime::Builder;

    /// Bytes, whatever the number of operations.
    #[test]
    fn what_goes_through_is_noted_where_it_does() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let (mut near, mut far) = (TcpStream::from(near), TcpStream::from(far));
        let mut all = move || {
            // SAFETY: the seat of the thread that runs the fiber, which is the same all the time.
            let seat = || unsafe { fiber::seat().as_ref() };
            let noted = || seat().map_or((0, 0), |seat| (seat.sent(), seat.moved()));
            let (before, mut buffer) = (noted(), [0; 8]);
            near.write_all(&[1; 20]).unwrap();
            assert_eq!(near.write_vectored(&[IoSlice::new(&[2; 3])]).unwrap(), 3);
            let written = noted();
            far.peek(&mut buffer).unwrap();
            for _ in 0..5 {
                far.read_exact(&mut buffer[..4]).unwrap();
            }
            let mut rest = [0; 3];
            assert_eq!(far.read_vectored(&mut [IoSliceMut::new(&mut rest)]).unwrap(), 3);
            [written, noted()].map(|(sent, moved)| (sent - before.0, moved - before.1))
        };
        let noted = Builder::new_current_thread().build().unwrap().run(&mut all);
        assert_eq!(noted, [(23, 23), (23, 46)]);
        assert_eq!(all(), [(0, 0); 2], "on a plain thread nobody asks");
    }
}
