//! [`Barrier`].

use crate::cancel;
use crate::park::Wait;
use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::primitives::const_unless_loom;
use crate::primitives::sync::Lock;
use std::cell::Cell;
use std::fmt;

/// Lets a number of fibers or threads go on together; mirrors [`std::sync::Barrier`]. A plain thread blocks
/// while it waits.
///
/// # Cancellation
///
/// Whoever is cancelled while it waits takes its arrival back and unwinds; the others wait on. Where the
/// last one has come meanwhile it goes on as usual: either it has arrived, or it has unwound.
///
/// # On a panic
///
/// Who panics on the way does not arrive, and the others wait on, as with `std`.
///
/// ```
/// use volt::sync::{Arc, Barrier};
///
/// let barrier = Arc::new(Barrier::new(3));
/// let fibers: Vec<_> = (0..3)
///     .map(|_| {
///         let barrier = Arc::clone(&barrier);
///         volt::go(move || barrier.wait().is_leader())
///     })
///     .collect();
/// let leaders = fibers.into_iter().filter_map(|fiber| fiber.join().ok()).filter(|leads| *leads);
/// assert_eq!(leaders.count(), 1);
/// ```
pub struct Barrier {
    size: usize,
    inner: Lock<Inner>,
}

// As the type that it mirrors: the lock inside is never left with a change half made.
impl std::panic::UnwindSafe for Barrier {}
impl std::panic::RefUnwindSafe for Barrier {}
struct Inner {
    arrived: usize,
    queue: Queue<()>,
}

/// Says who was the last to arrive; mirrors [`std::sync::BarrierWaitResult`].
///
/// ```
/// assert!(volt::sync::Barrier::new(1).wait().is_leader());
/// ```
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// True for one of those who went on together.
    ///
    /// ```
    /// assert!(volt::sync::Barrier::new(0).wait().is_leader());
    /// ```
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult").field("is_leader", &self.is_leader()).finish()
    }
}

impl Barrier {
    const_unless_loom! {
        /// A barrier that `n` must reach; 0 is as 1.
        ///
        /// ```
        /// static MEETING: volt::sync::Barrier = volt::sync::Barrier::new(1);
        /// MEETING.wait();
        /// ```
        #[must_use]
        pub fn new(n: usize) -> Barrier {
            Barrier { size: n, inner: Lock::new(Inner { arrived: 0, queue: Queue::new() }) }
        }
    }

    /// Waits until all have arrived. The barrier can be used again at once.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait, and has not arrived then; the others wait on.
    ///
    /// ```
    /// let barrier = volt::sync::Barrier::new(2);
    /// volt::thread::scope(|scope| {
    ///     scope.spawn(|| barrier.wait());
    ///     barrier.wait();
    /// });
    /// ```
    pub fn wait(&self) -> BarrierWaitResult {
        let how = Wait { object: &raw const *self as usize, ..Wait::cancellable("barrier") };
        let passed = Cell::new(false);
        match wait(Enter { barrier: self, passed: &passed }, Place::Back, (), how) {
            Waited::Ready(wakes) => {
                wakes.wake();
                BarrierWaitResult(true)
            }
            Waited::Woken(_) => BarrierWaitResult(false),
            // The others have gone on with this one counted: it has arrived.
            Waited::TimedOut | Waited::Cancelled if passed.get() => {
                cancel::took_effect();
                BarrierWaitResult(false)
            }
            Waited::TimedOut | Waited::Cancelled => cancel::unwind(),
        }
    }
}

struct Enter<'a, 'p> {
    barrier: &'a Barrier,
    /// The wait was cancelled, and then the last one came before the arrival was taken back.
    passed: &'p Cell<bool>,
}

impl<'a> Source<'a> for Enter<'a, '_> {
    type Inner = Inner;
    type Data = ();
    type Ready = Wakes;

    fn lock(&self) -> &'a Lock<Inner> {
        &self.barrier.inner
    }

    fn queue<'q>(&self, inner: &'q mut Inner) -> &'q mut Queue<()> {
        &mut inner.queue
    }

    fn enter(&mut self, inner: &mut Inner) -> Option<Wakes> {
        if inner.arrived + 1 < self.barrier.size {
            inner.arrived += 1;
            return None;
        }
        let mut wakes = Wakes::new();
        inner.queue.wake_all(0, &mut wakes);
        inner.arrived = 0;
        Some(wakes)
    }

    fn left(&mut self, inner: &mut Inner, linked: bool, _: &mut Wakes) {
        // Otherwise the last one came meanwhile, and counted this one among those who go on.
        inner.arrived -= usize::from(linked);
        self.passed.set(!linked);
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
#[path = "barrier_models.rs"]
mod models;
