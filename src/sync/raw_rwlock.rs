//! Many readers or one writer: a word (`rwlock_word.rs`) for those who need not wait, a queue for those who
//! must.
//!
//! # Policy
//!
//! As `raw_mutex.rs` has it. Who comes takes the lock if nobody waits. Who frees it while others wait gives
//! a *token* to the first of them and leaves the lock free: it may take long to come, and to hand the lock
//! to somebody who does not run makes all others wait for that one, each time anew (a *convoy*). Meanwhile
//! whoever runs may take the free lock, for a while (`turns.rs`). After that, who comes and has the token near makes
//! way: it queues up, so that the one with the token runs. Who has it not takes the lock; a fiber is
//! charged for it, since the one with the token may stand where only another look of this worker finds it. Its release
//! hands the lock to the queue's head, and so on in the queue's order until the token comes. A woken waiter
//! that finds the lock taken goes back to the front, and has it *handed* to it by the next release that finds
//! no other token out: a fiber after being overtaken once, whoever blocks a thread after half a millisecond.
//!
//! A reader joins other readers only if nobody waits and no writer has the token: readers that keep coming do not
//! keep a writer waiting. But past tokens they come together, as long as turns are left (two workers whose readers
//! kept each other out took 550 ns for 200 ns of reading and 200 between, now 430; measured): a writer that finds
//! readers then goes back to the front without its token, and nobody comes past it any more. Readers that stand
//! behind one another go together: once the first of them has the lock, the others are *invited*, as many as the
//! word can count. Each gets a token and joins whoever reads then, past a writer that stands behind them. They do
//! not get the lock itself, for the same reason as above: it would be theirs until the last of them has run, and
//! who comes meanwhile would wait for them all, to be woken together again. Turns count anew whenever one of them
//! comes, as they would if each had been woken by itself. Where several own the lock at once, a turn may be lost.
//! Where turns are so short that several processors would get on no faster than one, each of them invites one more,
//! not the first all others, for whom other workers would come. And where turns are long, the lock is handed over,
//! to a writer or to all readers in a row (`handing.rs`).
//!
//! # Why nobody is left behind
//!
//! `QUEUED` is set by a compare-and-swap that saw an owner, one who came unlooked, a token, or `QUEUED` itself. The
//! last owner's release, if it finds `QUEUED` and either no tokens or far ones that were overtaken for long enough,
//! comes to the queue's lock and calls `hand_over`, which goes on until the head cannot be served, or tokens are
//! out and no reader may be invited. Whoever has a token always tries: it takes the lock, and its release finds
//! `QUEUED`; or it sees an owner, gives the token back by the compare-and-swap that saw it, and if it was the last,
//! that owner's release finds `QUEUED` without a token. A waiter that gives up calls `hand_over` too, since it may
//! have been a writer that kept readers waiting.
//!
//! A reader comes *unlooked*: it counts itself in the word before it knows whether it may own the lock, since a
//! look would wait for the release before it (22.6 ns a lock with it where nobody waits long, 19.0 without,
//! measured). Where it may not, it takes itself out again, once for each call. Whoever queued up or gave a token
//! back because of it did so before that, by a compare-and-swap, so it finds `QUEUED` then, and serves the queue if
//! it leaves neither owners nor tokens. Beside an owner or a token it need not: the owner's release, or the token,
//! comes after.
//!
//! `hand_over` counts a waiter as owner, or gives the token out, *before* it offers: afterwards the waiter
//! may release already. A lost offer is taken back, and the loop looks at the word again, so that a
//! release that came between, and relied on the one who lost, is made up for.

use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Patience, Wait, comes_soon, spin, spin_on_fiber};
use crate::primitives::const_unless_loom;
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicU64, Ordering::*};

use super::handing::Handing;
use super::raw_mutex::Cancelled;
use super::rwlock_word::*;
use super::turns::Turns;
use super::whereabouts::Whereabouts;

/// The lock is the waiter's.
const HANDED: u32 = 1;
/// The waiter may try again, and has a token.
const RETRY: u32 = 0;

/// As many readers as there are, up to the next writer.
const ALL: u32 = u32::MAX;

/// Who waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    want: Want,
    /// The lock must be handed to it.
    starved: bool,
    /// It is handed if turns are long.
    comes_soon: bool,
}

/// A lock without data.
#[derive(Debug)]
pub(crate) struct RawRwLock {
    word: AtomicU64,
    turns: Turns,
    handing: Handing,
    tokens: Whereabouts,
    queue: Lock<Queue<Waiting>>,
}

impl RawRwLock {
    const_unless_loom! {
        pub(crate) fn new() -> RawRwLock {
            let (word, tokens) = (AtomicU64::new(0), Whereabouts::new());
            let (turns, handing) = (Turns::new(), Handing::new());
            RawRwLock { word, turns, handing, tokens, queue: Lock::new(Queue::new()) }
        }
    }

    /// Takes a share by an addition, without a look, which would have to wait for the release before it: *unlooked*.
    #[inline]
    pub(crate) fn read(&self) -> Result<(), Cancelled> {
        let before = self.word.fetch_add(READER, Acquire);
        if before == 0 {
            return Ok(());
        }
        match self.turns.left() {
            // Turns that are short come by hundreds past the same token.
            left @ 1.. if may_read_past(before) => self.turns.set_left(left - 1),
            _ => return self.keep_or_wait(before),
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn write(&self) -> Result<(), Cancelled> {
        let taken = match self.look() {
            // The exchange does not wait for the look: what it compares with is known.
            0 => self.word.compare_exchange(0, WRITER, Acquire, Relaxed).map(drop),
            seen => Err(seen),
        };
        taken.or_else(|seen| self.write_beside(seen))
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_read(&self) -> bool {
        self.take(self.look(), Want::Read, true).is_ok()
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_write(&self) -> bool {
        self.take(self.look(), Want::Write, true).is_ok()
    }

    /// The word. Models take it for free: any guess will do, since an exchange follows, and each look would be
    /// one more place for others to come between.
    #[inline]
    fn look(&self) -> u64 {
        if cfg!(loom) { 0 } else { self.word.load(Relaxed) }
    }

    /// Keeps the share that was taken unlooked of `before`, beside other readers or past those with tokens; or gives it
    /// back and waits. Not inlined, so that what is takes few instructions.
    #[inline(never)]
    fn keep_or_wait(&self, before: u64) -> Result<(), Cancelled> {
        let overtakes = !self.turns.is_look_due();
        if Want::Read.taken(before, overtakes).is_some() {
            self.has_taken(before);
            return Ok(());
        }
        let left = self.word.fetch_sub(READER, Release) - READER;
        // Neither owners nor tokens: nobody else serves the queue.
        if left == QUEUED {
            self.end_turn(left);
        }
        self.wait_for(Want::Read, left)
    }

    #[inline(never)]
    fn write_beside(&self, seen: u64) -> Result<(), Cancelled> {
        let overtakes = !self.turns.is_look_due();
        self.take(seen, Want::Write, overtakes).or_else(|seen| self.wait_for(Want::Write, seen))
    }

    #[inline]
    fn take(&self, mut now: u64, want: Want, overtakes: bool) -> Result<(), u64> {
        while let Some(next) = want.taken(now, overtakes) {
            match self.word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                Ok(_) => {
                    self.has_taken(now);
                    return Ok(());
                }
                Err(seen) => now = seen,
            }
        }
        Err(now)
    }

    /// The caller, who came without a token, has taken the lock, whose word was `before`.
    #[inline]
    fn has_taken(&self, before: u64) {
        if is_overtakable(before) {
            self.turns.count();
        }
    }

    /// Changes the word, which was `now`, to `next` of it, unless that says no to what it is.
    #[inline]
    fn change(&self, mut now: u64, next: impl Fn(u64) -> Option<u64>) -> Result<(), u64> {
        while let Some(next) = next(now) {
            match self.word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                Ok(_) => return Ok(()),
                Err(seen) => now = seen,
            }
        }
        Err(now)
    }

    /// A reader lets go.
    #[inline]
    pub(crate) fn read_unlock(&self) {
        let left = self.word.fetch_sub(READER, Release) - READER;
        if left < READER && self.is_queue_due(left) {
            self.end_turn(left);
        }
    }

    /// The writer lets go.
    #[inline]
    pub(crate) fn write_unlock(&self) {
        let left = self.word.fetch_sub(WRITER, Release) - WRITER;
        if self.is_queue_due(left) {
            self.end_turn(left);
        }
    }

    /// The writer becomes a reader.
    pub(crate) fn downgrade(&self) {
        let left = self.word.fetch_add(READER - WRITER, Release);
        if left & QUEUED != 0 {
            self.serve(ALL);
        }
    }

    #[cold]
    fn end_turn(&self, word: u64) {
        self.handing.turn_ends();
        // Who has the token invites others once it reads. Who reads already may be one that came unlooked, and leaves.
        self.serve_if_due(word, 1);
    }

    #[cold]
    fn serve_if_due(&self, word: u64, most: u32) {
        if self.is_to_serve(word) {
            self.serve(most);
        }
    }

    /// Does who finds this word serve the queue, if the owners let its head in? Unless there are tokens which were not
    /// overtaken for long enough, or to which who comes makes way.
    fn is_to_serve(&self, word: u64) -> bool {
        let is_to_come = || word & TOKENS != 0 && (!self.are_to_come() || self.tokens.is_near());
        self.is_queue_due(word) && !is_to_come()
    }

    /// As `is_to_serve`, as far as it can be told at once.
    #[inline]
    fn is_queue_due(&self, word: u64) -> bool {
        word & QUEUED != 0 && (word & TOKENS == 0 || self.turns.are_many())
    }

    /// Those with tokens were overtaken many times: was that long? They may be as often again, if not.
    #[cold]
    fn are_to_come(&self) -> bool {
        let long = self.turns.are_long();
        if !long {
            self.turns.allow_more();
        }
        long
    }

    /// May who comes take the lock past those with tokens, whom it would overtake in this word? Past many turns it is
    /// charged for it, if they are not near.
    fn may_barge(&self, want: Want, word: u64) -> bool {
        let is_taken = word & TOKENS != 0 && !want.fits(word);
        let may_go_past = || self.tokens.may_be_overtaken(self.turns.are_many());
        is_taken || !is_overtakable(word) || self.turns.are_left(&self.tokens) || may_go_past()
    }

    #[cold]
    fn serve(&self, most: u32) {
        let mut wakes = Wakes::new();
        self.hand_over(&mut self.queue.lock(), most, &mut wakes);
        wakes.wake();
    }

    #[cold]
    fn wait_for(&self, want: Want, seen: u64) -> Result<(), Cancelled> {
        let overtakes = self.may_barge(want, seen);
        let take = |now| self.take(now, want, overtakes).is_ok();
        let again = || take(self.word.load(Relaxed));
        // As `may_barge`, but it leaves to that whatever may switch.
        let barge = || {
            let now = self.word.load(Relaxed);
            (!is_overtakable(now) || self.turns.are_left(&self.tokens)) && take(now)
        };
        let object = &raw const *self as usize;
        if take(seen) || spin(again) || spin_on_fiber(object, barge) {
            if self.turns.are_many() && !self.turns.are_long() {
                self.turns.allow_more();
            }
            return Ok(());
        }
        if overtakes {
            self.turns.meet();
        }
        let how = Wait { object, urgent: true, at_once: true, ..Wait::cancellable("rwlock") };
        let mut patience = Patience::new();
        let (mut has_token, mut along, mut place) = (false, ALL, Place::Back);
        loop {
            let starved = has_token && patience.is_over();
            let enter = Enter { lock: self, want, has_token, overtakes };
            let waiting = Waiting { want, starved, comes_soon: comes_soon() };
            match wait(enter, place, waiting, how) {
                Waited::Ready(()) => break,
                Waited::Woken(HANDED) => return Ok(()),
                Waited::Woken(_) => (has_token, place) = (true, Place::Front),
                Waited::TimedOut | Waited::Cancelled => return Err(Cancelled),
            }
            let now = || self.word.load(Relaxed);
            let take = || self.change(now(), |word| with_token(want, word)).is_ok();
            if take() || spin(take) || spin_on_fiber(object, take) {
                along = if self.turns.are_short() { 1 } else { ALL };
                self.turns.begin();
                break;
            }
        }
        // Those who stand behind a reader may come along.
        if has_token && want == Want::Read {
            self.serve_if_due(self.word.load(Relaxed), along);
        }
        Ok(())
    }

    /// Serves the head of the queue as long as the lock allows it, and gives `most` tokens to readers who stand in a
    /// row; under the queue's lock.
    fn hand_over(&self, queue: &mut Queue<Waiting>, mut most: u32, wakes: &mut Wakes) {
        let mut turns_are_long = None;
        while let Some(Waiting { want, starved, comes_soon }) = queue.front() {
            let now = self.word.load(Relaxed);
            let is_invited = want.may_join_invited(now);
            if most == 0 || !want.fits(now) || !is_invited && !self.is_to_serve(now) {
                return;
            }
            let mut long = || *turns_are_long.get_or_insert_with(|| self.handing.is_due());
            let hands = starved || !is_invited && now & TOKENS != 0 || comes_soon && long();
            let next = if hands { want.added(now) } else { Some(want.with_one_token_more(now)) };
            // More readers than may be: the last of them serves the others.
            let Some(next) = next else { return };
            if self.word.compare_exchange(now, next, Acquire, Relaxed).is_err() {
                continue;
            }
            match queue.offer_front(if hands { HANDED } else { RETRY }) {
                Some(Ok(wake)) => {
                    if !hands && is_invited {
                        self.tokens.of_one_more(wake.as_ref());
                    } else if !hands {
                        self.tokens.of(wake.as_ref());
                        self.turns.begin();
                    }
                    most -= u32::from(!hands);
                    wakes.extend(wake);
                }
                _ if hands => drop(self.word.fetch_sub(want.share(), Release)),
                _ => {
                    let _ = self.change(next, |word| Some(without_token(word)));
                }
            }
        }
        self.handing.forget();
        self.word.fetch_and(!QUEUED, Relaxed);
    }
}

/// A wait for the lock.
struct Enter<'a> {
    lock: &'a RawRwLock,
    want: Want,
    has_token: bool,
    overtakes: bool,
}

impl<'a> Source<'a> for Enter<'a> {
    type Inner = Queue<Waiting>;
    type Data = Waiting;
    type Ready = ();

    fn lock(&self) -> &'a Lock<Queue<Waiting>> {
        &self.lock.queue
    }

    fn queue<'q>(&self, inner: &'q mut Queue<Waiting>) -> &'q mut Queue<Waiting> {
        inner
    }

    fn enter(&mut self, _: &mut Queue<Waiting>) -> Option<()> {
        let word = &self.lock.word;
        let mut now = word.load(Relaxed);
        let taken = loop {
            let (taken, waits) = match self.has_token {
                true => (with_token(self.want, now), without_token(now) | QUEUED),
                false => (self.want.taken(now, self.overtakes), now | QUEUED),
            };
            match word.compare_exchange_weak(now, taken.unwrap_or(waits), Acquire, Relaxed) {
                Ok(_) => break taken.is_some(),
                Err(seen) => now = seen,
            }
        };
        match self.has_token {
            true => self.lock.turns.begin(),
            false if taken => self.lock.has_taken(now),
            // Without a token out the release that ends the turn serves the queue.
            false if now & TOKENS == 0 => self.lock.handing.waits(),
            false => {}
        }
        taken.then_some(())
    }

    fn left(&mut self, queue: &mut Queue<Waiting>, _: bool, wakes: &mut Wakes) {
        self.lock.hand_over(queue, ALL, wakes);
    }
}

#[cfg(all(test, loom))]
#[path = "raw_rwlock_models.rs"]
mod models;

#[cfg(all(test, not(loom)))]
#[path = "raw_rwlock_tests.rs"]
mod tests;
