//! Mutual exclusion: a byte for those who need not wait, a queue for those who must.
//!
//! # The two bytes
//!
//! `locked` says whether somebody owns the lock. What its owner has to know when it frees it stands in `flags`:
//!
//! - `QUEUED`: the queue is not empty, or the owner is to look there. Changes under the inner lock only.
//! - `WAKING`: a waiter has been woken to try again and has not tried yet: the *token*. Set by the owner under the
//!   inner lock; cleared by the waiter that has it, right after it has taken the lock or as it queues up again.
//! - `PLAIN`: the lock is freed by a plain store. Set by the owner; cleared by whoever queues up and has nobody but
//!   the owner to see that.
//!
//! Beside them stand the *turns* (`turns.rs`): how often the lock was taken past the token since that was given out,
//! or the lock handed on past it.
//!
//! Flags change by exchanges, since an owner and one who holds the inner lock may both be at it; who is both stores
//! them.
//!
//! # Freed, and looked at
//!
//! The owner frees the lock and then looks at the flags, who queues up sets a flag and then looks at the lock: a
//! store-then-load race (Dekker), in which one of the two sees what the other has done. So nobody is left behind at a
//! free lock: who frees one and sees that others wait and the token is not out, takes it back to give the token out,
//! or finds that somebody else has taken it, for whom the same holds.
//!
//! Both halves of a lock would have an exchange then, and at a lock for which nobody waits that is all of what it
//! costs. So after some times without anybody who waited for its owner (`plain.rs`), the lock becomes *plain*: the
//! owner has the light fence of `primitives/asymmetric.rs`, and who queues up ends that and has the heavy one, for
//! itself and for whoever queues up meanwhile; then it looks at the lock as one who frees it does.
//!
//! An owner that has seen the lock plain may come to free it after that heavy fence. Who has queued up stands there
//! still, and is seen; or it was cancelled, and others came, whose own fence is for owners that free the lock by an
//! exchange. So an owner that finds any flag changed has a full fence, and looks again.
//!
//! Who queues up while the token is out has no fence at all and looks at nothing: its exchange comes before that of
//! the one with the token, who takes the lock and sees `QUEUED`, or goes back to the queue and has a fence itself.
//! That is what a lock that is taken again and again by the fibers of one worker sees nearly always: it stays plain.
//!
//! # Policy
//!
//! An unlock wakes the first waiter and leaves the lock free: whoever runs may take it meanwhile (*barging*), since
//! that waiter's worker may be busy. A woken waiter that finds the lock taken goes back to the front and has it
//! *handed* to it by the next unlock: a fiber after being overtaken once, whoever blocks a thread after half a
//! millisecond, because a sleeping thread takes long to come; having come, it spins for a moment before it sleeps once
//! more. So does a fiber, and who comes, if that pays: for longer if its worker has nothing else to do
//! (`scheduler/spin.rs`, `lock_spin.rs`); with the same right to overtake as ever, and charged for it.
//!
//! How often the lock may be taken past the token depends on where it is. *Near* means that the one who has it runs
//! soon after the calling fiber has made way (`scheduler/lifo_rest.rs`): it was put into the queues of this very
//! worker, from which nobody has stolen since, or there is no other worker. Then, when `SOME` turns or more have taken
//! `LONG`, a fiber that would overtake once more makes way: it queues up, though the lock is free and stays so; but not
//! if others had those turns and nobody waits since it found the lock taken: then its own begin (`turns.rs`). The lock
//! is never given to somebody who does not run, and no other worker is woken for a fiber that will only contend. Else
//! the one with the token may be kept from running, by its worker or by the system, and those behind it do not wait for
//! it: when `OVERTAKEN` turns or more have taken `LONG` the unlock hands the lock to the head of the queue.
//!
//! Who barges past a token that has been overtaken often enough and is not near is charged for it (the operation
//! budget), since it may stand where this worker does not look before a fiber leaves it. A fiber that has used its
//! budget up yields; but if it runs beside the workers, on a thread that was replaced, it makes way: outside the queue
//! nobody would see it wait, and others could keep the lock among themselves for as long as their worker lets them.
//!
//! So among fibers of one worker that may move each is overtaken by its forerunners in the queue, and by those who run
//! before each of them: by each for `LONG`, or `SOME` times if that takes longer; and up to as many times more, or
//! `OVERTAKEN`, where the first turns were short and later ones are not (`tests/sync_fair.rs` counts). With several
//! workers it is, for as long as the system or a long-running fiber keeps the worker from the one with the token; a
//! thread, for as long as the system takes to run it, and half a millisecond.
//!
//! # Races
//!
//! - *Unlock against queueing up*: see above. Mostly a look before the lock is freed sees `QUEUED`, and then it is not
//!   freed first. The last look of who queues up is under the inner lock, which whoever serves the queue has to take;
//!   but that of who ends the plain state comes after its heavy fence, some microseconds later. Until then it may be
//!   the only one who sees that the lock is free, or be handed it.
//! - *Becoming plain against queueing up.* Both are exchanges of the flags. If `PLAIN` came first, who queues up sees
//!   it, clears it and has the heavy fence; but not if the token is out, with which a lock may be plain while others
//!   wait. Else the owner has read `QUEUED` with its own exchange, and so has whoever owns the lock later.
//! - *Making way against the token's coming.* Who makes way queues up by an exchange. If that still sees the token,
//!   the one with it comes after that. Else who makes way is an ordinary waiter, or finds the lock free and takes it.
//! - *Hand-off against its own unlock.* A waiter that has not gone to sleep yet runs as soon as it is settled, and may
//!   unlock before the hander's last store. So the hander, still the owner, takes the token out of the flags first:
//!   that unlock then waits for the inner lock.
//! - *Hand-off against a cancel.* `offer` decides: a waiter that lost is out of the queue and the next one is tried. A
//!   waiter that was given the token has left its wait and always tries.
//!
//! Acquire on taking the lock pairs with Release on freeing it; a hand-off goes through the waiter's state word. The
//! turns, and where the token is, are hints: every decision upon them is sound. So are flags that were read before the
//! lock was taken: they say whether a turn is counted.
//!
//! # What it costs
//!
//! One locked instruction, of whoever takes it, also past a token; another one to free it where it is not plain; and a
//! third where it is taken with the token. A look comes first, since an exchange that fails costs as much as one that
//! does not; only branches depend on it.
//!
//! # What it asks for
//!
//! The release touches the lock after others may have taken it, as that of `primitives/lock.rs` does.

use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Patience, Wait, spin, spin_on_fiber};
use crate::primitives::sync::atomic::{AtomicU8, Ordering::*};
use crate::primitives::sync::{Lock, fence_after_exchange, full_fence};
use crate::primitives::{asymmetric, const_unless_loom};

use super::plain::Plain;
use super::turns::Turns;
use super::whereabouts::Whereabouts;

const FREE: u8 = 0;
const LOCKED: u8 = 1;
const QUEUED: u8 = 1;
const WAKING: u8 = 2;
const PLAIN: u8 = 4;

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
    locked: AtomicU8,
    flags: AtomicU8,
    plain: Plain,
    turns: Turns,
    token: Whereabouts,
    /// Each waiter says whether the lock must be handed to it.
    queue: Lock<Queue<bool>>,
}

impl RawMutex {
    const_unless_loom! {
        pub(crate) fn new() -> RawMutex {
            RawMutex {
                locked: AtomicU8::new(FREE),
                flags: AtomicU8::new(0),
                plain: Plain::new(),
                turns: Turns::new(),
                token: Whereabouts::new(),
                queue: Lock::new(Queue::new()),
            }
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Result<(), Cancelled> {
        let flags = self.flags.load(Relaxed);
        if self.take_unwanted(flags) { Ok(()) } else { self.lock_wanted(flags) }
    }

    /// Takes the lock, whatever asks the caller to end.
    pub(crate) fn lock_uncancelled(&self) {
        let flags = self.flags.load(Relaxed);
        if !self.take_unwanted(flags) {
            self.lock_slow(flags, Wait::new("mutex")).expect("not cancellable");
        }
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_lock(&self) -> bool {
        self.take(self.flags.load(Relaxed), Role::Comes)
    }

    /// Frees the lock, which the caller owns.
    #[inline]
    pub(crate) fn unlock(&self) {
        let flags = self.flags.load(Relaxed);
        if !self.may_leave_free(flags) {
            return self.unlock_slow(flags);
        }
        if flags & PLAIN != 0 {
            self.locked.store(FREE, Release);
            asymmetric::surely_light();
        } else if self.plain.goes_on() {
            self.free_by_exchange();
        } else {
            return self.unlock_and_judge(flags);
        }
        if self.flags.load(Relaxed) != flags {
            self.look_again();
        }
    }

    /// One `unlock` of many: is the lock to be plain from now on? A process without a runtime has yet to ask whether
    /// fences are light, which may take milliseconds: it does so when nothing is to be done for the lock.
    #[cold]
    fn unlock_and_judge(&self, flags: u8) {
        let is_due = self.plain.is_due();
        if is_due && asymmetric::is_light() {
            self.flags.fetch_or(PLAIN, Relaxed);
            self.plain.has_begun();
        }
        self.free_by_exchange();
        if self.flags.load(Relaxed) != flags {
            self.look_again();
        }
        if is_due {
            asymmetric::register();
        }
    }

    /// Takes the lock if it is free and nobody waits.
    #[inline]
    fn take_unwanted(&self, flags: u8) -> bool {
        flags & !PLAIN == 0 && self.take_free()
    }

    /// Takes the lock if it is free. Models take it for that: an exchange follows, and each look would be one more
    /// place for others to come between.
    #[inline]
    fn take_free(&self) -> bool {
        (cfg!(loom) || self.locked.load(Relaxed) == FREE)
            && self.locked.compare_exchange(FREE, LOCKED, Acquire, Relaxed).is_ok()
    }

    /// Takes the lock past the token, or waits for it. Not inlined, so that what is inlined is small.
    #[inline(never)]
    fn lock_wanted(&self, flags: u8) -> Result<(), Cancelled> {
        let may_overtake = flags & WAKING != 0 && self.turns.may_go_on();
        if may_overtake && self.take_free() {
            self.turns.count();
            return Ok(());
        }
        self.lock_cancellably(flags)
    }

    #[cold]
    fn lock_cancellably(&self, flags: u8) -> Result<(), Cancelled> {
        self.lock_slow(flags, Wait::cancellable("mutex"))
    }

    /// May the owner leave the lock free without a look at the queue? Nobody waits, or there is the token, and it has
    /// not been overtaken too often.
    #[inline]
    fn may_leave_free(&self, flags: u8) -> bool {
        flags & QUEUED == 0 || flags & WAKING != 0 && !self.turns.are_many()
    }

    /// By the owner: who looks at the flags from now on sees those of earlier waiters, or these see the free lock.
    #[inline]
    fn free_by_exchange(&self) {
        self.locked.swap(FREE, SeqCst);
        fence_after_exchange();
    }

    /// Takes the lock, whose flags were these just now, if it is free.
    #[inline]
    fn take(&self, flags: u8, role: Role) -> bool {
        if !self.take_free() {
            return false;
        }
        if role == Role::HasToken {
            self.flags.fetch_and(!WAKING, Relaxed);
        } else if flags & WAKING != 0 {
            self.turns.count();
        }
        true
    }

    #[cold]
    fn lock_slow(&self, flags: u8, how: Wait) -> Result<(), Cancelled> {
        let how = Wait { object: &raw const *self as usize, urgent: true, at_once: true, ..how };
        let mut role = match self.may_barge(flags) {
            true if self.barge(flags) => return Ok(()),
            true => {
                self.turns.meet();
                Role::Comes
            }
            false => Role::MakesWay,
        };
        let mut patience = Patience::new();
        loop {
            let has_token = role == Role::HasToken;
            let place = if has_token { Place::Front } else { Place::Back };
            let starved = has_token && patience.is_over();
            match wait(Enter { lock: self, role, seen: Seen::ByToken }, place, starved, how) {
                Waited::Ready(()) | Waited::Woken(HANDED) => return Ok(()),
                Waited::Woken(_) => role = Role::HasToken,
                Waited::TimedOut | Waited::Cancelled => return Err(Cancelled),
            }
            let take = || self.take(WAKING, role);
            if take() || spin(take) || spin_on_fiber(how.object, take) {
                return Ok(());
            }
        }
    }

    /// May the caller overtake the one with the token, if the lock is free? Past many turns it is charged for it, if
    /// that one is not near.
    fn may_barge(&self, flags: u8) -> bool {
        let is_taken = || self.locked.load(Relaxed) != FREE;
        let may_go_past = || self.token.may_be_overtaken(self.turns.are_many());
        flags & WAKING == 0 || is_taken() || self.turns.are_left(&self.token) || may_go_past()
    }

    /// Takes the lock if it is free, past those who wait.
    fn barge(&self, flags: u8) -> bool {
        let take = || self.take_unwanted(self.flags.load(Relaxed));
        // As `may_barge`, but it leaves to that whatever may switch.
        let may = |now| now & WAKING == 0 || self.turns.are_left(&self.token);
        let barge = || {
            let now = self.flags.load(Relaxed);
            may(now) && self.take(now, Role::Comes)
        };
        let object = &raw const *self as usize;
        let taken = self.take(flags, Role::Comes) || spin(take) || spin_on_fiber(object, barge);
        if taken && self.turns.are_many() && !self.turns.are_long() {
            self.turns.allow_more();
        }
        taken
    }

    #[cold]
    fn unlock_slow(&self, flags: u8) {
        if flags & WAKING == 0 {
            return self.serve();
        }
        if !self.turns.are_long() {
            self.turns.allow_more();
        } else if !self.token.is_near() {
            return self.serve();
        }
        // Who comes makes way, if it is near.
        self.free_by_exchange();
        self.serve_if_free();
    }

    /// The caller has freed the lock, maybe plainly, and somebody came meanwhile: maybe one who has left since, and
    /// nobody had a heavy fence for those behind it.
    #[cold]
    fn look_again(&self) {
        full_fence();
        self.serve_if_free();
    }

    /// Who waits is served by whoever owns the lock or has the token, or else by the caller, as the owner.
    #[cold]
    fn serve_if_free(&self) {
        let nobody_comes = self.flags.load(Relaxed) & (QUEUED | WAKING) == QUEUED;
        if nobody_comes && self.take_free() {
            self.serve();
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
        let flags = self.flags.load(Relaxed);
        let (token, plain) = (flags & WAKING, flags & PLAIN);
        // Nobody but the owner gives it out or counts; but the caller may have looked at the flags before it was the
        // owner, or before the one who handed the lock to it was through.
        let overtaken = token != 0 && self.turns.are_many();
        // Not while the lock is handed on: who has it already, and unlocks, must not change flags that we
        // are about to write.
        self.flags.store(QUEUED | plain, Relaxed);
        while let Some(starved) = queue.front() {
            let hand = starved || overtaken;
            if !hand && token != 0 {
                break;
            }
            let (result, next) = if hand { (HANDED, token) } else { (RETRY, WAKING) };
            self.turns.begin_again();
            let Some(Ok(wake)) = queue.offer_front(result) else { continue };
            if !hand {
                self.token.of(wake.as_ref());
                self.turns.begin();
            }
            wakes.extend(wake);
            // Until this store the flags say that there are waiters, and nobody has the token: so a waiter
            // that runs already comes to the inner lock, whether it unlocks or tries again.
            self.flags.store(next | plain | queued(queue), Relaxed);
            if !hand {
                self.locked.store(FREE, Release);
            }
            return;
        }
        self.flags.store(token | plain | queued(queue), Relaxed);
        self.locked.store(FREE, Release);
    }

    /// Under the inner lock: the caller of this role will stand in the queue. Returns who sees that.
    fn queue_up(&self, mut flags: u8, role: Role) -> Seen {
        let token_comes = loop {
            let token_comes = role != Role::HasToken && flags & WAKING != 0;
            let next = if token_comes { flags } else { flags & !(WAKING | PLAIN) } | QUEUED;
            match self.flags.compare_exchange_weak(flags, next, SeqCst, Relaxed) {
                Ok(_) => break token_comes,
                Err(seen) => flags = seen,
            }
        };
        if token_comes {
            return Seen::ByToken;
        }
        self.plain.begin_again();
        if flags & PLAIN != 0 { Seen::AfterHeavyFence } else { Seen::AfterExchange }
    }

    /// By one who has queued up at a plain lock: from now on owners see that, or it sees a free lock. Not under the
    /// inner lock: it takes some microseconds, in which the owner may want that.
    #[cold]
    fn end_plain(&self) {
        // Somebody has, and this thread may not have heard of it.
        asymmetric::register();
        asymmetric::heavy();
        self.plain.has_ended();
        self.serve_if_free();
    }
}

fn queued(queue: &Queue<bool>) -> u8 {
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

/// Who sees that somebody has queued up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    ByToken,
    /// By the owner, who frees the lock by an exchange; or who queues up sees a free lock.
    AfterExchange,
    /// The same once that one has the heavy fence.
    AfterHeavyFence,
}

/// A wait for the lock.
struct Enter<'a> {
    lock: &'a RawMutex,
    role: Role,
    seen: Seen,
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
        let Enter { lock, role, .. } = *self;
        let flags = lock.flags.load(Relaxed);
        let makes_way = role == Role::MakesWay && flags & WAKING != 0;
        if !makes_way && lock.take(flags, role) {
            return Some(());
        }
        self.seen = lock.queue_up(flags, role);
        if self.seen != Seen::AfterExchange {
            return None;
        }
        fence_after_exchange();
        // Its release looks at the queue, which may be empty.
        lock.take_free().then_some(())
    }

    fn entered(&mut self) {
        if self.seen == Seen::AfterHeavyFence {
            self.lock.end_plain();
        }
    }

    fn left(&mut self, queue: &mut Queue<bool>, _: bool, _: &mut Wakes) {
        if queue.is_empty() {
            self.lock.flags.fetch_and(!QUEUED, Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
#[path = "raw_mutex_models.rs"]
mod models;
#[cfg(all(test, not(loom)))]
#[path = "raw_mutex_tests.rs"]
mod tests;
