//! The floor of a server: what the kernel alone charges for a request. N threads, each an
//! edge-triggered epoll loop of its own on a shared listener.
//!
//! For HTTP it parses nothing: every `\r\n\r\n` in what arrives gets the same constant answer, as
//! long as the one of volt's example. One epoll_wait, one read and one write per turn of a
//! connection. It is no server: requests with bodies confuse it, and a peer that does not read its
//! answers is dropped.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::peer;
use crate::run::Run;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\n\
    Content-Length: 13\r\n\r\nHello, World!";
/// The most answers of one write; more are written in several.
const BATCH: usize = 64;

/// What a connection gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// What it sent.
    Echo,
    /// `ANSWER` for each request.
    Http,
}

/// Serves until the process is ended.
pub fn serve(run: Run, answer: Answer) -> f64 {
    let listener = TcpListener::bind(run.addr).expect("the address is free");
    peer::deepen(&listener);
    listener.set_nonblocking(true).expect("a socket");
    std::thread::scope(|s| {
        let threads: Vec<_> =
            (0..run.workers).map(|_| s.spawn(|| turns(listener.as_raw_fd(), answer))).collect();
        for thread in threads {
            thread.join().expect("a loop does not panic").expect("epoll works");
        }
    });
    0.0
}

/// One thread's loop.
fn turns(listener: RawFd, answer: Answer) -> io::Result<()> {
    // SAFETY: the descriptor is new and nobody else's.
    let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
    add(&epoll, listener, listener as u64, libc::EPOLLIN | libc::EPOLLEXCLUSIVE)?;
    let answers = ANSWER.repeat(BATCH);
    let mut buffer = [0_u8; 8192];
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
    // For each descriptor, how many bytes of `\r\n\r\n` its last read ended with.
    let mut matched = vec![0_u8; 1 << 10];
    loop {
        // SAFETY: the array holds as many events as the call is told.
        let ready = match check(unsafe {
            libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), 256, -1)
        }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            ready => ready?,
        };
        for event in &events[..ready as usize] {
            let fd = event.u64 as RawFd;
            if fd == listener {
                accept(&epoll, listener, &mut matched)?;
            } else if !turn(fd, answer, &mut buffer, &mut matched[fd as usize], &answers) {
                // SAFETY: the descriptor is a connection of this thread, and gone from its set with
                // this call.
                unsafe { libc::close(fd) };
            }
        }
    }
}

/// Takes one connection; level-triggered, so that the next one wakes whoever is free.
fn accept(epoll: &OwnedFd, listener: RawFd, matched: &mut Vec<u8>) -> io::Result<()> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no address is asked for.
    let fd = unsafe { libc::accept4(listener, std::ptr::null_mut(), std::ptr::null_mut(), flags) };
    if fd < 0 {
        return Ok(());
    }
    if matched.len() <= fd as usize {
        matched.resize(fd as usize * 2, 0);
    }
    matched[fd as usize] = 0;
    let on: libc::c_int = 1;
    // SAFETY: the option is an int, and so is what is passed.
    unsafe {
        libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, (&raw const on).cast(), 4)
    };
    add(epoll, fd, fd as u64, libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET)
}

/// Reads what is there and answers it; false if the connection is over.
fn turn(fd: RawFd, answer: Answer, buffer: &mut [u8], matched: &mut u8, answers: &[u8]) -> bool {
    loop {
        // SAFETY: the buffer is as long as the call is told.
        let n = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        if n < 0 {
            return io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock;
        }
        let bytes = &buffer[..n as usize];
        let answered = match answer {
            Answer::Echo => bytes.is_empty() || send(fd, bytes),
            Answer::Http => answer_requests(fd, count_ends(bytes, matched), answers),
        };
        if !answered {
            return false;
        }
        // A short read has emptied the socket: the next edge will tell.
        if n == 0 || (n as usize) < buffer.len() {
            return n > 0;
        }
    }
}

fn answer_requests(fd: RawFd, mut left: usize, answers: &[u8]) -> bool {
    while left > 0 {
        let batch = left.min(BATCH);
        if !send(fd, &answers[..batch * ANSWER.len()]) {
            return false;
        }
        left -= batch;
    }
    true
}

/// Whether all of it went out at once.
fn send(fd: RawFd, bytes: &[u8]) -> bool {
    // SAFETY: the bytes are alive for the call.
    let n = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    n == bytes.len() as isize
}

/// Counts the request ends in `bytes`; `matched` carries a beginning over to the next call.
fn count_ends(bytes: &[u8], matched: &mut u8) -> usize {
    let mut ends = 0;
    for &byte in bytes {
        *matched = match (byte, *matched) {
            (b'\r', 0 | 2) => *matched + 1,
            (b'\r', _) => 1,
            (b'\n', 1) => 2,
            (b'\n', 3) => {
                ends += 1;
                0
            }
            _ => 0,
        };
    }
    ends
}

/// Watches a descriptor; its events come with `number`.
pub(crate) fn add(
    epoll: &OwnedFd,
    fd: RawFd,
    number: u64,
    interest: libc::c_int,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events: interest as u32, u64: number };
    // SAFETY: the event is alive for the call.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) })
        .map(drop)
}

pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
