//! A lock that one thread takes and releases by plain stores, for as long as no other comes: for what two
//! fibers of one worker do a hundred times a microsecond. A locked instruction waits until all stores before
//! it are done, and nothing after it begins before: it is half of what a send or a receive costs.
//!
//! # States
//!
//! Below is an ordinary [`Lock`](super::sync::Lock) (`raw`). `bias` names the thread that has the bias, or
//! [`NOBODY`]:
//!
//! - The thread that is named goes in by a store to `inside`, and then looks at `bias` once more; it goes out
//!   by another store to `inside`.
//! - All others take `raw`. Who has it and finds a thread named *revokes* the bias: he marks it [`REVOKED`],
//!   and waits until that thread is out and will not come in by it again. So one is inside at a time: with
//!   `raw` and nobody named, or named.
//! - Who has taken `raw` [`STREAK`] times, and no other thread between, gets the bias, with `raw` in hand, unless the
//!   process has enough of them, or had to end some of late (`biases.rs`).
//!
//! # The race
//!
//! The named thread stores to `inside` and loads `bias`; the revoker stores to `bias` and loads `inside`: a
//! store-then-load race (Dekker) with one side that comes often and one that hardly ever does. The first has
//! the light fence, which is light: nobody is given a bias otherwise. The second comes in one of two ways:
//!
//! - The named thread **gives up** the bias, by a compare-and-swap from its mark to [`NOBODY`], as soon as it
//!   sees the mark: when it comes for the lock or leaves it. It is not inside then, and since one thread's
//!   loads of one word never go back, it does not come in by this bias again. That takes as long as the way of
//!   two cache lines if it uses the lock all the time.
//! - If it does not come for some hundred nanoseconds, the revoker has the heavy fence. If the second load of
//!   `bias` came before that, so did the store to `inside`, and the revoker sees it and waits for the other
//!   one. If it comes after, it sees the mark. Either way whoever was inside is out when the revoker goes on.
//!
//! # What a heavy fence leaves behind
//!
//! After the second way the thread may still be about to store to `inside`, after its first look at `bias`:
//! it takes that back as soon as it has looked again, but by then `inside` might be another's, who would seem
//! to be out. So it stands in `debtor` until it has come for `raw`, by which it is past that; meanwhile nobody
//! gets the bias.
//!
//! # Why nobody sleeps for ever
//!
//! The revoker counts himself among the sleepers of `raw` before he marks the bias. Who leaves by `inside`
//! looks at that count after its store, with the light fence between, and wakes: as for `raw`, before the
//! heavy fence the revoker sees the store, after it he is seen.
//!
//! # What it asks for
//!
//! As `Lock`: the release touches the lock after others may have it. And it asks who comes: a [`Caller`].

use super::LINE;
use super::asymmetric;
use super::away::Away;
use super::biases::BIASES;
use super::lock::{Bed, RawLock};
use super::sync::UnsafeCell;
use super::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// Nobody has the bias. It is the address of no thread's, and differs from [`Caller::NONE`], who never has.
const NOBODY: usize = 2;
/// Added to the address of who has the bias and is to lose it.
const REVOKED: usize = 1;

const OUT: u8 = 0;
const IN: u8 = 1;

/// So many times in a row somebody takes the lock before the bias is given, with which the next hundred or so
/// pay for its end.
#[cfg(not(loom))]
const STREAK: u16 = 128;
/// The same where the last end was by a heavy fence: some microseconds for each of two processors.
#[cfg(not(loom))]
const LONG_STREAK: u16 = 4096;
#[cfg(loom)]
const STREAK: u16 = 1;
#[cfg(loom)]
const LONG_STREAK: u16 = 1;

/// The calling thread, as a biased lock knows it. Good until the caller's next switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller(usize, PhantomData<*const ()>);

impl Caller {
    /// A thread that never gets a bias.
    pub(crate) const NONE: Caller = Caller(0, PhantomData);

    /// The thread to which `place` belongs; [`NONE`](Caller::NONE) for null.
    ///
    /// # Safety
    ///
    /// As long as the caller uses this, no other thread makes one of the same place; and if another does
    /// later, it got the place from the caller by way of something that synchronizes.
    #[inline(always)]
    pub(crate) unsafe fn of<T>(place: *const T) -> Caller {
        const { assert!(align_of::<T>() >= 4) };
        Caller(place as usize, PhantomData)
    }
}

#[derive(Debug)]
struct RawBiased {
    bias: AtomicUsize,
    /// Is the thread that has the bias inside? Written by that thread alone.
    inside: AtomicU8,
    raw: RawLock,
    /// For how long who finds `raw` taken stays away (`away.rs`). Written by the owner of `raw`.
    away: AtomicU32,
    /// Where the revoker sleeps for `inside`.
    bed: Bed,
    history: UnsafeCell<History>,
}

/// Touched by the owner of `raw` alone.
#[derive(Debug)]
struct History {
    /// Who came last, the lower half of that, and how many times in a row before.
    last: u32,
    streak: u16,
    /// How many times it takes.
    needed: u16,
    away: Away,
    /// Who has lost the bias without having seen it; or [`NOBODY`].
    debtor: usize,
}

#[cfg(not(loom))]
const _: () =
    assert!(size_of::<RawBiased>() <= LINE, "one line goes from one processor to the other");

impl RawBiased {
    /// Returns what the owner stores to when it leaves.
    #[inline(always)]
    fn lock(&self, caller: Caller, first: impl FnOnce()) -> &AtomicU8 {
        self.lock_by_bias(caller).unwrap_or_else(|| {
            first();
            self.lock_plainly(caller);
            self.raw.word()
        })
    }

    #[inline(always)]
    fn lock_by_bias(&self, caller: Caller) -> Option<&AtomicU8> {
        if self.bias.load(Ordering::Relaxed) != caller.0 {
            return None;
        }
        self.inside.store(IN, Ordering::Relaxed);
        asymmetric::surely_light();
        if self.bias.load(Ordering::Relaxed) == caller.0 {
            return Some(&self.inside);
        }
        self.take_back(caller);
        None
    }

    /// By the owner.
    #[inline(always)]
    fn unlock(&self, caller: Caller, word: &AtomicU8) {
        const { assert!(OUT == RawLock::FREE) };
        word.store(OUT, Ordering::Release);
        if std::ptr::eq(word, &self.inside) {
            asymmetric::surely_light();
        } else {
            asymmetric::light();
        }
        if self.raw.has_sleepers() {
            self.wake(caller, word);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, caller: Caller, word: &AtomicU8) {
        if std::ptr::eq(word, &self.inside) {
            self.give_up(caller);
            self.bed.wake_one(word);
        } else {
            self.raw.wake();
        }
    }

    /// The caller must not go in after all. The revoker may have seen it, and sleep.
    #[cold]
    #[inline(never)]
    fn take_back(&self, caller: Caller) {
        self.unlock(caller, &self.inside);
    }

    /// If the caller is to lose the bias, it does so here, where it is not inside.
    fn give_up(&self, caller: Caller) {
        let marked = caller.0 | REVOKED;
        if self.bias.load(Ordering::Relaxed) == marked {
            // The revoker may not wait for it any more.
            let _ =
                self.bias.compare_exchange(marked, NOBODY, Ordering::Release, Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn lock_plainly(&self, caller: Caller) {
        self.give_up(caller);
        let stayed = self.raw.lock_patiently(&self.away);
        let named = self.bias.load(Ordering::Relaxed);
        let gave_up = named == NOBODY || self.revoke(named);
        // SAFETY: the owner of `raw`.
        let gets_it = self.history.with_mut(|history| unsafe {
            if named != NOBODY {
                (*history).revoked(named, gave_up);
            }
            if let Some(until) = stayed {
                self.away.store((*history).away.stayed(until), Ordering::Relaxed);
            }
            (*history).came(caller)
        });
        if gets_it {
            // From its next time on.
            self.bias.store(caller.0, Ordering::Relaxed);
        }
    }

    /// By the owner of `raw`: true if `named` has given up the bias, false if it was taken.
    #[cold]
    #[inline(never)]
    fn revoke(&self, named: usize) -> bool {
        self.raw.count_sleeper();
        self.bias.store(named | REVOKED, Ordering::Relaxed);
        let gives_up = || self.bias.load(Ordering::Acquire) == NOBODY;
        let gave_up = look(gives_up);
        if !gave_up {
            asymmetric::heavy();
            let is_out = || self.inside.load(Ordering::Acquire) == OUT;
            while !look(is_out) {
                self.bed.sleep(&self.inside, || !is_out());
            }
            self.bias.store(NOBODY, Ordering::Relaxed);
            BIASES.rest();
        }
        BIASES.ends();
        self.raw.uncount_sleeper();
        gave_up
    }
}

/// A lock that goes takes its bias along.
impl Drop for RawBiased {
    #[inline]
    fn drop(&mut self) {
        if self.bias.load(Ordering::Relaxed) != NOBODY {
            BIASES.ends();
        }
    }
}

impl History {
    const fn new() -> History {
        History { last: 0, streak: 0, needed: STREAK, away: Away::new(), debtor: NOBODY }
    }

    #[cold]
    fn revoked(&mut self, from: usize, gave_up: bool) {
        self.away.forget();
        (self.needed, self.debtor) = if gave_up { (STREAK, NOBODY) } else { (LONG_STREAK, from) };
    }

    /// The caller has taken `raw`. True if it is to have the bias.
    #[inline(always)]
    fn came(&mut self, caller: Caller) -> bool {
        self.away.count();
        if self.last != caller.0 as u32 {
            self.another_came(caller);
            return false;
        }
        self.streak += 1;
        self.streak >= self.needed && self.is_worthy(caller)
    }

    fn another_came(&mut self, caller: Caller) {
        (self.last, self.streak) = (caller.0 as u32, 0);
        if self.debtor == caller.0 {
            self.debtor = NOBODY;
        }
    }

    #[cold]
    fn is_worthy(&mut self, caller: Caller) -> bool {
        self.streak = 0;
        let may = self.debtor == NOBODY && caller != Caller::NONE && asymmetric::is_light();
        may && BIASES.give()
    }
}

/// Is it so, now or in a moment?
#[cfg(not(loom))]
fn look(mut is_so: impl FnMut() -> bool) -> bool {
    const LOOKS: u32 = 8;
    const SPINS: u32 = 8;
    (0..LOOKS).any(|_| {
        (0..SPINS).for_each(|_| std::hint::spin_loop());
        is_so()
    })
}

#[cfg(loom)]
fn look(mut is_so: impl FnMut() -> bool) -> bool {
    is_so()
}

/// What is reached by one thread at a time, mostly by the same.
///
/// 1. The value is touched by the owner of the raw lock alone, through its one guard.
pub(crate) struct BiasedLock<T> {
    raw: RawBiased,
    value: UnsafeCell<T>,
}

// SAFETY: invariant 1; so the value goes from thread to thread, and no two reach it at once.
unsafe impl<T: Send> Sync for BiasedLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for BiasedLock<T> {}

impl<T> BiasedLock<T> {
    pub(crate) fn new(value: T) -> BiasedLock<T> {
        let raw = RawBiased {
            bias: AtomicUsize::new(NOBODY),
            inside: AtomicU8::new(OUT),
            raw: RawLock::new(),
            away: AtomicU32::new(Away::FIRST),
            bed: Bed::new(),
            history: UnsafeCell::new(History::new()),
        };
        BiasedLock { raw, value: UnsafeCell::new(value) }
    }

    #[inline(always)]
    pub(crate) fn lock(&self, caller: Caller) -> BiasedGuard<'_, T> {
        self.lock_after(caller, || {})
    }

    /// Does `first` before it takes the lock, if the caller has not the bias.
    #[inline(always)]
    pub(crate) fn lock_after(&self, caller: Caller, first: impl FnOnce()) -> BiasedGuard<'_, T> {
        let word = self.raw.lock(caller, first);
        BiasedGuard { lock: self, caller, word }
    }
}

impl<T> BiasedLock<T> {
    /// Takes the lock if the caller has the bias: some instructions, without a call that comes back.
    #[inline(always)]
    pub(crate) fn lock_by_bias(&self, caller: Caller) -> Option<BiasedGuard<'_, T>> {
        self.raw.lock_by_bias(caller).map(|word| BiasedGuard { lock: self, caller, word })
    }

    /// The guard again.
    ///
    /// # Safety
    ///
    /// `held` is from a guard of this lock, on this thread, since when there was no switch.
    #[inline(always)]
    pub(crate) unsafe fn guard<'a>(&'a self, held: Held<'a, T>) -> BiasedGuard<'a, T> {
        BiasedGuard { lock: self, caller: held.caller, word: held.word }
    }
}

impl<T> fmt::Debug for BiasedLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BiasedLock").field("raw", &self.raw).finish_non_exhaustive()
    }
}

/// The right to the value; gives the lock back. It stays on its thread, as the caller does.
pub(crate) struct BiasedGuard<'a, T> {
    lock: &'a BiasedLock<T>,
    caller: Caller,
    word: &'a AtomicU8,
}

/// What a guard knows besides its lock: two words, for a call that takes it along in registers. The lock stays
/// taken until the guard is made again.
#[must_use]
pub(crate) struct Held<'a, T> {
    caller: Caller,
    word: &'a AtomicU8,
    value: PhantomData<&'a mut T>,
}

impl<'a, T> BiasedGuard<'a, T> {
    /// Was the lock had by the caller's bias?
    #[inline(always)]
    pub(crate) fn is_by_bias(&self) -> bool {
        std::ptr::eq(self.word, &self.lock.raw.inside)
    }

    #[inline(always)]
    pub(crate) fn hold(self) -> Held<'a, T> {
        let guard = ManuallyDrop::new(self);
        Held { caller: guard.caller, word: guard.word, value: PhantomData }
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: invariant 1.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: invariant 1.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.raw.unlock(self.caller, self.word);
    }
}

#[cfg(all(test, loom))]
#[path = "biased_models.rs"]
mod models;

#[cfg(all(test, not(loom)))]
#[path = "biased_tests.rs"]
mod tests;
