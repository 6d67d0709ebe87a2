//! Something that is done once: a word that says how far it is, a queue for those who wait for it.
//!
//! The word's state moves from `NEW` or `POISONED` to `RUNNING`, by one compare-and-swap that one
//! caller wins, and from there to `DONE` or back to `POISONED`, by that caller's swap. `QUEUED` beside
//! it says that somebody waits; it is set under the queue's lock by a compare-and-swap that saw the
//! state not `DONE`, and taken away by the swap. So either a waiter saw the end, or the swap sees the
//! waiter, comes to the queue's lock and finds it. All are woken, and look again.
//!
//! Acquire on reading `DONE` pairs with the swap's Release: what was done is seen.

use crate::park::Wait;
use crate::park::queue::{Queue, Waited, Wakes, wait_unless};
use crate::primitives::const_unless_loom;
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicU8, Ordering::*};

use super::raw_mutex::Cancelled;

const NEW: u8 = 0;
const POISONED: u8 = 1;
const RUNNING: u8 = 2;
const DONE: u8 = 3;
const STATE: u8 = 3;
const QUEUED: u8 = 4;

#[derive(Debug)]
pub(crate) struct RawOnce {
    word: AtomicU8,
    queue: Lock<Queue<()>>,
}

/// What a caller is to do.
#[derive(Debug)]
pub(crate) enum Begin<'a> {
    /// It is done.
    Done,
    /// Somebody began it, and panicked.
    Poisoned,
    /// To do it.
    Run(Running<'a>),
}

/// The right to do it. Dropped without [`done`](Running::done), it leaves the mark of a panic.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    once: &'a RawOnce,
    was_poisoned: bool,
    end: u8,
}

impl Running<'_> {
    /// Had somebody panicked doing it before?
    pub(crate) fn was_poisoned(&self) -> bool {
        self.was_poisoned
    }

    /// It is done; those who wait go on.
    pub(crate) fn done(mut self) {
        self.end = DONE;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.once.word.swap(self.end, AcqRel) & QUEUED != 0 {
            let mut wakes = Wakes::new();
            self.once.queue.lock().wake_all(0, &mut wakes);
            wakes.wake();
        }
    }
}

impl RawOnce {
    const_unless_loom! {
        pub(crate) fn new() -> RawOnce {
            RawOnce { word: AtomicU8::new(NEW), queue: Lock::new(Queue::new()) }
        }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.word.load(Acquire) & STATE == DONE
    }

    /// Nobody else can reach it: is it done, or did whoever did it panic?
    pub(crate) fn is_poisoned(&self) -> bool {
        self.word.load(Acquire) & STATE == POISONED
    }

    /// Waits while somebody does it. With `force` it is tried again after a panic.
    pub(crate) fn begin(&self, force: bool) -> Result<Begin<'_>, Cancelled> {
        loop {
            let now = self.word.load(Acquire);
            match now & STATE {
                DONE => return Ok(Begin::Done),
                POISONED if !force => return Ok(Begin::Poisoned),
                RUNNING => self.wait_while(|state| state == RUNNING)?,
                state => {
                    let next = now & QUEUED | RUNNING;
                    if self.word.compare_exchange(now, next, Acquire, Relaxed).is_ok() {
                        let was_poisoned = state == POISONED;
                        let running = Running { once: self, was_poisoned, end: POISONED };
                        return Ok(Begin::Run(running));
                    }
                }
            }
        }
    }

    /// Waits until it is done, or with `force` unset until a panic ended it: then false.
    pub(crate) fn wait_done(&self, force: bool) -> Result<bool, Cancelled> {
        loop {
            match self.word.load(Acquire) & STATE {
                DONE => return Ok(true),
                POISONED if !force => return Ok(false),
                _ => self.wait_while(|state| state != DONE && (force || state != POISONED))?,
            }
        }
    }

    #[cold]
    fn wait_while(&self, waits: impl Fn(u8) -> bool) -> Result<(), Cancelled> {
        let how = Wait { object: &raw const *self as usize, ..Wait::cancellable("once") };
        // `QUEUED` may stay though nobody waits any more: the end then finds an empty queue.
        match wait_unless(&self.queue, how, || !self.is_queued_while(&waits)) {
            Waited::Ready(()) | Waited::Woken(_) => Ok(()),
            Waited::TimedOut | Waited::Cancelled => Err(Cancelled),
        }
    }

    /// Says that somebody waits, if the state is one in which it `waits`.
    fn is_queued_while(&self, waits: impl Fn(u8) -> bool) -> bool {
        let mut now = self.word.load(Acquire);
        while waits(now & STATE) {
            match self.word.compare_exchange_weak(now, now | QUEUED, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(seen) => now = seen,
            }
        }
        false
    }
}

#[cfg(all(test, loom))]
#[path = "raw_once_models.rs"]
mod models;
