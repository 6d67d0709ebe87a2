//! The waits of both sides of a channel with a bound: the last look under the lock.

use super::NotSent;
use super::bounded::{Bounded, RECEIVER, SENDERS};
use super::parcel::{Inner, Parcel};
use crate::park::queue::{Place, Queue, Source, Wakes};
use crate::primitives::sync::atomic::Ordering;
use crate::primitives::sync::{Lock, UnsafeCell};

/// A sender's wait for room, or for the receiver.
pub(super) struct Sending<'a, 'p, T> {
    pub(super) channel: &'a Bounded<T>,
    pub(super) parcel: &'p UnsafeCell<Option<T>>,
    pub(super) place: Place,
    pub(super) wakes: &'p mut Wakes,
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
        let swap = |value| unsafe { Parcel::of(self.parcel).swap(value) };
        let value = swap(None).expect("not sent yet");
        self.channel.announce(SENDERS);
        let sent = match self.channel.send_locked(inner, value, self.place, self.wakes) {
            Ok(()) => true,
            Err(NotSent::Full(value)) => {
                swap(Some(value));
                return None;
            }
            Err(NotSent::Disconnected(value) | NotSent::Cancelled(value)) => {
                swap(Some(value));
                false
            }
        };
        self.channel.note(inner);
        Some(sent)
    }

    fn left(&mut self, inner: &mut Inner<T>, _: bool, _: &mut Wakes) {
        self.channel.note(inner);
    }
}

/// The receiver's wait.
pub(super) struct Receiving<'a, 'p, T> {
    pub(super) channel: &'a Bounded<T>,
    pub(super) wakes: &'p mut Wakes,
}

impl<'a, T> Source<'a> for Receiving<'a, '_, T> {
    type Inner = Inner<T>;
    type Data = Parcel<T>;
    /// A value from hand to hand; none if it should look.
    type Ready = Option<T>;

    fn lock(&self) -> &'a Lock<Inner<T>> {
        &self.channel.inner
    }

    fn queue<'q>(&self, inner: &'q mut Inner<T>) -> &'q mut Queue<Parcel<T>> {
        &mut inner.receiver
    }

    fn enter(&mut self, inner: &mut Inner<T>) -> Option<Option<T>> {
        let channel = self.channel;
        channel.announce(RECEIVER);
        // SAFETY: on behalf of the receiver.
        let look =
            channel.senders_gone.load(Ordering::Acquire) || !unsafe { channel.ring.is_empty() };
        let parcel = if look { None } else { inner.take_parcel(self.wakes) };
        if !look && parcel.is_none() {
            return None;
        }
        channel.note(inner);
        Some(parcel)
    }

    fn left(&mut self, inner: &mut Inner<T>, _: bool, _: &mut Wakes) {
        self.channel.note(inner);
    }
}
