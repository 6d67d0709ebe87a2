//! The same test bodies on fibers, on plain threads and across both; a watchdog instead of a hang.
#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../common/mod.rs"]
pub mod common;

use common::task::Task;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use volt::net::{SocketAddr, TcpListener, TcpStream};
use volt::runtime::{Builder, Runtime};

/// Longest that a body may take.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Where the body runs, and where those it talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    Threads,
    Fibers,
    CurrentThread,
    /// The body on a thread, its peers on fibers.
    FiberPeers,
    /// The body on a fiber, its peers on threads.
    ThreadPeers,
}

pub const WORLDS: [World; 5] =
    [World::Threads, World::Fibers, World::CurrentThread, World::FiberPeers, World::ThreadPeers];

impl World {
    pub fn spawn<T: Send + 'static>(self, f: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        match self {
            World::Threads | World::ThreadPeers => Task::thread(f),
            World::Fibers | World::CurrentThread | World::FiberPeers => Task::fiber(f),
        }
    }

    pub fn run(self, body: impl FnOnce() + Send) {
        match self {
            World::Threads | World::FiberPeers => body(),
            World::Fibers | World::ThreadPeers => volt::run(body),
            World::CurrentThread => current_thread().run(body),
        }
    }
}

pub fn current_thread() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

pub fn workers(n: usize) -> Runtime {
    Builder::new().workers(n).build().unwrap()
}

/// Runs `body` in every world.
pub fn everywhere(body: impl Fn(World) + Send + Sync) {
    for world in WORLDS {
        let _watch = Watchdog::new(format!("{world:?}"));
        world.run(|| body(world));
    }
}

/// Ends the process if it lives too long: a hang is a failure, and its core is worth looking at.
pub struct Watchdog {
    /// Its drop tells the watcher that the test has ended.
    _alive: mpsc::Sender<()>,
}

impl Watchdog {
    pub fn new(what: impl Into<String>) -> Watchdog {
        let (what, (alive, ended)) = (what.into(), mpsc::channel::<()>());
        let test = thread::current().name().unwrap_or("?").to_owned();
        thread::spawn(move || {
            if ended.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("HANG: {test} in {what}, pid {}", std::process::id());
                if std::env::var_os("NET_HANG_STOP").is_some() {
                    thread::sleep(Duration::from_secs(100_000));
                }
                std::process::abort();
            }
        });
        Watchdog { _alive: alive }
    }
}

/// Waits, on fiber or thread, until `done` says so.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "{what} did not happen within {LIMIT:?}");
        volt::sleep(Duration::from_millis(1));
    }
}

pub fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Two ends of a connection.
pub fn pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listen();
    let near = TcpStream::connect(address).unwrap();
    let (far, from) = listener.accept().unwrap();
    assert_eq!(from, near.local_addr().unwrap());
    (near, far)
}

/// A listener with no room and nobody who accepts: the kernel drops further handshakes.
pub fn listener_without_room() -> (std::os::fd::OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    let full = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&full, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&full, 0).unwrap();
    let address = getsockname(&full).unwrap().try_into().unwrap();
    (full, address)
}
