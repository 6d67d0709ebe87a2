//! Many readers or one writer: a word for those who need not wait, a queue for those who must.
//!
//! # The word
//!
//! - `WRITER`: a writer owns the lock. The count above the flags: how many readers do.
//! - `QUEUED`: the queue is not empty. Changes under the queue's lock only.
//!
//! Nobody passes while `QUEUED` is set: what becomes free then is handed to the queue's head under its
//! lock, a writer alone or all readers up to the next writer. So readers that keep coming do not keep
//! a writer waiting, nor writers a reader.
//!
//! # Why nobody is left behind
//!
//! `QUEUED` is set only while somebody owns the lock, by a compare-and-swap that saw it. The owner's
//! release then finds `QUEUED`: the last reader's by the value that its subtraction returns, a
//! writer's by its failed exchange; it comes to the queue's lock and calls `hand_over`, which goes on
//! until the head cannot be served. A waiter that gives up calls it too, since it may have been a
//! writer that kept readers waiting.
//!
//! `hand_over` counts a waiter as owner *before* it offers: afterwards the waiter may release already.
//! A lost offer is taken back, and the loop looks at the word again, so that a release that came
//! between, and saw the one who lost as an owner, is made up for.

use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Wait, spin};
use crate::primitives::const_unless_loom;
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicU32, Ordering::*};

use super::raw_mutex::Cancelled;

const WRITER: u32 = 1;
const QUEUED: u32 = 2;
const READER: u32 = 4;

/// What a waiter wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Read,
    Write,
}

/// A lock without data.
#[derive(Debug)]
pub(crate) struct RawRwLock {
    word: AtomicU32,
    queue: Lock<Queue<Want>>,
}

impl RawRwLock {
    const_unless_loom! {
        pub(crate) fn new() -> RawRwLock {
            RawRwLock { word: AtomicU32::new(0), queue: Lock::new(Queue::new()) }
        }
    }

    #[inline]
    pub(crate) fn read(&self) -> Result<(), Cancelled> {
        if self.try_read() { Ok(()) } else { self.wait_for(Want::Read) }
    }

    #[inline]
    pub(crate) fn write(&self) -> Result<(), Cancelled> {
        if self.try_write() { Ok(()) } else { self.wait_for(Want::Write) }
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_read(&self) -> bool {
        let mut now = self.word.load(Relaxed);
        while now & (WRITER | QUEUED) == 0 {
            let next = one_more(now);
            match self.word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(seen) => now = seen,
            }
        }
        false
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_write(&self) -> bool {
        self.word.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok()
    }

    /// A reader lets go.
    #[inline]
    pub(crate) fn read_unlock(&self) {
        let left = self.word.fetch_sub(READER, Release) - READER;
        if left == QUEUED {
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
        self.word.fetch_and(!WRITER, Release);
        self.serve();
    }

    /// The writer becomes a reader.
    pub(crate) fn downgrade(&self) {
        let left = self.word.fetch_add(READER - WRITER, Release);
        if left & QUEUED != 0 {
            self.serve();
        }
    }

    #[cold]
    fn serve(&self) {
        let mut wakes = Wakes::new();
        self.hand_over(&mut self.queue.lock(), &mut wakes);
        wakes.wake();
    }

    #[cold]
    fn wait_for(&self, want: Want) -> Result<(), Cancelled> {
        let now = || match want {
            Want::Read => self.try_read(),
            Want::Write => self.try_write(),
        };
        if spin(now) {
            return Ok(());
        }
        let how = Wait { object: &raw const *self as usize, ..Wait::cancellable("rwlock") };
        match wait(Enter { lock: self, want }, Place::Back, want, how) {
            Waited::Ready(()) | Waited::Woken(_) => Ok(()),
            Waited::TimedOut | Waited::Cancelled => Err(Cancelled),
        }
    }

    /// Serves the head of the queue as long as the lock allows it; under the queue's lock.
    fn hand_over(&self, queue: &mut Queue<Want>, wakes: &mut Wakes) {
        while let Some(want) = queue.front() {
            let now = self.word.load(Relaxed);
            let free = now & WRITER == 0 && (want == Want::Read || now < READER);
            if !free {
                return;
            }
            let share = if want == Want::Read { READER } else { WRITER };
            self.word.fetch_add(share, Acquire);
            match queue.offer_front(0) {
                Some(Ok(wake)) => wakes.extend(wake),
                _ => {
                    self.word.fetch_sub(share, Release);
                }
            }
        }
        self.word.fetch_and(!QUEUED, Relaxed);
    }
}

#[inline]
fn one_more(now: u32) -> u32 {
    now.checked_add(READER).expect("too many readers of one lock")
}

/// A wait for the lock.
struct Enter<'a> {
    lock: &'a RawRwLock,
    want: Want,
}

impl<'a> Source<'a> for Enter<'a> {
    type Inner = Queue<Want>;
    type Data = Want;
    type Ready = ();

    fn lock(&self) -> &'a Lock<Queue<Want>> {
        &self.lock.queue
    }

    fn queue<'q>(&self, inner: &'q mut Queue<Want>) -> &'q mut Queue<Want> {
        inner
    }

    fn enter(&mut self, _: &mut Queue<Want>) -> Option<()> {
        let word = &self.lock.word;
        let mut now = word.load(Relaxed);
        loop {
            let free = match self.want {
                Want::Read => now & (WRITER | QUEUED) == 0,
                Want::Write => now == 0,
            };
            let next = match self.want {
                _ if !free => now | QUEUED,
                Want::Read => one_more(now),
                Want::Write => WRITER,
            };
            match word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                Ok(_) => return free.then_some(()),
                Err(seen) => now = seen,
            }
        }
    }

    fn left(&mut self, queue: &mut Queue<Want>, _: bool, wakes: &mut Wakes) {
        self.lock.hand_over(queue, wakes);
    }
}

#[cfg(all(test, loom))]
#[path = "raw_rwlock_models.rs"]
mod models;
