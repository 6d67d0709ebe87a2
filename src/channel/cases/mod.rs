//! What the rooms below have as cases: times, ends of fibers, cancels, events, notifications.
//!
//! Each links a node of its source's own kind, which a [`SelectNode`] has room for. All of them tell by
//! the result word alone which case was chosen: whoever settles the wait has had the effect, if there is
//! one, in the same critical section.

mod event;
mod join;
mod notify;
mod time;
mod token;

use super::other::Other;
use super::select_node::SelectNode;

/// Puts `other` into its place, and returns it there.
///
/// # Safety
///
/// The node is in no list.
unsafe fn put(node: &SelectNode, other: Other) -> &Other {
    let place = node.other();
    // SAFETY: nobody else reaches the place of a node that is in no list.
    unsafe {
        *place = other;
        &*place
    }
}

/// What [`put`] put there.
///
/// # Safety
///
/// The node's owner asks.
unsafe fn there(node: &SelectNode) -> &Other {
    // SAFETY: nobody writes to the place while this is borrowed; lists write to cells in it.
    unsafe { &*node.other() }
}
