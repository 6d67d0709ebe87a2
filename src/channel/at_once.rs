//! Sends and receives that do not wait, by the quiet way of `plain.rs` where they can: with a select's cases these are
//! tried each time.

use super::core::{Core, Woken, deliver};
use super::error::{TryRecvError, TrySendError};
use super::node::{Side, Wakes};
use super::plain::{LARGE, StillLocked};
use super::state::{Received, Sent, State};
use crate::fiber;
use crate::park::WaiterPtr;
use std::mem::{ManuallyDrop, MaybeUninit};

impl<T> Core<T> {
    #[inline]
    pub(super) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut message = ManuallyDrop::new(message);
        let from = &raw mut *message;
        let sent = self.at_once(
            Side::Receive,
            // SAFETY: it holds a message; who has it afterwards is what the answer says.
            |state| unsafe { state.try_send_quietly(from) },
            // SAFETY: as above.
            |state, wakes| unsafe { state.send(from, wakes) },
        );
        match sent {
            Sent::Done => Ok(()),
            Sent::Full => Err(TrySendError::Full(ManuallyDrop::into_inner(message))),
            Sent::Disconnected => {
                Err(TrySendError::Disconnected(ManuallyDrop::into_inner(message)))
            }
        }
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
        self.at_once(
            Side::Send,
            // SAFETY: passed on.
            |state| unsafe { state.try_receive_quietly(to) },
            // SAFETY: passed on.
            |state, wakes| unsafe { state.receive(to, wakes) },
        )
    }

    /// Does `quietly` what it can, and else `loudly` what may wake others, by the same lock. A `partner` may be among
    /// them.
    #[inline(always)]
    fn at_once<R>(
        &self,
        partner: Side,
        quietly: impl FnOnce(&mut State<T, WaiterPtr>) -> Option<R>,
        loudly: impl FnOnce(&mut State<T, WaiterPtr>, &mut Woken) -> R,
    ) -> R {
        let mut state = self.lock_for(partner, fiber::caller());
        if const { size_of::<T>() <= LARGE } {
            if let Some(done) = quietly(&mut state) {
                return done;
            }
        }
        // SAFETY: of this channel, just now.
        unsafe { self.go_on(state.hold(), loudly) }
    }

    /// # Safety
    ///
    /// The caller has just locked the state of this channel.
    #[inline(never)]
    unsafe fn go_on<R>(
        &self,
        state: StillLocked<'_, T>,
        loudly: impl FnOnce(&mut State<T, WaiterPtr>, &mut Woken) -> R,
    ) -> R {
        let mut wakes = Wakes::new();
        // SAFETY: passed on.
        let mut state = unsafe { self.state.guard(state) };
        let done = loudly(&mut state, &mut wakes);
        drop(state);
        deliver(wakes);
        done
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
