//! Mutual exclusion: a word for those who need not wait, a queue for those who must.
//!
//! # The word
//!
//! - `LOCKED`: somebody owns the lock.
//! - `QUEUED`: the queue is not empty. Changes under the inner lock only.
//! - `WAKING`: a waiter has been woken to try again and has not tried yet: the *token*. Set under the
//!   inner lock; cleared by the waiter that has it, as it takes the lock or queues up again.
//!
//! While the lock is owned and the inner lock is held, nothing changes the word: taking it needs
//! `LOCKED` to be clear, `QUEUED` needs the inner lock, and so does `WAKING` as long as the lock is
//! not free. An unlocked lock with waiters always has `WAKING` set, so nobody is left behind.
//!
//! # Policy
//!
//! An unlock wakes the first waiter and leaves the lock free: whoever runs may take it meanwhile
//! (*barging*), since that waiter's worker may be busy. A woken waiter that finds the lock taken goes
//! back to the front and has it *handed* to it by the next unlock: a fiber after being overtaken once,
//! whoever blocks a thread after half a millisecond, because a sleeping thread takes long to come. Those who
//! barge are charged for it (the operation budget), so that a fiber that locks and unlocks in a loop
//! yields to the one that it overtakes. And should the one with the token be kept from running, by its
//! worker or by the system, those behind it do not wait for it: after `OVERTAKEN` unlocks that found
//! the token out, the next one hands the lock to the head of the queue. So a fiber waits for some
//! hundreds of hand-overs at most (`tests/sync_fair.rs`); a thread, for as long as the system takes to
//! run it, and half a millisecond.
//!
//! # Two races
//!
//! - *Unlock against queueing up.* Both change the word by compare-and-swap: either the unlock comes
//!   first, and the waiter sees a free lock; or `QUEUED` does, and the unlock takes the slow path,
//!   which waits for the inner lock and finds the waiter.
//! - *Hand-off against a cancel.* `offer` decides: a waiter that lost is out of the queue and the next
//!   one is tried.
//!
//! Acquire on taking the lock pairs with Release on freeing it; a hand-off goes through the waiter's
//! state word.

use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Patience, Wait, charge_current, spin};
use crate::primitives::const_unless_loom;
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicU8, Ordering::*};

const LOCKED: u8 = 1;
const QUEUED: u8 = 2;
const WAKING: u8 = 4;

/// The lock is the waiter's.
const HANDED: u32 = 1;
/// The waiter may try again, and has the token.
const RETRY: u32 = 0;

/// The wait for a lock was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Cancelled;

/// How often the lock is left free while a woken waiter does not come and others stand behind it.
const OVERTAKEN: u32 = if cfg!(loom) { 1 } else { 16 };

/// A lock without data.
#[derive(Debug)]
pub(crate) struct RawMutex {
    word: AtomicU8,
    inner: Lock<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Each waiter says whether the lock must be handed to it.
    queue: Queue<bool>,
    /// How often the lock was left free since the token was given out.
    overtaken: u32,
}

impl RawMutex {
    const_unless_loom! {
        pub(crate) fn new() -> RawMutex {
            let inner = Inner { queue: Queue::new(), overtaken: 0 };
            RawMutex { word: AtomicU8::new(0), inner: Lock::new(inner) }
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Result<(), Cancelled> {
        match self.word.compare_exchange(0, LOCKED, Acquire, Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => self.lock_slow(Wait::cancellable("mutex")),
        }
    }

    /// Takes the lock, whatever asks the caller to end.
    pub(crate) fn lock_uncancelled(&self) {
        if self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
            self.lock_slow(Wait::new("mutex")).expect("not cancellable");
        }
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_lock(&self) -> bool {
        let mut now = self.word.load(Relaxed);
        while now & LOCKED == 0 {
            match self.word.compare_exchange_weak(now, now | LOCKED, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(seen) => now = seen,
            }
        }
        false
    }

    /// Frees the lock, which the caller owns.
    #[inline]
    pub(crate) fn unlock(&self) {
        if self.word.compare_exchange(LOCKED, 0, Release, Relaxed).is_err() {
            self.unlock_slow();
        }
    }

    #[cold]
    fn lock_slow(&self, how: Wait) -> Result<(), Cancelled> {
        let how = Wait { object: &raw const *self as usize, ..how };
        if self.barge() {
            return Ok(());
        }
        let mut patience = Patience::new();
        let mut token = false;
        loop {
            let place = if token { Place::Front } else { Place::Back };
            let starved = token && patience.is_over();
            match wait(Enter { lock: self, token }, place, starved, how) {
                Waited::Ready(()) | Waited::Woken(HANDED) => return Ok(()),
                Waited::Woken(_) => token = true,
                Waited::TimedOut | Waited::Cancelled => return Err(Cancelled),
            }
            if self.take_with_token() {
                return Ok(());
            }
        }
    }

    /// Takes the lock if it is free, past those who wait.
    fn barge(&self) -> bool {
        if self.word.load(Relaxed) & LOCKED == 0 {
            charge_current();
        }
        self.try_lock() || spin(|| self.word.load(Relaxed) == 0 && self.try_lock())
    }

    /// A woken waiter takes the lock if it is free, and gives its token back.
    fn take_with_token(&self) -> bool {
        let mut now = self.word.load(Relaxed);
        while now & LOCKED == 0 {
            let taken = (now & !WAKING) | LOCKED;
            match self.word.compare_exchange_weak(now, taken, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(seen) => now = seen,
            }
        }
        false
    }

    #[cold]
    fn unlock_slow(&self) {
        let mut wakes = Wakes::new();
        self.release(&mut self.inner.lock(), &mut wakes);
        wakes.wake();
    }

    /// Frees the lock or hands it on. The caller owns it and holds the inner lock.
    fn release(&self, inner: &mut Inner, wakes: &mut Wakes) {
        let token = self.word.load(Relaxed) & WAKING;
        let Inner { queue, overtaken } = inner;
        if token != 0 && *overtaken < OVERTAKEN {
            *overtaken += 1;
            return self.word.store(token | queued(queue), Release);
        }
        *overtaken = 0;
        while let Some(starved) = queue.front() {
            let hand = starved || token != 0;
            let (result, next) = if hand { (HANDED, LOCKED | token) } else { (RETRY, WAKING) };
            let Some(Ok(wake)) = queue.offer_front(result) else { continue };
            wakes.extend(wake);
            // Until this store the word says that the lock is taken and has waiters, so a waiter that
            // runs already comes to the inner lock, whether it unlocks or tries again.
            return self.word.store(next | queued(queue), Release);
        }
        self.word.store(token, Release);
    }
}

fn queued(queue: &Queue<bool>) -> u8 {
    if queue.is_empty() { 0 } else { QUEUED }
}

/// A wait for the lock.
struct Enter<'a> {
    lock: &'a RawMutex,
    /// The waiter has the token.
    token: bool,
}

impl<'a> Source<'a> for Enter<'a> {
    type Inner = Inner;
    type Data = bool;
    type Ready = ();

    fn lock(&self) -> &'a Lock<Inner> {
        &self.lock.inner
    }

    fn queue<'q>(&self, inner: &'q mut Inner) -> &'q mut Queue<bool> {
        &mut inner.queue
    }

    fn enter(&mut self, _: &mut Inner) -> Option<()> {
        let word = &self.lock.word;
        let mut now = word.load(Relaxed);
        loop {
            let free = now & LOCKED == 0;
            let rest = if self.token { now & !WAKING } else { now };
            let next = rest | if free { LOCKED } else { QUEUED };
            match word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                Ok(_) => return free.then_some(()),
                Err(seen) => now = seen,
            }
        }
    }

    fn left(&mut self, inner: &mut Inner, _: bool, _: &mut Wakes) {
        if inner.queue.is_empty() {
            self.lock.word.fetch_and(!QUEUED, Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
#[path = "raw_mutex_models.rs"]
mod models;
