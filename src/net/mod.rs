//! TCP for fibers and threads; mirrors [`std::net`].
//!
//! Names, signatures and error kinds are the standard library's: porting a blocking server is
//! replacing `std::net` by `volt::net`. An operation that has to wait leaves the worker to other
//! fibers; on a plain thread it blocks that thread.
//!
//! # What differs from `std`
//!
//! - `try_clone` shares one descriptor, where the standard library duplicates it. Options, time-outs
//!   and the non-blocking mode are shared there too, since they belong to the socket.
//! - Time-outs and the non-blocking mode are volt's own business. They go with the socket when it
//!   becomes a standard one, and so do the time-outs when it becomes volt's. The mode does not: a
//!   handle that was just made waits.
//! - A host name is looked up on the calling thread, which blocks the worker meanwhile, and neither a
//!   cancel nor a timeout ends that: give `bind` and `connect` addresses, or look the name up in
//!   [`volt::blocking`](crate::blocking), by [`ToSocketAddrs`].
//! - A `write` returns when it has handed something on, maybe less than all, as the trait allows. The
//!   kernel's, of a socket that blocks, goes on until all is handed on; `write_all` does so everywhere.
//! - A write to a connection that the peer has closed never raises `SIGPIPE`.
//! - A signal ends no wait: there is no `Interrupted`. [`signal`](crate::signal) tells of signals.
//! - A descriptor has one owner of volt's at a time: where a second socket is made of the same number, by
//!   `from_raw_fd`, and both have to wait, the second is refused. One made of a duplicate has the mode in common: it
//!   becomes a standard one that waits, and operations of the first, if it is a listener, block their thread from then
//!   on.
//! - A read of less than was asked for is taken for all that there is. A socket that the program gives to the kernel's
//!   TLS may have more records then, of which nobody hears: read such a one by the standard library's, in
//!   [`volt::blocking`](crate::blocking).
//! - What is deprecated there, `TcpListener::set_only_v6` and `only_v6`, is not here; nor are datagrams.
//!
//! # Cancellation
//!
//! `accept`, `connect`, reads, writes and `peek` of a cancelled fiber return an error for which
//! [`is_cancelled`](crate::cancel::is_cancelled) holds, if they would have to wait. What is there
//! already is served as usual, so nothing is lost; so it is where a time-out is over, or a timeout around the
//! operation, however late that is looked at. On a plain thread, and in
//! [`volt::blocking`](crate::blocking), a token does not end an operation that has begun to wait: see
//! [`volt::cancel`](crate::cancel).
//!
//! ```
//! use std::io::{Read, Write};
//! use volt::net::{TcpListener, TcpStream};
//!
//! # fn main() -> std::io::Result<()> {
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let server = volt::go(move || -> std::io::Result<()> {
//!     let (mut peer, _) = listener.accept()?;
//!     peer.write_all(b"hello")
//! });
//! let mut text = String::new();
//! TcpStream::connect(address)?.read_to_string(&mut text)?;
//! assert_eq!(text, "hello");
//! server.join().unwrap()?;
//! # Ok(())
//! # }
//! ```

mod address;
mod connect;
mod convert;
mod listener;
mod socket;
mod stream;
mod system;

pub use crate::io::Readiness;
pub use listener::{Incoming, TcpListener};
pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
    ToSocketAddrs,
};
pub use stream::TcpStream;
