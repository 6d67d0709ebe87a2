//! A TCP socket that listens.
//!
//! Its description is in non-blocking mode, because `accept` has no flag for a single call as `recv`
//! has. A listener that became a standard one is put back into blocking mode, and that is the mode
//! of every handle of it. Volt's clones that still live know (`lent`), and ask before each `accept`
//! whether a connection is there. If someone else takes it between the two calls, their `accept`
//! blocks its thread until the next connection comes. `From` documents it.

use super::Readiness;
use super::address;
use super::socket::Socket;
use super::stream::TcpStream;
use super::system;
use crate::primitives::sync::Arc;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, sockopt};
use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::{RefUnwindSafe, UnwindSafe};

/// Connections that the kernel completes before they are accepted. More than the standard library's
/// 128: one thread starts thousands of fibers between two looks at the listener, and a client whose
/// handshake finds the queue full tries again only after a second. The kernel cuts it to
/// `net.core.somaxconn`, which is 4096 unless an administrator says otherwise.
const BACKLOG: i32 = 4096;

/// A TCP socket that listens for connections; mirrors [`std::net::TcpListener`].
///
/// Any number of fibers and threads may accept at once, on one handle or on clones: each connection
/// goes to one of them. Of a runtime's fibers it wakes one, that which has waited the longest; and who
/// accepts wakes the next one where more have come. (Under [`Migrate::BeforeStart`] all are woken: the
/// one could stand behind a busy worker.)
///
/// [`Migrate::BeforeStart`]: crate::runtime::Migrate::BeforeStart
///
/// # Cancellation
///
/// `accept` of a cancelled fiber returns an error for which
/// [`is_cancelled`](crate::cancel::is_cancelled) holds if it would have to wait. On a plain thread it
/// blocks it.
///
/// ```no_run
/// use volt::net::{TcpListener, TcpStream};
/// use volt::time::Duration;
///
/// fn handle_client(stream: TcpStream) {
///     // ...
/// }
///
/// fn main() -> std::io::Result<()> {
///     let listener = TcpListener::bind("127.0.0.1:8080")?;
///     for stream in listener.incoming() {
///         match stream {
///             Ok(stream) => drop(volt::go(move || handle_client(stream))),
///             Err(error) if volt::cancel::is_cancelled(&error) => break,
///             Err(error) => {
///                 eprintln!("no connection for now: {error}");
///                 // Where no descriptors are left the next step would fail at once.
///                 volt::sleep(Duration::from_millis(50));
///             }
///         }
///     }
///     Ok(())
/// }
/// ```
///
/// The options:
///
/// ```
/// use std::io::ErrorKind;
/// use volt::net::TcpListener;
///
/// # fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// listener.set_ttl(32)?;
/// assert_eq!(listener.ttl()?, 32);
/// assert!(listener.take_error()?.is_none());
/// listener.set_nonblocking(true)?;
/// assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
/// # Ok(())
/// # }
/// ```
pub struct TcpListener(pub(super) Arc<Listening>);

impl UnwindSafe for TcpListener {}
impl RefUnwindSafe for TcpListener {}

/// What the clones of a listener share.
#[derive(Debug)]
pub(super) struct Listening {
    socket: Socket,
    /// Set, for good, before the description is put into blocking mode on behalf of a standard
    /// listener; read before each `accept`.
    lent: AtomicBool,
}

impl TcpListener {
    /// A listener on `addr`, tried in turn if there are several. Port 0 takes a free one. The address
    /// may be bound again at once after the program's end (`SO_REUSEADDR`). A host name is looked up first,
    /// which blocks the thread; neither a cancel nor a timeout ends that.
    ///
    /// # Errors
    ///
    /// The last address's error, such as `AddrInUse`; `InvalidInput` if there is none.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let listener = volt::net::TcpListener::bind(("127.0.0.1", 0))?;
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        address::each(addr, |local| {
            let fd = system::socket(address::family(local))?;
            sockopt::set_socket_reuseaddr(&fd, true)?;
            rustix::net::bind(&fd, local)?;
            rustix::net::listen(&fd, BACKLOG)?;
            Ok(TcpListener::from_socket(Socket::new(fd)))
        })
    }

    fn from_socket(socket: Socket) -> TcpListener {
        TcpListener(Arc::new(Listening { socket, lent: AtomicBool::new(false) }))
    }

    /// A listener that comes from outside.
    pub(super) fn adopt(fd: OwnedFd) -> TcpListener {
        // Fails on what is no open descriptor; its operations will say so.
        let _ = rustix::io::ioctl_fionbio(&fd, true);
        TcpListener::from_socket(Socket::adopt(fd))
    }

    /// The descriptor for use outside volt, in the mode that the user wants it to be in.
    pub(super) fn release(self) -> io::Result<OwnedFd> {
        match Arc::try_unwrap(self.0) {
            Ok(listening) => Socket::release(Arc::new(listening.socket)),
            Err(shared) => {
                // Before anything is changed: without a duplicate nothing leaves.
                let fd = shared.socket.duplicate()?;
                shared.lend()?;
                Ok(fd)
            }
        }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.0.socket
    }

    /// The address that the listener is bound to.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let listener = volt::net::TcpListener::bind("127.0.0.1:0")?;
    /// assert!(listener.local_addr()?.ip().is_loopback());
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        address::from_kernel(Some(rustix::net::getsockname(self.socket())?))
    }

    /// Another handle of the same listener: one descriptor, shared.
    ///
    /// # Errors
    ///
    /// None today; the signature is the standard library's.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let one = volt::net::TcpListener::bind("127.0.0.1:0")?;
    /// let two = one.try_clone()?;
    /// assert_eq!(one.local_addr()?, two.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_clone(&self) -> io::Result<TcpListener> {
        Ok(TcpListener(Arc::clone(&self.0)))
    }

    /// That there is a connection to be accepted, as a [case](crate::channel::Selectable) of a select. Where
    /// several accept, somebody else may be faster; one connection wakes all who wait like this.
    ///
    /// ```
    /// use volt::cancel::Token;
    /// use volt::channel::select;
    /// use volt::net::{TcpListener, TcpStream};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let (address, stop) = (listener.local_addr()?, Token::new());
    /// let theirs = stop.clone();
    /// let server = volt::go(move || -> std::io::Result<u32> {
    ///     let mut served = 0;
    ///     loop {
    ///         select! {
    ///             wait(listener.readable()) -> ready => {
    ///                 ready?;
    ///                 listener.accept()?;
    ///                 served += 1;
    ///             }
    ///             wait(theirs) -> () => return Ok(served),
    ///         }
    ///     }
    /// });
    /// TcpStream::connect(address)?;
    /// stop.cancel();
    /// assert!(server.join().unwrap()? <= 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn readable(&self) -> Readiness<'_> {
        self.socket().readable()
    }

    /// Waits for a connection and returns it with the address of its remote end.
    ///
    /// # Errors
    ///
    /// What the system says. Some errors are about one connection (`ConnectionAborted`) or pass: where no
    /// descriptors are left the connection stays in the queue, and the next `accept` fails at once, until
    /// some are. So a server logs an error, and sleeps for a moment before it goes on.
    ///
    /// ```
    /// use volt::net::{TcpListener, TcpStream};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let (server, from) = listener.accept()?;
    /// assert_eq!((server.peer_addr()?, from), (client.local_addr()?, client.local_addr()?));
    /// # Ok(())
    /// # }
    /// ```
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (fd, peer) = self.socket().accept(|fd| self.0.accept(fd))?;
        let socket = Socket::accepted(fd, self.socket());
        Ok((TcpStream::from_socket(socket), address::from_kernel(peer)?))
    }

    /// The connections as they come; it never ends, after an error neither. Each step is an
    /// [`accept`](TcpListener::accept): where no descriptors are left it fails again and again, and a server sleeps
    /// for a moment in between, as [above](TcpListener).
    ///
    /// ```
    /// use volt::net::{TcpListener, TcpStream};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let server = listener.incoming().next().unwrap()?;
    /// assert_eq!(server.peer_addr()?, client.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Sets the time-to-live of the packets of accepted connections (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// What the system says, such as that `ttl` is out of its range.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_ttl(self.socket(), ttl)?)
    }

    /// The time-to-live of the packets.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(sockopt::ip_ttl(self.socket())?)
    }

    /// Takes the pending error of the socket (`SO_ERROR`).
    ///
    /// # Errors
    ///
    /// What the system says if it cannot be asked.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(sockopt::socket_error(self.socket())?.err().map(io::Error::from))
    }

    /// Makes `accept` fail with `WouldBlock` instead of waiting. Shared by all clones.
    ///
    /// # Errors
    ///
    /// None today; the signature is the standard library's.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket().set_nonblocking(nonblocking);
        Ok(())
    }
}

/// A new connection, and the address it comes from.
type Accepted = (OwnedFd, Option<SocketAddrAny>);

impl Listening {
    /// Puts the description into the mode that the user wants a standard listener to be in; who has that may change it.
    fn lend(&self) -> Result<(), Errno> {
        self.lent.store(true, Ordering::SeqCst);
        rustix::io::ioctl_fionbio(&self.socket, self.socket.is_nonblocking())
    }

    fn accept(&self, fd: BorrowedFd<'_>) -> Result<(Accepted, bool), Errno> {
        if self.lent.load(Ordering::SeqCst) && !self.socket.readable().poll() {
            return Err(Errno::AGAIN);
        }
        Ok((system::accept(fd)?, false))
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("TcpListener");
        if let Ok(address) = self.local_addr() {
            out.field("addr", &address);
        }
        out.field("fd", &self.socket().as_fd().as_raw_fd()).finish()
    }
}

/// The connections of a listener; see [`TcpListener::incoming`].
///
/// ```
/// use volt::net::{Incoming, TcpListener, TcpStream};
///
/// # fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let _client = TcpStream::connect(listener.local_addr()?)?;
/// let mut connections: Incoming<'_> = listener.incoming();
/// assert!(connections.next().unwrap().is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}
