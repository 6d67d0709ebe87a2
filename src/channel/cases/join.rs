//! The end of a fiber.

use super::super::case::{Attempt, Purpose, Selectable, Source};
use super::super::other::Other;
use super::super::parcel::Parcel;
use super::super::select_node::SelectNode;
use super::super::selected::SelectedOperation;
use super::{put, there};
use crate::fiber::Joiner;
use crate::runtime::JoinHandle;
use crate::thread::ScopedJoinHandle;

impl<T> Source for JoinHandle<T> {
    fn attempt(&self, _parcel: &mut Parcel) -> Attempt {
        if self.is_finished() { Attempt::Chosen } else { Attempt::NotReady }
    }

    fn is_ready(&self) -> bool {
        self.is_finished()
    }

    fn handed(&self, _node: &SelectNode) -> Option<bool> {
        Some(true)
    }

    unsafe fn link(&self, node: &SelectNode, _purpose: Purpose) -> bool {
        let made = Joiner::new(node.waiter(), node.result());
        // SAFETY: in no list yet.
        let Other::Joiner(made) = (unsafe { put(node, Other::Joiner(made)) }) else {
            return false;
        };
        // SAFETY: it stays there until it is unlinked, by the caller.
        unsafe { JoinHandle::link(self, made) }
    }

    unsafe fn unlink(&self, node: &SelectNode, _purpose: Purpose) {
        // SAFETY: the owner of the node is the caller.
        if let Other::Joiner(made) = unsafe { there(node) } {
            JoinHandle::unlink(self, made);
        }
    }
}

/// Chosen when the fiber has ended. Its result stays in the handle: [`join`](JoinHandle::join) gives it,
/// without a wait.
///
/// ```
/// use volt::channel::select;
///
/// let slow = volt::go(|| volt::sleep(std::time::Duration::MAX));
/// let fast = volt::go(|| "done");
/// select! {
///     wait(fast) -> () => assert_eq!(fast.join().unwrap(), "done"),
///     wait(slow) -> () => unreachable!(),
/// }
/// slow.cancel();
/// ```
impl<T> Selectable for JoinHandle<T> {
    type Output<'a>
        = ()
    where
        T: 'a;

    fn complete(&self, chosen: SelectedOperation<'_>) {
        chosen.into_promise(self.identity());
    }
}

impl<T> Source for ScopedJoinHandle<'_, T> {
    fn attempt(&self, parcel: &mut Parcel) -> Attempt {
        self.fiber().attempt(parcel)
    }

    fn is_ready(&self) -> bool {
        self.fiber().is_ready()
    }

    fn handed(&self, _node: &SelectNode) -> Option<bool> {
        Some(true)
    }

    unsafe fn link(&self, node: &SelectNode, purpose: Purpose) -> bool {
        // SAFETY: passed on.
        unsafe { Source::link(self.fiber(), node, purpose) }
    }

    unsafe fn unlink(&self, node: &SelectNode, purpose: Purpose) {
        // SAFETY: passed on.
        unsafe { Source::unlink(self.fiber(), node, purpose) };
    }
}

/// As [`JoinHandle`]'s.
///
/// ```
/// volt::run(|| {
///     volt::scope(|scope| {
///         let fiber = scope.go(|| 6 * 7);
///         volt::channel::select! {
///             wait(fiber) -> () => assert_eq!(fiber.join().unwrap(), 42),
///         }
///     });
/// });
/// ```
impl<'scope, T> Selectable for ScopedJoinHandle<'scope, T> {
    type Output<'a>
        = ()
    where
        T: 'a,
        'scope: 'a;

    fn complete(&self, chosen: SelectedOperation<'_>) {
        chosen.into_promise(self.identity());
    }
}
