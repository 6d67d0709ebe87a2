//! Receivers whose messages the clock makes: `after`, `at` and `tick`. Nothing is stored and nobody
//! is woken: a message is there when its time has come, and a waiter sets its deadline to that.

use crate::park::{Outcome, Parking, Wait, charge_current, has_passed, note_if_close};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::core::{give_up, is_over};
use super::error::{RecvTimeoutError, TryRecvError};
use crate::cancel;

/// A clock's messages.
pub(super) trait Timed<T>: Send + Sync {
    /// Takes the message that is due. `asked` is when the receiver began to wait for it; `None` for now.
    fn take(&self, asked: Option<Moment>) -> Option<T>;

    /// When the next message is due; `Moment::NEVER` for no more.
    fn due(&self) -> Moment;
}

/// One message, at its time.
pub(super) struct Once {
    pub(super) when: Instant,
    pub(super) due: Moment,
    pub(super) taken: AtomicBool,
}

impl Timed<Instant> for Once {
    fn take(&self, _asked: Option<Moment>) -> Option<Instant> {
        let now = has_passed(self.due) && !self.taken.swap(true, Ordering::Relaxed);
        now.then_some(self.when)
    }

    fn due(&self) -> Moment {
        if self.taken.load(Ordering::Relaxed) { Moment::NEVER } else { self.due }
    }
}

/// A message every period; those that nobody took in time are left out.
pub(super) struct Ticks {
    /// The same moment on both clocks.
    start: (Instant, Moment),
    period: u64,
    /// When the next one is due, in nanoseconds. Moved on by whoever takes it: only once, since it
    /// only grows.
    next: AtomicU64,
}

impl Ticks {
    pub(super) fn new(first: Instant, due: Moment, period: Duration) -> Ticks {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        Ticks { start: (first, due), period, next: AtomicU64::new(due.as_nanos()) }
    }
}

impl Timed<Instant> for Ticks {
    fn take(&self, asked: Option<Moment>) -> Option<Instant> {
        let mut due = self.next.load(Ordering::Relaxed);
        while has_passed(Moment::from_nanos(due)) {
            let asked = asked.unwrap_or_else(Moment::now);
            // Who waited for it in time gets the next one a period later; who came late, a period
            // after it came. A period of zero is always due.
            let next = due.max(asked.as_nanos()).saturating_add(self.period);
            let moved = self.next.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
            match moved {
                Ok(_) => {
                    let later = Moment::from_nanos(due).since(self.start.1);
                    return Some(self.start.0 + later);
                }
                Err(seen) => due = seen,
            }
        }
        None
    }

    fn due(&self) -> Moment {
        Moment::from_nanos(self.next.load(Ordering::Relaxed))
    }
}

pub(super) fn try_recv<T>(clock: &dyn Timed<T>) -> Result<T, TryRecvError> {
    clock.take(None).ok_or(TryRecvError::Empty)
}

pub(super) fn recv<T>(
    clock: &dyn Timed<T>,
    deadline: Option<Moment>,
) -> Result<T, RecvTimeoutError> {
    // A tick without pause is always there.
    charge_current();
    let asked = Moment::now();
    let mut waited = false;
    loop {
        if let Some(message) = clock.take(Some(asked)) {
            return Ok(message);
        }
        if is_over(deadline) {
            if !waited {
                give_up(REASON);
            }
            return Err(RecvTimeoutError::Timeout);
        }
        let due = clock.due();
        sleep_until(deadline.map_or(due, |deadline| deadline.min(due)));
        waited = true;
    }
}

/// Nothing ever comes: waits for `deadline`, or for a cancel.
pub(super) fn never(deadline: Option<Moment>) -> RecvTimeoutError {
    let deadline = deadline.unwrap_or(Moment::NEVER);
    if has_passed(deadline) {
        give_up(REASON);
    }
    while !has_passed(deadline) {
        sleep_until(deadline);
    }
    RecvTimeoutError::Timeout
}

const REASON: &str = "receive from a clock";

fn sleep_until(deadline: Moment) {
    note_if_close(deadline);
    let deadline = (deadline != Moment::NEVER).then_some(deadline);
    let wait = Wait { deadline, at_once: true, ..Wait::cancellable(REASON) };
    if Parking::begin(wait.reason).park(wait) == Outcome::Cancelled {
        cancel::unwind();
    }
}

#[cfg(all(test, loom))]
#[path = "timed_models.rs"]
mod models;
