//! Many readers or one writer: a word for those who need not wait, a queue for those who must.
//!
//! # The word
//!
//! - `WRITER`: a writer owns the lock. The count in units of `READER`: how many readers do.
//! - `QUEUED`: the queue is not empty. Changes under the queue's lock only.
//! - `WAKING`: a waiter has been woken to try again and has not tried yet: the *token*. Given out under the
//!   queue's lock; cleared by the waiter that has it, as it takes the lock or queues up again.
//! - In units of `TURN`, how often the lock was taken past the one with the token, up to `OVERTAKEN`.
//!
//! # Policy
//!
//! As `raw_mutex.rs` has it. Who comes takes the lock if nobody waits. Who frees it while others wait gives
//! the token to the first of them and leaves the lock free: it may take long to come, and to hand the lock
//! to somebody who does not run makes all others wait for that one, each time anew (a *convoy*). Meanwhile
//! whoever runs may take the free lock, `OVERTAKEN` times. After that, if the token is near, the lock stays
//! free and who comes makes way: it queues up, so that the one with the token runs. Else the lock is handed
//! to the queue's head, and so on in the queue's order until the token comes. A woken waiter that finds
//! the lock taken goes back to the front, and has it *handed* to it by the next release: a fiber after
//! being overtaken once, whoever blocks a thread after half a millisecond.
//!
//! A reader joins other readers only if nobody waits and no token is out: readers that keep coming do
//! not keep a writer waiting. Readers that stand behind one another go together, once the first of
//! them has the lock.
//!
//! # Why nobody is left behind
//!
//! `QUEUED` is set by a compare-and-swap that saw an owner, a token, or `QUEUED` itself. An owner's release
//! that finds `QUEUED`, and no token within its turns, comes to the queue's lock and calls `hand_over`,
//! which goes on until the head cannot be served, or has the token. The one with the token always tries:
//! it takes the lock, and its release finds `QUEUED`; or it sees an owner, gives the token back by the
//! compare-and-swap that saw it, and that owner's release finds `QUEUED` without a token. A waiter that
//! gives up calls `hand_over` too, since it may have been a writer that kept readers waiting.
//!
//! `hand_over` counts a waiter as owner, or gives the token out, *before* it offers: afterwards the waiter
//! may release already. A lost offer is taken back, and the loop looks at the word again, so that a
//! release that came between, and relied on the one who lost, is made up for.

use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Patience, Queues, Wait, is_near, spin};
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use crate::primitives::{const_unless_loom, prefetch_for_write};

use super::raw_mutex::Cancelled;

const WRITER: u32 = 1;
const QUEUED: u32 = 2;
const WAKING: u32 = 4;
const TURN: u32 = 8;
/// The token and how often it was overtaken.
const TOKEN: u32 = WAKING | (63 * TURN);
const READER: u32 = 64 * TURN;
/// From here on the token has been out for too long.
const LIMIT: u32 = OVERTAKEN * TURN;

/// How often the lock is left to others while a woken waiter does not come; 63 at most.
const OVERTAKEN: u32 = if cfg!(loom) { 1 } else { 63 };

/// The lock is the waiter's.
const HANDED: u32 = 1;
/// The waiter may try again, and has the token.
const RETRY: u32 = 0;

/// What a waiter wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Read,
    Write,
}

impl Want {
    /// What its owner adds to the word.
    fn share(self) -> u32 {
        if self == Want::Read { READER } else { WRITER }
    }

    /// Do the owners in `word` let it in?
    fn fits(self, word: u32) -> bool {
        word & WRITER == 0 && (self == Want::Read || word < READER)
    }

    /// The word after `word` if one who comes with this want may take the lock; `past` the one with the
    /// token even if that was overtaken often enough, but not past a queue then.
    fn taken(self, word: u32, past: bool) -> Option<u32> {
        if !self.fits(word) {
            return None;
        }
        if word & (QUEUED | WAKING) == 0 {
            return self.added(word);
        }
        match word < READER && word & WAKING != 0 {
            true if word & TOKEN < (WAKING | LIMIT) => self.added(word + TURN),
            true if past && word & QUEUED == 0 => self.added(word),
            _ => None,
        }
    }

    /// The word with one owner more; `None` if there are as many readers as can be counted: whoever comes
    /// then waits as for a writer.
    fn added(self, word: u32) -> Option<u32> {
        word.checked_add(self.share())
    }
}

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
    word: AtomicU32,
    /// Where the one with the token was put, by whoever gave it out: a hint.
    token: AtomicUsize,
    queue: Lock<Queue<Waiting>>,
}

impl RawRwLock {
    const_unless_loom! {
        pub(crate) fn new() -> RawRwLock {
            let (word, token) = (AtomicU32::new(0), AtomicUsize::new(0));
            RawRwLock { word, token, queue: Lock::new(Queue::new()) }
        }
    }

    #[inline]
    pub(crate) fn read(&self) -> Result<(), Cancelled> {
        prefetch_for_write(&self.word);
        let free = self.change(self.word.load(Relaxed), |word| Want::Read.taken(word, false));
        if free { Ok(()) } else { self.wait_for(Want::Read) }
    }

    #[inline]
    pub(crate) fn write(&self) -> Result<(), Cancelled> {
        let free = match self.word.compare_exchange(0, WRITER, Acquire, Relaxed) {
            Ok(_) => true,
            Err(seen) => self.change(seen, |word| Want::Write.taken(word, false)),
        };
        if free { Ok(()) } else { self.wait_for(Want::Write) }
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_read(&self) -> bool {
        self.try_take(Want::Read)
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_write(&self) -> bool {
        self.try_take(Want::Write)
    }

    #[inline]
    fn try_take(&self, want: Want) -> bool {
        self.change(self.word.load(Relaxed), |word| want.taken(word, true))
    }

    /// Changes the word, which was `now`, to `next` of it, unless that says no.
    #[inline]
    fn change(&self, mut now: u32, next: impl Fn(u32) -> Option<u32>) -> bool {
        while let Some(next) = next(now) {
            match self.word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(seen) => now = seen,
            }
        }
        false
    }

    /// A reader lets go.
    #[inline]
    pub(crate) fn read_unlock(&self) {
        let left = self.word.fetch_sub(READER, Release) - READER;
        if left < READER && self.is_to_serve(left) {
            self.serve();
        }
    }

    /// The writer lets go.
    #[inline]
    pub(crate) fn write_unlock(&self) {
        if self.word.compare_exchange(WRITER, 0, Release, Relaxed).is_err() {
            self.write_unlock_slow();
        }
    }

    #[cold]
    fn write_unlock_slow(&self) {
        if self.is_to_serve(self.word.fetch_and(!WRITER, Release)) {
            self.serve();
        }
    }

    /// The writer becomes a reader.
    pub(crate) fn downgrade(&self) {
        let left = self.word.fetch_add(READER - WRITER, Release);
        if left & QUEUED != 0 {
            self.serve();
        }
    }

    /// Does who finds this word serve the queue, if the owners let its head in?
    #[inline]
    fn is_to_serve(&self, word: u32) -> bool {
        word & QUEUED != 0
            && (word & WAKING == 0 || word & TOKEN >= (WAKING | LIMIT) && !self.is_token_near())
    }

    #[cold]
    fn is_token_near(&self) -> bool {
        is_near(Queues::from_word(self.token.load(Relaxed)))
    }

    #[cold]
    fn serve(&self) {
        let mut wakes = Wakes::new();
        self.hand_over(&mut self.queue.lock(), &mut wakes);
        wakes.wake();
    }

    #[cold]
    fn wait_for(&self, want: Want) -> Result<(), Cancelled> {
        let past = !self.is_token_near();
        if past && self.try_take(want) || spin(|| self.try_take(want)) {
            return Ok(());
        }
        let how = Wait { object: &raw const *self as usize, ..Wait::cancellable("rwlock") };
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
            let take = || self.change(self.word.load(Relaxed), |word| with_token(want, word));
            if take() || spin(take) {
                break;
            }
        }
        // Those who stand behind a reader may come along.
        if has_token && want == Want::Read && self.word.load(Relaxed) & QUEUED != 0 {
            self.serve();
        }
        Ok(())
    }

    /// Serves the head of the queue as long as the lock allows it; under the queue's lock.
    fn hand_over(&self, queue: &mut Queue<Waiting>, wakes: &mut Wakes) {
        while let Some(Waiting { want, starved }) = queue.front() {
            let now = self.word.load(Relaxed);
            if !want.fits(now) || !self.is_to_serve(now) {
                return;
            }
            let hands = starved || now & WAKING != 0 || now >= READER;
            let next = if hands { want.added(now) } else { Some(now | WAKING) };
            // More readers than can be counted: the last of them serves the others.
            let Some(next) = next else { return };
            let result = if hands { HANDED } else { RETRY };
            if self.word.compare_exchange(now, next, Acquire, Relaxed).is_err() {
                continue;
            }
            match queue.offer_front(result) {
                Some(Ok(wake)) => {
                    if !hands {
                        self.token.store(Queues::of(wake.as_ref()).word(), Relaxed);
                    }
                    wakes.extend(wake);
                }
                _ if hands => drop(self.word.fetch_sub(want.share(), Release)),
                _ => drop(self.word.fetch_and(!TOKEN, Relaxed)),
            }
        }
        self.word.fetch_and(!QUEUED, Relaxed);
    }
}

/// The word after `word` if the one with the token takes the lock, which it gives back so.
fn with_token(want: Want, word: u32) -> Option<u32> {
    if want.fits(word) { want.added(word & !TOKEN) } else { None }
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
                true => (with_token(self.want, now), now & !TOKEN | QUEUED),
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
        assert_eq!(with_token(Want::Read, most | WAKING), None);
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
            // As if as many as can be counted had come before it.
            lock.word.store(!(READER - 1) | QUEUED, SeqCst);
            let served = catch_unwind(AssertUnwindSafe(|| lock.serve()));
            lock.word.store(READER | QUEUED, SeqCst);
            lock.read_unlock();
            assert!(reader.join().unwrap());
            served
        });
        assert!(served.is_ok());
        lock.read_unlock();
        assert_eq!(lock.word.load(SeqCst), 0);
    }
}
