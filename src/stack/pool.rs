//! The stacks that no worker keeps: shared, unbounded, newest first; memory goes back by age.
//!
//! Callers: `cache` spills to it and refills from it; `slot` gives it dropped stacks; the
//! scheduler calls [`trim`] while it is quiet, and where a runtime ends.
//!
//! 1. Idle stacks move in batches of at most [`BATCH`], and a batch's time is that of its newest
//!    stack: one lock and a few moves of words per batch, whatever its length.
//! 2. Under the lock there is no system call and no touch of a stack's memory.
//! 3. Warm batches stand oldest first. A cold slot has no memory, so how many there are does not
//!    matter; a bound on idle stacks would make bursts pay the first touch again and again.

use super::size::StackSize;
use super::slot::{Slot, Stack};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};
use crate::primitives::sync::{Mutex, OnceLock};
use std::array;
use std::collections::VecDeque;
use std::time::Duration;

/// The most stacks in a batch.
pub(super) const BATCH: usize = 32;
/// The most stacks that one call of [`trim`] gives back: a tenth of a millisecond's worth. Whoever calls it can be
/// woken for work meanwhile, or is the only one that looks at sockets.
const TRIM_MOST: usize = BATCH;

/// Idle stacks of one size, oldest first.
pub(super) struct Batch {
    /// When the newest of them became idle.
    pub(super) since: Moment,
    pub(super) stacks: Vec<Stack>,
}

/// The idle slots of one size.
#[derive(Default)]
struct Class {
    warm: VecDeque<Batch>,
    cold: Vec<Vec<Slot>>,
}

struct Pool {
    classes: [Mutex<Class>; StackSize::CLASSES],
    warm: AtomicUsize,
    cold: AtomicUsize,
}

static POOL: OnceLock<Pool> = OnceLock::new();

fn pool() -> &'static Pool {
    POOL.get_or_init(|| Pool {
        classes: array::from_fn(|_| Mutex::new(Class::default())),
        warm: AtomicUsize::new(0),
        cold: AtomicUsize::new(0),
    })
}

/// Takes in a batch; the next to come out.
pub(super) fn give(size: StackSize, batch: Batch) {
    let all = pool();
    all.warm.fetch_add(batch.stacks.len(), Ordering::Relaxed);
    all.classes[size.class()].lock().warm.push_back(batch);
}

/// Takes in a batch that is older than what is here; the first to be trimmed.
pub(super) fn give_old(size: StackSize, batch: Batch) {
    let all = pool();
    all.warm.fetch_add(batch.stacks.len(), Ordering::Relaxed);
    all.classes[size.class()].lock().warm.push_front(batch);
}

/// Takes in a single stack, in the newest batch if that has room.
pub(super) fn give_one(stack: Stack, now: Moment) {
    let all = pool();
    all.warm.fetch_add(1, Ordering::Relaxed);
    let mut class = all.classes[stack.size().class()].lock();
    match class.warm.back_mut() {
        Some(batch) if batch.stacks.len() < BATCH => {
            batch.stacks.push(stack);
            batch.since = batch.since.max(now);
        }
        _ => class.warm.push_back(Batch { since: now, stacks: vec![stack] }),
    }
}

/// Takes in stacks that their holder leaves behind, without their memory: nobody may be there to come
/// back for it when it is old.
#[cold]
pub(super) fn give_cold(size: StackSize, stacks: impl IntoIterator<Item = Stack>) {
    let slots: Vec<_> = stacks.into_iter().map(Stack::close).collect();
    if slots.is_empty() {
        return;
    }
    let all = pool();
    all.cold.fetch_add(slots.len(), Ordering::Relaxed);
    all.classes[size.class()].lock().cold.push(slots);
}

/// The newest batch of warm stacks.
pub(super) fn take_batch(size: StackSize) -> Option<Batch> {
    let all = pool();
    let batch = all.classes[size.class()].lock().warm.pop_back()?;
    all.warm.fetch_sub(batch.stacks.len(), Ordering::Relaxed);
    Some(batch)
}

/// The newest warm stack.
pub(super) fn take_one(size: StackSize) -> Option<Stack> {
    let all = pool();
    let mut class = all.classes[size.class()].lock();
    let batch = class.warm.back_mut()?;
    let stack = batch.stacks.pop();
    if batch.stacks.is_empty() {
        class.warm.pop_back();
    }
    all.warm.fetch_sub(stack.is_some().into(), Ordering::Relaxed);
    stack
}

/// A stack whose memory was given back: as new, but its guard is in force already.
pub(super) fn take_cold(size: StackSize) -> Option<Stack> {
    let all = pool();
    let slot = {
        let mut class = all.classes[size.class()].lock();
        let slots = class.cold.last_mut()?;
        let slot = slots.pop();
        if slots.is_empty() {
            class.cold.pop();
        }
        slot?
    };
    all.cold.fetch_sub(1, Ordering::Relaxed);
    Some(slot.open())
}

/// Gives back the memory of stacks that have been idle for `age`, at most some tens per call.
///
/// Returns when to call again, `None` if there is nothing left to give back.
pub(crate) fn trim(now: Moment, age: Duration) -> Option<Moment> {
    let all = POOL.get()?;
    let mut left = TRIM_MOST;
    all.classes.iter().filter_map(|class| all.trim_class(class, now, age, &mut left)).min()
}

impl Pool {
    fn trim_class(
        &self,
        class: &Mutex<Class>,
        now: Moment,
        age: Duration,
        left: &mut usize,
    ) -> Option<Moment> {
        loop {
            let stacks = {
                let mut class = class.lock();
                let oldest = class.warm.front()?;
                let due = oldest.since.saturating_add(age);
                if due > now {
                    return Some(due);
                }
                if *left < oldest.stacks.len() {
                    return Some(now);
                }
                class.warm.pop_front()?.stacks
            };
            let count = stacks.len();
            *left -= count;
            self.warm.fetch_sub(count, Ordering::Relaxed);
            let slots = stacks.into_iter().map(Stack::close).collect();
            self.cold.fetch_add(count, Ordering::Relaxed);
            class.lock().cold.push(slots);
        }
    }
}

/// Is there anything to give back?
pub(crate) fn is_any_idle() -> bool {
    counts().0 != 0
}

/// Stacks in the pool with memory and without.
pub(super) fn counts() -> (usize, usize) {
    let Some(all) = POOL.get() else { return (0, 0) };
    (all.warm.load(Ordering::Relaxed), all.cold.load(Ordering::Relaxed))
}
