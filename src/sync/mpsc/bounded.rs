//! A channel with a bound, which may be zero: values in a [`Ring`], and the waits of both sides.
//!
//! Neither side takes a lock unless somebody waits. A value that finds no room stands on its sender's
//! stack until the receiver, or a receiver's room, takes it from there: a *parcel*. It works the other way
//! round too: a receiver that waits has an empty parcel, which a sender fills. So with a bound of zero
//! values go from hand to hand, and otherwise two who take turns do more in each.
//!
//! # Invariants
//!
//! 1. Nodes are linked, popped and unlinked under the lock, and `waits` says, when the lock is free, who
//!    has one. Whoever wants to link one says so there before its last look.
//! 2. A parcel is touched under the lock while its node is linked, or by its owner. Whoever moves a
//!    value out of or into one that is linked does so before the offer, and takes it back if the
//!    offer was lost: the owner cannot look before it has the lock.
//! 3. The receiver waits only while no place of the ring is claimed and no sender waits; so a value that
//!    goes into its parcel overtakes none that was sent before.
//! 4. While senders wait, there is no more room than senders that were told to [`LOOK`] and have not yet,
//!    or the receiver, which has made it, is about to tell one.
//!
//! # Why nobody waits for ever
//!
//! Both store-then-load races are the ring's, whose head says how they are closed. Where the receiver
//! sees the sender's announcement before it takes a value, it takes the lock first and puts the value of
//! that sender into the room that it makes. Where it sees it only afterwards, somebody else may have
//! taken the room: it tells the sender to look again, in front of all others. Whoever is told looks, and
//! links its node again only if it finds no room; a wait that ended otherwise is passed over. New
//! senders stand behind those who wait, from the moment that they see them.

use super::apart::pause;
use super::parcel::{DELIVERED, GONE, Inner, LOOK, Parcel};
use super::ring::{Refused, Ring};
use super::waiting::{Receiving, Sending};
use super::{NotReceived, NotSent};
use crate::park::queue::{Place, Waited, Wakes, wait};
use crate::park::{Wait, charge_current, linger, spin};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use crate::primitives::sync::{Lock, UnsafeCell, full_fence};
use std::mem;

#[derive(Debug)]
#[repr(C)]
pub(super) struct Bounded<T> {
    /// `RECEIVER`, `SENDERS`, both or 0 (invariant 1). Written under the lock.
    waits: AtomicU8,
    /// Stored before the lock is taken to tell the receiver.
    pub(super) senders_gone: AtomicBool,
    pub(super) ring: Ring<T>,
    pub(super) inner: Lock<Inner<T>>,
}

pub(super) const RECEIVER: u8 = 1;
pub(super) const SENDERS: u8 = 2;

impl<T> From<Refused<T>> for NotSent<T> {
    fn from(refused: Refused<T>) -> NotSent<T> {
        match refused {
            Refused::Full(value) => NotSent::Full(value),
            Refused::Closed(value) => NotSent::Disconnected(value),
        }
    }
}

/// Both sides.
impl<T> Bounded<T> {
    pub(super) fn new(bound: usize) -> Bounded<T> {
        Bounded {
            waits: AtomicU8::new(0),
            senders_gone: AtomicBool::new(false),
            ring: Ring::new(bound),
            inner: Lock::new(Inner::new()),
        }
    }

    #[inline(always)]
    fn waits(&self, who: u8) -> bool {
        self.waits.load(Ordering::Relaxed) & who != 0
    }

    /// Under the lock, before the last look.
    pub(super) fn announce(&self, who: u8) {
        self.waits.store(self.waits.load(Ordering::Relaxed) | who, Ordering::Relaxed);
        full_fence();
    }

    /// Restores invariant 1.
    pub(super) fn note(&self, inner: &Inner<T>) {
        let receiver = if inner.receiver.is_empty() { 0 } else { RECEIVER };
        let senders = if inner.senders.is_empty() { 0 } else { SENDERS };
        self.waits.store(receiver | senders, Ordering::Relaxed);
    }

    /// Does `f` under the lock, and carries out its wakes.
    fn locked<R>(&self, f: impl FnOnce(&mut Inner<T>, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::new();
        let result = {
            let mut inner = self.inner.lock();
            let result = f(&mut inner, &mut wakes);
            self.note(&inner);
            result
        };
        wakes.wake();
        result
    }

    /// The last sender has gone.
    pub(super) fn close(&self) {
        self.senders_gone.store(true, Ordering::Release);
        self.locked(|inner, wakes| inner.receiver.wake_all(GONE, wakes));
    }

    /// The receiver goes, with all that was not received; who waits gets the value back.
    ///
    /// # Safety
    ///
    /// Called by the receiver.
    pub(super) unsafe fn abandon(&self) {
        // SAFETY: passed on. Closed first, so that nobody waits who comes after those who are told.
        unsafe { self.ring.close() };
        self.locked(|inner, wakes| inner.senders.wake_all(GONE, wakes));
        // SAFETY: passed on.
        unsafe { self.ring.drain() };
    }
}

/// The senders' side.
impl<T> Bounded<T> {
    #[inline]
    pub(super) fn try_send(&self, value: T) -> Result<(), NotSent<T>> {
        if self.waits(RECEIVER | SENDERS) {
            return self.send_to_waiting(value);
        }
        self.ring.push(value)?;
        if self.waits(RECEIVER) {
            self.wake_receiver();
        }
        Ok(())
    }

    #[inline(never)]
    fn send_to_waiting(&self, value: T) -> Result<(), NotSent<T>> {
        self.locked(|inner, wakes| self.send_locked(inner, value, Place::Back, wakes))
    }

    /// Hands the value over or pushes it, unless others wait in front.
    pub(super) fn send_locked(
        &self,
        inner: &mut Inner<T>,
        value: T,
        place: Place,
        wakes: &mut Wakes,
    ) -> Result<(), NotSent<T>> {
        match inner.fill_parcel(value, wakes) {
            Ok(()) => Ok(()),
            Err(value) if place == Place::Back && !inner.senders.is_empty() => {
                Err(NotSent::Full(value))
            }
            Err(value) => Ok(self.ring.push(value)?),
        }
    }

    #[inline(never)]
    fn wake_receiver(&self) {
        self.locked(|inner, wakes| inner.receiver.wake_all(LOOK, wakes));
    }

    #[inline]
    pub(super) fn send(&self, value: T) -> Result<(), NotSent<T>> {
        charge_current();
        match self.try_send(value) {
            Err(NotSent::Full(value)) => self.send_slow(value),
            result => result,
        }
    }

    #[inline(never)]
    fn send_slow(&self, value: T) -> Result<(), NotSent<T>> {
        let mut result = Err(NotSent::Full(value));
        if !self.ring.is_rendezvous() {
            spin(|| {
                let Err(NotSent::Full(value)) = mem::replace(&mut result, Ok(())) else {
                    unreachable!("it goes on only while that is so")
                };
                result = self.try_send(value);
                !matches!(result, Err(NotSent::Full(_)))
            });
        }
        match result {
            Err(NotSent::Full(value)) => self.send_and_wait(value),
            result => result,
        }
    }

    fn send_and_wait(&self, value: T) -> Result<(), NotSent<T>> {
        let parcel = UnsafeCell::new(Some(value));
        let (object, has_spun) = (&raw const *self as usize, !self.ring.is_rendezvous());
        let how = Wait { object, has_spun, ..Wait::cancellable("channel") };
        let mut place = Place::Back;
        let waited = loop {
            let mut wakes = Wakes::new();
            let source = Sending { channel: self, parcel: &parcel, place, wakes: &mut wakes };
            let waited = wait(source, place, Parcel::of(&parcel), how);
            wakes.wake();
            if waited != Waited::Woken(LOOK) {
                break waited;
            }
            place = Place::Front;
        };
        let left = || parcel.into_inner().expect("not taken");
        match waited {
            Waited::Ready(true) | Waited::Woken(DELIVERED) => Ok(()),
            Waited::Ready(false) | Waited::Woken(_) => Err(NotSent::Disconnected(left())),
            Waited::TimedOut | Waited::Cancelled => Err(NotSent::Cancelled(left())),
        }
    }
}

/// The receiver's side: all of these are called by the receiver.
impl<T> Bounded<T> {
    /// # Safety
    ///
    /// Called by the receiver.
    #[inline]
    unsafe fn take(&self) -> Option<T> {
        if self.waits(SENDERS) {
            // SAFETY: passed on.
            return unsafe { self.take_and_refill() };
        }
        // SAFETY: passed on.
        let value = unsafe { self.ring.pop() }?;
        full_fence();
        if self.waits(SENDERS) {
            self.wake_sender();
        }
        Some(value)
    }

    /// Takes the next value; the room that it leaves belongs to the one who has waited longest.
    ///
    /// # Safety
    ///
    /// Called by the receiver.
    #[inline(never)]
    unsafe fn take_and_refill(&self) -> Option<T> {
        self.locked(|inner, wakes| {
            let mut delivered = false;
            let next = || {
                let next = inner.take_parcel(wakes);
                delivered = next.is_some();
                next
            };
            // SAFETY: passed on.
            let value = unsafe { self.ring.pop_and_push(next) };
            if value.is_some() && !delivered {
                inner.senders.wake_one(LOOK, wakes);
            }
            value
        })
    }

    #[inline(never)]
    fn wake_sender(&self) {
        self.locked(|inner, wakes| inner.senders.wake_one(LOOK, wakes));
    }

    /// # Safety
    ///
    /// Called by the receiver.
    #[inline]
    pub(super) unsafe fn try_recv(&self) -> Result<T, NotReceived> {
        // SAFETY: passed on.
        match unsafe { self.take() } {
            Some(value) => Ok(value),
            // SAFETY: passed on.
            None => unsafe { self.try_recv_slow() },
        }
    }

    /// # Safety
    ///
    /// Called by the receiver.
    #[inline(never)]
    unsafe fn try_recv_slow(&self) -> Result<T, NotReceived> {
        // First: who goes has sent all that he sends.
        let gone = self.senders_gone.load(Ordering::Acquire);
        let mut rounds = 0;
        loop {
            // SAFETY: passed on.
            unsafe {
                while !self.ring.is_empty() {
                    // There, or will be in a moment.
                    if let Some(value) = self.take() {
                        return Ok(value);
                    }
                    pause(&mut rounds);
                }
            }
            if !self.waits(SENDERS) {
                return Err(if gone { NotReceived::Disconnected } else { NotReceived::Empty });
            }
            // SAFETY: passed on.
            if let Some(value) = unsafe { self.take_waiting() } {
                return Ok(value);
            }
        }
    }

    /// Takes the value of a sender that waits, if nothing stands in front of it: that sender may have
    /// found room for the value before.
    ///
    /// # Safety
    ///
    /// Called by the receiver.
    unsafe fn take_waiting(&self) -> Option<T> {
        self.locked(|inner, wakes| {
            // SAFETY: passed on.
            if unsafe { self.ring.is_empty() } { inner.take_parcel(wakes) } else { None }
        })
    }

    /// # Safety
    ///
    /// Called by the receiver.
    #[inline]
    pub(super) unsafe fn recv(&self, deadline: Option<Moment>) -> Result<T, NotReceived> {
        charge_current();
        // SAFETY: passed on.
        match unsafe { self.take() } {
            Some(value) => Ok(value),
            // SAFETY: passed on.
            None => unsafe { self.recv_slow(deadline) },
        }
    }

    /// # Safety
    ///
    /// Called by the receiver.
    #[inline(never)]
    unsafe fn recv_slow(&self, deadline: Option<Moment>) -> Result<T, NotReceived> {
        // SAFETY: passed on.
        let try_once = || unsafe { self.try_recv() };
        let empty = |result: &_| matches!(result, Err(NotReceived::Empty));
        let rendezvous = self.ring.is_rendezvous();
        if !rendezvous {
            linger();
        }
        let mut result = try_once();
        if empty(&result) && !rendezvous {
            spin(|| {
                result = try_once();
                !empty(&result)
            });
        }
        while empty(&result) {
            let place = UnsafeCell::new(None);
            let object = &raw const *self as usize;
            let how =
                Wait { object, deadline, has_spun: !rendezvous, ..Wait::cancellable("channel") };
            let mut wakes = Wakes::new();
            let source = Receiving { channel: self, wakes: &mut wakes };
            let waited = wait(source, Place::Back, Parcel::of(&place), how);
            wakes.wake();
            result = match waited {
                Waited::Ready(Some(value)) => Ok(value),
                Waited::Ready(None) | Waited::Woken(_) => {
                    place.into_inner().map_or_else(try_once, Ok)
                }
                Waited::TimedOut => return try_once().map_err(NotReceived::late),
                Waited::Cancelled => return Err(NotReceived::Cancelled),
            };
        }
        result
    }
}
