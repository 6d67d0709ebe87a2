//! A socket that the driver knows. Its readiness and who waits for it: `slot.rs`.

use super::poller::Driver;
use super::slot::{
    Direction, IoNode, READ_CLOSED, READ_READY, Readiness, Slot, URGENT, WRITE_CLOSED, WRITE_READY,
};
use super::slots::SlotKey;
use crate::fiber::Wake;
use crate::primitives::sync::Arc;
use mio::event::Event;
use std::os::fd::RawFd;
use std::pin::Pin;

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

/// A socket known to a driver.
#[derive(Debug)]
pub(crate) struct Registration {
    driver: Arc<Driver>,
    key: SlotKey,
    fd: RawFd,
}

impl Registration {
    pub(super) fn new(driver: Arc<Driver>, key: SlotKey, fd: RawFd) -> Registration {
        Registration { driver, key, fd }
    }

    pub(crate) fn belongs_to(&self, driver: &Arc<Driver>) -> bool {
        Arc::ptr_eq(&self.driver, driver)
    }

    fn slot(&self) -> &Slot {
        self.driver.slots.slot(self.key.index)
    }

    /// The tick if an operation is worth trying, to be handed to [`clear`](Self::clear).
    #[inline]
    pub(crate) fn ready(&self, direction: Direction) -> Option<u64> {
        self.slot().ready(direction)
    }

    /// The kernel said that an operation which began at `tick` would block.
    pub(crate) fn clear(&self, direction: Direction, tick: u64) {
        self.slot().clear(direction, tick);
    }

    /// An operation that began at `tick` came up short.
    #[inline]
    pub(crate) fn clear_short(&self, direction: Direction, tick: u64) {
        self.slot().clear_short(direction, tick);
    }

    /// Links `node` to be settled by the next event; `false` if the direction is ready already.
    ///
    /// The caller unlinks it with [`cancel`](Self::cancel) before its wait returns.
    #[must_use]
    pub(crate) fn enqueue(&self, direction: Direction, node: Pin<&mut IoNode>) -> bool {
        self.slot().enqueue(direction, node)
    }

    /// After an operation that serves one: who is to serve the next, if `is_there` says that there is more.
    pub(crate) fn pass_on(&self, is_there: impl FnOnce() -> bool) -> Option<Wake> {
        self.slot().pass_on(is_there)
    }

    /// Does anybody wait?
    #[cfg(test)]
    pub(crate) fn has_waiters(&self, direction: Direction) -> bool {
        self.slot().has_waiters(direction)
    }

    /// Unlinks `node` if it still is linked.
    pub(crate) fn cancel(&self, direction: Direction, node: Pin<&mut IoNode>) {
        self.slot().cancel(direction, node);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.driver.deregister(self.fd);
        self.driver.slots.put_back(self.key);
    }
}
