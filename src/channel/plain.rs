//! Sends and receives, one at a time.
//!
//! Most of a stream's find a place, or a message, and nobody who is to be told, on the thread that has the bias of the
//! channel's lock. Such a one is *quiet*: some forty instructions that call nothing, and so need no frame to speak of.
//! All others go on from there, with the lock in hand (`loudly`), or begin anew (`plainly`) where the lock is not had
//! that easily or the caller must let others run first. Measured (Zen 3), one worker: an item of a bounded stream 17.5
//! -> 10.0 ns, of one without a bound 17.6 -> 9.2; a round trip, whose sends and receives are never quiet, 113 -> 125.

use super::core::{Core, Locked, RECEIVE, SEND, deliver, give_up, is_over};
use super::error::{RecvTimeoutError, SendTimeoutError};
use super::node::{End, Side, Wakes};
use super::state::{Received, Sent, State};
use crate::cancel;
use crate::park::{self, Outcome, WaiterPtr};
use crate::primitives::clock::Moment;
use crate::primitives::sync::{Caller, Held};
use std::mem::{ManuallyDrop, MaybeUninit};

/// A locked state, on its way from one function to the next.
pub(super) type StillLocked<'a, T> = Held<'a, State<T, WaiterPtr>>;

/// Messages of more bytes are never quiet: to move one takes longer than a call, and a build without optimizations has
/// a copy on the stack for each function, and for each move in it.
pub(super) const LARGE: usize = 1024;

/// Why a send did not take effect; the message is where it was.
enum Unsent {
    TimedOut,
    Disconnected,
}

impl<T> Core<T> {
    /// Sends. A function of its own, and of few instructions where nobody is to be told.
    #[inline(never)]
    pub(super) fn send(
        &self,
        message: T,
        deadline: Option<Moment>,
    ) -> Result<(), SendTimeoutError<T>> {
        if const { size_of::<T>() > LARGE } {
            return self.send_large(message, deadline);
        }
        match park::charge_for(|caller| self.state.lock_by_bias(caller)) {
            Some(state) => self.send_locked(state, message, deadline),
            None => self.send_plainly(message, deadline),
        }
    }

    /// Charges the caller, who may give back what it `got` here.
    #[inline(always)]
    fn charge(&self, got: &'static str) -> Caller {
        park::charge_who_gives(got, self.address())
    }

    /// As `charge`, but a send that never waits makes no way for others.
    #[inline(always)]
    fn charge_send(&self) -> Caller {
        match self.capacity() {
            Some(_) => self.charge(RECEIVE),
            None => park::charge_without_yield(),
        }
    }

    fn send_large(&self, message: T, deadline: Option<Moment>) -> Result<(), SendTimeoutError<T>> {
        let state = self.lock_for(Side::Receive, self.charge_send());
        // SAFETY: of this channel, just now.
        unsafe { self.send_loudly(state.hold(), message, deadline) }
    }

    #[inline(never)]
    fn send_plainly(
        &self,
        message: T,
        deadline: Option<Moment>,
    ) -> Result<(), SendTimeoutError<T>> {
        let caller = self.charge_send();
        self.send_locked(self.lock_for(Side::Receive, caller), message, deadline)
    }

    #[inline(always)]
    fn send_locked(
        &self,
        mut state: Locked<'_, T>,
        message: T,
        deadline: Option<Moment>,
    ) -> Result<(), SendTimeoutError<T>> {
        let mut message = ManuallyDrop::new(message);
        // SAFETY: it holds a message, which is not used again if it has been moved.
        if unsafe { state.send_quietly(&raw mut *message) } {
            return Ok(());
        }
        let (state, message) = (state.hold(), ManuallyDrop::into_inner(message));
        // SAFETY: of this channel, just now.
        unsafe { self.send_loudly(state, message, deadline) }
    }

    /// # Safety
    ///
    /// The caller has just locked the state of this channel.
    #[inline(never)]
    unsafe fn send_loudly(
        &self,
        state: StillLocked<'_, T>,
        message: T,
        deadline: Option<Moment>,
    ) -> Result<(), SendTimeoutError<T>> {
        // SAFETY: passed on.
        let state = unsafe { self.state.guard(state) };
        let mut message = Unwound(ManuallyDrop::new(message));
        // SAFETY: it holds a message, and is left alone until the answer is there.
        let sent = unsafe { self.send_from(state, &raw mut *message.0, deadline) };
        let mut take = || {
            // SAFETY: it was not sent, so it is still here; the guard is forgotten below.
            unsafe { ManuallyDrop::take(&mut message.0) }
        };
        let result = match sent {
            Ok(()) => Ok(()),
            Err(Unsent::TimedOut) => Err(SendTimeoutError::Timeout(take())),
            Err(Unsent::Disconnected) => Err(SendTimeoutError::Disconnected(take())),
        };
        std::mem::forget(message);
        result
    }

    /// Waits until the message in `from` is sent. When it unwinds, the message is still there.
    ///
    /// # Safety
    ///
    /// `from` holds a message and stays; `Ok` means that it has been moved out.
    #[inline]
    unsafe fn send_from<'a>(
        &'a self,
        mut state: Locked<'a, T>,
        from: *mut T,
        deadline: Option<Moment>,
    ) -> Result<(), Unsent> {
        let mut late = false;
        loop {
            let mut wakes = Wakes::new();
            // SAFETY: passed on.
            match unsafe { state.send(from, &mut wakes) } {
                Sent::Done => {
                    drop(state);
                    deliver(wakes);
                    return Ok(());
                }
                Sent::Disconnected => return Err(Unsent::Disconnected),
                Sent::Full if late => return Err(Unsent::TimedOut),
                Sent::Full if is_over(deadline) => {
                    drop(state);
                    give_up(SEND);
                    return Err(Unsent::TimedOut);
                }
                Sent::Full => {}
            }
            // SAFETY: the send was not possible, under this lock.
            match unsafe { self.wait(state, Side::Send, from.cast(), deadline) } {
                Ok(End::Done) => return Ok(()),
                Ok(_) => return Err(Unsent::Disconnected),
                Err(Outcome::Cancelled) => cancel::unwind(),
                // There may be room since, which came before the caller ran.
                Err(_) => late = true,
            }
            state = self.lock();
        }
    }

    /// Receives; as [`send`](Core::send).
    #[inline(never)]
    pub(super) fn recv(&self, deadline: Option<Moment>) -> Result<T, RecvTimeoutError> {
        if const { size_of::<T>() > LARGE } {
            return self.recv_large(deadline);
        }
        match park::charge_for(|caller| self.state.lock_by_bias(caller)) {
            Some(state) => self.recv_locked(state, deadline),
            None => self.recv_plainly(deadline),
        }
    }

    fn recv_large(&self, deadline: Option<Moment>) -> Result<T, RecvTimeoutError> {
        let state = self.lock_for(Side::Send, self.charge(SEND));
        // SAFETY: of this channel, just now.
        unsafe { self.recv_loudly(state.hold(), deadline) }
    }

    #[inline(never)]
    fn recv_plainly(&self, deadline: Option<Moment>) -> Result<T, RecvTimeoutError> {
        let caller = self.charge(SEND);
        self.recv_locked(self.lock_for(Side::Send, caller), deadline)
    }

    #[inline(always)]
    fn recv_locked(
        &self,
        mut state: Locked<'_, T>,
        deadline: Option<Moment>,
    ) -> Result<T, RecvTimeoutError> {
        let mut message = MaybeUninit::uninit();
        // SAFETY: room for a message.
        if unsafe { state.receive_quietly(message.as_mut_ptr()) } {
            // SAFETY: so says the answer.
            return Ok(unsafe { message.assume_init() });
        }
        // SAFETY: of this channel, just now.
        unsafe { self.recv_loudly(state.hold(), deadline) }
    }

    /// # Safety
    ///
    /// As [`send_loudly`](Core::send_loudly).
    #[inline(never)]
    unsafe fn recv_loudly(
        &self,
        state: StillLocked<'_, T>,
        deadline: Option<Moment>,
    ) -> Result<T, RecvTimeoutError> {
        // SAFETY: passed on.
        let state = unsafe { self.state.guard(state) };
        let mut message = MaybeUninit::uninit();
        // SAFETY: room for a message, which stays.
        unsafe { self.recv_into(state, message.as_mut_ptr(), deadline)? };
        // SAFETY: so says the answer.
        Ok(unsafe { message.assume_init() })
    }

    /// Waits until there is a message, and puts it into `to`.
    ///
    /// # Safety
    ///
    /// `to` is room for a message and stays; `Ok` means that it holds one.
    #[inline]
    unsafe fn recv_into<'a>(
        &'a self,
        mut state: Locked<'a, T>,
        to: *mut T,
        deadline: Option<Moment>,
    ) -> Result<(), RecvTimeoutError> {
        let mut late = false;
        loop {
            let mut wakes = Wakes::new();
            // SAFETY: passed on.
            let received = unsafe { state.receive(to, &mut wakes) };
            let promised = match received {
                Received::Done => {
                    drop(state);
                    deliver(wakes);
                    return Ok(());
                }
                Received::Disconnected => return Err(RecvTimeoutError::Disconnected),
                Received::Promised => {
                    drop(state);
                    deliver(wakes);
                    true
                }
                Received::Empty if late => return Err(RecvTimeoutError::Timeout),
                Received::Empty if is_over(deadline) => {
                    drop(state);
                    give_up(RECEIVE);
                    return Err(RecvTimeoutError::Timeout);
                }
                Received::Empty => {
                    // SAFETY: the receive was not possible, under this lock.
                    match unsafe { self.wait(state, Side::Receive, to.cast(), deadline) } {
                        Ok(End::Done) => return Ok(()),
                        Ok(End::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                        Ok(end) => end == End::Promised,
                        Err(Outcome::Cancelled) => cancel::unwind(),
                        // What was sent before the caller ran is there.
                        Err(_) => {
                            late = true;
                            false
                        }
                    }
                }
            };
            // SAFETY: passed on; the promise was made just now.
            if promised && unsafe { self.collect(to) } {
                return Ok(());
            }
            state = self.lock();
        }
    }
}

/// A message whose send is under way: dropped if the send unwinds.
struct Unwound<T>(ManuallyDrop<T>);

impl<T> Drop for Unwound<T> {
    fn drop(&mut self) {
        // SAFETY: dropped only when the send unwinds, which leaves the message here.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}
