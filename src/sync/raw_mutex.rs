//! Mutual exclusion: a word for those who need not wait, a queue for those who must.
//!
//! # The word
//!
//! - `LOCKED`: somebody owns the lock.
//! - `QUEUED`: the queue is not empty. Changes under the inner lock only.
//! - `WAKING`: a waiter has been woken to try again and has not tried yet: the *token*. Set under the
//!   inner lock, by the owner; cleared by the waiter that has it, as it takes the lock or queues up again.
//! - Above them, in units of `TURN`, how often the lock was left free since the token was given out, up to
//!   `OVERTAKEN`. Only an owner adds to it; it goes with the token, and begins anew when the lock is handed on.
//!
//! While the lock is owned and the inner lock is held, nobody but the owner changes the word: taking it
//! needs `LOCKED` to be clear, `QUEUED` needs the inner lock, and so does `WAKING` as long as the lock is
//! not free. An unlocked lock with waiters always has `WAKING` set, so nobody is left behind: who frees it
//! keeps the token's bit, gives a token out, or found the queue empty; and who queues up while it is free
//! does so by a compare-and-swap from a word with the token out.
//!
//! # Policy
//!
//! An unlock wakes the first waiter and leaves the lock free: whoever runs may take it meanwhile
//! (*barging*), since that waiter's worker may be busy. A woken waiter that finds the lock taken goes
//! back to the front and has it *handed* to it by the next unlock: a fiber after being overtaken once,
//! whoever blocks a thread after half a millisecond, because a sleeping thread takes long to come; having
//! come, it spins for a moment before it sleeps once more.
//!
//! How many unlocks may find the token out depends on where it is. *Near* means that the one who has it runs as
//! soon as the calling fiber makes way: it was put into the queues of this very worker, from which nobody has
//! stolen since, or there is no other worker. Then, after `OVERTAKEN` of them, or after `SOME` if those took
//! `LONG`, a fiber that would overtake once more makes way: it queues up, though the lock is free and stays so.
//! The lock is never given to somebody who does not run, and no other worker is woken for a fiber that will only
//! contend. Else the one with the token may be kept from running, by its worker or by the system, and those
//! behind it do not wait for it: after `OVERTAKEN` the next unlock hands the lock to the head of the queue.
//!
//! Who barges past a token that has been overtaken often enough and is not near is charged for it (the
//! operation budget), since it may stand where this worker does not look before a fiber leaves it. A fiber
//! that has used its budget up yields; but if it runs beside the workers, on a thread that was replaced, it
//! makes way: outside the queue nobody would see it wait, and others could keep the lock among themselves
//! for as long as their worker lets them.
//!
//! So among fibers of one worker that may move each is overtaken by its forerunners in the queue: by each of them
//! `SOME` times where critical sections are long, and `OVERTAKEN` times at most: where they are short, or the first
//! were, or others than fibers of that worker had some of those turns (`tests/sync_fair.rs` counts). With several
//! workers it is, for as long as the system or a long-running fiber keeps the worker from the one with the token; a
//! thread, for as long as the system takes to run it, and half a millisecond.
//!
//! # Races
//!
//! - *Unlock against queueing up.* Both change the word by compare-and-swap: either the unlock comes
//!   first, and the waiter sees a free lock; or `QUEUED` does, and the unlock takes the slow path,
//!   which waits for the inner lock and finds the waiter, or leaves it to the token's.
//! - *Making way against the token's coming.* Both change the word by compare-and-swap. The token's first:
//!   who makes way finds the lock taken and is an ordinary waiter, or finds it free without a token and
//!   takes it. `QUEUED` first: the one with the token takes the lock with it, and its unlock sees it.
//! - *Hand-off against its own unlock.* A waiter that has not gone to sleep yet runs as soon as it is
//!   settled, and may unlock before the hander's last store. So the hander, still the owner, takes the
//!   token out of the word first: that unlock then waits for the inner lock.
//! - *Hand-off against a cancel.* `offer` decides: a waiter that lost is out of the queue and the next
//!   one is tried. A waiter that was given the token has left its wait and always tries.
//!
//! Acquire on taking the lock pairs with Release on freeing it; a hand-off goes through the waiter's
//! state word. Counting an unlock is part of the store that frees, and what it carries is read again by
//! the compare-and-swaps that act on it. Where the token is, is a hint: every decision upon it is sound.
//!
//! # What it costs
//!
//! One exchange for each half, also past a token: a look comes first, since an exchange that fails costs as
//! much as one that does not. A look alone would fetch the line from another processor once to read and once
//! more to write, so it is fetched for writing.

use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Patience, Wait, spin};
use crate::primitives::clock::{in_stamps, stamp};
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use crate::primitives::{const_unless_loom, prefetch_for_write};

use super::whereabouts::Whereabouts;
use std::time::Duration;

const LOCKED: u32 = 1;
const QUEUED: u32 = 2;
const WAKING: u32 = 4;
/// One unlock that left the lock free while the token was out.
const TURN: u32 = 8;
/// What stays of a word when the token is given back: its count goes with it.
const WITHOUT_TOKEN: u32 = LOCKED | QUEUED;
/// From here on the token has been out for too long.
const LIMIT: u32 = OVERTAKEN * TURN;
/// Here who comes asks whether it has been out for long.
const LOOK: u32 = SOME * TURN;

/// The lock is the waiter's.
const HANDED: u32 = 1;
/// The waiter may try again, and has the token.
const RETRY: u32 = 0;

/// The wait for a lock was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Cancelled;

/// How often the lock is left free while a woken waiter does not come and others stand behind it.
const OVERTAKEN: u32 = if cfg!(loom) { 2 } else { 64 };

/// After so many turns one that is near is let come if they took `LONG`. That costs a switch, some tenth of a
/// microsecond, which they share; critical sections that are shorter than that share it better among `OVERTAKEN`.
const SOME: u32 = if cfg!(loom) { 1 } else { 8 };
const LONG: Duration = Duration::from_micros(2);

/// A lock without data.
#[derive(Debug)]
pub(crate) struct RawMutex {
    word: AtomicU32,
    token: Whereabouts,
    /// When the token was given out: a stamp, since it is a hint.
    token_since: AtomicU64,
    /// Each waiter says whether the lock must be handed to it.
    queue: Lock<Queue<bool>>,
}

impl RawMutex {
    const_unless_loom! {
        pub(crate) fn new() -> RawMutex {
            RawMutex {
                word: AtomicU32::new(0),
                token: Whereabouts::new(),
                token_since: AtomicU64::new(0),
                queue: Lock::new(Queue::new()),
            }
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Result<(), Cancelled> {
        match self.take_at_once() {
            Ok(()) => Ok(()),
            Err(seen) => self.lock_slow(seen, Wait::cancellable("mutex")),
        }
    }

    /// Takes the lock, whatever asks the caller to end.
    pub(crate) fn lock_uncancelled(&self) {
        if let Err(seen) = self.take_at_once() {
            self.lock_slow(seen, Wait::new("mutex")).expect("not cancellable");
        }
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_lock(&self) -> bool {
        self.take(self.word.load(Relaxed), !0)
    }

    /// Frees the lock, which the caller owns.
    #[inline]
    pub(crate) fn unlock(&self) {
        let now = self.look(LOCKED);
        let Some(next) = left_free(now) else { return self.unlock_slow(now) };
        if let Err(seen) = self.word.compare_exchange(now, next, Release, Relaxed) {
            self.unlock_slow(seen);
        }
    }

    /// The word, before it is changed. Models go by what it `should` be: any guess will do, since an
    /// exchange follows, and each look would be one more place for others to come between.
    #[inline]
    fn look(&self, should: u32) -> u32 {
        if cfg!(loom) {
            return should;
        }
        prefetch_for_write(&self.word);
        self.word.load(Relaxed)
    }

    /// Takes the lock if it is free, past the token until that was overtaken often enough.
    #[inline]
    fn take_at_once(&self) -> Result<(), u32> {
        let now = self.look(0);
        if now & LOCKED != 0 || is_look_due(now) {
            return Err(now);
        }
        self.word.compare_exchange(now, now | LOCKED, Acquire, Relaxed).map(drop)
    }

    /// Takes the lock if it is free; of the word, which was `now`, it leaves what `keeps` says.
    #[inline]
    fn take(&self, mut now: u32, keeps: u32) -> bool {
        while now & LOCKED == 0 {
            match self.word.compare_exchange_weak(now, now & keeps | LOCKED, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(seen) => now = seen,
            }
        }
        false
    }

    #[cold]
    fn lock_slow(&self, seen: u32, how: Wait) -> Result<(), Cancelled> {
        let how = Wait { object: &raw const *self as usize, at_once: true, ..how };
        let mut role = match self.may_barge(seen) {
            true if self.barge(seen) => return Ok(()),
            true => Role::Comes,
            false => Role::MakesWay,
        };
        let mut patience = Patience::new();
        loop {
            let has_token = role == Role::HasToken;
            let place = if has_token { Place::Front } else { Place::Back };
            let starved = has_token && patience.is_over();
            match wait(Enter { lock: self, role }, place, starved, how) {
                Waited::Ready(()) | Waited::Woken(HANDED) => return Ok(()),
                Waited::Woken(_) => role = Role::HasToken,
                Waited::TimedOut | Waited::Cancelled => return Err(Cancelled),
            }
            let take = || self.take(self.word.load(Relaxed), WITHOUT_TOKEN);
            if take() || spin(take) {
                return Ok(());
            }
        }
    }

    /// May the caller overtake the one with the token, if the lock is free? From the limit on it is charged for
    /// it, if that one is not near.
    fn may_barge(&self, now: u32) -> bool {
        if now & LOCKED != 0 || !is_look_due(now) {
            return true;
        }
        if now < LIMIT {
            return !self.token.is_near() || !self.token_is_out_for_long();
        }
        self.token.may_be_overtaken()
    }

    /// In models always: they have no clock.
    fn token_is_out_for_long(&self) -> bool {
        if cfg!(loom) {
            return true;
        }
        // One that comes from another processor may be ahead of this one's: then it has not been long.
        let out = stamp().wrapping_sub(self.token_since.load(Relaxed));
        (in_stamps(LONG)..u64::MAX / 2).contains(&out)
    }

    /// Takes the lock if it is free, past those who wait.
    fn barge(&self, seen: u32) -> bool {
        self.take(seen, !0) || spin(|| self.word.load(Relaxed) == 0 && self.try_lock())
    }

    #[cold]
    fn unlock_slow(&self, mut now: u32) {
        loop {
            let next = match left_free(now) {
                Some(next) => next,
                None if now & WAKING != 0 && self.token.is_near() => now & !LOCKED,
                None => break,
            };
            match self.word.compare_exchange_weak(now, next, Release, Relaxed) {
                Ok(_) => return,
                Err(seen) => now = seen,
            }
        }
        let mut wakes = Wakes::new();
        self.release(&mut self.queue.lock(), &mut wakes);
        wakes.wake();
    }

    /// Frees the lock or hands it on. The caller owns it and holds the inner lock.
    fn release(&self, queue: &mut Queue<bool>, wakes: &mut Wakes) {
        // If it is out still, it has been for too long: nobody but the owner gives it out or counts.
        let token = self.word.load(Relaxed) & WAKING;
        // Not while the lock is handed on: who has it already, and unlocks, must not free a word that we
        // are about to write.
        self.word.store(LOCKED | QUEUED, Relaxed);
        while let Some(starved) = queue.front() {
            let hand = starved || token != 0;
            let (result, next) = if hand { (HANDED, LOCKED | token) } else { (RETRY, WAKING) };
            let Some(Ok(wake)) = queue.offer_front(result) else { continue };
            if !hand {
                self.token.of(wake.as_ref());
                self.token_since.store(stamp(), Relaxed);
            }
            wakes.extend(wake);
            // Until this store the word says that the lock is taken, has waiters, and nobody has the
            // token: so a waiter that runs already comes to the inner lock, whether it unlocks or tries
            // again.
            return self.word.store(next | queued(queue), Release);
        }
        self.word.store(token, Release);
    }
}

/// The word after `now`, if its owner may leave the lock free without a look at the queue: one turn more,
/// if the token is out, up to the limit. Beyond it, too, if nobody else waits to whom it could be handed.
#[inline]
fn left_free(now: u32) -> Option<u32> {
    match now & WAKING != 0 && now < LIMIT {
        true => Some(now - LOCKED + TURN),
        false => (now & QUEUED == 0).then_some(now - LOCKED),
    }
}

/// Does who comes to the free lock ask whether it may overtake the one with the token? It is told by the clock, which
/// may cost more than a turn, so not each time.
#[inline]
fn is_look_due(now: u32) -> bool {
    now >= LIMIT || now & !(TURN - 1) == LOOK
}

fn queued(queue: &Queue<bool>) -> u32 {
    if queue.is_empty() { 0 } else { QUEUED }
}

/// Who comes for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Comes,
    /// Lets the one with the token take the lock first, if the token is out.
    MakesWay,
    HasToken,
}

/// A wait for the lock.
struct Enter<'a> {
    lock: &'a RawMutex,
    role: Role,
}

impl<'a> Source<'a> for Enter<'a> {
    type Inner = Queue<bool>;
    type Data = bool;
    type Ready = ();

    fn lock(&self) -> &'a Lock<Queue<bool>> {
        &self.lock.queue
    }

    fn queue<'q>(&self, queue: &'q mut Queue<bool>) -> &'q mut Queue<bool> {
        queue
    }

    fn enter(&mut self, _: &mut Queue<bool>) -> Option<()> {
        let word = &self.lock.word;
        let mut now = word.load(Relaxed);
        loop {
            let makes_way = self.role == Role::MakesWay && now & WAKING != 0;
            let takes = now & LOCKED == 0 && !makes_way;
            let rest = if self.role == Role::HasToken { now & WITHOUT_TOKEN } else { now };
            let next = rest | if takes { LOCKED } else { QUEUED };
            match word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                Ok(_) => return takes.then_some(()),
                Err(seen) => now = seen,
            }
        }
    }

    fn left(&mut self, queue: &mut Queue<bool>, _: bool, _: &mut Wakes) {
        if queue.is_empty() {
            self.lock.word.fetch_and(!QUEUED, Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
#[path = "raw_mutex_models.rs"]
mod models;
