//! A select's node in a source's list.

use super::core::Entry;
use super::node::End;
use super::other::Other;
use crate::park::WaiterPtr;
use crate::primitives::sync::UnsafeCell;
use std::fmt;
use std::ptr::NonNull;

/// A node of a select; stands on the stack of whoever waits, in its place as long as it is linked.
pub struct SelectNode {
    /// For a channel's list.
    entry: Entry,
    result: u32,
    other: UnsafeCell<Other>,
}

impl SelectNode {
    pub(super) fn new(waiter: WaiterPtr, result: u32, slot: *mut ()) -> SelectNode {
        let other = UnsafeCell::new(Other::None);
        SelectNode { entry: Entry::new(waiter, result, slot), result, other }
    }

    pub(super) fn end(&self) -> End {
        self.entry.end()
    }

    pub(super) fn reclaim(&self) {
        self.entry.reclaim();
    }

    pub(super) fn entry(&self) -> NonNull<Entry> {
        NonNull::from(&self.entry)
    }

    pub(crate) fn waiter(&self) -> WaiterPtr {
        self.entry.waiter()
    }

    /// What the wait's result word says when this node's source ends it.
    pub(crate) fn result(&self) -> u32 {
        self.result
    }

    /// The place of the node for another list. The select whose node it is has it to itself, but for the
    /// node's own cells, which belong to the list while it is linked.
    pub(crate) fn other(&self) -> *mut Other {
        self.other.with_mut(|other| other)
    }
}

impl fmt::Debug for SelectNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SelectNode").field(&self.entry.end()).finish()
    }
}
