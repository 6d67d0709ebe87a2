//! Echo: each connection has one message under way all the time. Latencies hold what the
//! generator's one thread takes to get round its connections; that is the same for every server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::{Latencies, Load, MESSAGE};
use crate::epoll::{add, check};
use crate::run::{say, stage};

struct Connection {
    stream: TcpStream,
    sent: Instant,
    /// How much of the answer is there.
    got: usize,
}

pub(super) fn run(load: Load) {
    // SAFETY: the descriptor is new and nobody else's.
    let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(0)).expect("epoll")) };
    let mut connections: Vec<_> = (0..load.connections)
        .map(|_| {
            let stream = load.connect();
            stream.set_nonblocking(true).expect("a socket");
            Connection { stream, sent: Instant::now(), got: 0 }
        })
        .collect();
    for (i, connection) in connections.iter_mut().enumerate() {
        add_with(&epoll, &connection.stream, i as u64);
        connection.send();
    }
    turns(&epoll, &mut connections, load.time / 4);
    stage("begin");
    // What stood still meanwhile begins anew.
    connections.iter_mut().for_each(|connection| connection.sent = Instant::now());
    let start = Instant::now();
    let latencies = turns(&epoll, &mut connections, load.time);
    let took = start.elapsed();
    stage("end");

    say("requests", latencies.len());
    say("rate", latencies.len() as f64 / took.as_secs_f64());
    latencies.say();
}

/// Serves what is ready for so long.
fn turns(epoll: &OwnedFd, connections: &mut [Connection], time: Duration) -> Latencies {
    let mut latencies = Latencies::default();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
    let end = Instant::now() + time;
    while Instant::now() < end {
        // SAFETY: the array holds as many events as the call is told.
        let ready = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), 256, 100) };
        for event in &events[..ready.max(0) as usize] {
            let connection = &mut connections[event.u64 as usize];
            if connection.answered() {
                latencies.add(connection.sent.elapsed());
                connection.send();
            }
        }
    }
    latencies
}

impl Connection {
    fn send(&mut self) {
        self.sent = Instant::now();
        self.got = 0;
        assert_eq!(self.stream.write(&MESSAGE).expect("the server is there"), MESSAGE.len());
    }

    /// Whether the whole answer is there.
    fn answered(&mut self) -> bool {
        let mut buffer = [0; MESSAGE.len()];
        match self.stream.read(&mut buffer) {
            Ok(0) => panic!("the server has closed a connection"),
            Ok(n) => self.got += n,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => panic!("the server has dropped a connection: {e}"),
        }
        self.got == MESSAGE.len()
    }
}

/// Watches a socket under a number; level-triggered.
pub(super) fn add_with(epoll: &OwnedFd, stream: &TcpStream, number: u64) {
    let fd = stream.as_raw_fd();
    add(epoll, fd, number, libc::EPOLLIN).expect("epoll");
}
