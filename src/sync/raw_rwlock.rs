//! Many readers or one writer: a word (`rwlock_word.rs`) for those who need not wait, a queue for those who
//! must.
//!
//! # Policy
//!
//! As `raw_mutex.rs` has it. Who comes takes the lock if nobody waits. Who frees it while others wait gives
//! a *token* to the first of them and leaves the lock free: it may take long to come, and to hand the lock
//! to somebody who does not run makes all others wait for that one, each time anew (a *convoy*). Meanwhile
//! whoever runs may take the free lock, `OVERTAKEN` times. After that, who comes and has the token near makes
//! way: it queues up, so that the one with the token runs. Who has it not takes the lock; a fiber is
//! charged for it, since the one with the token may stand where only another look of this worker finds it. Its release
//! hands the lock to the queue's head, and so on in the queue's order until the token comes. A woken waiter
//! that finds the lock taken goes back to the front, and has it *handed* to it by the next release that finds
//! no other token out: a fiber after being overtaken once, whoever blocks a thread after half a millisecond.
//!
//! A reader joins other readers only if nobody waits and no writer has the token: readers that keep coming
//! do not keep a writer waiting. Readers that stand behind one another go together: once the first of them
//! has the lock, the others are *invited*, as many as the word can count. Each gets a token and joins whoever
//! reads then, past a writer that stands behind them. They do not get the lock itself, for the same reason as
//! above: it would be theirs until the last of them has run, and who comes meanwhile would wait for them
//! all, to be woken together again. Turns count anew whenever one of them comes, as they would if each
//! had been woken by itself.
//!
//! # Why nobody is left behind
//!
//! `QUEUED` is set by a compare-and-swap that saw an owner, a token, or `QUEUED` itself. The last owner's
//! release, if it finds `QUEUED` and either no tokens or far ones that were overtaken often enough, comes to the
//! queue's lock and calls `hand_over`, which goes on until the head cannot be served, or tokens are out and
//! no reader may be invited. Whoever has a token always tries: it takes the lock, and its release finds `QUEUED`;
//! or it sees an owner, gives the token back by the compare-and-swap that saw it, and if it was the last,
//! that owner's release finds `QUEUED` without a token. A waiter that gives up calls `hand_over` too, since it
//! may have been a writer that kept readers waiting.
//!
//! `hand_over` counts a waiter as owner, or gives the token out, *before* it offers: afterwards the waiter
//! may release already. A lost offer is taken back, and the loop looks at the word again, so that a
//! release that came between, and relied on the one who lost, is made up for.

use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Patience, Wait, spin};
use crate::primitives::const_unless_loom;
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicU64, Ordering::*};

use super::raw_mutex::Cancelled;
use super::rwlock_word::*;
use super::whereabouts::Whereabouts;

/// The lock is the waiter's.
const HANDED: u32 = 1;
/// The waiter may try again, and has a token.
const RETRY: u32 = 0;

/// Who waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    want: Want,
    /// The lock must be handed to it.
    starved: bool,
}

/// A lock without data.
#[derive(Debug)]
pub(crate) struct RawRwLock {
    word: AtomicU64,
    tokens: Whereabouts,
    queue: Lock<Queue<Waiting>>,
}

impl RawRwLock {
    const_unless_loom! {
        pub(crate) fn new() -> RawRwLock {
            let (word, tokens) = (AtomicU64::new(0), Whereabouts::new());
            RawRwLock { word, tokens, queue: Lock::new(Queue::new()) }
        }
    }

    #[inline]
    pub(crate) fn read(&self) -> Result<(), Cancelled> {
        self.take_at_once(Want::Read).or_else(|seen| self.wait_for(Want::Read, seen))
    }

    #[inline]
    pub(crate) fn write(&self) -> Result<(), Cancelled> {
        self.take_at_once(Want::Write).or_else(|seen| self.wait_for(Want::Write, seen))
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

    /// Where nobody is there the exchange does not wait for the look: what it compares with is known.
    #[inline]
    fn take_at_once(&self, want: Want) -> Result<(), u64> {
        let now = self.look();
        if now != 0 {
            return self.take(now, want, false);
        }
        let taken = self.word.compare_exchange(0, want.share(), Acquire, Relaxed);
        taken.map(drop).or_else(|seen| self.take(seen, want, false))
    }

    #[inline]
    fn take(&self, now: u64, want: Want, past: bool) -> Result<(), u64> {
        self.change(now, |word| want.taken(word, past))
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
        if left < READER && is_queue_due(left) {
            self.serve_if_due(left);
        }
    }

    /// The writer lets go.
    #[inline]
    pub(crate) fn write_unlock(&self) {
        let left = self.word.fetch_sub(WRITER, Release) - WRITER;
        if is_queue_due(left) {
            self.serve_if_due(left);
        }
    }

    /// The writer becomes a reader.
    pub(crate) fn downgrade(&self) {
        let left = self.word.fetch_add(READER - WRITER, Release);
        if left & QUEUED != 0 {
            self.serve();
        }
    }

    #[cold]
    fn serve_if_due(&self, left: u64) {
        if self.is_to_serve(left) {
            self.serve();
        }
    }

    /// Does who finds this word serve the queue, if the owners let its head in?
    fn is_to_serve(&self, word: u64) -> bool {
        is_queue_due(word) && (word & TOKENS == 0 || !self.tokens.is_near())
    }

    #[cold]
    fn serve(&self) {
        let mut wakes = Wakes::new();
        self.hand_over(&mut self.queue.lock(), &mut wakes);
        wakes.wake();
    }

    #[cold]
    fn wait_for(&self, want: Want, seen: u64) -> Result<(), Cancelled> {
        let past = !want.overtakes_too_often(seen) || self.tokens.may_be_overtaken();
        let take = |now| self.take(now, want, past).is_ok();
        if take(seen) || spin(|| take(self.word.load(Relaxed))) {
            return Ok(());
        }
        let object = &raw const *self as usize;
        let how = Wait { object, at_once: true, ..Wait::cancellable("rwlock") };
        let mut patience = Patience::new();
        let (mut has_token, mut place) = (false, Place::Back);
        loop {
            let starved = has_token && patience.is_over();
            let enter = Enter { lock: self, want, has_token, past };
            match wait(enter, place, Waiting { want, starved }, how) {
                Waited::Ready(()) => break,
                Waited::Woken(HANDED) => return Ok(()),
                Waited::Woken(_) => (has_token, place) = (true, Place::Front),
                Waited::TimedOut | Waited::Cancelled => return Err(Cancelled),
            }
            let now = || self.word.load(Relaxed);
            let take = || self.change(now(), |word| with_token(want, word)).is_ok();
            if take() || spin(take) {
                break;
            }
        }
        // Those who stand behind a reader may come along.
        if has_token && want == Want::Read {
            self.serve_if_due(self.word.load(Relaxed));
        }
        Ok(())
    }

    /// Serves the head of the queue as long as the lock allows it; under the queue's lock.
    fn hand_over(&self, queue: &mut Queue<Waiting>, wakes: &mut Wakes) {
        while let Some(Waiting { want, starved }) = queue.front() {
            let now = self.word.load(Relaxed);
            let invites = want.may_join_invited(now);
            if !want.fits(now) || !invites && !self.is_to_serve(now) {
                return;
            }
            let hands = starved || !invites && now & TOKENS != 0;
            let next = if hands { want.added(now) } else { Some(want.with_one_token_more(now)) };
            // More readers than can be counted: the last of them serves the others.
            let Some(next) = next else { return };
            if self.word.compare_exchange(now, next, Acquire, Relaxed).is_err() {
                continue;
            }
            match queue.offer_front(if hands { HANDED } else { RETRY }) {
                Some(Ok(wake)) => {
                    match hands {
                        true => {}
                        false if invites => self.tokens.of_one_more(wake.as_ref()),
                        false => self.tokens.of(wake.as_ref()),
                    }
                    wakes.extend(wake);
                }
                _ if hands => drop(self.word.fetch_sub(want.share(), Release)),
                _ => {
                    let _ = self.change(next, |word| Some(token_refused(word)));
                }
            }
        }
        self.word.fetch_and(!QUEUED, Relaxed);
    }
}

/// A wait for the lock.
struct Enter<'a> {
    lock: &'a RawRwLock,
    want: Want,
    has_token: bool,
    past: bool,
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
        loop {
            let (taken, waits) = match self.has_token {
                true => (with_token(self.want, now), without_token(now) | QUEUED),
                false => (self.want.taken(now, self.past), now | QUEUED),
            };
            match word.compare_exchange_weak(now, taken.unwrap_or(waits), Acquire, Relaxed) {
                Ok(_) => return taken.map(drop),
                Err(seen) => now = seen,
            }
        }
    }

    fn left(&mut self, queue: &mut Queue<Waiting>, _: bool, wakes: &mut Wakes) {
        self.lock.hand_over(queue, wakes);
    }
}

#[cfg(all(test, loom))]
#[path = "raw_rwlock_models.rs"]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    /// As many read as can be counted: who comes now does not get in, with the token or without.
    #[test]
    fn a_reader_too_many_does_not_get_in() {
        let most = !(READER - 1);
        let lock = RawRwLock::new();
        lock.word.store(most, SeqCst);
        assert!(!lock.try_read());
        assert_eq!(lock.word.load(SeqCst), most);
        assert_eq!(with_token(Want::Read, most | TOKEN), None);
    }

    /// Whoever would be one too many stays in the queue, and nobody panics who only frees the lock.
    #[test]
    fn a_reader_too_many_waits_for_the_others() {
        let lock = RawRwLock::new();
        assert!(lock.write().is_ok());
        let served = thread::scope(|scope| {
            let reader = scope.spawn(|| lock.read().is_ok());
            while lock.word.load(SeqCst) & QUEUED == 0 {
                thread::yield_now();
            }
            // As if as many as can be counted had come before it, in place of the writer.
            let (most, writer) = (!(READER - 1), WRITER);
            lock.word.fetch_add(most - writer, SeqCst);
            let served = catch_unwind(AssertUnwindSafe(|| lock.serve()));
            lock.word.fetch_sub(most - READER, SeqCst);
            lock.read_unlock();
            assert!(reader.join().unwrap());
            served
        });
        assert!(served.is_ok());
        lock.read_unlock();
        assert_eq!(lock.word.load(SeqCst), 0);
    }
}
