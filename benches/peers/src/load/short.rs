//! Short connections: connect, send, read the answer, close; so many at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::echo::add_with;
use super::{Load, MESSAGE};
use crate::epoll::check;
use crate::run::{say, stage};

/// The most connections of one run: each leaves a port in TIME_WAIT for a minute, and a server's
/// address has 28,000.
const MOST: u64 = 20_000;

pub(super) fn run(load: Load) {
    // SAFETY: the descriptor is new and nobody else's.
    let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(0)).expect("epoll")) };
    let mut open: Vec<_> = (0..load.connections).map(|i| begin(load, &epoll, i.into())).collect();
    turns(load, &epoll, &mut open, load.time / 4, MOST / 5);
    stage("begin");
    let start = Instant::now();
    let ended = turns(load, &epoll, &mut open, load.time, MOST);
    let took = start.elapsed();
    stage("end");
    say("requests", ended);
    say("rate", ended as f64 / took.as_secs_f64());
}

fn begin(load: Load, epoll: &OwnedFd, number: u64) -> TcpStream {
    let mut stream = load.connect();
    stream.write_all(&MESSAGE).expect("the server is there");
    add_with(epoll, &stream, number);
    stream
}

/// How many have ended in that time.
fn turns(load: Load, epoll: &OwnedFd, open: &mut [TcpStream], time: Duration, most: u64) -> u64 {
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
            *stream = begin(load, epoll, number);
            ended += 1;
        }
    }
    ended
}
