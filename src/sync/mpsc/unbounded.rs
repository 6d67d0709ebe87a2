//! A channel without a bound: many senders push under a lock, the one receiver takes all at once.
//!
//! The receiver keeps what it took and comes to the lock only when that is used up, so a busy channel
//! costs it next to nothing. What it keeps is still in the channel: it goes with the receiver.

use super::{Gone, NotReceived};
use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Wait, charge_current, spin};
use crate::primitives::clock::Moment;
use crate::primitives::sync::{Lock, UnsafeCell};
use std::collections::VecDeque;
use std::mem;

/// A buffer with more room than this, of which most was not needed, is not kept.
const KEPT: usize = 1024;

#[derive(Debug)]
pub(super) struct Unbounded<T> {
    inner: Lock<Inner<T>>,
    /// The receiver's own: what it took.
    taken: UnsafeCell<VecDeque<T>>,
}

// SAFETY: `taken` is touched by the receiver alone, which is not `Sync` and not `Clone`, and by
// whoever drops the channel.
unsafe impl<T: Send> Sync for Unbounded<T> {}

#[derive(Debug)]
struct Inner<T> {
    values: VecDeque<T>,
    senders_gone: bool,
    receiver_gone: bool,
    /// The receiver, while it waits.
    queue: Queue<()>,
}

impl<T> Unbounded<T> {
    pub(super) fn new() -> Unbounded<T> {
        Unbounded {
            inner: Lock::new(Inner {
                values: VecDeque::new(),
                senders_gone: false,
                receiver_gone: false,
                queue: Queue::new(),
            }),
            taken: UnsafeCell::new(VecDeque::new()),
        }
    }

    #[inline]
    pub(super) fn send(&self, value: T) -> Result<(), Gone<T>> {
        let mut wakes = Wakes::new();
        {
            let mut inner = self.inner.lock();
            if inner.receiver_gone {
                return Err(Gone(value));
            }
            inner.values.push_back(value);
            if !inner.queue.is_empty() {
                inner.queue.wake_one(0, &mut wakes);
            }
        }
        wakes.wake();
        Ok(())
    }

    /// # Safety
    ///
    /// Called by the receiver.
    #[inline]
    unsafe fn next_taken(&self) -> Option<T> {
        // SAFETY: the receiver's own.
        self.taken.with_mut(|taken| unsafe { (*taken).pop_front() })
    }

    /// # Safety
    ///
    /// Called by the receiver.
    #[inline]
    pub(super) unsafe fn try_recv(&self) -> Result<T, NotReceived> {
        // SAFETY: passed on.
        if let Some(value) = unsafe { self.next_taken() } {
            return Ok(value);
        }
        // SAFETY: passed on.
        match unsafe { self.refill(&mut self.inner.lock()) } {
            Refill::Value(value) => Ok(value),
            Refill::Gone => Err(NotReceived::Disconnected),
            Refill::Empty => Err(NotReceived::Empty),
        }
    }

    /// Takes all that is there.
    ///
    /// # Safety
    ///
    /// Called by the receiver, which has nothing left.
    unsafe fn refill(&self, inner: &mut Inner<T>) -> Refill<T> {
        if inner.values.is_empty() {
            return if inner.senders_gone { Refill::Gone } else { Refill::Empty };
        }
        self.taken.with_mut(|taken| {
            // SAFETY: the receiver's own.
            let taken = unsafe { &mut *taken };
            mem::swap(taken, &mut inner.values);
            if inner.values.capacity() > KEPT && taken.len() < inner.values.capacity() / 8 {
                inner.values = VecDeque::new();
            }
            Refill::Value(taken.pop_front().expect("there were some"))
        })
    }

    /// # Safety
    ///
    /// Called by the receiver.
    #[inline]
    pub(super) unsafe fn recv(&self, deadline: Option<Moment>) -> Result<T, NotReceived> {
        charge_current();
        // SAFETY: passed on.
        if let Some(value) = unsafe { self.next_taken() } {
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
            let how = Wait { object, deadline, ..Wait::cancellable("channel") };
            result = match wait(Enter { channel: self }, Place::Back, (), how) {
                Waited::Ready(result) => result,
                // SAFETY: passed on.
                Waited::Woken(_) => unsafe { self.try_recv() },
                // SAFETY: passed on.
                Waited::TimedOut => return unsafe { self.try_recv() }.map_err(NotReceived::late),
                Waited::Cancelled => return Err(NotReceived::Cancelled),
            };
        }
        result
    }

    /// The last sender has gone.
    pub(super) fn close(&self) {
        let mut wakes = Wakes::new();
        {
            let mut inner = self.inner.lock();
            inner.senders_gone = true;
            inner.queue.wake_all(0, &mut wakes);
        }
        wakes.wake();
    }

    /// The receiver goes, with all that was not received.
    ///
    /// # Safety
    ///
    /// Called by the receiver.
    pub(super) unsafe fn abandon(&self) {
        let values = {
            let mut inner = self.inner.lock();
            inner.receiver_gone = true;
            mem::take(&mut inner.values)
        };
        // SAFETY: the receiver's own.
        let taken = self.taken.with_mut(|taken| unsafe { mem::take(&mut *taken) });
        drop((taken, values));
    }
}

enum Refill<T> {
    Value(T),
    Gone,
    Empty,
}

/// The receiver's wait; only the receiver makes one.
struct Enter<'a, T> {
    channel: &'a Unbounded<T>,
}

impl<'a, T> Source<'a> for Enter<'a, T> {
    type Inner = Inner<T>;
    type Data = ();
    type Ready = Result<T, NotReceived>;

    fn lock(&self) -> &'a Lock<Inner<T>> {
        &self.channel.inner
    }

    fn queue<'q>(&self, inner: &'q mut Inner<T>) -> &'q mut Queue<()> {
        &mut inner.queue
    }

    fn enter(&mut self, inner: &mut Inner<T>) -> Option<Result<T, NotReceived>> {
        // SAFETY: on behalf of the receiver.
        match unsafe { self.channel.refill(inner) } {
            Refill::Value(value) => Some(Ok(value)),
            Refill::Gone => Some(Err(NotReceived::Disconnected)),
            Refill::Empty => None,
        }
    }
}
