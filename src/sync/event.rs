//! [`Event`].

use super::raw_event::RawEvent;
use crate::cancel;
use crate::park::queue::Waited;
use crate::park::{Wait, charge_current, deadline_after};
use crate::primitives::clock::Moment;
use std::fmt;
use std::time::Duration;

/// Something that has happened or not, until it is reset. On a plain thread its waits block the thread.
///
/// # Cancellation
///
/// A wait unwinds.
///
/// # On a panic
///
/// Who panics before it sets the event wakes nobody, unless one of its destructors does.
///
/// ```
/// use volt::sync::{Arc, Event};
///
/// let started = Arc::new(Event::new());
/// let theirs = Arc::clone(&started);
/// volt::go(move || theirs.set());
/// started.wait();
/// started.wait(); // still so
/// ```
pub struct Event(RawEvent);

// As the type that it mirrors: the lock inside is never left with a change half made.
impl std::panic::UnwindSafe for Event {}
impl std::panic::RefUnwindSafe for Event {}

impl Event {
    /// It has not happened.
    ///
    /// ```
    /// static STARTED: volt::sync::Event = volt::sync::Event::new();
    /// assert!(!STARTED.is_set());
    /// ```
    #[must_use]
    pub const fn new() -> Event {
        Event(RawEvent::new())
    }

    /// It happens: all who wait go on, and nobody waits any more.
    ///
    /// ```
    /// let event = volt::sync::Event::new();
    /// event.set();
    /// event.wait();
    /// ```
    pub fn set(&self) {
        self.0.set();
    }

    /// It has not happened any more; returns whether it had.
    ///
    /// ```
    /// let event = volt::sync::Event::new();
    /// event.set();
    /// assert!(event.reset());
    /// assert!(!event.is_set());
    /// ```
    pub fn reset(&self) -> bool {
        self.0.reset()
    }

    /// Has it happened?
    ///
    /// ```
    /// assert!(!volt::sync::Event::new().is_set());
    /// ```
    pub fn is_set(&self) -> bool {
        self.0.is_set()
    }

    /// Waits until it has happened. Whoever waited goes on even if it is reset at once.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait.
    ///
    /// ```
    /// let event = volt::sync::Event::new();
    /// event.set();
    /// event.wait();
    /// ```
    pub fn wait(&self) {
        self.wait_until(None);
    }

    /// Waits for at most `timeout`; false if it has not happened.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait.
    ///
    /// ```
    /// use volt::time::Duration;
    ///
    /// assert!(!volt::sync::Event::new().wait_timeout(Duration::from_millis(1)));
    /// ```
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.wait_until(Some(deadline_after(timeout)))
    }

    /// For selects.
    pub(crate) fn raw(&self) -> &RawEvent {
        &self.0
    }

    fn wait_until(&self, deadline: Option<Moment>) -> bool {
        charge_current();
        match self.0.wait(Wait { deadline, ..Wait::cancellable("event") }) {
            Waited::Ready(()) | Waited::Woken(_) => true,
            // It may have happened before the caller ran.
            Waited::TimedOut => self.is_set(),
            Waited::Cancelled => cancel::unwind(),
        }
    }
}

impl Default for Event {
    fn default() -> Event {
        Event::new()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("set", &self.is_set()).finish()
    }
}
