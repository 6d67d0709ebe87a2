//! A notification.

use super::super::case::{Attempt, Purpose, Selectable, Source};
use super::super::other::Other;
use super::super::parcel::Parcel;
use super::super::select_node::SelectNode;
use super::super::selected::SelectedOperation;
use super::{put, there};
use crate::park::queue::Node;
use crate::sync::{Notify, Wants};
use std::ptr::NonNull;

impl Source for Notify {
    fn attempt(&self, _parcel: &mut Parcel) -> Attempt {
        if self.raw().take() { Attempt::Chosen } else { Attempt::NotReady }
    }

    fn is_ready(&self) -> bool {
        self.raw().has_permit()
    }

    /// One that went to all who waited is nobody's to give back.
    fn handed(&self, node: &SelectNode) -> Option<bool> {
        // SAFETY: the caller has the node.
        let Other::Notify(made) = (unsafe { there(node) }) else { return None };
        Some(made.data() == Wants::Permit)
    }

    unsafe fn link(&self, node: &SelectNode, purpose: Purpose) -> bool {
        let wants = match purpose {
            Purpose::Effect => Wants::Permit,
            Purpose::Watch => Wants::News,
        };
        let made = Node::of_select(node.waiter(), node.result(), wants);
        // SAFETY: in no list yet.
        let Other::Notify(made) = (unsafe { put(node, Other::Notify(made)) }) else {
            return false;
        };
        // SAFETY: it stays there until it is unlinked, by the caller.
        unsafe { self.raw().link(NonNull::from(made)) }
    }

    unsafe fn unlink(&self, node: &SelectNode, _purpose: Purpose) {
        // SAFETY: linked there by `link`, by the caller.
        unsafe {
            if let Other::Notify(made) = there(node) {
                self.raw().unlink(NonNull::from(made));
            }
        }
    }

    fn withdraw(&self) {
        self.notify_one();
    }
}

/// Chosen with a notification, which it takes; whoever is not chosen takes none. Those who wait are
/// served in order, selects among them. [`Select::ready`](crate::channel::Select::ready) takes none
/// either, and hears of kept ones alone, not of [`notify_waiters`](Notify::notify_waiters).
///
/// ```
/// use std::time::Duration;
/// use volt::channel::select;
/// use volt::sync::Notify;
///
/// let notify = Notify::new();
/// notify.notify_one();
/// select! { wait(notify) -> () => {} }
/// let late = select! {
///     wait(notify) -> () => false,
///     default(Duration::from_millis(1)) => true,
/// };
/// assert!(late);
/// ```
impl Selectable for Notify {
    type Output<'a> = ();

    fn complete(&self, chosen: SelectedOperation<'_>) {
        chosen.into_promise(self.identity());
    }
}
