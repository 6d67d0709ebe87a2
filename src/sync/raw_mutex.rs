//! Mutual exclusion: a word for those who need not wait, a queue for those who must.
//!
//! # The word
//!
//! - `LOCKED`: somebody owns the lock.
//! - `QUEUED`: the queue is not empty. Changes under the inner lock only.
//! - `WAKING`: a waiter has been woken to try again and has not tried yet: the *token*. Set under the
//!   inner lock, by the owner; cleared by the waiter that has it, as it takes the lock or queues up again.
//!
//! Beside it stand the *turns* (`turns.rs`): how often the lock was taken past the token since that was given out, or the
//! lock handed on past it.
//!
//! While the lock is owned and the inner lock is held, nobody but the owner changes the word: taking it
//! needs `LOCKED` to be clear, `QUEUED` needs the inner lock, and so does `WAKING` as long as the lock is
//! not free. Nobody is left behind at a free lock: who frees one with waiters sees in the word, by the very
//! subtraction, whether the token is out; if not, it takes the lock back to give it out, or finds that
//! somebody else has taken it, whose unlock sees the same. And who queues up while it is free does so by a
//! compare-and-swap from a word with the token out.
//!
//! # Policy
//!
//! An unlock wakes the first waiter and leaves the lock free: whoever runs may take it meanwhile
//! (*barging*), since that waiter's worker may be busy. A woken waiter that finds the lock taken goes
//! back to the front and has it *handed* to it by the next unlock: a fiber after being overtaken once,
//! whoever blocks a thread after half a millisecond, because a sleeping thread takes long to come; having
//! come, it spins for a moment before it sleeps once more. So does a fiber, and who comes, if its worker has nothing else to
//! do, and that pays (`scheduler/spin.rs`): with the same right to overtake as ever, and charged for it.
//!
//! How often the lock may be taken past the token depends on where it is. *Near* means that the one who has it runs as
//! soon as the calling fiber makes way: it was put into the queues of this very worker, from which nobody has
//! stolen since, or there is no other worker. Then, when `SOME` turns or more have taken `LONG`, a fiber that would
//! overtake once more makes way: it queues up, though the lock is free and stays so. The lock is never given to
//! somebody who does not run, and no other worker is woken for a fiber that will only contend. Else the one with the
//! token may be kept from running, by its worker or by the system, and those behind it do not wait for it: when
//! `OVERTAKEN` turns or more have taken `LONG` the unlock hands the lock to the head of the queue.
//!
//! Who barges past a token that has been overtaken often enough and is not near is charged for it (the
//! operation budget), since it may stand where this worker does not look before a fiber leaves it. A fiber
//! that has used its budget up yields; but if it runs beside the workers, on a thread that was replaced, it
//! makes way: outside the queue nobody would see it wait, and others could keep the lock among themselves
//! for as long as their worker lets them.
//!
//! So among fibers of one worker that may move each is overtaken by its forerunners in the queue: by each of them for
//! `LONG`, or `SOME` times if that takes longer; and up to `OVERTAKEN` times more where the first turns were short and
//! later ones are not (`tests/sync_fair.rs` counts). With several workers it is, for as long as the system or a
//! long-running fiber keeps the worker from the one with the token; a thread, for as long as the system takes to run
//! it, and half a millisecond.
//!
//! # Races
//!
//! - *Unlock against queueing up.* Either the unlock's subtraction comes first, and the waiter, which changes the
//!   word by compare-and-swap, sees a free lock; or `QUEUED` does, and the subtraction sees it. Then the
//!   unlock leaves the waiter to the token's, or takes the lock back, waits for the inner lock and finds the
//!   waiter; or somebody else has the lock by then, whose own unlock sees `QUEUED`. Mostly a look before the
//!   subtraction sees it: then the lock is not freed first.
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
//! state word. The turns, and where the token is, are hints: every decision upon them is sound.
//!
//! # What it costs
//!
//! One locked instruction for each half, also past a token: a look comes first, since an exchange that fails costs
//! as much as one that does not. But neither waits for the look, which only branches depend on: what the exchange
//! compares with is known at a lock that nobody wants, and past the token, since the turns are not in the word; and
//! freeing it subtracts.

use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Patience, Wait, spin, spin_on_fiber};
use crate::primitives::const_unless_loom;
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicU32, Ordering::*};

use super::turns::Turns;
use super::whereabouts::Whereabouts;

const LOCKED: u32 = 1;
const QUEUED: u32 = 2;
const WAKING: u32 = 4;
/// A free lock whose token is out, while others wait.
const OVERTAKABLE: u32 = QUEUED | WAKING;

/// The lock is the waiter's.
const HANDED: u32 = 1;
/// The waiter may try again, and has the token.
const RETRY: u32 = 0;

/// The wait for a lock was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Cancelled;

/// A lock without data.
#[derive(Debug)]
pub(crate) struct RawMutex {
    word: AtomicU32,
    turns: Turns,
    token: Whereabouts,
    /// Each waiter says whether the lock must be handed to it.
    queue: Lock<Queue<bool>>,
}

impl RawMutex {
    const_unless_loom! {
        pub(crate) fn new() -> RawMutex {
            RawMutex {
                word: AtomicU32::new(0),
                turns: Turns::new(),
                token: Whereabouts::new(),
                queue: Lock::new(Queue::new()),
            }
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Result<(), Cancelled> {
        match self.take_unwanted() {
            Ok(()) => Ok(()),
            Err(seen) => self.lock_wanted(seen),
        }
    }

    /// Takes the lock, whatever asks the caller to end.
    pub(crate) fn lock_uncancelled(&self) {
        if let Err(seen) = self.take_unwanted() {
            self.lock_slow(seen, Wait::new("mutex")).expect("not cancellable");
        }
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_lock(&self) -> bool {
        self.take(self.word.load(Relaxed), Role::Comes)
    }

    /// Frees the lock, which the caller owns.
    #[inline]
    pub(crate) fn unlock(&self) {
        let now = self.word.load(Relaxed);
        if !self.may_leave_free(now) {
            return self.unlock_slow();
        }
        if self.word.fetch_sub(LOCKED, Release) != now {
            self.serve_if_free();
        }
    }

    /// Takes the lock if it is free and nobody waits.
    #[inline]
    fn take_unwanted(&self) -> Result<(), u32> {
        // Models take it for that: any guess will do, since an exchange follows, and each look would be one more place
        // for others to come between.
        let now = if cfg!(loom) { 0 } else { self.word.load(Relaxed) };
        if now != 0 {
            return Err(now);
        }
        self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).map(drop)
    }

    /// Takes the lock past the token, or waits for it. Not inlined, so that what is takes few instructions.
    #[inline(never)]
    fn lock_wanted(&self, seen: u32) -> Result<(), Cancelled> {
        let overtaken = match seen {
            OVERTAKABLE if !self.turns.is_look_due() => self.overtake(OVERTAKABLE),
            WAKING if !self.turns.is_look_due() => self.overtake(WAKING),
            _ => Err(seen),
        };
        overtaken.or_else(|seen| self.lock_slow(seen, Wait::cancellable("mutex")))
    }

    #[inline(always)]
    fn overtake(&self, now: u32) -> Result<(), u32> {
        self.word.compare_exchange(now, now | LOCKED, Acquire, Relaxed)?;
        self.turns.count();
        Ok(())
    }

    /// May the owner leave the lock free without a look at the queue? Nobody waits, or there is the token, and it has
    /// not been overtaken too often.
    #[inline]
    fn may_leave_free(&self, now: u32) -> bool {
        now & QUEUED == 0 || now & WAKING != 0 && !self.turns.are_many()
    }

    /// Takes the lock, whose word was `now`, if it is free.
    #[inline]
    fn take(&self, mut now: u32, role: Role) -> bool {
        while now & LOCKED == 0 {
            match self.word.compare_exchange_weak(now, taken(now, role), Acquire, Relaxed) {
                Ok(_) => {
                    self.has_taken(now, role);
                    return true;
                }
                Err(seen) => now = seen,
            }
        }
        false
    }

    /// The caller of this role has taken the lock, whose word was `before`.
    #[inline]
    fn has_taken(&self, before: u32, role: Role) {
        if before & WAKING != 0 && role != Role::HasToken {
            self.turns.count();
        }
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
            let take = || self.take(self.word.load(Relaxed), role);
            if take() || spin(take) || spin_on_fiber(take) {
                return Ok(());
            }
        }
    }

    /// May the caller overtake the one with the token, if the lock is free? Past many turns it is charged for it, if that
    /// one is not near.
    fn may_barge(&self, now: u32) -> bool {
        if now & LOCKED != 0 || now & WAKING == 0 || !self.turns.is_look_due() {
            return true;
        }
        match self.turns.are_many() {
            false => !self.token.is_near() || !self.turns.are_long(),
            true => !self.turns.are_long() || self.token.may_be_overtaken(),
        }
    }

    /// Takes the lock if it is free, past those who wait.
    fn barge(&self, seen: u32) -> bool {
        let take = || self.word.load(Relaxed) == 0 && self.try_lock();
        // As `may_barge`, but it leaves to that whatever may switch.
        let barge = || {
            let now = self.word.load(Relaxed);
            let may = now & WAKING == 0 || !self.turns.is_look_due() || !self.turns.are_long();
            may && self.take(now, Role::Comes)
        };
        let taken = self.take(seen, Role::Comes) || spin(take) || spin_on_fiber(barge);
        if taken && self.turns.are_many() && !self.turns.are_long() {
            self.turns.allow_more();
        }
        taken
    }

    #[cold]
    fn unlock_slow(&self) {
        if self.word.load(Relaxed) & WAKING == 0 {
            return self.serve();
        }
        if !self.turns.are_long() {
            self.turns.allow_more();
        } else if !self.token.is_near() {
            return self.serve();
        }
        // Who comes makes way, if it is near.
        if self.word.fetch_sub(LOCKED, Release) & WAKING == 0 {
            self.serve_if_free();
        }
    }

    /// The caller has freed the lock, and somebody came meanwhile. Who waits is served by whoever has taken the lock since,
    /// or has the token, or else by the caller, as the owner.
    #[cold]
    fn serve_if_free(&self) {
        let mut now = self.word.load(Relaxed);
        while now & (LOCKED | WAKING) == 0 && now & QUEUED != 0 {
            match self.word.compare_exchange_weak(now, now | LOCKED, Acquire, Relaxed) {
                Ok(_) => return self.serve(),
                Err(seen) => now = seen,
            }
        }
    }

    /// Frees the lock, which the caller owns, with a look at the queue.
    fn serve(&self) {
        let mut wakes = Wakes::new();
        self.release(&mut self.queue.lock(), &mut wakes);
        wakes.wake();
    }

    /// Frees the lock or hands it on. The caller owns it and holds the inner lock.
    fn release(&self, queue: &mut Queue<bool>, wakes: &mut Wakes) {
        // If it is out still, it has been for too long: nobody but the owner gives it out or counts.
        let token = self.word.load(Relaxed) & WAKING;
        self.turns.begin_again();
        // Not while the lock is handed on: who has it already, and unlocks, must not free a word that we
        // are about to write.
        self.word.store(LOCKED | QUEUED, Relaxed);
        while let Some(starved) = queue.front() {
            let hand = starved || token != 0;
            let (result, next) = if hand { (HANDED, LOCKED | token) } else { (RETRY, WAKING) };
            let Some(Ok(wake)) = queue.offer_front(result) else { continue };
            if !hand {
                self.token.of(wake.as_ref());
                self.turns.begin();
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

/// The word after one of this role has taken the free lock; the token goes with who has it.
#[inline]
fn taken(now: u32, role: Role) -> u32 {
    (if role == Role::HasToken { now & !WAKING } else { now }) | LOCKED
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
            let next = match self.role {
                role if takes => taken(now, role),
                Role::HasToken => now & !WAKING | QUEUED,
                _ => now | QUEUED,
            };
            match word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                Ok(_) if takes => break,
                Ok(_) => return None,
                Err(seen) => now = seen,
            }
        }
        self.lock.has_taken(now, self.role);
        Some(())
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
