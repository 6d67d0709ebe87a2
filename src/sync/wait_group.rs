//! [`WaitGroup`].

use crate::cancel;
use crate::park::Wait;
use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::primitives::sync::{Arc, Lock};
use std::fmt;

/// Waits until all who have a clone of it have dropped theirs; mirrors crossbeam's. A plain thread blocks
/// while it waits.
///
/// A panic drops a clone as well: its owner has left the group, and `wait` does not tell. Nor does a
/// cancel.
///
/// ```
/// use volt::sync::WaitGroup;
///
/// let group = WaitGroup::new();
/// for _ in 0..4 {
///     let group = group.clone();
///     volt::go(move || {
///         // ... some work ...
///         drop(group);
///     });
/// }
/// group.wait();
/// ```
pub struct WaitGroup(Arc<Shared>);

// As the type that it mirrors: the lock inside is never left with a change half made.
impl std::panic::UnwindSafe for WaitGroup {}
impl std::panic::RefUnwindSafe for WaitGroup {}

struct Shared(Lock<Inner>);

struct Inner {
    members: usize,
    queue: Queue<()>,
}

impl WaitGroup {
    /// A group with one member: the caller.
    ///
    /// ```
    /// volt::sync::WaitGroup::new().wait();
    /// ```
    #[must_use]
    pub fn new() -> WaitGroup {
        WaitGroup(Arc::new(Shared(Lock::new(Inner { members: 1, queue: Queue::new() }))))
    }

    /// Leaves the group and waits until all others have left it.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait; it has left the group then.
    ///
    /// ```
    /// let group = volt::sync::WaitGroup::new();
    /// let other = group.clone();
    /// volt::go(move || drop(other));
    /// group.wait();
    /// ```
    pub fn wait(self) {
        let shared = Arc::clone(&self.0);
        drop(self);
        let object = Arc::as_ptr(&shared) as usize;
        let how = Wait { object, ..Wait::cancellable("wait group") };
        if wait(Enter { shared: &shared }, Place::Back, (), how) == Waited::Cancelled {
            cancel::unwind();
        }
    }
}

struct Enter<'a> {
    shared: &'a Shared,
}

impl<'a> Source<'a> for Enter<'a> {
    type Inner = Inner;
    type Data = ();
    type Ready = ();

    fn lock(&self) -> &'a Lock<Inner> {
        &self.shared.0
    }

    fn queue<'q>(&self, inner: &'q mut Inner) -> &'q mut Queue<()> {
        &mut inner.queue
    }

    fn enter(&mut self, inner: &mut Inner) -> Option<()> {
        (inner.members == 0).then_some(())
    }
}

impl Clone for WaitGroup {
    fn clone(&self) -> WaitGroup {
        self.0.0.lock().members += 1;
        WaitGroup(Arc::clone(&self.0))
    }
}

impl Drop for WaitGroup {
    fn drop(&mut self) {
        let mut wakes = Wakes::new();
        {
            let mut inner = self.0.0.lock();
            inner.members -= 1;
            if inner.members == 0 {
                inner.queue.wake_all(0, &mut wakes);
            }
        }
        wakes.wake();
    }
}

impl Default for WaitGroup {
    fn default() -> WaitGroup {
        WaitGroup::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup").field("members", &self.0.0.lock().members).finish()
    }
}

#[cfg(all(test, loom))]
#[path = "wait_group_models.rs"]
mod models;
