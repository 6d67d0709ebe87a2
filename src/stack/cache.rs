//! A worker's own idle stacks, newest first.
//!
//! Callers: the scheduler owns one per worker and hands it to the rooms that start and end fibers.
//!
//! 1. Holds stacks of the default size only, oldest first in the vector, and never more than
//!    [`BOUND`]: the vector does not grow.
//! 2. `pop` and `push` make no system call. Both run on a fiber's stack.

use super::error::StackError;
use super::pool::{self, BATCH, Batch};
use super::size::StackSize;
use super::slab;
use super::slot::{Slot, Stack};
use crate::primitives::clock::Moment;
use std::ptr;
use std::time::Duration;

/// The most stacks in a cache; half of it moves when it is full or empty.
const BOUND: usize = 2 * BATCH;

#[derive(Debug)]
struct Idle {
    stack: Stack,
    since: Moment,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cache {
    default: StackSize,
    idle: Vec<Idle>,
    /// So many of the oldest came from the shared pool, and are in no cache of the processor.
    cold: usize,
    /// Some have come that the owner has not in mind yet.
    news: bool,
}

impl Cache {
    /// A cache for stacks of `default`; other sizes go to the shared pool directly.
    pub(crate) fn new(default: StackSize) -> Cache {
        Cache { default, idle: Vec::with_capacity(BOUND), cold: 0, news: false }
    }

    /// The newest idle stack, from here or from the shared pool. `None` means that only
    /// [`allocate`](Self::allocate), which may make system calls, can help.
    #[inline]
    pub(crate) fn pop(&mut self, size: StackSize) -> Option<Stack> {
        if size == self.default {
            if let Some(idle) = self.idle.pop() {
                self.prefetch();
                return Some(idle.stack);
            }
        }
        self.pop_shared(size)
    }

    /// Fetches the stack that comes out next but one, if it is cold: in a burst of fresh fibers all are,
    /// and a fiber's first steps take less time than memory.
    #[inline(always)]
    fn prefetch(&mut self) {
        let left = self.idle.len();
        self.cold = self.cold.min(left);
        if self.cold + 1 >= left && left >= 2 {
            self.idle[left - 2].stack.prefetch();
        }
    }

    #[cold]
    fn pop_shared(&mut self, size: StackSize) -> Option<Stack> {
        if size != self.default {
            return pool::take_one(size).or_else(|| pool::take_cold(size));
        }
        let Some(batch) = pool::take_batch(size) else {
            return pool::take_cold(size);
        };
        batch.stacks.iter().for_each(Stack::prefetch_header);
        let since = batch.since;
        self.idle.extend(batch.stacks.into_iter().map(|stack| Idle { stack, since }));
        self.cold = self.idle.len();
        self.news = true;
        self.idle.pop().map(|idle| idle.stack)
    }

    /// An idle stack, or a new one. May map memory and install a guard, so it is called on the
    /// worker's own stack only.
    ///
    /// # Errors
    /// When a limit of the system is hit; nothing is lost, later calls may succeed.
    pub(crate) fn allocate(&mut self, size: StackSize) -> Result<Stack, StackError> {
        match self.pop(size) {
            Some(stack) => Ok(stack),
            None => slab::take(size).map(Slot::open),
        }
    }

    /// As [`allocate`](Self::allocate), with no page resident but the topmost.
    ///
    /// # Errors
    /// As `allocate`.
    #[cold]
    pub(crate) fn allocate_trimmed(&mut self, size: StackSize) -> Result<Stack, StackError> {
        self.allocate(size).inspect(Stack::trim)
    }

    /// Keeps a stack that nobody runs on any more; the next to come out. `now` is when it became
    /// idle, as exactly as the caller knows.
    #[inline]
    pub(crate) fn push(&mut self, stack: Stack, now: Moment) {
        stack.set_owner(ptr::null_mut());
        self.news = true;
        if stack.size() == self.default && self.idle.len() < BOUND {
            self.idle.push(Idle { stack, since: now });
        } else {
            self.push_shared(stack, now);
        }
    }

    #[cold]
    fn push_shared(&mut self, stack: Stack, now: Moment) {
        if stack.size() != self.default {
            return pool::give_one(stack, now);
        }
        if let Some(batch) = self.oldest(BATCH) {
            pool::give(self.default, batch);
        }
        self.idle.push(Idle { stack, since: now });
    }

    /// Moves stacks that have been idle for `age` to the shared pool, where [`trim`](super::trim)
    /// gives their memory back. Returns when to call again, `None` if no stack is left here.
    pub(crate) fn trim(&mut self, now: Moment, age: Duration) -> Option<Moment> {
        let due = |idle: &Idle| idle.since.saturating_add(age);
        while self.idle.first().is_some_and(|oldest| due(oldest) <= now) {
            let old = self.idle.iter().take_while(|idle| due(idle) <= now).count();
            if let Some(batch) = self.oldest(old.min(BATCH)) {
                pool::give_old(self.default, batch);
            }
        }
        self.idle.first().map(due)
    }

    /// Have stacks come, from fibers that have ended or from the shared pool, since this was last asked?
    pub(crate) fn has_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// As if all stacks had come just now: they are to be looked after anew.
    pub(crate) fn begin_anew(&mut self) {
        self.news |= !self.idle.is_empty();
    }

    /// Gives every stack to the shared pool, and its memory back.
    pub(crate) fn clear(&mut self) {
        pool::give_cold(self.default, self.idle.drain(..).map(|idle| idle.stack));
    }

    /// Takes out the `count` oldest stacks.
    fn oldest(&mut self, count: usize) -> Option<Batch> {
        let count = count.min(self.idle.len());
        let since = self.idle[..count].iter().map(|idle| idle.since).max()?;
        self.cold = self.cold.saturating_sub(count);
        let stacks = self.idle.drain(..count).map(|idle| idle.stack).collect();
        Some(Batch { since, stacks })
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.clear();
    }
}
