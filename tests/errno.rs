//! `errno` after a wait that ended on another thread. Its accessor is marked so that the compiler
//! asks for its address once per function; volt's socket calls must not depend on it.
//!
//! Worth something in release builds only, with fat LTO too: `.ci/full` runs it so. Not one line
//! here names `libc::__errno_location`: that declaration has no such mark, and LTO would drop the
//! mark of the other. What volt itself keeps per thread is looked at by `tests/shared`.
#![cfg(target_os = "linux")]

mod common;

use common::{LONG, until, within};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Instant;
use volt::net::{TcpListener, TcpStream};
use volt::runtime::Builder;
use volt::thread::{self, Thread};

/// Moves of each test.
const TIMES: usize = 10;

/// The error number of the calling thread, as code reads it that calls into C. Once a function has
/// done so, the compiler keeps the address for what follows in it.
#[inline(always)]
fn errno() -> Option<i32> {
    black_box(io::Error::last_os_error().raw_os_error())
}

/// The thread that runs the caller now; not inlined, so asked anew each time.
#[inline(never)]
fn here() -> ThreadId {
    black_box(std::thread::current().id())
}

/// Makes the thread that the calling fiber is about to leave run another one until `over`, which
/// sets `kept` and sets the thread's `errno` to `EBADF`, again and again.
fn keep_thread(kept: &Arc<AtomicBool>, over: &Arc<AtomicBool>) {
    let (kept, over) = (Arc::clone(kept), Arc::clone(over));
    drop(volt::go(move || {
        let start = Instant::now();
        while !over.load(Ordering::Acquire) {
            assert!(start.elapsed() < LONG, "the fiber did not go on elsewhere");
            // SAFETY: no descriptor.
            unsafe { libc::close(-1) };
            kept.store(true, Ordering::Release);
        }
    }));
}

/// Lets `fiber` wait for what `end` does to the state that `set_up` makes, until it has come back on
/// another thread `times` times. Returns what it returned then.
fn moved<S: Send + Sync + 'static, T: Send + 'static>(
    times: usize,
    set_up: fn() -> S,
    fiber: fn(&S) -> T,
    end: fn(&S),
) -> Vec<T> {
    let runtime = Builder::new().workers(2).build().unwrap();
    let start = Instant::now();
    let mut seen = Vec::new();
    while seen.len() < times {
        assert!(start.elapsed() < LONG, "it moved only {} times", seen.len());
        let state = Arc::new(set_up());
        let [kept, over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let waiting = {
            let (state, kept) = (Arc::clone(&state), Arc::clone(&kept));
            runtime.go(move || {
                let from = here();
                keep_thread(&kept, &over);
                let value = fiber(&state);
                over.store(true, Ordering::Release);
                (from != here()).then_some(value)
            })
        };
        until("its thread runs another fiber", || kept.load(Ordering::Acquire));
        end(&state);
        seen.extend(waiting.join().unwrap());
    }
    runtime.shutdown(LONG).unwrap();
    seen
}

/// As `moved`, for an operation that is to fail with `error`.
#[track_caller]
fn fails_with<S: Send + Sync + 'static>(
    error: i32,
    times: usize,
    set_up: fn() -> S,
    operation: fn(&S) -> Option<i32>,
    end: fn(&S),
) {
    let seen = within(LONG * 2, move || moved(times, set_up, operation, end));
    assert!(seen.iter().all(|&seen| seen == Some(error)), "{seen:?} instead of {error}");
}

/// What the other tests rest on: code that reads `errno` around a wait does read the other thread's.
/// Where it does not, they show nothing; `VOLT_HAZARDS=seen` makes that a failure.
#[test]
fn errno_read_around_a_wait_is_another_threads() {
    #[inline(never)]
    fn around(waiting: &Mutex<Option<Thread>>) -> Option<i32> {
        *waiting.lock().unwrap() = Some(thread::current());
        errno();
        thread::park();
        // SAFETY: no such signal.
        unsafe { libc::kill(0, -1) };
        errno()
    }
    let seen = within(LONG * 2, || {
        moved(TIMES, Mutex::default, around, |waiting| {
            // The fiber that keeps the thread may have been taken by the other worker, before this one came so far.
            until("it is about to wait", || waiting.lock().unwrap().is_some());
            waiting.lock().unwrap().take().unwrap().unpark();
        })
    });
    let hazard = seen.contains(&Some(libc::EBADF));
    if !hazard {
        eprintln!("this build asks for errno's address each time: nothing to see");
    }
    assert!(hazard || std::env::var_os("VOLT_HAZARDS").is_none(), "{seen:?}");
}

/// A connection: volt's end, and the other one until it is reset.
struct Connection {
    near: TcpStream,
    far: Mutex<Option<StdStream>>,
}

impl Connection {
    fn new() -> Connection {
        Connection::with(|_| ())
    }

    /// One whose buffers are full, or all but.
    fn full() -> Connection {
        Connection::with(|mut near| {
            near.set_nonblocking(true).unwrap();
            while near.write(&[0; 1 << 16]).is_ok() {}
            near.set_nonblocking(false).unwrap();
        })
    }

    fn with(prepare: impl Fn(&StdStream)) -> Connection {
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        let far = StdStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = listener.accept().unwrap().0;
        prepare(&near);
        Connection { near: near.into(), far: Mutex::new(Some(far)) }
    }

    fn reset(&self) {
        let far = self.far.lock().unwrap().take().unwrap();
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: an open socket, and an option with its own type.
        let set = unsafe {
            let size = size_of_val(&linger) as libc::socklen_t;
            let value = (&raw const linger).cast();
            libc::setsockopt(far.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, size)
        };
        assert_eq!(set, 0);
    }
}

#[test]
fn a_read_that_moved_has_its_own_error() {
    #[inline(never)]
    fn read(connection: &Connection) -> Option<i32> {
        errno();
        (&connection.near).read(&mut [0; 8]).unwrap_err().raw_os_error()
    }
    fails_with(libc::ECONNRESET, TIMES, Connection::new, read, Connection::reset);
}

#[test]
fn a_write_that_moved_has_its_own_error() {
    #[inline(never)]
    fn write(connection: &Connection) -> Option<i32> {
        errno();
        // What was under way when the buffers were full may make room once more.
        loop {
            if let Err(error) = (&connection.near).write(&[0; 4096]) {
                return error.raw_os_error();
            }
        }
    }
    fails_with(libc::ECONNRESET, TIMES, Connection::full, write, Connection::reset);
}

#[test]
fn an_accept_that_moved_has_its_own_error() {
    #[inline(never)]
    fn accept(listener: &TcpListener) -> Option<i32> {
        errno();
        listener.accept().unwrap_err().raw_os_error()
    }
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    fails_with(libc::EINVAL, TIMES, listen, accept, |listener| shut_down(listener.as_raw_fd()));
}

/// Nobody connects to this listener any more.
fn shut_down(listener: RawFd) {
    // SAFETY: an open socket.
    assert_eq!(unsafe { libc::shutdown(listener, libc::SHUT_RDWR) }, 0);
}

/// A listener whose queue is full, with what fills it: the next to connect waits until it tries again
/// after a second.
struct Crowded {
    address: SocketAddr,
    listener: StdListener,
    _queue: StdStream,
}

impl Crowded {
    fn new() -> Crowded {
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: an open socket.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let address = listener.local_addr().unwrap();
        Crowded { address, listener, _queue: StdStream::connect(address).unwrap() }
    }
}

#[test]
fn a_connect_that_moved_has_its_own_error() {
    #[inline(never)]
    fn connect(crowded: &Crowded) -> Option<i32> {
        errno();
        TcpStream::connect(crowded.address).unwrap_err().raw_os_error()
    }
    let close = |crowded: &Crowded| shut_down(crowded.listener.as_raw_fd());
    fails_with(libc::ECONNREFUSED, 2, Crowded::new, connect, close);
}
