//! Something that happens.

use super::super::case::{Attempt, Purpose, Selectable, Source};
use super::super::other::Other;
use super::super::parcel::Parcel;
use super::super::select_node::SelectNode;
use super::super::selected::SelectedOperation;
use super::{put, there};
use crate::park::queue::Node;
use crate::sync::Event;
use std::ptr::NonNull;

impl Source for Event {
    fn attempt(&self, _parcel: &mut Parcel) -> Attempt {
        if self.is_set() { Attempt::Chosen } else { Attempt::NotReady }
    }

    fn is_ready(&self) -> bool {
        self.is_set()
    }

    fn handed(&self, _node: &SelectNode) -> Option<bool> {
        Some(true)
    }

    unsafe fn link(&self, node: &SelectNode, _purpose: Purpose) -> bool {
        let made = Node::of_select(node.waiter(), node.result(), ());
        // SAFETY: in no list yet.
        let Other::Event(made) = (unsafe { put(node, Other::Event(made)) }) else { return false };
        // SAFETY: it stays there until it is unlinked, by the caller.
        unsafe { self.raw().link(NonNull::from(made)) }
    }

    unsafe fn unlink(&self, node: &SelectNode, _purpose: Purpose) {
        // SAFETY: linked there by `link`, by the caller.
        unsafe {
            if let Other::Event(made) = there(node) {
                self.raw().unlink(NonNull::from(made));
            }
        }
    }
}

/// Chosen when it has happened; as with [`wait`](Event::wait), even if it is reset at once.
///
/// ```
/// use volt::channel::{select, unbounded};
/// use volt::sync::Event;
///
/// let (_s, r) = unbounded::<u8>();
/// let stop = Event::new();
/// stop.set();
/// select! {
///     recv(r) -> _ => unreachable!("nobody sends"),
///     wait(stop) -> () => {}
/// }
/// ```
impl Selectable for Event {
    type Output<'a> = ();

    fn complete(&self, chosen: SelectedOperation<'_>) {
        chosen.into_promise(self.identity());
    }
}
