//! Events that come between a look at a socket and the wait for it.

use super::ready::driver_here;
use super::source::{is_ready_now, look_now};
use super::{Readiness, Source, Wanted};
use crate::driver::{Direction, Driver, IoNode, Slot};
use crate::fiber::{self, Batch, Outcome, WaiterPtr, Wake};
use crate::primitives::clock::Moment;
use crate::runtime::Builder;
use crate::scheduler;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(10);

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, far)
}

/// The peer sends a byte, and the driver tells of it.
fn event(mut far: &UnixStream, driver: &Driver) {
    far.write_all(&[1]).unwrap();
    let mut settled = Batch::new();
    let mut role = driver.try_role().expect("nobody else turns it");
    driver.look(&mut role, Moment::now(), &mut settled);
    assert!(settled.is_empty(), "no fiber waits");
}

/// A wait of the calling thread, linked and unlinked; says how `while_linked` has ended it.
fn wait(slot: &Slot, while_linked: impl FnOnce()) -> Option<Outcome> {
    let thread = fiber::thread_block();
    thread.state().begin_wait();
    let mut node = pin!(IoNode::new(WaiterPtr::of_thread(&thread)));
    if !slot.enqueue(Direction::Read, node.as_mut()) {
        return None;
    }
    while_linked();
    slot.cancel(Direction::Read, node);
    Some(thread.state().load().outcome())
}

/// A select's case links its node where the readiness that is noted has turned out to be old.
#[test]
fn an_event_after_the_look_of_a_case_keeps_it_from_waiting() {
    let driver = Driver::new(1).unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    let mut reader = near.try_clone().unwrap();
    let source = Source::new(near.into());
    source.register_with(&driver, Direction::Read).unwrap();
    let slot = source.slot_with(&driver).unwrap();
    let case = Readiness::read(&source);
    // Noted, and not so any more.
    let mut old = || {
        event(&far, &driver);
        reader.read_exact(&mut [0]).unwrap();
        assert!(slot.ready(Direction::Read).is_some());
    };
    let after_the_look = || {
        event(&far, &driver);
        false
    };
    old();
    assert!(!case.is_noted(slot, after_the_look));
    assert_eq!(wait(slot, || ()), None, "between look and clear");

    old();
    assert!(!case.is_noted(slot, || false));
    event(&far, &driver);
    assert_eq!(wait(slot, || ()), None, "between clear and link");

    old();
    assert!(!case.is_noted(slot, || false));
    let ended = wait(slot, || event(&far, &driver));
    assert_eq!(ended, Some(Outcome::Woken(0)), "behind the link");
}

#[test]
fn an_event_in_the_midst_of_an_operation_has_it_tried_again() {
    let runtime = Builder::new().workers(1).force_migrate(false).build().unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    let source = Source::new(OwnedFd::from(near));
    far.write_all(&[1]).unwrap();
    let tries = runtime.run(|| {
        let driver = driver_here();
        let mut tries = 0;
        let wanted = Wanted::read("read", Some(LIMIT));
        source.operate(wanted, |_| {
            tries += 1;
            match tries {
                // It registers, and waits for the byte that is there.
                1 => Err(Errno::AGAIN),
                2 => {
                    event(&far, &driver);
                    Err(Errno::AGAIN)
                }
                _ => Ok((tries, false)),
            }
        })
    });
    assert_eq!(tries.expect("an event was lost"), 3);
}

/// A signal that comes there has the kernel say so.
#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn data_behind_an_urgent_byte_is_read_though_it_would_block() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let (near, mut far) = tcp_pair();
    let source = Source::new(OwnedFd::from(near));
    rustix::net::send(&far, b"!", SendFlags::OOB).unwrap();
    far.write_all(&[1]).unwrap();
    let start = Instant::now();
    let tries = runtime.run(|| {
        let mut tries = 0;
        let wanted = Wanted::read("read", Some(LIMIT));
        source.operate(wanted, |_| {
            tries += 1;
            // The first registers it, and the second begins at the mark.
            if tries < 3 { Err(Errno::AGAIN) } else { Ok((tries, false)) }
        })
    });
    assert_eq!(tries.unwrap(), 3);
    assert!(start.elapsed() < LIMIT, "it waits for what has come");
}

/// What stands in the error queue of a socket ends no read, and stays there.
#[test]
#[cfg(target_os = "linux")]
fn who_reads_nothing_waits_whatever_errors_there_are_behind_an_urgent_byte() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let (near, far) = tcp_pair();
    let (on, size) = (1i32, size_of::<i32>() as u32);
    let (fd, level, name) = (near.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ZEROCOPY);
    // SAFETY: the value is as long as said.
    let set = unsafe { libc::setsockopt(fd, level, name, (&raw const on).cast(), size) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: as above; the byte is there for as long as the program.
    let sent = unsafe { libc::send(fd, c"!".as_ptr().cast(), 1, libc::MSG_ZEROCOPY) };
    assert_eq!(sent, 1, "{}", std::io::Error::last_os_error());
    rustix::net::send(&far, b"!", SendFlags::OOB).unwrap();
    let source = Source::new(OwnedFd::from(near));
    while !look_now(source.as_fd(), Direction::Read).unwrap().contains(PollFlags::ERR) {
        std::thread::yield_now();
    }
    let mut tries = 0;
    let read = runtime.run(|| {
        source.operate(Wanted::read("read", Some(Duration::from_millis(20))), |_| {
            tries += 1;
            if tries < 1_000 { Err(Errno::AGAIN) } else { Ok(((), false)) }
        })
    });
    assert_eq!(read.unwrap_err().kind(), ErrorKind::WouldBlock, "{tries} tries");
}

#[test]
fn who_is_chosen_and_fails_leaves_it_to_the_next() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let source = Source::new(OwnedFd::from(near));
    let failed = AtomicBool::new(false);
    let ends = runtime.run(|| {
        let accept = || {
            source.operate(Wanted::accept(Some(LIMIT)), |fd| {
                if is_ready_now(fd, Direction::Accept) && !failed.swap(true, Ordering::Relaxed) {
                    return Err(Errno::MFILE);
                }
                Ok((rustix::io::read(fd, &mut [0])?, false))
            })
        };
        crate::scope(|scope| {
            let acceptors = [scope.go(accept), scope.go(accept)];
            crate::yield_now();
            let driver = driver_here();
            let slot = source.slot_with(&driver).unwrap();
            assert!(slot.has_waiters(Direction::Accept));
            far.write_all(&[1]).unwrap();
            acceptors.map(|acceptor| acceptor.join().unwrap().map_err(|error| error.raw_os_error()))
        })
    });
    let refused = Err(Some(Errno::MFILE.raw_os_error()));
    assert!(ends.contains(&refused) && ends.contains(&Ok(1)), "{ends:?}");
}

/// A child serves what is there; whoever else waits does so in the parent.
#[test]
fn a_forked_child_passes_nothing_on() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let source = Source::new(OwnedFd::from(near));
    let status = runtime.run(|| {
        let accept = || {
            source.operate(Wanted::accept(Some(LIMIT)), |fd| {
                Ok((rustix::io::read(fd, &mut [0])?, false))
            })
        };
        crate::scope(|scope| {
            let acceptors = [scope.go(accept), scope.go(accept)];
            crate::yield_now();
            far.write_all(&[1; 4]).unwrap();
            // One of them is told; the other one still waits.
            let driver = driver_here();
            let mut settled = Batch::new();
            driver.look(&mut driver.try_role().unwrap(), Moment::now(), &mut settled);
            let slot = source.slot_with(&driver).unwrap();
            // SAFETY: the child calls the system and what is tested, and leaves without running what is the parent's.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let served = accept().is_ok();
                let waits = slot.has_waiters(Direction::Accept);
                // SAFETY: as above.
                unsafe { libc::_exit(if served && waits { 7 } else { 8 }) };
            }
            for fiber in settled {
                scheduler::wake(Wake::Fiber(fiber));
            }
            let ends = acceptors.map(|acceptor| acceptor.join().unwrap().unwrap());
            assert_eq!(ends, [1, 1]);
            let mut status = 0;
            // SAFETY: our child, waited for once.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            status
        })
    });
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status}");
}

/// Its timer is armed, and telling the poller fails.
#[test]
fn a_wait_that_unwinds_leaves_its_registration() {
    let runtime = Builder::new().workers(1).force_migrate(false).build().unwrap();
    let (near, _far) = UnixStream::pair().unwrap();
    let source = Source::new(OwnedFd::from(near));
    let linked = runtime.run(|| {
        let driver = driver_here();
        let wanted = Wanted::read("read", Some(Duration::from_secs(3600)));
        driver.fails.store(true, Ordering::Relaxed);
        let read = || source.operate(wanted, |_| Err::<((), bool), _>(Errno::AGAIN));
        assert!(catch_unwind(AssertUnwindSafe(read)).is_err(), "nothing to see");
        let slot = source.slot_with(&driver).unwrap();
        slot.has_waiters(Direction::Read)
    });
    assert!(!linked, "a node is linked, and its wait is over");
}
