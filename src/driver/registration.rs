//! A socket that the driver knows. Its readiness and who waits for it: `slot.rs`.

use super::poller::Driver;
use super::slot::{READ_CLOSED, READ_READY, Readiness, Slot, URGENT, WRITE_CLOSED, WRITE_READY};
use super::slots::SlotKey;
use crate::primitives::is_forked;
use crate::primitives::sync::Arc;
use mio::event::Event;
use std::os::fd::RawFd;
use std::sync::Weak;

impl Readiness {
    pub(super) fn of(event: &Event) -> Readiness {
        let mut bits = 0;
        if event.is_readable() {
            bits |= READ_READY;
        }
        if event.is_writable() {
            bits |= WRITE_READY;
        }
        if event.is_read_closed() {
            bits |= READ_READY | READ_CLOSED;
        }
        if event.is_write_closed() {
            bits |= WRITE_READY | WRITE_CLOSED;
        }
        if event.is_error() {
            bits |= READ_READY | WRITE_READY;
        }
        if event.is_priority() {
            bits |= READ_READY | URGENT;
        }
        Readiness(bits)
    }
}

/// A socket known to a driver, which it does not keep: one that is gone has closed its poller, and the poller has let
/// go of the socket. (One that fibers belong to which never run again is not gone.)
#[derive(Debug)]
pub(crate) struct Registration {
    driver: Weak<Driver>,
    key: SlotKey,
    fd: RawFd,
}

impl Registration {
    pub(super) fn new(driver: &Arc<Driver>, key: SlotKey, fd: RawFd) -> Registration {
        Registration { driver: Arc::downgrade(driver), key, fd }
    }

    /// The socket's slot, if it is `driver` that knows it.
    #[inline]
    pub(crate) fn slot<'d>(&self, driver: &'d Arc<Driver>) -> Option<&'d Slot> {
        // The address is nobody else's as long as this registration lives.
        let is_known = self.driver.as_ptr() == Arc::as_ptr(driver);
        is_known.then(|| driver.slots.slot(self.key.index))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // In a forked child all of this is the parent's: the kernel's poller, in which its fibers wait on, and a lock
        // that one of its threads may have held.
        if is_forked() {
            return;
        }
        if let Some(driver) = self.driver.upgrade() {
            driver.deregister(self.fd);
            driver.slots.put_back(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Direction;
    use super::*;
    use crate::primitives::watch_forks;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn registered(driver: &Arc<Driver>) -> (UnixStream, UnixStream, Registration) {
        let (near, far) = UnixStream::pair().unwrap();
        let registration = driver.register(near.as_raw_fd(), Direction::Read).unwrap();
        (near, far, registration)
    }

    #[test]
    fn a_socket_does_not_keep_its_driver() {
        let driver = Driver::new(1).unwrap();
        let (_near, _far, registration) = registered(&driver);
        assert!(registration.slot(&driver).is_some());
        let kept = Arc::downgrade(&driver);
        drop(driver);
        assert!(kept.upgrade().is_none());
        let driver = Driver::new(1).unwrap();
        assert!(registration.slot(&driver).is_none(), "another one's");
    }

    /// A thread of the parent's may hold the table's lock at the fork.
    #[test]
    fn a_forked_child_drops_a_socket_whoever_held_what() {
        watch_forks();
        let driver = Driver::new(1).unwrap();
        let (_near, _far, registration) = registered(&driver);
        let mut registration = Some(registration);
        let status = driver.slots.while_taken(|| {
            // SAFETY: the child calls what a handler of signals may call, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: so that it ends, also where it would wait for ever.
                unsafe { libc::alarm(5) };
                drop(registration.take());
                // SAFETY: ends it, without the destructors of the parent.
                unsafe { libc::_exit(7) };
            }
            let mut status = 0;
            // SAFETY: the child is ours.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            ExitStatus::from_raw(status)
        });
        assert_eq!(status.code(), Some(7), "{status:?}");
    }
}
