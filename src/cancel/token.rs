//! Tokens: one cancel for whatever runs under them, in a tree.
//!
//! # Locks
//!
//! A token's lock is taken before that of an interrupt that stands in its list, never the other way
//! round, and never two tokens' at the same time: a child that goes takes its parent's with none of its own,
//! and no token is let go of under one. The queue of those who wait for the cancel has a lock
//! of its own, which is taken when the flag is set already: so a waiter, who looks under it, sees the
//! flag, or is seen. Wakes are carried out with no lock held.

use super::limited::limited;
use super::{Cancelled, park, unwind};
use crate::fiber::{Interrupt, Limit};
use crate::park::Wait;
use crate::park::queue::{Node, Queue, Waited, Wakes, wait_unless};
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::primitives::sync::{Lock, Mutex};
use crate::util::list::{Linked, Links, List};
use std::collections::BTreeMap;
use std::fmt;
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// Cancels, once, all that runs under it and under its children. A clone is the same token.
///
/// [`run`](Token::run) puts the waits of a closure under the token, which is all that a fiber needs
/// to be stopped by it; [`cancelled`](Token::cancelled) waits for the cancel itself.
///
/// ```
/// use volt::cancel::Token;
///
/// let token = Token::new();
/// let theirs = token.child();
/// let fiber = volt::go(move || theirs.run(|| volt::thread::park()));
/// token.cancel();
/// assert!(fiber.join().unwrap().is_err(), "the wait was ended");
/// ```
#[derive(Clone)]
pub struct Token(Arc<Inner>);

// As the type that it mirrors: the lock inside is never left with a change half made.
impl std::panic::UnwindSafe for Token {}
impl std::panic::RefUnwindSafe for Token {}

struct Inner {
    /// Alive as long as this one, so that what cancels the parent's parent comes through to here.
    parent: Option<Arc<Inner>>,
    /// Its place among the parent's children.
    number: u64,
    /// Written under the lock of `linked`.
    cancelled: AtomicBool,
    linked: Mutex<Linkage>,
    /// Those who wait for the cancel itself.
    waiters: Lock<Queue<()>>,
}

type Children = BTreeMap<u64, Weak<Inner>>;

struct Linkage {
    /// By their numbers, in a tree, so that its memory follows those that are there. A child takes itself
    /// out; who finds it before that, between its last handle's end and its own, cannot upgrade it.
    children: Children,
    /// The number of the next child; none is used twice.
    next: u64,
    /// What runs under this token.
    runs: List<Run>,
}

/// A closure that runs under a token; stands on the stack of its caller.
struct Run {
    links: Links<Run>,
    interrupt: Interrupt,
}

// SAFETY: always the same field, by a raw borrow.
unsafe impl Linked for Run {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: alive by the caller.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

impl Inner {
    /// `number` is its place, if it has a parent.
    fn new(parent: Option<Arc<Inner>>, number: u64) -> Arc<Inner> {
        let cancelled = parent.as_ref().is_some_and(|parent| parent.is_cancelled());
        Arc::new(Inner {
            cancelled: AtomicBool::new(cancelled),
            parent: parent.filter(|_| !cancelled),
            number,
            linked: Mutex::new(Linkage { children: Children::new(), next: 0, runs: List::new() }),
            waiters: Lock::new(Queue::new()),
        })
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Cancels this token alone, and returns the children that are left to cancel.
    fn cancel(&self) -> Children {
        let mut wakes = Vec::new();
        let children = {
            let mut linked = self.linked.lock();
            if self.cancelled.swap(true, Ordering::AcqRel) {
                return Children::new();
            }
            while let Some(run) = linked.runs.pop_front() {
                // SAFETY: it was linked, and is not gone before its owner has had this lock.
                wakes.extend(unsafe { run.as_ref() }.interrupt.raise());
            }
            std::mem::take(&mut linked.children)
        };
        let mut woken = Wakes::new();
        self.waiters.lock().wake_all(0, &mut woken);
        wakes.into_iter().for_each(park::wake);
        woken.wake();
        children
    }

    /// Leaves the parent, which forgets it.
    fn leave(&mut self) -> Option<Arc<Inner>> {
        let parent = self.parent.take()?;
        // One that is cancelled has forgotten all of them.
        if !parent.is_cancelled() {
            let forgotten = parent.linked.lock().children.remove(&self.number);
            // Without the lock: it may be the last that holds the memory.
            drop(forgotten);
        }
        Some(parent)
    }
}

/// One after the other: a line of parents that go at once may be longer than a stack.
impl Drop for Inner {
    fn drop(&mut self) {
        let mut next = self.leave();
        while let Some(parent) = next {
            next = Arc::into_inner(parent).and_then(|mut last| last.leave());
        }
    }
}

impl Token {
    /// A token that belongs to no other.
    ///
    /// ```
    /// let token = volt::cancel::Token::new();
    /// assert!(!token.is_cancelled());
    /// ```
    pub fn new() -> Token {
        Token(Inner::new(None, 0))
    }

    /// A token that is cancelled with this one, and can be cancelled without it. This one need not be kept
    /// for that: what cancels its own parent reaches the child all the same.
    ///
    /// ```
    /// let server = volt::cancel::Token::new();
    /// let (one, other) = (server.child(), server.child());
    /// one.cancel();
    /// assert!(!server.is_cancelled() && !other.is_cancelled());
    /// server.cancel();
    /// assert!(other.is_cancelled());
    /// ```
    pub fn child(&self) -> Token {
        let mut linked = self.0.linked.lock();
        let number = linked.next;
        let child = Inner::new(Some(Arc::clone(&self.0)), number);
        if !self.0.is_cancelled() {
            linked.next += 1;
            linked.children.insert(number, Arc::downgrade(&child));
        }
        Token(child)
    }

    /// Ends the waits under this token and its children, now and for good. Returns at once.
    ///
    /// ```
    /// use volt::cancel::{Cancelled, Token};
    ///
    /// let token = Token::new();
    /// token.cancel();
    /// assert_eq!(token.run(volt::thread::park), Err(Cancelled));
    /// ```
    pub fn cancel(&self) {
        let mut left: Vec<_> = self.0.cancel().into_values().collect();
        while let Some(child) = left.pop() {
            let children = child.upgrade().map(|child| child.cancel());
            left.extend(children.into_iter().flat_map(Children::into_values));
        }
    }

    /// Was it cancelled?
    ///
    /// ```
    /// let token = volt::cancel::Token::new();
    /// let same = token.clone();
    /// same.cancel();
    /// assert!(token.is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the token is cancelled; a plain thread sleeps.
    ///
    /// A caller that is cancelled itself [unwinds](crate::cancel).
    ///
    /// ```
    /// let token = volt::cancel::Token::new();
    /// let theirs = token.clone();
    /// let cleaner = volt::go(move || {
    ///     theirs.cancelled();
    ///     "cleaned up"
    /// });
    /// token.cancel();
    /// assert_eq!(cleaner.join().unwrap(), "cleaned up");
    /// ```
    pub fn cancelled(&self) {
        let wait = Wait::cancellable("cancel token");
        let object = Arc::as_ptr(&self.0) as usize;
        let how = Wait { object, ..wait };
        if wait_unless(&self.0.waiters, how, || self.is_cancelled()) == Waited::Cancelled {
            unwind();
        }
    }

    /// Runs `f` on the calling fiber or thread; its waits, and those of all that it calls, end when the
    /// token is cancelled. What `f` spawns is not under the token by that. On a plain thread, a wait for the
    /// kernel that has begun does not end: see [`volt::cancel`](crate::cancel).
    ///
    /// # Errors
    ///
    /// If the cancel has ended a wait in `f`; what `f` returned nevertheless is dropped. A panic of `f`
    /// passes through, and so does a cancel of the caller or of a token around it.
    ///
    /// ```
    /// use volt::cancel::Token;
    ///
    /// let token = Token::new();
    /// assert_eq!(token.run(|| 7), Ok(7));
    /// token.cancel();
    /// assert!(token.run(|| volt::sleep(std::time::Duration::MAX)).is_err());
    /// ```
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> Result<T, Cancelled> {
        let run = pin!(Run { links: Links::new(), interrupt: Interrupt::new() });
        let entered = Entered { token: self, run: run.into_ref() };
        entered.link();
        limited(Limit::Interrupt(&entered.run.get_ref().interrupt), f).ok_or(Cancelled)
    }
}

// The nodes of selects.
impl Token {
    /// Links `node` unless the token was cancelled; false if so.
    ///
    /// # Safety
    ///
    /// As for [`Queue::link`].
    pub(crate) unsafe fn link_waiter(&self, node: NonNull<Node<()>>) -> bool {
        let mut waiters = self.0.waiters.lock();
        if self.is_cancelled() {
            return false;
        }
        // SAFETY: passed on.
        unsafe { waiters.link(node) };
        true
    }

    /// # Safety
    ///
    /// As for [`Queue::unlink`].
    pub(crate) unsafe fn unlink_waiter(&self, node: NonNull<Node<()>>) {
        // SAFETY: passed on.
        unsafe { self.0.waiters.lock().unlink(node) };
    }
}

/// Takes a run out of its token's list.
struct Entered<'a> {
    token: &'a Token,
    run: Pin<&'a Run>,
}

impl Entered<'_> {
    fn node(&self) -> NonNull<Run> {
        NonNull::from(self.run.get_ref())
    }

    fn link(&self) {
        let mut linked = self.token.0.linked.lock();
        if self.token.is_cancelled() {
            let nobody = self.run.interrupt.raise();
            debug_assert!(nobody.is_none(), "nothing waits yet");
        } else {
            // SAFETY: pinned, in no list, and removed before it goes.
            unsafe { linked.runs.push_back(self.node()) };
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut linked = self.token.0.linked.lock();
        // SAFETY: in this list or in none.
        unsafe { linked.runs.remove(self.node()) };
    }
}

impl Default for Token {
    fn default() -> Token {
        Token::new()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
#[path = "token_models.rs"]
mod models;
