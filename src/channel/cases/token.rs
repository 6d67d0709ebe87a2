//! The cancel of a token.

use super::super::case::{Attempt, Purpose, Selectable, Source};
use super::super::other::Other;
use super::super::parcel::Parcel;
use super::super::select_node::SelectNode;
use super::super::selected::SelectedOperation;
use super::{put, there};
use crate::cancel::Token;
use crate::park::queue::Node;
use std::ptr::NonNull;

impl Source for Token {
    fn attempt(&self, _parcel: &mut Parcel) -> Attempt {
        if self.is_cancelled() { Attempt::Chosen } else { Attempt::NotReady }
    }

    fn is_ready(&self) -> bool {
        self.is_cancelled()
    }

    fn handed(&self, _node: &SelectNode) -> Option<bool> {
        Some(true)
    }

    unsafe fn link(&self, node: &SelectNode, _purpose: Purpose) -> bool {
        let made = Node::of_select(node.waiter(), node.result(), ());
        // SAFETY: in no list yet.
        let Other::Token(made) = (unsafe { put(node, Other::Token(made)) }) else { return false };
        // SAFETY: it stays there until it is unlinked, by the caller.
        unsafe { self.link_waiter(NonNull::from(made)) }
    }

    unsafe fn unlink(&self, node: &SelectNode, _purpose: Purpose) {
        // SAFETY: linked there by `link`, by the caller.
        unsafe {
            if let Other::Token(made) = there(node) {
                self.unlink_waiter(NonNull::from(made));
            }
        }
    }
}

/// Chosen when the token is cancelled.
///
/// ```
/// use volt::cancel::Token;
/// use volt::channel::{select, unbounded};
///
/// let stop = Token::new();
/// let theirs = stop.child();
/// let (s, work) = unbounded::<u32>();
/// let worker = volt::go(move || {
///     let mut done = 0;
///     loop {
///         select! {
///             recv(work) -> item => done += item.unwrap(),
///             wait(theirs) -> () => return done,
///         }
///     }
/// });
/// stop.cancel();
/// assert_eq!(worker.join().unwrap(), 0);
/// # drop(s);
/// ```
impl Selectable for Token {
    type Output<'a> = ();

    fn complete(&self, chosen: SelectedOperation<'_>) {
        chosen.into_promise(self.identity());
    }
}
