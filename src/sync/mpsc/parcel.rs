//! From hand to hand: what those who wait carry, and who may take it.

use crate::park::queue::{Queue, Wakes};
use crate::primitives::sync::UnsafeCell;
use std::mem;

#[derive(Debug)]
pub(super) struct Inner<T> {
    pub(super) senders: Queue<Parcel<T>>,
    /// The receiver, while it waits.
    pub(super) receiver: Queue<Parcel<T>>,
}

/// Where a value is handed over (invariant 2 of [`super::bounded`]).
#[derive(Debug)]
pub(super) struct Parcel<T>(*const UnsafeCell<Option<T>>);

impl<T> Clone for Parcel<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Parcel<T> {}

// SAFETY: values that may be sent are moved through it, under the lock.
unsafe impl<T: Send> Send for Parcel<T> {}

impl<T> Parcel<T> {
    pub(super) fn of(place: &UnsafeCell<Option<T>>) -> Parcel<T> {
        Parcel(place)
    }

    /// # Safety
    ///
    /// The parcel is linked, and the caller holds the lock.
    pub(super) unsafe fn swap(self, value: Option<T>) -> Option<T> {
        // SAFETY: its owner waits for the lock, so it is alive and nobody else looks.
        unsafe { (*self.0).with_mut(|place| mem::replace(&mut *place, value)) }
    }
}

/// A woken sender's value was taken; the receiver's parcel was filled.
pub(super) const DELIVERED: u32 = 0;
/// The other side has gone.
pub(super) const GONE: u32 = 1;
/// There is, or was, room for the woken sender, or a value for the receiver.
pub(super) const LOOK: u32 = 2;

impl<T> Inner<T> {
    pub(super) fn new() -> Inner<T> {
        Inner { senders: Queue::new(), receiver: Queue::new() }
    }

    /// Takes the value of the sender that has waited longest.
    pub(super) fn take_parcel(&mut self, wakes: &mut Wakes) -> Option<T> {
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
    pub(super) fn fill_parcel(&mut self, value: T, wakes: &mut Wakes) -> Result<(), T> {
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
}
