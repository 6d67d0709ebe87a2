//! Deadlines of waits: a wheel per worker, each behind its own lock.
//!
//! A worker arms timers in the wheel of its own index, so the lock is hardly ever contended; any
//! thread that makes a turn looks at all of them, so no timer waits for one busy worker.
//!
//! A turn settles a bounded number of waits, and leaves the others due: a worker that goes into the
//! poller does not wait there then, and a busy one comes again after a tick. So nobody sleeps over
//! them, and whoever is free for them meanwhile is woken for what this turn has settled. A turn settles
//! more than a tick dispatches: what is due does not pile up in the wheels.

use super::wheel::{Entry, TICK, Wheel};
use crate::fiber::{Batch, Outcome, WaiterPtr, Wake};
use crate::primitives::clock::Moment;
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crossbeam_utils::CachePadded;
use std::array;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::ptr::NonNull;
use std::time::Duration;

/// A timer that is due waits for others for so long, of which a wake takes a twentieth or more: two ticks of the wheel,
/// in which those stand who begin to sleep one after the other.
const COMPANY: Duration = Duration::from_nanos(2 * TICK);
/// From the end of one wait for a timer to that of the next, on average, at least: timers that are near to each other
/// share a wake, which costs more than what they do then.
const APART: Duration = Duration::from_millis(1);
/// The same while somebody waits for less than half of that, who would wait several times as long otherwise: a tick of
/// the wheels. Who sleeps for 100 us again and again wakes almost that often anyway.
const APART_IF_CLOSE: Duration = Duration::from_nanos(TICK);
/// How many waiters are taken out of a wheel before they are settled.
const AT_ONCE: usize = 16;
/// How many one turn settles in one wheel, at most, under its lock: whoever arms or disarms there waits
/// for some tens of microseconds. Only a cascade of the wheel takes longer if there is more in its slot.
const IN_WHEEL: usize = 512;
/// How many one turn settles, at most, before it looks at no further wheel: what it has settled is to run.
const IN_TURN: usize = 4 * IN_WHEEL;

#[derive(Debug)]
pub(crate) struct Timers {
    shards: Box<[CachePadded<Shard>]>,
    /// The shard that the next turn begins with, so that each gets its share. Written by the holder of
    /// the driver's role.
    first: AtomicUsize,
}

#[derive(Debug)]
struct Shard {
    /// No timer of the wheel is due before this, in nanoseconds. Written under the lock.
    next: AtomicU64,
    /// The last deadline of those that were close when they were armed, in nanoseconds. Written under the lock.
    close: AtomicU64,
    wheel: Lock<Wheel<WaiterPtr>>,
}

/// One deadline of one wait; stands on the waiting fiber's stack.
#[derive(Debug)]
pub(crate) struct Timer {
    entry: Entry<WaiterPtr>,
}

/// A timer that is in its wheel. It is taken out when this goes, by a panic too.
#[derive(Debug)]
#[must_use]
pub(crate) struct Armed<'a> {
    shard: &'a Shard,
    entry: NonNull<Entry<WaiterPtr>>,
    timer: PhantomData<Pin<&'a mut Timer>>,
}

impl Armed<'_> {
    /// The timer has ended the wait: it is out already.
    #[inline]
    pub(crate) fn fired(self) {
        mem::forget(self);
    }
}

impl Drop for Armed<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it is in this wheel or in none.
        unsafe { self.shard.wheel.lock().remove(self.entry) };
    }
}

impl Timer {
    pub(crate) fn new(waiter: WaiterPtr, deadline: Moment) -> Timer {
        Timer { entry: Entry::new(deadline, waiter) }
    }
}

impl Timers {
    pub(super) fn new(shards: usize, now: Moment) -> Timers {
        let shard = || Shard {
            next: AtomicU64::new(Moment::NEVER.as_nanos()),
            close: AtomicU64::new(0),
            wheel: Lock::new(Wheel::new(now)),
        };
        let shards = (0..shards.max(1)).map(|_| CachePadded::new(shard())).collect();
        Timers { shards, first: AtomicUsize::new(0) }
    }

    /// Arms `timer` in the wheel of worker `index`, until what is returned goes. And the time if the wheel is now due
    /// earlier than it was, so that the caller must tell the poller; or if the deadline is `close`, as late as that may
    /// be: who knows already that some are close need not be told.
    #[inline]
    pub(crate) fn arm<'a>(
        &'a self,
        index: usize,
        timer: Pin<&'a mut Timer>,
        close: bool,
    ) -> (Armed<'a>, Option<Moment>) {
        // SAFETY: the timer is not moved.
        let timer = unsafe { timer.get_unchecked_mut() };
        let shard = self.shard(index);
        let entry = NonNull::from(&mut timer.entry);
        let mut wheel = shard.wheel.lock();
        // SAFETY: pinned, and removed by `armed` before it goes, however the wait ends.
        let due = unsafe { wheel.insert(entry) };
        let armed = Armed { shard, entry, timer: PhantomData };
        let is_next = due.as_nanos() < shard.next.load(Ordering::Relaxed);
        if is_next {
            shard.next.store(due.as_nanos(), Ordering::Relaxed);
        }
        if close && due.as_nanos() > shard.close.load(Ordering::Relaxed) {
            shard.close.store(due.as_nanos(), Ordering::Relaxed);
        }
        let late = due.saturating_add(APART_IF_CLOSE);
        (armed, is_next.then_some(due).or(close.then_some(late)))
    }

    /// The wheel of worker `index`. Those that came for others which block share theirs: a division, for once.
    #[inline]
    fn shard(&self, index: usize) -> &Shard {
        self.shards.get(index).unwrap_or_else(|| &self.shards[index % self.shards.len()])
    }

    /// When to wake for the timer that is due at `next`, if a wait for one may be over `in_time`.
    pub(super) fn put_off(&self, next: Moment, now: Moment, in_time: Moment) -> Moment {
        next.max(in_time.min(now.saturating_add(self.apart(now))))
    }

    /// How far waits for timers are apart, on average, at least.
    pub(super) fn apart(&self, now: Moment) -> Duration {
        if self.are_close(now) { APART_IF_CLOSE } else { APART }
    }

    /// May one be armed still whose deadline was close then? One that was cancelled may be.
    fn are_close(&self, now: Moment) -> bool {
        self.shards.iter().any(|shard| shard.close.load(Ordering::Relaxed) > now.as_nanos())
    }

    /// No timer is due before this.
    pub(crate) fn next_deadline(&self) -> Moment {
        let next = self.shards.iter().map(|shard| shard.next.load(Ordering::Relaxed)).min();
        next.map_or(Moment::NEVER, Moment::from_nanos)
    }

    /// When to wake for the timer that is due at `next`, before which none is: with it those fire that are due soon
    /// after, compared with the time until then. `now` is a moment ago.
    pub(super) fn gather(&self, now: Moment, next: Moment) -> Moment {
        let latest = next.saturating_add(COMPANY.min(next.since(now) / 2));
        let near =
            |shard: &&CachePadded<Shard>| shard.next.load(Ordering::Relaxed) <= latest.as_nanos();
        let last_due = |shard: &CachePadded<Shard>| shard.wheel.lock().last_due(latest);
        self.shards.iter().filter(near).filter_map(last_due).fold(next, Moment::max)
    }

    /// Gives back the memory of wheels where few timers are left of many.
    pub(crate) fn trim(&self) {
        for shard in &self.shards {
            let spare = shard.wheel.lock().trim();
            // Thousands of pieces: the lock is free again.
            drop(spare);
        }
    }

    /// How many chunks of memory the wheels have.
    #[cfg(test)]
    pub(crate) fn chunks(&self) -> usize {
        self.shards.iter().map(|shard| shard.wheel.lock().chunks()).sum()
    }

    /// How many are armed.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.wheel.lock().len()).sum()
    }

    /// Settles waits whose deadline has passed. Not all of them if they are many: then
    /// [`next_deadline`](Self::next_deadline) has passed as well.
    pub(crate) fn expire(&self, now: Moment, settled: &mut Batch) {
        let first = self.first.load(Ordering::Relaxed);
        let (before, from) = self.shards.split_at(first);
        let mut left = IN_TURN;
        for (passed, shard) in from.iter().chain(before).enumerate() {
            if shard.next.load(Ordering::Relaxed) > now.as_nanos() {
                continue;
            }
            left -= shard.expire(now, settled);
            if left < IN_WHEEL {
                let next = (first + passed + 1) % self.shards.len();
                self.first.store(next, Ordering::Relaxed);
                break;
            }
        }
    }
}

impl Shard {
    /// Settles the first waits that are due; says how many.
    #[cold]
    fn expire(&self, now: Moment, settled: &mut Batch) -> usize {
        let mut wheel = self.wheel.lock();
        let mut count = 0;
        while count < IN_WHEEL {
            // The blocks of thousands of sleepers are in no cache, so some are fetched at once. Nobody
            // goes on meanwhile: a waiter that something else woke needs the lock to leave.
            let due: [_; AT_ONCE] = array::from_fn(|_| {
                wheel.pop_expired(now).inspect(|waiter: &WaiterPtr| waiter.prefetch())
            });
            for waiter in due.iter().flatten() {
                // SAFETY: the entry was in the wheel, and the lock has been held since.
                match unsafe { waiter.settle(Outcome::TimedOut) } {
                    Some(Wake::Fiber(fiber)) => settled.push(fiber),
                    Some(Wake::Thread(thread)) => thread.wake(),
                    None => {}
                }
                count += 1;
            }
            if due[AT_ONCE - 1].is_none() {
                break;
            }
        }
        // Where some are left it is no later than they are due.
        let next = wheel.next_deadline().unwrap_or(Moment::NEVER);
        self.next.store(next.as_nanos(), Ordering::Relaxed);
        count
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
