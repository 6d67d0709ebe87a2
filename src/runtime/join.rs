//! The handle of a fiber: its result, its end, its cancel.

use crate::cancel;
use crate::fiber::{self, FiberPtr, Joiner, Waiters, release_block};
use crate::park::{self, Outcome, Parking, Wait};
use crate::scheduler::{self, SpawnOptions, Target};
use std::fmt;
use std::marker::PhantomData;
use std::thread;

/// Owns the right to a fiber's result; dropping it lets the fiber go on by itself. If there was no stack for that one,
/// stderr has it, and [`metrics::stacks`](crate::metrics::stacks) counts it.
///
/// It mirrors [`std::thread::JoinHandle`]; `thread` gives a [`volt::thread::Thread`].
///
/// [`volt::thread::Thread`]: crate::thread::Thread
///
/// ```
/// let fiber: volt::JoinHandle<u32> = volt::go(|| 6 * 7);
/// assert_eq!(fiber.join().unwrap(), 42);
/// ```
pub struct JoinHandle<T> {
    /// `None` if the runtime had been shut down.
    fiber: Option<FiberPtr>,
    result: PhantomData<fn() -> T>,
}

// SAFETY: the handle moves a `T` out of the fiber, and shares nothing but its state word.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: `&JoinHandle` gives access to the state word only.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

// Nothing of it is left half changed by a panic.
impl<T> std::panic::UnwindSafe for JoinHandle<T> {}
impl<T> std::panic::RefUnwindSafe for JoinHandle<T> {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}

impl<T> JoinHandle<T> {
    /// # Safety
    ///
    /// What `f` and its result borrow must outlive the fiber and its result.
    #[inline]
    pub(crate) unsafe fn spawn<F>(target: Target<'_>, options: SpawnOptions, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: passed on.
        let fiber = unsafe { scheduler::spawn(target, options, f) }.ok();
        JoinHandle { fiber, result: PhantomData }
    }

    /// Waits for the fiber's end and returns its result; for one that panicked, the payload. A fiber
    /// waits without holding its worker, a plain thread sleeps.
    ///
    /// # Errors
    ///
    /// The payload of the fiber's panic. A [`StackError`](crate::StackError) if there was no memory for its stack. A
    /// message if the runtime had been shut down before it could run. [`Cancelled`](crate::cancel::Cancelled) if a
    /// cancel has ended it. One that had begun when its runtime was dropped never ends, and neither does the wait for
    /// it, but by a timeout or a cancel: [`shutdown`](crate::runtime::Runtime::shutdown) waits for such fibers.
    ///
    /// # Cancel
    ///
    /// A caller that is cancelled [unwinds](crate::cancel), and the fiber goes on by itself.
    ///
    /// ```
    /// let fiber = volt::go(|| -> u32 { panic!("no answer") });
    /// let payload = fiber.join().unwrap_err();
    /// assert_eq!(payload.downcast_ref(), Some(&"no answer"));
    /// ```
    pub fn join(self) -> thread::Result<T> {
        if !self.wait() {
            cancel::unwind();
        }
        self.take_result()
    }

    /// Waits for the fiber's end; false if the caller was cancelled first.
    #[must_use]
    pub(crate) fn wait(&self) -> bool {
        self.fiber.is_none_or(|fiber| wait_for_end(fiber, Wait::cancellable("join")))
    }

    /// As [`join`](Self::join), whether the caller is cancelled or not.
    pub(crate) fn join_uncancelled(self) -> thread::Result<T> {
        self.wait_uncancelled();
        self.take_result()
    }

    /// Waits for the end, whether the caller is cancelled or not.
    pub(super) fn wait_uncancelled(&self) {
        if let Some(fiber) = self.fiber {
            wait_for_end(fiber, Wait::new("join"));
        }
    }

    /// As `wait`, but also until `free` is told, of which `is_told` knows.
    pub(super) fn wait_beside(
        &self,
        free: &Waiters,
        is_told: impl FnOnce() -> bool,
        wait: Wait,
    ) -> bool {
        let Some(fiber) = self.fiber.filter(|fiber| !fiber::has_ended(*fiber)) else { return true };
        let parking = Parking::begin(wait.reason);
        let joiner = Joiner::new(parking.waiter(), 0);
        // SAFETY: unlinked by `_linked`.
        if !unsafe { fiber::link_joiner(fiber, &joiner) } {
            return true;
        }
        let _linked = Linked { fiber, joiner: &joiner };
        if !free.link(parking.waiter(), is_told) {
            return true;
        }
        let _waits = free.linked(parking.waiter());
        let wait = Wait { object: fiber.as_ptr() as usize, ..wait };
        parking.park(wait) != Outcome::Cancelled
    }

    /// Of a fiber that has ended: has a cancel refused it something, or unwound it?
    pub(super) fn has_noticed_a_cancel(&self) -> bool {
        self.fiber.is_some_and(|fiber| fiber::Owner::Fiber(fiber).marks().has_noticed())
    }

    /// The result of a fiber that has ended.
    fn take_result(mut self) -> thread::Result<T> {
        let Some(fiber) = self.fiber.take() else {
            return Err(Box::new("the runtime has been shut down: the fiber was not spawned"));
        };
        // SAFETY: the fiber is done and the handle owns its result, read once; then the handle lets
        // go of the block.
        unsafe {
            let result = fiber.result().cast::<thread::Result<T>>().read();
            release_block(fiber);
            cancel::hands_out(result)
        }
    }

    /// False if the runtime had been shut down.
    pub(super) fn was_spawned(&self) -> bool {
        self.fiber.is_some()
    }

    /// Has the fiber ended? Its `join` then returns at once.
    ///
    /// ```
    /// let fiber = volt::go(|| "done");
    /// while !fiber.is_finished() {
    ///     volt::yield_now();
    /// }
    /// assert_eq!(fiber.join().unwrap(), "done");
    /// ```
    pub fn is_finished(&self) -> bool {
        self.fiber.is_none_or(|fiber| fiber.state().load().is_done())
    }

    /// Asks the fiber to end: its current and later waits end. Those of I/O return an error for which
    /// [`volt::cancel::is_cancelled`](crate::cancel::is_cancelled) holds, others unwind the fiber; see
    /// [`volt::cancel`](crate::cancel).
    ///
    /// A fiber that does not wait does not notice. Returns at once; `join` waits for the end.
    ///
    /// ```
    /// let fiber = volt::go(|| volt::sleep(std::time::Duration::MAX));
    /// fiber.cancel();
    /// assert!(fiber.join().unwrap_err().is::<volt::cancel::Cancelled>());
    /// ```
    pub fn cancel(&self) {
        let Some(fiber) = self.fiber else { return };
        let settle = fiber.state().cancel();
        // SAFETY: from this waiter's state just now; this handle keeps the block.
        if let Some(wake) = unsafe { fiber.as_waiter().wake(settle) } {
            scheduler::wake(wake);
        }
    }

    /// Links one who waits for the fiber's end and leaves the result where it is; false if it has ended.
    ///
    /// # Safety
    ///
    /// The joiner is in no list, and stays where it is until [`unlink`](JoinHandle::unlink).
    pub(crate) unsafe fn link(&self, joiner: &Joiner) -> bool {
        // SAFETY: passed on.
        self.fiber.is_some_and(|fiber| unsafe { fiber::link_joiner(fiber, joiner) })
    }

    /// Unlinks a joiner, however its wait has ended.
    pub(crate) fn unlink(&self, joiner: &Joiner) {
        if let Some(fiber) = self.fiber {
            fiber::unlink_joiner(fiber, joiner);
        }
    }

    /// Alive as long as the handle; `None` if the runtime had been shut down.
    pub(crate) fn fiber(&self) -> &Option<FiberPtr> {
        &self.fiber
    }
}

impl<T> Drop for JoinHandle<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(fiber) = self.fiber.take() {
            // SAFETY: this is the join handle.
            unsafe { scheduler::drop_handle(fiber) };
        }
    }
}

/// Returns true when the fiber is done and has let go of its join lock, false if `wait` was cancelled.
fn wait_for_end(fiber: FiberPtr, wait: Wait) -> bool {
    if fiber::has_ended(fiber) {
        return true;
    }
    let parking = Parking::begin(wait.reason);
    let joiner = Joiner::new(parking.waiter(), 0);
    // SAFETY: unlinked by `linked`, unless the fiber's end settles this wait.
    if !unsafe { fiber::link_joiner(fiber, &joiner) } {
        return true;
    }
    let linked = Linked { fiber, joiner: &joiner };
    let wait = Wait { object: fiber.as_ptr() as usize, ..wait };
    let outcome =
        park::join_by_running(&parking, wait, fiber).unwrap_or_else(|| parking.park(wait));
    if outcome == Outcome::Cancelled {
        return false;
    }
    // Whoever settled this wait did it under the lock, and took the joiner out.
    std::mem::forget(linked);
    let ended = fiber::has_ended(fiber);
    debug_assert!(ended, "a join that something else ended");
    true
}

/// Unlinks a joiner whose wait was not ended by the fiber's end.
struct Linked<'a> {
    fiber: FiberPtr,
    joiner: &'a Joiner,
}

impl Drop for Linked<'_> {
    fn drop(&mut self) {
        fiber::unlink_joiner(self.fiber, self.joiner);
    }
}
