//! [`WaitGroup`].
//!
//! Its members are counted by who shares [`Members`]: to join and to leave is one addition each, or subtraction.
//! The last one who leaves opens the [`Gate`], which is shared with those who wait, and outlives the members.

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
#[derive(Clone)]
pub struct WaitGroup(Arc<Members>);

// As the type that it mirrors: the lock inside is never left with a change half made.
impl std::panic::UnwindSafe for WaitGroup {}
impl std::panic::RefUnwindSafe for WaitGroup {}

/// Goes when the last member leaves.
struct Members(Arc<Gate>);

impl Drop for Members {
    fn drop(&mut self) {
        let mut wakes = Wakes::new();
        {
            let mut waiting = self.0.0.lock();
            waiting.is_open = true;
            waiting.queue.wake_all(0, &mut wakes);
        }
        wakes.wake();
    }
}

/// Where those stand who wait.
struct Gate(Lock<Waiting>);

struct Waiting {
    is_open: bool,
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
        let gate = Gate(Lock::new(Waiting { is_open: false, queue: Queue::new() }));
        WaitGroup(Arc::new(Members(Arc::new(gate))))
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
        let gate = Arc::clone(&self.0.0);
        drop(self);
        let object = Arc::as_ptr(&gate) as usize;
        let how = Wait { object, ..Wait::cancellable("wait group") };
        if wait(Enter { gate: &gate }, Place::Back, (), how) == Waited::Cancelled {
            cancel::unwind();
        }
    }
}

struct Enter<'a> {
    gate: &'a Gate,
}

impl<'a> Source<'a> for Enter<'a> {
    type Inner = Waiting;
    type Data = ();
    type Ready = ();

    fn lock(&self) -> &'a Lock<Waiting> {
        &self.gate.0
    }

    fn queue<'q>(&self, waiting: &'q mut Waiting) -> &'q mut Queue<()> {
        &mut waiting.queue
    }

    fn enter(&mut self, waiting: &mut Waiting) -> Option<()> {
        waiting.is_open.then_some(())
    }
}

impl Default for WaitGroup {
    fn default() -> WaitGroup {
        WaitGroup::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup").field("members", &Arc::strong_count(&self.0)).finish()
    }
}

#[cfg(all(test, loom))]
#[path = "wait_group_models.rs"]
mod models;
