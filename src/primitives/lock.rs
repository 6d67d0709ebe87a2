//! A mutex whose release is a plain store, for what fibers do at every message: a locked instruction
//! less than with an ordinary mutex, which is a fourth of what a send costs.
//!
//! # States
//!
//! `locked` is 1 while somebody holds the lock, `sleepers` counts those who sleep for it or are about to.
//! The owner releases by a store to `locked` and then looks at `sleepers`; who wants to sleep counts itself
//! and then looks at `locked`: a store-then-load race (Dekker), in which the owner comes often and the
//! sleeper hardly ever. So the owner has the light fence and the sleeper the heavy one.
//!
//! # Why nobody sleeps for ever
//!
//! After a sleeper's heavy fence, every release is of one of two kinds. Its look at `sleepers` came after
//! the fence: it sees the sleeper and wakes, after its store. Or the look came before: then so did its
//! store, and the sleeper sees it. A sleeper that finds the lock taken finds an owner whose release is
//! still to come, so of the first kind. Between its look and its sleep stands the lock of the queue of
//! sleepers, under which it looks, and which the waker takes.
//!
//! It is not fair: one that was woken may be overtaken again and again. Held for some tens of
//! instructions, it is free nearly always.
//!
//! # What it asks for
//!
//! The release touches the lock after others may have taken it. A lock whose memory may go as soon as it
//! is free (on the stack of one who waits) needs a [`Mutex`](super::sync::Mutex), whose release is its
//! last touch. References keep to that by themselves; pointers have to see to it.

use super::asymmetric;
use super::away;
use super::sync::UnsafeCell;
use super::sync::atomic::{AtomicU8, AtomicU32, Ordering};
pub(super) use bed::Bed;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

#[derive(Debug)]
pub(super) struct RawLock {
    locked: AtomicU8,
    sleepers: AtomicU32,
    bed: Bed,
}

const FREE: u8 = 0;
const TAKEN: u8 = 1;

impl RawLock {
    pub(super) const FREE: u8 = FREE;

    const_unless_loom! {
        pub(super) fn new() -> RawLock {
            RawLock { locked: AtomicU8::new(FREE), sleepers: AtomicU32::new(0), bed: Bed::new() }
        }
    }

    /// What the owner stores [`FREE`](RawLock::FREE) to.
    #[inline(always)]
    pub(super) fn word(&self) -> &AtomicU8 {
        &self.locked
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        self.locked.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_slowly();
        }
    }

    /// As [`lock`](RawLock::lock), but who finds it taken stays away for so many stamps before it tries again. Says
    /// until when that was.
    #[inline(always)]
    pub(super) fn lock_patiently(&self, away: &AtomicU32) -> Option<u32> {
        if self.try_lock() { None } else { Some(self.lock_later(away.load(Ordering::Relaxed))) }
    }

    #[cold]
    #[inline(never)]
    fn lock_later(&self, away: u32) -> u32 {
        let until = away::stay(away);
        self.lock_slowly();
        until
    }

    /// By the owner.
    #[inline(always)]
    fn unlock(&self) {
        self.locked.store(FREE, Ordering::Release);
        asymmetric::light();
        if self.has_sleepers() {
            self.wake();
        }
    }

    /// By the owner, after its store and the light fence.
    #[inline(always)]
    pub(super) fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) != 0
    }

    /// From now on whoever leaves after the heavy fence sees that somebody waits.
    pub(super) fn count_sleeper(&self) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn uncount_sleeper(&self) {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly(&self) {
        if self.spin() {
            return;
        }
        self.count_sleeper();
        // Before the fence: from now on the light fences are light only if the heavy ones are heavy.
        asymmetric::register();
        asymmetric::heavy();
        loop {
            self.bed.sleep(&self.locked, || self.locked.load(Ordering::Relaxed) == TAKEN);
            if self.spin() {
                break;
            }
        }
        self.uncount_sleeper();
    }

    #[cold]
    #[inline(never)]
    pub(super) fn wake(&self) {
        self.bed.wake_one(&self.locked);
    }

    /// The owner holds it for some tens of instructions: it is free in a moment, unless its thread has no
    /// processor.
    #[cfg(not(loom))]
    fn spin(&self) -> bool {
        super::spin(|| self.locked.load(Ordering::Relaxed) == FREE && self.try_lock())
    }

    #[cfg(loom)]
    fn spin(&self) -> bool {
        self.try_lock()
    }
}

/// Where threads sleep: the process-wide queues of `parking_lot`.
#[cfg(not(loom))]
mod bed {
    use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, park, unpark_one};

    #[derive(Debug)]
    pub(in crate::primitives) struct Bed;

    impl Bed {
        pub(in crate::primitives) const fn new() -> Bed {
            Bed
        }

        /// Sleeps on `word` unless `still` is false, which is asked under the queue's lock.
        pub(in crate::primitives) fn sleep<W>(&self, word: &W, still: impl FnOnce() -> bool) {
            let key = std::ptr::from_ref(word) as usize;
            // SAFETY: the key is an address of the lock's own; no callback panics or calls back.
            unsafe { park(key, still, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, None) };
        }

        pub(in crate::primitives) fn wake_one<W>(&self, word: &W) {
            let key = std::ptr::from_ref(word) as usize;
            // SAFETY: as above.
            unsafe { unpark_one(key, |_| DEFAULT_UNPARK_TOKEN) };
        }
    }
}

/// The same for loom: a queue of the lock's own.
#[cfg(loom)]
mod bed {
    use crate::primitives::sync::{Condvar, Mutex};

    #[derive(Debug)]
    pub(in crate::primitives) struct Bed {
        queue: Mutex<()>,
        woken: Condvar,
    }

    impl Bed {
        pub(in crate::primitives) fn new() -> Bed {
            Bed { queue: Mutex::new(()), woken: Condvar::new() }
        }

        pub(in crate::primitives) fn sleep<W>(&self, _: &W, still: impl FnOnce() -> bool) {
            let mut queue = self.queue.lock();
            if still() {
                self.woken.wait(&mut queue);
            }
        }

        pub(in crate::primitives) fn wake_one<W>(&self, _: &W) {
            drop(self.queue.lock());
            self.woken.notify_one();
        }
    }
}

/// What is reached by one thread at a time.
///
/// 1. The value is touched by the owner of the raw lock alone, through its one guard.
pub(crate) struct Lock<T> {
    raw: RawLock,
    value: UnsafeCell<T>,
}

// SAFETY: invariant 1; so the value goes from thread to thread, and no two reach it at once.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    const_unless_loom! {
        pub(crate) fn new(value: T) -> Lock<T> {
            Lock { raw: RawLock::new(), value: UnsafeCell::new(value) }
        }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> LockGuard<'_, T> {
        self.raw.lock();
        LockGuard { lock: self, thread: PhantomData }
    }
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Lock<T> {
        Lock::new(T::default())
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("raw", &self.raw).finish_non_exhaustive()
    }
}

/// The right to the value; gives the lock back. It stays on its thread.
pub(crate) struct LockGuard<'a, T> {
    lock: &'a Lock<T>,
    thread: PhantomData<*const ()>,
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: invariant 1.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: invariant 1.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for LockGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.raw.unlock();
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::Lock;
    use crate::primitives::models::check;
    use crate::primitives::sync::Arc;
    use loom::thread;

    /// Everybody gets in, one at a time, and nobody sleeps for ever (loom reports a deadlock).
    fn model(threads: usize, times: usize, preemptions: usize) {
        check(preemptions, move || {
            let lock = Arc::new(Lock::new(0));
            let add = |lock: Arc<Lock<usize>>| move || (0..times).for_each(|_| *lock.lock() += 1);
            let others: Vec<_> =
                (1..threads).map(|_| thread::spawn(add(Arc::clone(&lock)))).collect();
            add(Arc::clone(&lock))();
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(*lock.lock(), threads * times);
        });
    }

    #[test]
    fn two_threads_take_turns() {
        model(2, 2, 3);
    }

    #[test]
    fn three_threads_take_turns() {
        model(3, 1, 3);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{AtomicU32, Lock};
    use crate::primitives::clock::in_stamps;
    use std::thread;
    use std::time::{Duration, Instant};

    /// More threads than processors, and owners that lose theirs: sleepers are woken.
    #[test]
    fn threads_take_turns() {
        const THREADS: usize = 8;
        const TIMES: usize = 5_000;
        let lock = Lock::new((0, 0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for time in 0..TIMES {
                        let mut pair = lock.lock();
                        pair.0 += 1;
                        if time % 500 == 0 {
                            thread::yield_now();
                        }
                        pair.1 += 1;
                        assert_eq!(pair.0, pair.1);
                    }
                });
            }
        });
        assert_eq!(lock.lock().0, THREADS * TIMES);
    }

    /// Who finds it taken does not even sleep for it before its time.
    #[test]
    fn who_waits_stays_away() {
        super::super::tsc::prepare();
        let away = in_stamps(Duration::from_millis(10)) as u32;
        let (lock, away) = (Lock::new(()), AtomicU32::new(away));
        thread::scope(|scope| {
            let held = lock.lock();
            let waiter = scope.spawn(|| {
                let start = Instant::now();
                assert!(lock.raw.lock_patiently(&away).is_some(), "it was taken");
                lock.raw.unlock();
                start.elapsed()
            });
            // It sleeps, if it does not stay away.
            while !waiter.is_finished() && !lock.raw.has_sleepers() {
                thread::yield_now();
            }
            drop(held);
            assert!(waiter.join().unwrap() >= Duration::from_millis(1));
        });
        assert!(lock.raw.lock_patiently(&away).is_none(), "it is free");
        lock.raw.unlock();
    }

    /// A sleeper is seen, whatever else the word says: the owner holds the lock until it sleeps.
    #[test]
    fn a_release_wakes_who_sleeps() {
        let lock = Lock::new(());
        thread::scope(|scope| {
            let held = lock.lock();
            let sleeper = scope.spawn(|| drop(lock.lock()));
            while lock.raw.sleepers.load(super::Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            drop(held);
            sleeper.join().unwrap();
        });
        assert_eq!(lock.raw.sleepers.load(super::Ordering::Relaxed), 0);
    }
}
