//! A number of permits: a word for those who need not wait, a queue for those who must.
//!
//! # The word
//!
//! - `CLOSED`: no permit is given any more; stays.
//! - `QUEUED`: the queue is not empty. Changes under the queue's lock only.
//! - Above the flags: how many permits are there.
//!
//! While `QUEUED` is set permits only come, and only `hand_over` gives them away, under the queue's
//! lock, first come, first served; so a waiter that wants many is not overtaken for ever.
//!
//! `QUEUED` is set by a compare-and-swap that saw too few permits, and a release adds by one that
//! returns the flag: either the waiter saw the permits, or the release sees the waiter and comes to
//! the queue's lock. A waiter that gives up hands over too: those behind it may want less.
//!
//! `hand_over` takes the permits *before* it offers, since the waiter may give them back at once; a
//! lost offer is taken back and the loop looks again.

use crate::park::Wait;
use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::primitives::clock::Moment;
use crate::primitives::const_unless_loom;
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering::*};

const CLOSED: usize = 1;
const QUEUED: usize = 2;
const PERMIT: usize = 4;

pub(crate) const MAX_PERMITS: usize = usize::MAX >> 3;

/// What a woken waiter is told.
const GIVEN: u32 = 0;
const REFUSED: u32 = 1;

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    TooFew,
    Closed,
    Cancelled,
}

#[derive(Debug)]
pub(crate) struct RawSemaphore {
    word: AtomicUsize,
    /// Each waiter says how many permits it wants.
    queue: Lock<Queue<usize>>,
}

impl RawSemaphore {
    const_unless_loom! {
        pub(crate) fn new(permits: usize) -> RawSemaphore {
            assert!(permits <= MAX_PERMITS, "more than Semaphore::MAX_PERMITS permits");
            RawSemaphore {
                word: AtomicUsize::new(permits * PERMIT),
                queue: Lock::new(Queue::new()),
            }
        }
    }

    pub(crate) fn available(&self) -> usize {
        self.word.load(Acquire) / PERMIT
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Acquire) & CLOSED != 0
    }

    #[inline]
    pub(crate) fn try_acquire(&self, count: usize) -> Result<(), Refused> {
        let mut now = self.word.load(Relaxed);
        loop {
            let next = take(now, count)?;
            match self.word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                Ok(_) => return Ok(()),
                Err(seen) => now = seen,
            }
        }
    }

    #[inline]
    pub(crate) fn acquire(&self, count: usize, deadline: Option<Moment>) -> Result<(), Refused> {
        match self.try_acquire(count) {
            Err(Refused::TooFew) => self.acquire_slow(count, deadline),
            result => result,
        }
    }

    #[cold]
    fn acquire_slow(&self, count: usize, deadline: Option<Moment>) -> Result<(), Refused> {
        let object = &raw const *self as usize;
        let how = Wait { object, deadline, ..Wait::cancellable("semaphore") };
        match wait(Enter { semaphore: self, count }, Place::Back, count, how) {
            Waited::Ready(result) => result,
            Waited::Woken(GIVEN) => Ok(()),
            Waited::Woken(_) => Err(Refused::Closed),
            // What was released before the caller ran is there.
            Waited::TimedOut => self.try_acquire(count),
            Waited::Cancelled => Err(Refused::Cancelled),
        }
    }

    /// Adds permits.
    #[inline]
    pub(crate) fn release(&self, count: usize) {
        let mut now = self.word.load(Relaxed);
        loop {
            let fits = count <= MAX_PERMITS && now / PERMIT <= MAX_PERMITS - count;
            assert!(fits, "{} and {count} are more than Semaphore::MAX_PERMITS", now / PERMIT);
            let next = now + count * PERMIT;
            match self.word.compare_exchange_weak(now, next, Release, Relaxed) {
                Ok(_) => break,
                Err(seen) => now = seen,
            }
        }
        if now & QUEUED != 0 {
            self.serve();
        }
    }

    /// Takes away up to `count` permits that are there; returns how many.
    pub(crate) fn forget(&self, count: usize) -> usize {
        let mut now = self.word.load(Relaxed);
        loop {
            let gone = count.min(now / PERMIT);
            let next = now - gone * PERMIT;
            match self.word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                Ok(_) => return gone,
                Err(seen) => now = seen,
            }
        }
    }

    /// No permit is given any more; those who wait are told.
    pub(crate) fn close(&self) {
        let mut wakes = Wakes::new();
        {
            let mut queue = self.queue.lock();
            self.word.fetch_or(CLOSED, AcqRel);
            queue.wake_all(REFUSED, &mut wakes);
            self.word.fetch_and(!QUEUED, Relaxed);
        }
        wakes.wake();
    }

    #[cold]
    fn serve(&self) {
        let mut wakes = Wakes::new();
        self.hand_over(&mut self.queue.lock(), &mut wakes);
        wakes.wake();
    }

    fn hand_over(&self, queue: &mut Queue<usize>, wakes: &mut Wakes) {
        while let Some(count) = queue.first_open() {
            let mut now = self.word.load(Relaxed);
            // By exchange, because of `forget`.
            while now / PERMIT >= count {
                let next = now - count * PERMIT;
                match self.word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                    Ok(_) => break,
                    Err(seen) => now = seen,
                }
            }
            if now / PERMIT < count {
                return;
            }
            match queue.offer_front(GIVEN) {
                Some(Ok(wake)) => wakes.extend(wake),
                _ => {
                    self.word.fetch_add(count * PERMIT, Release);
                }
            }
        }
        self.word.fetch_and(!QUEUED, Relaxed);
    }
}

/// The word without `count` permits.
#[inline]
fn take(now: usize, count: usize) -> Result<usize, Refused> {
    if now & CLOSED != 0 {
        Err(Refused::Closed)
    } else if now & QUEUED != 0 || now / PERMIT < count {
        Err(Refused::TooFew)
    } else {
        Ok(now - count * PERMIT)
    }
}

/// A wait for permits.
struct Enter<'a> {
    semaphore: &'a RawSemaphore,
    count: usize,
}

impl<'a> Source<'a> for Enter<'a> {
    type Inner = Queue<usize>;
    type Data = usize;
    type Ready = Result<(), Refused>;

    fn lock(&self) -> &'a Lock<Queue<usize>> {
        &self.semaphore.queue
    }

    fn queue<'q>(&self, inner: &'q mut Queue<usize>) -> &'q mut Queue<usize> {
        inner
    }

    fn enter(&mut self, _: &mut Queue<usize>) -> Option<Result<(), Refused>> {
        let word = &self.semaphore.word;
        let mut now = word.load(Relaxed);
        loop {
            let (next, ready) = match take(now, self.count) {
                Ok(next) => (next, Some(Ok(()))),
                Err(Refused::TooFew) => (now | QUEUED, None),
                Err(refused) => return Some(Err(refused)),
            };
            match word.compare_exchange_weak(now, next, Acquire, Relaxed) {
                Ok(_) => return ready,
                Err(seen) => now = seen,
            }
        }
    }

    fn left(&mut self, queue: &mut Queue<usize>, _: bool, wakes: &mut Wakes) {
        self.semaphore.hand_over(queue, wakes);
    }
}

#[cfg(all(test, loom))]
#[path = "raw_semaphore_models.rs"]
mod models;
