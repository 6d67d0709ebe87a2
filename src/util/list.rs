//! An intrusive, doubly linked list of pinned nodes that somebody else owns.
//!
//! Used by every queue of waiting fibers and by the slots of the timer wheel: the node stands on the
//! stack of the fiber that waits, so that waiting allocates nothing and leaving the queue early
//! (timeout, cancel, another branch of a select) is O(1). The list is not thread-safe: it lives
//! inside its source's lock.
//!
//! Invariants:
//! 1. The links of a node are read and written only under exclusive access to the list it is in, or,
//!    for a node in no list, to the list it is about to enter: "under the lock".
//! 2. A linked node is alive and does not move. Its owner keeps this by removing it, under the lock,
//!    before the node's storage ends, and by holding only shared references to it meanwhile.
//! 3. `linked` is true exactly while the node is in a list. `prev` is `None` exactly for the list's
//!    head and `next` exactly for its tail; neighbours point at each other.
//! 4. A list's head and tail are both `None` or both nodes of that list.

use crate::primitives::sync::UnsafeCell;
use std::fmt;
use std::marker::{PhantomData, PhantomPinned};
use std::ptr::NonNull;

/// A node's place in a list. One per list that the node can be in at the same time.
pub(crate) struct Links<T> {
    state: UnsafeCell<State<T>>,
    /// A node is pointed at by its neighbours: pinned, and never assumed to be unaliased.
    _pinned: PhantomPinned,
}

struct State<T> {
    prev: Option<NonNull<T>>,
    next: Option<NonNull<T>>,
    linked: bool,
}

// SAFETY: invariant 1: every access is under the lock, which the callers of the unsafe functions
// below keep; there is no safe access.
unsafe impl<T> Send for Links<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Links<T> {}

impl<T> Links<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: UnsafeCell::new(State { prev: None, next: None, linked: false }),
            _pinned: PhantomPinned,
        }
    }
}

impl<T> fmt::Debug for Links<T> {
    // Not the state: whoever formats a node need not hold the lock (invariant 1).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}

/// A type whose values can stand in a [`List`].
///
/// # Safety
///
/// `links` returns a pointer to the same [`Links`] for the same node each time, a field of that node,
/// and does so without creating a reference to the whole node.
pub(crate) unsafe trait Linked: Sized {
    /// The links of `node`.
    ///
    /// # Safety
    ///
    /// `node` points at a live node.
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>>;
}

/// A queue of nodes; first in, first out, if used with `push_back` and `pop_front`.
pub(crate) struct List<T: Linked> {
    head: Option<NonNull<T>>,
    tail: Option<NonNull<T>>,
}

// SAFETY: a list is pointers to nodes, and whoever has the list may reach the nodes from its thread.
unsafe impl<T: Linked + Send> Send for List<T> {}

impl<T: Linked> List<T> {
    pub(crate) const fn new() -> Self {
        Self { head: None, tail: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// The node that `pop_front` would return.
    pub(crate) fn front(&self) -> Option<NonNull<T>> {
        self.head
    }

    /// Whether `node` is in this list.
    ///
    /// # Safety
    ///
    /// `node` is alive and is in this list or in none.
    pub(crate) unsafe fn is_linked(&self, node: NonNull<T>) -> bool {
        // SAFETY: alive by the caller; `&self` is the list's lock (invariant 1).
        unsafe { with(node, |state| state.linked) }
    }

    /// Appends `node`.
    ///
    /// # Safety
    ///
    /// `node` is alive, in no list, and keeps to invariant 2 until it has been popped or removed.
    pub(crate) unsafe fn push_back(&mut self, node: NonNull<T>) {
        let last = self.tail.replace(node);
        // SAFETY: the caller hands `node` over; `last` is in this list (invariants 2 and 4).
        unsafe {
            enter(node, last, None);
            match last {
                Some(last) => with_mut(last, |state| state.next = Some(node)),
                None => self.head = Some(node),
            }
        }
    }

    /// Puts `node` before all others.
    ///
    /// # Safety
    ///
    /// As for [`push_back`](Self::push_back).
    pub(crate) unsafe fn push_front(&mut self, node: NonNull<T>) {
        let first = self.head.replace(node);
        // SAFETY: the caller hands `node` over; `first` is in this list (invariants 2 and 4).
        unsafe {
            enter(node, None, first);
            match first {
                Some(first) => with_mut(first, |state| state.prev = Some(node)),
                None => self.tail = Some(node),
            }
        }
    }

    /// Unlinks the first node. From then on its owner may end it as soon as it gets the lock.
    pub(crate) fn pop_front(&mut self) -> Option<NonNull<T>> {
        let node = self.head?;
        // SAFETY: the head is alive and in this list (invariants 2 and 4).
        unsafe { self.unlink(node) };
        Some(node)
    }

    /// Unlinks `node`; false if it was in no list, because somebody popped it before.
    ///
    /// # Safety
    ///
    /// `node` is alive and is in this list or in none.
    pub(crate) unsafe fn remove(&mut self, node: NonNull<T>) -> bool {
        // SAFETY: the same promise as the caller's.
        let linked = unsafe { self.is_linked(node) };
        if linked {
            // SAFETY: alive and linked, so in this list.
            unsafe { self.unlink(node) };
        }
        linked
    }

    /// The nodes from the front to the back.
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        Iter { next: self.head, list: PhantomData }
    }

    /// # Safety
    ///
    /// `node` is in this list.
    unsafe fn unlink(&mut self, node: NonNull<T>) {
        // SAFETY: `node` and its neighbours are in this list, hence alive (invariants 2 and 3), and
        // `&mut self` is the lock (invariant 1).
        unsafe {
            let (prev, next) = with_mut(node, |state| {
                state.linked = false;
                (state.prev.take(), state.next.take())
            });
            debug_assert_eq!(prev.is_none(), self.head == Some(node), "another list's node");
            debug_assert_eq!(next.is_none(), self.tail == Some(node), "another list's node");
            match prev {
                Some(prev) => with_mut(prev, |state| state.next = next),
                None => self.head = next,
            }
            match next {
                Some(next) => with_mut(next, |state| state.prev = prev),
                None => self.tail = prev,
            }
        }
    }
}

impl<T: Linked> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// See [`List::iter`]. It borrows the list, so that no node leaves under it.
pub(crate) struct Iter<'a, T: Linked> {
    next: Option<NonNull<T>>,
    list: PhantomData<&'a List<T>>,
}

impl<T: Linked> Iterator for Iter<'_, T> {
    type Item = NonNull<T>;

    fn next(&mut self) -> Option<NonNull<T>> {
        let node = self.next?;
        // SAFETY: `node` is in the borrowed list, hence alive (invariant 2).
        self.next = unsafe { with(node, |state| state.next) };
        Some(node)
    }
}

/// # Safety
///
/// `node` is alive and in no list, and will be between `prev` and `next`.
unsafe fn enter<T: Linked>(node: NonNull<T>, prev: Option<NonNull<T>>, next: Option<NonNull<T>>) {
    // SAFETY: alive by the caller, and not yet anybody else's (invariant 1).
    unsafe {
        with_mut(node, |state| {
            debug_assert!(!state.linked, "a node was put into a list twice");
            *state = State { prev, next, linked: true };
        });
    }
}

/// # Safety
///
/// `node` is alive and the lock is held (invariant 1).
#[inline(always)]
unsafe fn with<T: Linked, R>(node: NonNull<T>, f: impl FnOnce(&State<T>) -> R) -> R {
    // SAFETY: alive by the caller, so its links are; and the lock excludes every writer.
    unsafe { T::links(node).as_ref().state.with(|state| f(&*state)) }
}

/// # Safety
///
/// `node` is alive, the lock is held exclusively (invariant 1), and `f` touches no other links.
#[inline(always)]
unsafe fn with_mut<T: Linked, R>(node: NonNull<T>, f: impl FnOnce(&mut State<T>) -> R) -> R {
    // SAFETY: alive by the caller, so its links are; and the lock excludes every other access.
    unsafe { T::links(node).as_ref().state.with_mut(|state| f(&mut *state)) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    struct Node {
        id: usize,
        links: Links<Node>,
    }

    // SAFETY: always the same field, by a raw borrow.
    unsafe impl Linked for Node {
        unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
            // SAFETY: alive by the caller.
            unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
        }
    }

    /// Nodes at fixed addresses, freed when the test ends.
    struct Nodes(Vec<NonNull<Node>>);

    impl Nodes {
        fn new(count: usize) -> Self {
            let node = |id| Box::new(Node { id, links: Links::new() });
            Self((0..count).map(|id| NonNull::from(Box::leak(node(id)))).collect())
        }
    }

    impl Drop for Nodes {
        fn drop(&mut self) {
            for node in &self.0 {
                // SAFETY: leaked in `new`; the lists of these tests do not look at it again.
                drop(unsafe { Box::from_raw(node.as_ptr()) });
            }
        }
    }

    fn id(node: NonNull<Node>) -> usize {
        // SAFETY: the node lives as long as its `Nodes`.
        unsafe { (*node.as_ptr()).id }
    }

    #[derive(Clone, Debug)]
    enum Op {
        PushBack(usize),
        PushFront(usize),
        PopFront,
        Remove(usize),
    }

    const NODES: usize = 6;

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (0..NODES).prop_map(Op::PushBack),
            2 => (0..NODES).prop_map(Op::PushFront),
            1 => Just(Op::PopFront),
            2 => (0..NODES).prop_map(Op::Remove),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_deque(ops in prop::collection::vec(op(), 0..80)) {
            let nodes = Nodes::new(NODES);
            let mut list = List::new();
            let mut model = VecDeque::new();
            for op in ops {
                match op {
                    Op::PushBack(i) if !model.contains(&i) => {
                        // SAFETY: in no list, and alive to the end of the test.
                        unsafe { list.push_back(nodes.0[i]) };
                        model.push_back(i);
                    }
                    Op::PushFront(i) if !model.contains(&i) => {
                        // SAFETY: as above.
                        unsafe { list.push_front(nodes.0[i]) };
                        model.push_front(i);
                    }
                    Op::PushBack(_) | Op::PushFront(_) => {}
                    Op::PopFront => prop_assert_eq!(list.pop_front().map(id), model.pop_front()),
                    Op::Remove(i) => {
                        let place = model.iter().position(|&m| m == i);
                        // SAFETY: in this list or in none.
                        prop_assert_eq!(unsafe { list.remove(nodes.0[i]) }, place.is_some());
                        place.map(|place| model.remove(place));
                    }
                }
                prop_assert!(list.iter().map(id).eq(model.iter().copied()));
                prop_assert_eq!(list.front().map(id), model.front().copied());
                prop_assert_eq!(list.is_empty(), model.is_empty());
                for (i, &node) in nodes.0.iter().enumerate() {
                    // SAFETY: in this list or in none.
                    prop_assert_eq!(unsafe { list.is_linked(node) }, model.contains(&i));
                }
            }
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "put into a list twice")]
    fn a_second_insert_is_caught() {
        let nodes = Nodes::new(2);
        let mut list = List::new();
        for i in [0, 1, 0] {
            // SAFETY: broken on purpose the third time; the assertion stops it before any use.
            unsafe { list.push_back(nodes.0[i]) };
        }
    }

    #[test]
    fn a_list_of_sendable_nodes_can_cross_threads() {
        fn sendable<T: Send>() {}
        sendable::<List<Node>>();
        sendable::<Links<*mut u8>>();
    }
}
