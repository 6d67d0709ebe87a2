//! Short connections: connect, send, read the answer, close; so many at a time.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::echo::add_with;
use super::{Load, MESSAGE};
use crate::epoll::check;
use crate::run::{say, stage};

/// The most connections of one run: each leaves a port in TIME_WAIT for a minute, and the kernel keeps 130,000 of these.
const MOST: u64 = 8_000;
/// So many connections come from one address, whose 28,000 ports the kernel would search for longer and longer.
const FROM_ONE: u64 = 2_000;

pub(super) fn run(load: Load) {
    // SAFETY: the descriptor is new and nobody else's.
    let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(0)).expect("epoll")) };
    let mut open: Vec<_> =
        (0..load.connections).map(|i| begin(load, &epoll, i.into(), 0)).collect();
    turns(load, &epoll, &mut open, load.time / 4, 0, MOST / 5);
    stage("begin");
    let start = Instant::now();
    let ended = turns(load, &epoll, &mut open, load.time, MOST / 5, MOST);
    let took = start.elapsed();
    stage("end");
    say("requests", ended);
    say("rate", ended as f64 / took.as_secs_f64());
}

/// Opens a connection in place `number`; `before` have been opened before.
fn begin(load: Load, epoll: &OwnedFd, number: u64, before: u64) -> TcpStream {
    let from = Ipv4Addr::new(127, 0, 1, (before / FROM_ONE) as u8 + 1);
    let mut stream = connect_from(from, load.addr).expect("the server accepts");
    stream.set_nodelay(true).expect("a socket");
    stream.write_all(&MESSAGE).expect("the server is there");
    add_with(epoll, &stream, number);
    stream
}

/// Connects from a port that is chosen with the server in mind, and so may be in use towards others.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let on: libc::c_int = 1;
    // SAFETY: the option is an int, and so is what is passed.
    check(unsafe {
        let (level, option) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), 4)
    })?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// How many have ended in that time, `before` having been opened before.
fn turns(
    load: Load,
    epoll: &OwnedFd,
    open: &mut [TcpStream],
    time: Duration,
    before: u64,
    most: u64,
) -> u64 {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    let (end, mut ended) = (Instant::now() + time, 0);
    while Instant::now() < end && ended < most {
        // SAFETY: the array holds as many events as the call is told.
        let ready = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), 64, 100) };
        for event in &events[..ready.max(0) as usize] {
            let number = event.u64;
            let stream = &mut open[number as usize];
            stream.read_exact(&mut [0; MESSAGE.len()]).expect("an answer");
            // Closing the old one takes it out of the set.
            *stream = begin(load, epoll, number, before + ended);
            ended += 1;
        }
    }
    ended
}
