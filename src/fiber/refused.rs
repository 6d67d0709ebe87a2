//! Says on stderr that a fiber has ended for want of a stack, where its error is dropped unread: else nobody would
//! know.
//!
//! 1. One line a second, for the whole process; it has the number of those left out. Whether an error has a line is a
//!    matter of when it was made: one that has none at first has none later.

use super::block::Payload;
use super::header::FiberPtr;
use crate::primitives::clock::Moment;
use crate::primitives::sync::Mutex;
use crate::stack::{Report, StackError};
use std::fmt::Write;
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(1);

struct Told {
    last: Option<Moment>,
    left_out: usize,
}

static TOLD: Mutex<Told> = Mutex::new(Told { last: None, left_out: 0 });

impl Told {
    fn has_line_for(&self, error: &StackError) -> bool {
        self.last.is_none_or(|last| last.saturating_add(PERIOD) <= error.made())
    }
}

/// May the end of a fiber that does not run, because of `error`, wait for somebody? Where its closure is dropped, or a
/// subscriber is told. Unless the join handle goes meanwhile.
pub(crate) fn may_wait(fiber: FiberPtr, error: &StackError) -> bool {
    let is_told = || !fiber.state().load().has_join_handle() && TOLD.lock().has_line_for(error);
    fiber.vtable.drops || is_told()
}

/// The fiber's `payload` is about to be dropped, and nobody has looked at it.
#[cold]
#[inline(never)]
pub(super) fn tell(fiber: FiberPtr, payload: &Payload) {
    let Some(error) = payload.downcast_ref::<StackError>() else { return };
    let mut told = TOLD.lock();
    if !told.has_line_for(error) {
        told.left_out += 1;
        return;
    }
    told.last = Some(Moment::now());
    let left_out = std::mem::take(&mut told.left_out);
    drop(told);
    write_line(fiber, error, left_out);
    // A subscriber that panics leaves the rest to be dropped.
    #[cfg(feature = "tracing")]
    crate::util::forget_panics(|| {
        tracing::warn!(
            fiber = fiber.name().unwrap_or("<unnamed>"),
            site = %fiber.site,
            left_out,
            "a fiber that nobody joins has ended: {error}"
        )
    });
}

/// Past the lock of `stderr`: its holder may wait for the worker that comes here.
fn write_line(fiber: FiberPtr, error: &StackError, left_out: usize) {
    let (name, site) = (fiber.name().unwrap_or("<unnamed>"), fiber.site);
    let mut line = Report::new();
    // What does not fit is cut off.
    let _ = write!(
        line,
        "volt: fiber '{name:.64}' spawned at {site} has ended, and nobody joins it: {error}"
    );
    if left_out > 0 {
        let _ = write!(line, " ({left_out} more since the last report)");
    }
    let _ = line.write_str("\n");
    line.send();
}
