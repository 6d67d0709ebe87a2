//! A channel without a bound: values in [`Blocks`], and the receiver's wait.
//!
//! Neither side takes a lock unless the receiver waits. `waits` is set under the lock by the receiver
//! before its last look and cleared under the lock when its node is unlinked; a sender looks at it after
//! its push. That no wake is lost is what [`super::blocks`] says under "Waiting". A wake may come too
//! often, from a sender whose value was received before it looked: so the receiver looks again.

use super::blocks::Blocks;
use super::{Gone, NotReceived};
use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Wait, charge_current, linger, spin};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::primitives::sync::{Lock, full_fence};

#[derive(Debug)]
#[repr(C)]
pub(super) struct Unbounded<T> {
    /// The receiver waits, or is about to. Written under the lock.
    waits: AtomicBool,
    /// Stored before the lock is taken to wake the receiver.
    senders_gone: AtomicBool,
    values: Blocks<T>,
    /// The receiver, while it waits.
    receiver: Lock<Queue<()>>,
}

/// What the receiver finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// A value, perhaps not quite there.
    Value,
    Gone,
    Empty,
}

impl<T> Unbounded<T> {
    pub(super) fn new() -> Unbounded<T> {
        Unbounded {
            waits: AtomicBool::new(false),
            senders_gone: AtomicBool::new(false),
            values: Blocks::new(),
            receiver: Lock::new(Queue::new()),
        }
    }

    #[inline]
    pub(super) fn send(&self, value: T) -> Result<(), Gone<T>> {
        self.values.push(value).map_err(Gone)?;
        if self.waits.load(Ordering::Relaxed) {
            self.wake();
        }
        Ok(())
    }

    #[inline(never)]
    fn wake(&self) {
        let mut wakes = Wakes::new();
        {
            let mut receiver = self.receiver.lock();
            receiver.wake_all(0, &mut wakes);
            self.waits.store(false, Ordering::Relaxed);
        }
        wakes.wake();
    }

    /// # Safety
    ///
    /// Called by the receiver.
    unsafe fn look(&self) -> Look {
        // First: who goes has sent all that he sends.
        let gone = self.senders_gone.load(Ordering::Acquire);
        // SAFETY: passed on.
        match unsafe { self.values.is_empty() } {
            false => Look::Value,
            true if gone => Look::Gone,
            true => Look::Empty,
        }
    }

    /// # Safety
    ///
    /// Called by the receiver.
    #[inline]
    pub(super) unsafe fn try_recv(&self) -> Result<T, NotReceived> {
        // SAFETY: passed on.
        unsafe {
            if let Some(value) = self.values.pop() {
                return Ok(value);
            }
            match self.look() {
                Look::Value => Ok(self.values.pop_claimed()),
                Look::Gone => Err(NotReceived::Disconnected),
                Look::Empty => Err(NotReceived::Empty),
            }
        }
    }

    /// # Safety
    ///
    /// Called by the receiver.
    #[inline]
    pub(super) unsafe fn recv(&self, deadline: Option<Moment>) -> Result<T, NotReceived> {
        charge_current();
        // SAFETY: passed on.
        if let Some(value) = unsafe { self.values.pop() } {
            return Ok(value);
        }
        // SAFETY: passed on.
        unsafe { self.recv_slow(deadline) }
    }

    /// # Safety
    ///
    /// Called by the receiver.
    #[inline(never)]
    unsafe fn recv_slow(&self, deadline: Option<Moment>) -> Result<T, NotReceived> {
        linger();
        // SAFETY: passed on.
        let mut result = unsafe { self.try_recv() };
        let empty = |result: &_| matches!(result, Err(NotReceived::Empty));
        if empty(&result) {
            spin(|| {
                // SAFETY: passed on.
                result = unsafe { self.try_recv() };
                !empty(&result)
            });
        }
        while empty(&result) {
            let object = &raw const *self as usize;
            let how = Wait { object, deadline, has_spun: true, ..Wait::cancellable("channel") };
            result = match wait(Enter { channel: self }, Place::Back, (), how) {
                // SAFETY: passed on.
                Waited::Ready(()) | Waited::Woken(_) => unsafe { self.try_recv() },
                // SAFETY: passed on.
                Waited::TimedOut => return unsafe { self.try_recv() }.map_err(NotReceived::late),
                Waited::Cancelled => return Err(NotReceived::Cancelled),
            };
        }
        result
    }

    /// The last sender has gone.
    pub(super) fn close(&self) {
        self.senders_gone.store(true, Ordering::Release);
        self.wake();
    }

    /// The receiver goes, with all that was not received.
    ///
    /// # Safety
    ///
    /// Called by the receiver.
    pub(super) unsafe fn abandon(&self) {
        // SAFETY: passed on.
        unsafe { self.values.close() };
    }
}

/// The receiver's wait; only the receiver makes one.
struct Enter<'a, T> {
    channel: &'a Unbounded<T>,
}

impl<'a, T> Source<'a> for Enter<'a, T> {
    type Inner = Queue<()>;
    type Data = ();
    /// There is something to be received.
    type Ready = ();

    fn lock(&self) -> &'a Lock<Queue<()>> {
        &self.channel.receiver
    }

    fn queue<'q>(&self, inner: &'q mut Queue<()>) -> &'q mut Queue<()> {
        inner
    }

    fn enter(&mut self, _: &mut Queue<()>) -> Option<()> {
        let channel = self.channel;
        channel.waits.store(true, Ordering::Relaxed);
        full_fence();
        // SAFETY: on behalf of the receiver.
        let ready = unsafe { channel.look() } != Look::Empty;
        if ready {
            channel.waits.store(false, Ordering::Relaxed);
        }
        ready.then_some(())
    }

    fn left(&mut self, _: &mut Queue<()>, _: bool, _: &mut Wakes) {
        self.channel.waits.store(false, Ordering::Relaxed);
    }
}
