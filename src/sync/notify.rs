//! [`Notify`].

use super::raw_notify::RawNotify;
use crate::cancel;
use crate::park::queue::Waited;
use crate::park::{Wait, charge_current, deadline_after};
use crate::primitives::clock::Moment;
use std::fmt;
use std::time::Duration;

/// Wakes others; a notification that nobody waits for is kept, once. Mirrors Tokio's. On a plain thread its
/// waits block the thread.
///
/// # Cancellation
///
/// A wait unwinds. A notification that had reached the waiter is not lost: the wait then returns as
/// usual. Of a select it is a [case](crate::channel::Selectable): one that was not chosen takes none.
///
/// # On a panic
///
/// Who panics before it notifies wakes nobody, unless one of its destructors does.
///
/// ```
/// use volt::sync::{Arc, Notify};
///
/// let ready = Arc::new(Notify::new());
/// let theirs = Arc::clone(&ready);
/// volt::go(move || theirs.notify_one());
/// ready.notified();
/// ```
pub struct Notify(RawNotify);

// As the type that it mirrors: the lock inside is never left with a change half made.
impl std::panic::UnwindSafe for Notify {}
impl std::panic::RefUnwindSafe for Notify {}

impl Notify {
    /// One without a notification.
    ///
    /// ```
    /// static CHANGED: volt::sync::Notify = volt::sync::Notify::new();
    /// CHANGED.notify_waiters();
    /// ```
    #[must_use]
    pub const fn new() -> Notify {
        Notify(RawNotify::new())
    }

    /// Wakes the one who has waited longest; if nobody waits, the next one will not have to.
    ///
    /// ```
    /// let notify = volt::sync::Notify::new();
    /// notify.notify_one();
    /// notify.notified();
    /// ```
    pub fn notify_one(&self) {
        self.0.notify_one();
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
        self.0.notify_waiters();
    }

    /// Waits for a notification.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait; a notification that comes goes to another, or is kept.
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
    /// # Cancellation
    ///
    /// As [`notified`](Notify::notified).
    ///
    /// ```
    /// use volt::time::Duration;
    ///
    /// let notify = volt::sync::Notify::new();
    /// assert!(!notify.notified_timeout(Duration::from_millis(1)));
    /// ```
    pub fn notified_timeout(&self, timeout: Duration) -> bool {
        self.wait(Some(deadline_after(timeout)))
    }

    /// For selects.
    pub(crate) fn raw(&self) -> &RawNotify {
        &self.0
    }

    fn wait(&self, deadline: Option<Moment>) -> bool {
        charge_current();
        match self.0.wait(Wait { deadline, ..Wait::cancellable("notify") }) {
            Waited::Ready(()) | Waited::Woken(_) => true,
            // One that came before the caller ran is there.
            Waited::TimedOut => self.0.take(),
            Waited::Cancelled => cancel::unwind(),
        }
    }
}

impl Default for Notify {
    fn default() -> Notify {
        Notify::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").field("permit", &self.0.has_permit()).finish_non_exhaustive()
    }
}
