//! [`Notify`].

use crate::cancel;
use crate::park::queue::{Place, Queue, Source, Waited, Wakes, wait};
use crate::park::{Wait, charge_current};
use crate::primitives::clock::Moment;
use crate::primitives::sync::Lock;
use std::fmt;
use std::time::Duration;

/// Wakes others; a notification that nobody waits for is kept, once. Mirrors Tokio's.
///
/// # Cancellation
///
/// A wait unwinds. A notification that had reached the waiter is not lost: the wait then returns as
/// usual.
///
/// ```
/// use volt::sync::{Arc, Notify};
///
/// let ready = Arc::new(Notify::new());
/// let theirs = Arc::clone(&ready);
/// volt::go(move || theirs.notify_one());
/// ready.notified();
/// ```
pub struct Notify(Lock<Inner>);

struct Inner {
    /// A notification that nobody waited for; only while nobody waits.
    permit: bool,
    queue: Queue<()>,
}

impl Notify {
    /// One without a notification.
    ///
    /// ```
    /// static CHANGED: volt::sync::Notify = volt::sync::Notify::new();
    /// CHANGED.notify_waiters();
    /// ```
    #[must_use]
    pub const fn new() -> Notify {
        Notify(Lock::new(Inner { permit: false, queue: Queue::new() }))
    }

    /// Wakes the one who has waited longest; if nobody waits, the next one will not have to.
    ///
    /// ```
    /// let notify = volt::sync::Notify::new();
    /// notify.notify_one();
    /// notify.notified();
    /// ```
    pub fn notify_one(&self) {
        let mut wakes = Wakes::new();
        {
            let mut inner = self.0.lock();
            if !inner.queue.wake_one(0, &mut wakes) {
                inner.permit = true;
            }
        }
        wakes.wake();
    }

    /// Wakes all who wait now, and nobody who comes later.
    ///
    /// ```
    /// use volt::time::Duration;
    ///
    /// let notify = volt::sync::Notify::new();
    /// notify.notify_waiters();
    /// assert!(!notify.notified_timeout(Duration::ZERO));
    /// ```
    pub fn notify_waiters(&self) {
        let mut wakes = Wakes::new();
        self.0.lock().queue.wake_all(0, &mut wakes);
        wakes.wake();
    }

    /// Waits for a notification.
    ///
    /// ```
    /// let notify = volt::sync::Notify::new();
    /// notify.notify_one();
    /// notify.notified();
    /// ```
    pub fn notified(&self) {
        self.wait(None);
    }

    /// Waits for a notification for at most `timeout`; false if none came.
    ///
    /// ```
    /// use volt::time::Duration;
    ///
    /// let notify = volt::sync::Notify::new();
    /// assert!(!notify.notified_timeout(Duration::from_millis(1)));
    /// ```
    pub fn notified_timeout(&self, timeout: Duration) -> bool {
        self.wait(Some(Moment::now().saturating_add(timeout)))
    }

    fn wait(&self, deadline: Option<Moment>) -> bool {
        charge_current();
        let object = &raw const *self as usize;
        let how = Wait { object, deadline, ..Wait::cancellable("notify") };
        match wait(Enter { notify: self }, Place::Back, (), how) {
            Waited::Ready(()) | Waited::Woken(_) => true,
            Waited::TimedOut => false,
            Waited::Cancelled => cancel::unwind(),
        }
    }
}

struct Enter<'a> {
    notify: &'a Notify,
}

impl<'a> Source<'a> for Enter<'a> {
    type Inner = Inner;
    type Data = ();
    type Ready = ();

    fn lock(&self) -> &'a Lock<Inner> {
        &self.notify.0
    }

    fn queue<'q>(&self, inner: &'q mut Inner) -> &'q mut Queue<()> {
        &mut inner.queue
    }

    fn enter(&mut self, inner: &mut Inner) -> Option<()> {
        std::mem::take(&mut inner.permit).then_some(())
    }
}

impl Default for Notify {
    fn default() -> Notify {
        Notify::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").field("permit", &self.0.lock().permit).finish_non_exhaustive()
    }
}
