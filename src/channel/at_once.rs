//! Sends and receives that do not wait, by the quiet way of `plain.rs` where they can: with a select's cases these are
//! tried each time.

use super::core::Core;
use super::error::{TryRecvError, TrySendError};
use super::plain::LARGE;
use super::state::{Received, Sent};
use crate::fiber;
use std::mem::{ManuallyDrop, MaybeUninit};

impl<T> Core<T> {
    #[inline]
    pub(super) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut message = ManuallyDrop::new(message);
        // SAFETY: it holds a message; who has it afterwards is what the answer says.
        match unsafe { self.send_at_once(&raw mut *message) } {
            Sent::Done => Ok(()),
            Sent::Full => Err(TrySendError::Full(ManuallyDrop::into_inner(message))),
            Sent::Disconnected => {
                Err(TrySendError::Disconnected(ManuallyDrop::into_inner(message)))
            }
        }
    }

    /// # Safety
    ///
    /// As [`State::send`](super::state::State::send).
    #[inline]
    unsafe fn send_at_once(&self, from: *mut T) -> Sent {
        if const { size_of::<T>() <= LARGE } {
            if let Some(mut state) = self.state.lock_by_bias(fiber::caller()) {
                // SAFETY: passed on.
                if let Some(sent) = unsafe { state.try_send_quietly(from) } {
                    return sent;
                }
            }
        }
        // SAFETY: passed on.
        unsafe { self.send_at_once_loudly(from) }
    }

    /// # Safety
    ///
    /// As [`State::send`](super::state::State::send).
    #[inline(never)]
    unsafe fn send_at_once_loudly(&self, from: *mut T) -> Sent {
        // SAFETY: passed on.
        self.with(|state, wakes| unsafe { state.send(from, wakes) })
    }

    #[inline]
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut message = MaybeUninit::uninit();
        // SAFETY: room for a message.
        match unsafe { self.receive_at_once(message.as_mut_ptr()) } {
            // SAFETY: so says the answer.
            Received::Done => Ok(unsafe { message.assume_init() }),
            Received::Promised => self.try_collect(),
            Received::Empty => Err(TryRecvError::Empty),
            Received::Disconnected => Err(TryRecvError::Disconnected),
        }
    }

    /// # Safety
    ///
    /// As [`State::receive`](super::state::State::receive).
    #[inline]
    pub(super) unsafe fn receive_at_once(&self, to: *mut T) -> Received {
        if const { size_of::<T>() <= LARGE } {
            if let Some(mut state) = self.state.lock_by_bias(fiber::caller()) {
                // SAFETY: passed on.
                if let Some(received) = unsafe { state.try_receive_quietly(to) } {
                    return received;
                }
            }
        }
        // SAFETY: passed on.
        unsafe { self.receive_at_once_loudly(to) }
    }

    /// # Safety
    ///
    /// As [`State::receive`](super::state::State::receive).
    #[inline(never)]
    unsafe fn receive_at_once_loudly(&self, to: *mut T) -> Received {
        // SAFETY: passed on.
        self.with(|state, wakes| unsafe { state.receive(to, wakes) })
    }

    /// Takes what was promised; where that is withdrawn, what else there is.
    #[cold]
    #[inline(never)]
    fn try_collect(&self) -> Result<T, TryRecvError> {
        let mut message = MaybeUninit::uninit();
        let to = message.as_mut_ptr();
        loop {
            // SAFETY: room for a message, and the caller was promised one.
            if unsafe { self.collect(to) } {
                break;
            }
            // SAFETY: room for a message.
            match unsafe { self.receive_at_once(to) } {
                Received::Done => break,
                Received::Promised => {}
                Received::Empty => return Err(TryRecvError::Empty),
                Received::Disconnected => return Err(TryRecvError::Disconnected),
            }
        }
        // SAFETY: so say `collect` and the answer.
        Ok(unsafe { message.assume_init() })
    }
}
