//! A channel with a bound, which may be zero.
//!
//! A value that finds no room stands on its sender's stack until the receiver, or a receiver's room,
//! takes it from there: a *parcel*. It works the other way round too: a receiver that waits has an
//! empty parcel, which a sender fills. So with a bound of zero values go from hand to hand.
//!
//! # Invariants
//!
//! 1. Senders wait only while there is no room and the receiver does not; the receiver waits only
//!    while there is no value and no sender waits.
//! 2. A parcel is touched under the lock while its node is linked, or by its owner. Whoever moves a
//!    value out of or into one that is linked does so before the offer, and takes it back if the
//!    offer was lost: the owner cannot look before it has the lock.

use super::{Gone, NotReceived, NotSent};
use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Wait, charge_current, spin};
use crate::primitives::clock::Moment;
use crate::primitives::sync::{Lock, UnsafeCell};
use std::collections::VecDeque;
use std::mem;

#[derive(Debug)]
pub(super) struct Bounded<T> {
    bound: usize,
    inner: Lock<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    values: VecDeque<T>,
    senders_gone: bool,
    receiver_gone: bool,
    senders: Queue<Parcel<T>>,
    /// The receiver, while it waits.
    receiver: Queue<Parcel<T>>,
}

/// Where a value is handed over (invariant 2).
#[derive(Debug)]
struct Parcel<T>(*const UnsafeCell<Option<T>>);

impl<T> Clone for Parcel<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Parcel<T> {}

// SAFETY: values that may be sent are moved through it, under the lock.
unsafe impl<T: Send> Send for Parcel<T> {}

impl<T> Parcel<T> {
    /// # Safety
    ///
    /// The parcel is linked, and the caller holds the lock.
    unsafe fn swap(self, value: Option<T>) -> Option<T> {
        // SAFETY: its owner waits for the lock, so it is alive and nobody else looks.
        unsafe { (*self.0).with_mut(|place| mem::replace(&mut *place, value)) }
    }
}

/// A woken sender's value was taken; the receiver's parcel was filled.
const DELIVERED: u32 = 0;
/// The other side has gone.
const GONE: u32 = 1;

impl<T> Inner<T> {
    /// Takes the value of the sender that has waited longest.
    fn take_parcel(&mut self, wakes: &mut Wakes) -> Option<T> {
        loop {
            let parcel = self.senders.front()?;
            // SAFETY: linked, under the lock. If the offer is lost the node is not linked any more,
            // but its owner still waits for the lock.
            unsafe {
                let value = parcel.swap(None);
                match self.senders.offer_front(DELIVERED) {
                    Some(Ok(wake)) => {
                        wakes.extend(wake);
                        return value;
                    }
                    _ => parcel.swap(value),
                };
            }
        }
    }

    /// Hands `value` to the receiver if it waits.
    fn fill_parcel(&mut self, value: T, wakes: &mut Wakes) -> Result<(), T> {
        let Some(parcel) = self.receiver.front() else { return Err(value) };
        // SAFETY: as above.
        unsafe {
            parcel.swap(Some(value));
            match self.receiver.offer_front(DELIVERED) {
                Some(Ok(wake)) => {
                    wakes.extend(wake);
                    Ok(())
                }
                _ => Err(parcel.swap(None).expect("put there just now")),
            }
        }
    }

    fn send(&mut self, bound: usize, value: T, wakes: &mut Wakes) -> Result<(), NotSent<T>> {
        if self.receiver_gone {
            return Err(NotSent::Disconnected(value));
        }
        match self.fill_parcel(value, wakes) {
            Ok(()) => Ok(()),
            Err(value) if self.values.len() < bound => {
                self.values.push_back(value);
                Ok(())
            }
            Err(value) => Err(NotSent::Full(value)),
        }
    }

    fn recv(&mut self, wakes: &mut Wakes) -> Result<T, NotReceived> {
        if let Some(value) = self.values.pop_front() {
            // The room that it leaves belongs to the one who has waited longest.
            if !self.senders.is_empty() {
                let next = self.take_parcel(wakes);
                self.values.extend(next);
            }
            return Ok(value);
        }
        match self.take_parcel(wakes) {
            Some(value) => Ok(value),
            None if self.senders_gone => Err(NotReceived::Disconnected),
            None => Err(NotReceived::Empty),
        }
    }
}

impl<T> Bounded<T> {
    pub(super) fn new(bound: usize) -> Bounded<T> {
        let inner = Inner {
            values: VecDeque::with_capacity(bound),
            senders_gone: false,
            receiver_gone: false,
            senders: Queue::new(),
            receiver: Queue::new(),
        };
        Bounded { bound, inner: Lock::new(inner) }
    }

    pub(super) fn try_send(&self, value: T) -> Result<(), NotSent<T>> {
        let mut wakes = Wakes::new();
        let result = self.inner.lock().send(self.bound, value, &mut wakes);
        wakes.wake();
        result
    }

    pub(super) fn send(&self, value: T) -> Result<(), NotSent<T>> {
        charge_current();
        let mut result = self.try_send(value);
        if matches!(result, Err(NotSent::Full(_))) && self.bound > 0 {
            spin(|| {
                let Err(NotSent::Full(value)) = mem::replace(&mut result, Ok(())) else {
                    unreachable!("it goes on only while that is so")
                };
                result = self.try_send(value);
                !matches!(result, Err(NotSent::Full(_)))
            });
        }
        match result {
            Err(NotSent::Full(value)) => self.send_slow(value),
            result => result,
        }
    }

    #[inline(never)]
    fn send_slow(&self, value: T) -> Result<(), NotSent<T>> {
        let place = UnsafeCell::new(Some(value));
        let how = Wait { object: &raw const *self as usize, ..Wait::cancellable("channel") };
        let mut wakes = Wakes::new();
        let source = Sending { channel: self, place: &place, wakes: &mut wakes };
        let waited = wait(source, Place::Back, Parcel(&raw const place), how);
        wakes.wake();
        let left = || place.into_inner().expect("not taken");
        match waited {
            Waited::Ready(true) | Waited::Woken(DELIVERED) => Ok(()),
            Waited::Ready(false) | Waited::Woken(_) => Err(NotSent::Disconnected(left())),
            Waited::TimedOut | Waited::Cancelled => Err(NotSent::Cancelled(left())),
        }
    }

    pub(super) fn try_recv(&self) -> Result<T, NotReceived> {
        let mut wakes = Wakes::new();
        let result = self.inner.lock().recv(&mut wakes);
        wakes.wake();
        result
    }

    pub(super) fn recv(&self, deadline: Option<Moment>) -> Result<T, NotReceived> {
        charge_current();
        let mut result = self.try_recv();
        let empty = |result: &_| matches!(result, Err(NotReceived::Empty));
        if empty(&result) && self.bound > 0 {
            spin(|| {
                result = self.try_recv();
                !empty(&result)
            });
        }
        if empty(&result) { self.recv_slow(deadline) } else { result }
    }

    #[inline(never)]
    fn recv_slow(&self, deadline: Option<Moment>) -> Result<T, NotReceived> {
        let place = UnsafeCell::new(None);
        let how =
            Wait { object: &raw const *self as usize, deadline, ..Wait::cancellable("channel") };
        let mut wakes = Wakes::new();
        let source = Receiving { channel: self, wakes: &mut wakes };
        let waited = wait(source, Place::Back, Parcel(&raw const place), how);
        wakes.wake();
        let value = || place.into_inner().ok_or(NotReceived::Disconnected);
        match waited {
            Waited::Ready(result) => result,
            Waited::Woken(_) => value(),
            Waited::TimedOut => self.try_recv().map_err(NotReceived::late),
            Waited::Cancelled => Err(NotReceived::Cancelled),
        }
    }

    /// The last sender has gone.
    pub(super) fn close(&self) {
        let mut wakes = Wakes::new();
        {
            let mut inner = self.inner.lock();
            inner.senders_gone = true;
            inner.receiver.wake_all(GONE, &mut wakes);
        }
        wakes.wake();
    }

    /// The receiver goes, with all that was not received; who waits gets the value back.
    pub(super) fn abandon(&self) {
        let mut wakes = Wakes::new();
        let values = {
            let mut inner = self.inner.lock();
            inner.receiver_gone = true;
            inner.senders.wake_all(GONE, &mut wakes);
            mem::take(&mut inner.values)
        };
        wakes.wake();
        drop(values);
    }
}

impl<T> From<Gone<T>> for NotSent<T> {
    fn from(gone: Gone<T>) -> NotSent<T> {
        NotSent::Disconnected(gone.0)
    }
}

/// A sender's wait for room, or for the receiver.
struct Sending<'a, 'p, T> {
    channel: &'a Bounded<T>,
    place: &'p UnsafeCell<Option<T>>,
    wakes: &'p mut Wakes,
}

impl<'a, T> Source<'a> for Sending<'a, '_, T> {
    type Inner = Inner<T>;
    type Data = Parcel<T>;
    /// Whether it was sent; otherwise the receiver is gone.
    type Ready = bool;

    fn lock(&self) -> &'a Lock<Inner<T>> {
        &self.channel.inner
    }

    fn queue<'q>(&self, inner: &'q mut Inner<T>) -> &'q mut Queue<Parcel<T>> {
        &mut inner.senders
    }

    fn enter(&mut self, inner: &mut Inner<T>) -> Option<bool> {
        // SAFETY: not linked yet, so the sender's own.
        let swap = |value| unsafe { Parcel(&raw const *self.place).swap(value) };
        let value = swap(None).expect("not sent yet");
        match inner.send(self.channel.bound, value, self.wakes) {
            Ok(()) => Some(true),
            Err(NotSent::Full(value)) => {
                swap(Some(value));
                None
            }
            Err(NotSent::Disconnected(value) | NotSent::Cancelled(value)) => {
                swap(Some(value));
                Some(false)
            }
        }
    }
}

/// The receiver's wait.
struct Receiving<'a, 'p, T> {
    channel: &'a Bounded<T>,
    wakes: &'p mut Wakes,
}

impl<'a, T> Source<'a> for Receiving<'a, '_, T> {
    type Inner = Inner<T>;
    type Data = Parcel<T>;
    type Ready = Result<T, NotReceived>;

    fn lock(&self) -> &'a Lock<Inner<T>> {
        &self.channel.inner
    }

    fn queue<'q>(&self, inner: &'q mut Inner<T>) -> &'q mut Queue<Parcel<T>> {
        &mut inner.receiver
    }

    fn enter(&mut self, inner: &mut Inner<T>) -> Option<Result<T, NotReceived>> {
        match inner.recv(self.wakes) {
            Err(NotReceived::Empty) => None,
            result => Some(result),
        }
    }
}
