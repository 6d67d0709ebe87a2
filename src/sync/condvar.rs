//! [`Condvar`].

use super::MutexGuard;
use crate::cancel;
use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Wait, deadline_after};
use crate::primitives::clock::Moment;
use crate::primitives::const_unless_loom;
use crate::primitives::sync::Lock;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::convert::Infallible;
use std::fmt;
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

/// Waits for a change of what a [`Mutex`](super::Mutex) guards; mirrors [`std::sync::Condvar`]. On a plain
/// thread its waits block the thread.
///
/// First come, first notified. There are no spurious wakes, but the condition may have changed again
/// before a waiter has the lock back, so waits belong into a loop, or into
/// [`wait_while`](Condvar::wait_while).
///
/// # Cancellation
///
/// A wait that is cancelled takes the lock back first, and then unwinds, which drops the guard.
/// A notification that had reached the waiter is not lost: the wait then returns as usual.
///
/// # On a panic
///
/// A condition is called under the lock: if it panics, that is freed, and poisoned. Who panics before
/// it notifies wakes nobody.
///
/// ```
/// use volt::sync::{Arc, Condvar, Mutex};
///
/// let pair = Arc::new((Mutex::new(false), Condvar::new()));
/// let theirs = Arc::clone(&pair);
/// volt::go(move || {
///     *theirs.0.lock().unwrap() = true;
///     theirs.1.notify_one();
/// });
/// let ready = pair.1.wait_while(pair.0.lock().unwrap(), |ready| !*ready).unwrap();
/// assert!(*ready);
/// ```
pub struct Condvar {
    /// How many wait. A notifier that comes after a waiter in the order that the user's mutex makes
    /// sees it counted; others may miss it, as they may come before it.
    waiting: AtomicUsize,
    queue: Lock<Queue<()>>,
}

// As the type that it mirrors: the lock inside is never left with a change half made.
impl std::panic::UnwindSafe for Condvar {}
impl std::panic::RefUnwindSafe for Condvar {}
/// Whether a wait ended because its time was over; mirrors [`std::sync::WaitTimeoutResult`], whose
/// values only `std` can make.
///
/// ```
/// use volt::sync::{Condvar, Mutex};
/// use volt::time::Duration;
///
/// let (mutex, never) = (Mutex::new(()), Condvar::new());
/// let guard = mutex.lock().unwrap();
/// let (_guard, result) = never.wait_timeout(guard, Duration::from_millis(1)).unwrap();
/// assert!(result.timed_out());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// The time was over before a notification came.
    ///
    /// ```
    /// use volt::sync::{Condvar, Mutex};
    /// use volt::time::Duration;
    ///
    /// let (mutex, never) = (Mutex::new(()), Condvar::new());
    /// let waited = never.wait_timeout(mutex.lock().unwrap(), Duration::ZERO).unwrap();
    /// assert!(waited.1.timed_out());
    /// ```
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    const_unless_loom! {
        /// One that nobody waits for.
        ///
        /// ```
        /// static CHANGED: volt::sync::Condvar = volt::sync::Condvar::new();
        /// CHANGED.notify_all();
        /// ```
        #[must_use]
        pub fn new() -> Condvar {
            Condvar { waiting: AtomicUsize::new(0), queue: Lock::new(Queue::new()) }
        }
    }

    /// Frees the guard's lock, waits for a notification, takes the lock back.
    ///
    /// # Errors
    ///
    /// The guard inside the error if the lock is poisoned.
    ///
    /// ```
    /// use volt::sync::{Arc, Condvar, Mutex};
    ///
    /// let pair = Arc::new((Mutex::new(0), Condvar::new()));
    /// let theirs = Arc::clone(&pair);
    /// volt::go(move || {
    ///     *theirs.0.lock().unwrap() = 3;
    ///     theirs.1.notify_all();
    /// });
    /// let mut count = pair.0.lock().unwrap();
    /// while *count == 0 {
    ///     count = pair.1.wait(count).unwrap();
    /// }
    /// assert_eq!(*count, 3);
    /// ```
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_until(guard, None).0
    }

    /// Waits for notifications as long as `condition` holds.
    ///
    /// # Errors
    ///
    /// The guard inside the error if the lock is poisoned.
    ///
    /// ```
    /// use volt::sync::{Condvar, Mutex};
    ///
    /// let (mutex, changed) = (Mutex::new(1), Condvar::new());
    /// let guard = changed.wait_while(mutex.lock().unwrap(), |value| *value == 0).unwrap();
    /// assert_eq!(*guard, 1);
    /// ```
    pub fn wait_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// As [`wait`](Condvar::wait), for at most `timeout`, to which the wait for the lock comes on top.
    ///
    /// # Errors
    ///
    /// The guard inside the error if the lock is poisoned.
    ///
    /// ```
    /// use volt::sync::{Condvar, Mutex};
    /// use volt::time::Duration;
    ///
    /// let (mutex, never) = (Mutex::new(7), Condvar::new());
    /// let guard = mutex.lock().unwrap();
    /// let (guard, result) = never.wait_timeout(guard, Duration::ZERO).unwrap();
    /// assert_eq!((*guard, result.timed_out()), (7, true));
    /// ```
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_deadline(guard, deadline_after(timeout))
    }

    /// As [`wait_while`](Condvar::wait_while), for at most `timeout` in all.
    ///
    /// # Errors
    ///
    /// The guard inside the error if the lock is poisoned.
    ///
    /// ```
    /// use volt::sync::{Condvar, Mutex};
    /// use volt::time::Duration;
    ///
    /// let (mutex, never) = (Mutex::new(true), Condvar::new());
    /// let guard = mutex.lock().unwrap();
    /// let timeout = Duration::from_millis(1);
    /// let (_guard, result) = never.wait_timeout_while(guard, timeout, |wait| *wait).unwrap();
    /// assert!(result.timed_out());
    /// ```
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        let deadline = deadline_after(timeout);
        let mut over = false;
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if over {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            guard = self.wait_deadline(guard, deadline)?.0;
            over = Moment::now() >= deadline;
        }
    }

    fn wait_deadline<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Moment,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (guard, timed_out) = self.wait_until(guard, Some(deadline));
        let result = WaitTimeoutResult(timed_out);
        match guard {
            Ok(guard) => Ok((guard, result)),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), result))),
        }
    }

    /// Also says whether the time was over.
    fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Moment>,
    ) -> (LockResult<MutexGuard<'a, T>>, bool) {
        let mutex = guard.mutex();
        let object = &raw const *self as usize;
        let how = Wait { object, deadline, ..Wait::cancellable("condvar") };
        let source = Enter { condvar: self, guard: Some(guard) };
        let waited = wait(source, Place::Back, (), how);
        // The lock was freed as the wait began; whatever ended it, the caller gets it back.
        mutex.raw.lock_uncancelled();
        // SAFETY: locked just now; the former guard is gone.
        let guard = unsafe { mutex.guard() };
        if waited == Waited::Cancelled {
            cancel::unwind();
        }
        (guard, waited == Waited::TimedOut)
    }

    fn notify(&self, notify: impl FnOnce(&mut Queue<()>, &mut Wakes) -> usize) {
        if self.waiting.load(Relaxed) == 0 {
            return;
        }
        let mut wakes = Wakes::new();
        {
            let mut queue = self.queue.lock();
            let woken = notify(&mut queue, &mut wakes);
            self.waiting.fetch_sub(woken, Relaxed);
        }
        wakes.wake();
    }

    /// Wakes the one who has waited longest, if somebody waits.
    ///
    /// ```
    /// volt::sync::Condvar::new().notify_one();
    /// ```
    pub fn notify_one(&self) {
        self.notify(|queue, wakes| usize::from(queue.wake_one(0, wakes)));
    }

    /// Wakes all who wait.
    ///
    /// ```
    /// volt::sync::Condvar::new().notify_all();
    /// ```
    pub fn notify_all(&self) {
        self.notify(|queue, wakes| queue.wake_all(0, wakes));
    }
}

/// A wait, and the guard that is let go of once the waiter can be notified.
struct Enter<'c, 'a, T: ?Sized> {
    condvar: &'c Condvar,
    guard: Option<MutexGuard<'a, T>>,
}

impl<'c, T: ?Sized> Source<'c> for Enter<'c, '_, T> {
    type Inner = Queue<()>;
    type Data = ();
    type Ready = Infallible;

    fn lock(&self) -> &'c Lock<Queue<()>> {
        &self.condvar.queue
    }

    fn queue<'q>(&self, inner: &'q mut Queue<()>) -> &'q mut Queue<()> {
        inner
    }

    fn enter(&mut self, _: &mut Queue<()>) -> Option<Infallible> {
        self.condvar.waiting.fetch_add(1, Relaxed);
        None
    }

    fn entered(&mut self) {
        self.guard = None;
    }

    fn left(&mut self, _: &mut Queue<()>, _: bool, _: &mut Wakes) {
        self.condvar.waiting.fetch_sub(1, Relaxed);
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
#[path = "condvar_models.rs"]
mod models;
