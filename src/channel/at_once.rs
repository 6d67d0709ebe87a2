//! Sends and receives that do not wait, by the quiet way of `plain.rs` where they can: with a select's cases these are
//! tried each time.

use super::core::{Core, deliver};
use super::error::{TryRecvError, TrySendError};
use super::node::Wakes;
use super::plain::{LARGE, StillLocked};
#[cfg(doc)]
use super::state::State;
use super::state::{Received, Sent};
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
    /// As [`State::send`].
    #[inline]
    unsafe fn send_at_once(&self, from: *mut T) -> Sent {
        let mut state = self.lock();
        if const { size_of::<T>() <= LARGE } {
            // SAFETY: passed on.
            if let Some(sent) = unsafe { state.try_send_quietly(from) } {
                return sent;
            }
        }
        // SAFETY: passed on; of this channel, just now.
        unsafe { self.send_at_once_loudly(state.hold(), from) }
    }

    /// # Safety
    ///
    /// As [`State::send`]; the caller has just locked the state of this channel.
    #[inline(never)]
    unsafe fn send_at_once_loudly(&self, state: StillLocked<'_, T>, from: *mut T) -> Sent {
        let mut wakes = Wakes::new();
        // SAFETY: passed on.
        let sent = unsafe { self.state.guard(state).send(from, &mut wakes) };
        deliver(wakes);
        sent
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
    /// As [`State::receive`].
    #[inline]
    pub(super) unsafe fn receive_at_once(&self, to: *mut T) -> Received {
        let mut state = self.lock();
        if const { size_of::<T>() <= LARGE } {
            // SAFETY: passed on.
            if let Some(received) = unsafe { state.try_receive_quietly(to) } {
                return received;
            }
        }
        // SAFETY: passed on; of this channel, just now.
        unsafe { self.receive_at_once_loudly(state.hold(), to) }
    }

    /// # Safety
    ///
    /// As [`State::receive`]; the caller has just locked the state of this channel.
    #[inline(never)]
    unsafe fn receive_at_once_loudly(&self, state: StillLocked<'_, T>, to: *mut T) -> Received {
        let mut wakes = Wakes::new();
        // SAFETY: passed on.
        let received = unsafe { self.state.guard(state).receive(to, &mut wakes) };
        deliver(wakes);
        received
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
