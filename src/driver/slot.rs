//! A socket's readiness and who waits for it: the state behind one registration.
//!
//! # Protocol
//!
//! The readiness word holds, per direction, "an operation may succeed" and "the peer is gone", and a
//! tick that every event advances. An operation that comes up short clears its direction only if
//! the tick is still the one it read before the system call: otherwise an event has come since, and
//! the operation is tried again. A short read or write clears too, which saves the system call that
//! would say so.
//!
//! A waiter links its node under the lock and looks at the word again there. The poller sets the
//! word first and takes the lock after: either the waiter sees the bit, or the poller sees the node.
//!
//! Of those who wait to accept an event wakes one, for a connection serves one (unless it says that the peer is gone,
//! as after a shutdown, which serves all). While the bit is set and nodes are linked, somebody is therefore on the way:
//! whom the event woke, or whom they passed it on to. Who is on the way tries, and either clears the bit, having seen
//! that there is no connection, or returns, and passes on (`pass_on`) after whatever came of it, an error too: it looks
//! once more where others wait, and clears the bit or settles the next one. A node is linked only where the bit is not
//! set, and a wait that had ended otherwise is passed over. Who tries without having been woken passes on too. All of
//! that needs everybody who waits like this to run before long, wherever others are busy: fibers that must not move
//! wait as readers do.

use crate::fiber::{Batch, Late, Outcome, WaiterPtr, Wake};
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicU64, Ordering};
use crate::util::list::{Linked, Links, List};
use std::pin::Pin;
use std::ptr::NonNull;

/// What an operation needs of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
    /// A read that serves one: who does such an operation calls `pass_on` after it.
    Accept,
}

impl Direction {
    fn ready(self) -> u64 {
        match self {
            Direction::Read | Direction::Accept => READ_READY,
            Direction::Write => WRITE_READY,
        }
    }

    fn closed(self) -> u64 {
        match self {
            Direction::Read | Direction::Accept => READ_CLOSED,
            Direction::Write => WRITE_CLOSED,
        }
    }
}

pub(super) const READ_READY: u64 = 1;
pub(super) const WRITE_READY: u64 = 2;
/// Set once the kernel reports it, and never cleared: no further event will come.
pub(super) const READ_CLOSED: u64 = 4;
pub(super) const WRITE_CLOSED: u64 = 8;
/// Urgent data has come; a read stops at its mark, and so may come up short with more behind it.
pub(super) const URGENT: u64 = 16;
const TICK_ONE: u64 = 0x100;
const TICK_MASK: u64 = 0xFFFF_FF00;
const GENERATION_SHIFT: u32 = 32;

/// The bits that an event brings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readiness(pub(super) u64);

/// One who waits for a direction; stands on the waiting fiber's stack.
#[derive(Debug)]
pub(crate) struct IoNode {
    links: Links<IoNode>,
    waiter: WaiterPtr,
    /// What the wait's result word says when an event has ended it.
    result: u32,
}

// SAFETY: the links are a field of the node; nodes stay in place while linked (`Pin`).
unsafe impl Linked for IoNode {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: a projection to a field of a live node.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

impl IoNode {
    pub(crate) fn new(waiter: WaiterPtr) -> IoNode {
        IoNode::with_result(waiter, 0)
    }

    pub(crate) fn with_result(waiter: WaiterPtr, result: u32) -> IoNode {
        IoNode { links: Links::new(), waiter, result }
    }
}

#[derive(Debug)]
struct Waiting {
    read: List<IoNode>,
    write: List<IoNode>,
    accept: List<IoNode>,
}

impl Waiting {
    fn list(&mut self, direction: Direction) -> &mut List<IoNode> {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
            Direction::Accept => &mut self.accept,
        }
    }
}

/// The state behind one registration.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Generation, tick and flags; written by the poller, by operations, by open and close.
    word: AtomicU64,
    waiting: Lock<Waiting>,
}

impl Slot {
    pub(super) fn new() -> Slot {
        let waiting = Waiting { read: List::new(), write: List::new(), accept: List::new() };
        Slot { word: AtomicU64::new(0), waiting: Lock::new(waiting) }
    }

    /// Begins a new life and returns its generation.
    pub(super) fn open(&self, blocked: Direction) -> u32 {
        let generation = (self.word.load(Ordering::Relaxed) >> GENERATION_SHIFT) as u32;
        let flags = (READ_READY | WRITE_READY) & !blocked.ready();
        self.word.store(u64::from(generation) << GENERATION_SHIFT | flags, Ordering::Release);
        generation
    }

    /// Ends this life: events under way find another generation.
    pub(super) fn close(&self) {
        let generation = (self.word.load(Ordering::Relaxed) >> GENERATION_SHIFT) as u32;
        let next = generation.wrapping_add(1);
        self.word.store(u64::from(next) << GENERATION_SHIFT, Ordering::Release);
    }

    pub(super) fn deliver(&self, generation: u32, readiness: Readiness, settled: &mut Batch) {
        // Not too old, though relaxed: who registered the socket wrote the word before `epoll_ctl`, and the kernel's
        // locks have that come before what `epoll_wait` returned.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if (word >> GENERATION_SHIFT) as u32 != generation {
                return;
            }
            let tick = (word & TICK_MASK).wrapping_add(TICK_ONE) & TICK_MASK;
            let next = (word & !TICK_MASK) | tick | readiness.0;
            match self.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(seen) => word = seen,
            }
        }
        let mut waiting = self.waiting.lock();
        for direction in [Direction::Read, Direction::Write] {
            if readiness.0 & direction.ready() != 0 {
                settle_all(waiting.list(direction), settled);
            }
        }
        if readiness.0 & READ_CLOSED != 0 {
            settle_all(&mut waiting.accept, settled);
        } else if readiness.0 & READ_READY != 0 {
            if let Some(wake) = settle_one(&mut waiting.accept) {
                hand_over(wake, settled);
            }
        }
    }

    /// After an operation that serves one: who is to serve the next, if `is_there` says that there is more.
    pub(crate) fn pass_on(&self, is_there: impl FnOnce() -> bool) -> Option<Wake> {
        // Where it is not set, whoever sets it wakes one.
        let tick = self.ready(Direction::Accept)?;
        // Who comes to wait from here on sees the bit.
        if self.waiting.lock().accept.is_empty() {
            return None;
        }
        if !is_there() {
            self.clear(Direction::Accept, tick);
            return None;
        }
        settle_one(&mut self.waiting.lock().accept)
    }

    /// The tick if an operation is worth trying, to be handed to [`clear`](Self::clear).
    #[inline]
    pub(crate) fn ready(&self, direction: Direction) -> Option<u64> {
        let word = self.word.load(Ordering::Acquire);
        (word & direction.ready() != 0).then_some(word & TICK_MASK)
    }

    /// Has there ever been urgent data?
    pub(crate) fn has_been_urgent(&self) -> bool {
        self.word.load(Ordering::Relaxed) & URGENT != 0
    }

    /// The kernel said that an operation which began at `tick` would block: until the next event,
    /// don't try.
    pub(crate) fn clear(&self, direction: Direction, tick: u64) {
        self.clear_unless(0, direction, tick);
    }

    /// An operation that began at `tick` came up short: the next one would block, unless the peer is
    /// gone, which no event will tell once more, or there was urgent data.
    #[inline]
    pub(crate) fn clear_short(&self, direction: Direction, tick: u64) {
        self.clear_unless(direction.closed() | URGENT, direction, tick);
    }

    #[inline(always)]
    fn clear_unless(&self, keep: u64, direction: Direction, tick: u64) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & TICK_MASK == tick && word & keep == 0 && word & direction.ready() != 0 {
            let next = word & !direction.ready();
            match self.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => word = seen,
            }
        }
    }

    /// Links `node` to be settled by the next event; `false` if the direction is ready already.
    ///
    /// The caller unlinks it with [`cancel`](Self::cancel) before its wait returns.
    #[must_use]
    pub(crate) fn enqueue(&self, direction: Direction, node: Pin<&mut IoNode>) -> bool {
        let mut waiting = self.waiting.lock();
        if self.word.load(Ordering::Acquire) & direction.ready() != 0 {
            return false;
        }
        // SAFETY: pinned, not linked yet, and unlinked by its owner before it goes.
        unsafe {
            let node = NonNull::from(node.get_unchecked_mut());
            waiting.list(direction).push_back(node);
        }
        true
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn has_waiters(&self, direction: Direction) -> bool {
        !self.waiting.lock().list(direction).is_empty()
    }

    /// Unlinks `node` if it still is linked.
    pub(crate) fn cancel(&self, direction: Direction, node: Pin<&mut IoNode>) {
        // SAFETY: the node is not moved.
        let node = NonNull::from(unsafe { node.get_unchecked_mut() });
        // SAFETY: it is in this list or in none.
        unsafe { self.waiting.lock().list(direction).remove(node) };
    }
}

/// Wakes everyone: an event says that something is there, not how many it will serve.
fn settle_all(list: &mut List<IoNode>, settled: &mut Batch) {
    while let Some(node) = list.pop_front() {
        // SAFETY: it was linked in this list, and the lock is held.
        if let Some(wake) = unsafe { settle(node) }.unwrap_or(None) {
            hand_over(wake, settled);
        }
    }
}

/// Ends the wait of the first one whose wait has not ended otherwise.
fn settle_one(list: &mut List<IoNode>) -> Option<Wake> {
    while let Some(node) = list.pop_front() {
        // SAFETY: as above.
        if let Ok(wake) = unsafe { settle(node) } {
            return wake;
        }
    }
    None
}

/// # Safety
///
/// The node was linked until now, and the lock is still held: so its waiter is in this wait.
unsafe fn settle(node: NonNull<IoNode>) -> Result<Option<Wake>, Late> {
    // SAFETY: promised by the caller.
    unsafe {
        let node = node.as_ref();
        node.waiter.offer(Outcome::Woken(node.result))
    }
}

fn hand_over(wake: Wake, settled: &mut Batch) {
    match wake {
        Wake::Fiber(fiber) => settled.push(fiber),
        Wake::Thread(thread) => thread.wake(),
    }
}
