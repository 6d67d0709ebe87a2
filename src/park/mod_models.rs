//! `park` as the models see it: a waiter is a lock and a condition variable of loom's, and whoever is
//! marked as cancelled gives up each wait that allows it, at some moment after its node was linked; and
//! so does, in a wait with a deadline, whoever is marked as late.

pub(crate) mod queue;

use crate::primitives::clock::Moment;
use crate::primitives::sync::Caller;
use loom::sync::{Condvar, Mutex};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Woken(u32),
    TimedOut,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) reason: &'static str,
    pub(crate) object: usize,
    pub(crate) deadline: Option<Moment>,
    pub(crate) cancellable: bool,
    pub(crate) outside: bool,
    pub(crate) urgent: bool,
    pub(crate) at_once: bool,
    pub(crate) has_spun: bool,
}

impl Wait {
    pub(crate) fn new(reason: &'static str) -> Wait {
        Wait {
            reason,
            object: 0,
            deadline: None,
            cancellable: false,
            outside: false,
            urgent: false,
            at_once: false,
            has_spun: false,
        }
    }

    pub(crate) fn cancellable(reason: &'static str) -> Wait {
        Wait { cancellable: true, ..Wait::new(reason) }
    }
}

loom::thread_local! {
    static CANCELLED: Cell<bool> = Cell::new(false);
    static LATE: Cell<bool> = Cell::new(false);
    static NEAR: Cell<bool> = Cell::new(false);
    /// The same for all waits of a thread, as a fiber's state is: who settles one too late meets the next.
    static BLOCK: Arc<Block> = Arc::new(Block { stand: Mutex::new(Stand::None), condvar: Condvar::new() });
}

/// Runs `f` as one who is cancelled.
pub(crate) fn cancelled<R>(f: impl FnOnce() -> R) -> R {
    CANCELLED.with(|cancelled| cancelled.set(true));
    let result = f();
    CANCELLED.with(|cancelled| cancelled.set(false));
    result
}

/// Runs `f` as one whose deadlines pass.
pub(crate) fn timed_out<R>(f: impl FnOnce() -> R) -> R {
    LATE.with(|late| late.set(true));
    let result = f();
    LATE.with(|late| late.set(false));
    result
}

/// Where a thread's wait stands; one at a time.
#[derive(Clone, Copy, Debug)]
enum Stand {
    Open,
    Ended(Outcome),
    /// No wait: whoever has linked a node to it has taken it out again.
    None,
}

#[derive(Debug)]
struct Block {
    stand: Mutex<Stand>,
    condvar: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterPtr(*const Block);

// SAFETY: as the real one: whoever has it may settle it, from any thread.
unsafe impl Send for WaiterPtr {}
// SAFETY: as above.
unsafe impl Sync for WaiterPtr {}

#[derive(Debug)]
#[must_use]
pub(crate) struct Wake(Arc<Block>);

impl WaiterPtr {
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// # Safety
    ///
    /// As for `offer`.
    pub(crate) unsafe fn is_over(self) -> bool {
        // SAFETY: the waiter holds its block until the node is unlinked.
        let stand = *unsafe { &*self.0 }.stand.lock().unwrap();
        matches!(stand, Stand::Ended(_))
    }

    /// # Safety
    ///
    /// The caller holds the lock of a source that has a node of this waiter linked.
    pub(crate) unsafe fn offer(self, outcome: Outcome) -> Result<Option<Wake>, Late> {
        // SAFETY: the waiter holds its block until the node is unlinked.
        let block = unsafe {
            Arc::increment_strong_count(self.0);
            Arc::from_raw(self.0)
        };
        {
            let mut stand = block.stand.lock().unwrap();
            match *stand {
                Stand::Open => *stand = Stand::Ended(outcome),
                Stand::Ended(_) => return Err(Late),
                Stand::None => panic!("a node was left linked"),
            }
        }
        Ok(Some(Wake(block)))
    }
}

pub(crate) fn wake(wake: Wake) {
    // Settled under the lock, so a sleeper that has not seen it is in its sleep.
    wake.0.condvar.notify_one();
}

pub(crate) fn may_wait() -> bool {
    true
}

#[derive(Debug)]
pub(crate) struct Parking(Arc<Block>);

impl Parking {
    pub(crate) fn begin(_: &str) -> Parking {
        let block = BLOCK.with(Arc::clone);
        *block.stand.lock().unwrap() = Stand::Open;
        Parking(block)
    }

    pub(crate) fn waiter(&self) -> WaiterPtr {
        WaiterPtr(Arc::as_ptr(&self.0))
    }

    /// Ends the wait before it begins, unless somebody else has.
    pub(crate) fn end(&self, result: u32) -> Outcome {
        let mut stand = self.0.stand.lock().unwrap();
        match *stand {
            Stand::Ended(outcome) => outcome,
            Stand::Open | Stand::None => {
                *stand = Stand::Ended(Outcome::Woken(result));
                Outcome::Woken(result)
            }
        }
    }

    pub(crate) fn keeps_thread(&self) -> bool {
        false
    }

    pub(crate) fn park(&self, wait: Wait) -> Outcome {
        let mut stand = self.0.stand.lock().unwrap();
        loop {
            if let Stand::Ended(outcome) = *stand {
                return outcome;
            }
            if wait.cancellable && CANCELLED.with(Cell::get) {
                *stand = Stand::Ended(Outcome::Cancelled);
            } else if let (Some(deadline), true) = (wait.deadline, LATE.with(Cell::get)) {
                *stand = Stand::Ended(Outcome::TimedOut);
                deadline.pass();
            } else {
                stand = self.0.condvar.wait(stand).unwrap();
            }
        }
    }
}

impl Drop for Parking {
    fn drop(&mut self) {
        if let Ok(mut stand) = self.0.stand.lock() {
            *stand = Stand::None;
        }
    }
}

/// Everybody's patience is over at once, as a fiber's is.
#[derive(Debug)]
pub(crate) struct Patience;

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience
    }

    pub(crate) fn is_over(&mut self) -> bool {
        true
    }
}

pub(crate) fn comes_soon() -> bool {
    true
}

pub(crate) fn running() -> usize {
    0
}

pub(crate) fn spin(_: impl FnMut() -> bool) -> bool {
    false
}

pub(crate) fn spin_on_fiber(_: usize, _: impl FnMut() -> bool) -> bool {
    false
}

pub(crate) fn linger() {}

pub(crate) fn deadline_after(duration: Duration) -> Moment {
    Moment::now().saturating_add(duration)
}

pub(crate) fn note_if_close(_: Moment) {}

pub(crate) fn has_passed(deadline: Moment) -> bool {
    deadline <= Moment::now()
}

pub(crate) fn charge_current() {}

pub(crate) fn charge_who_gives(_: &str, _: usize) -> Caller {
    Caller::NONE
}

pub(crate) fn charge_without_yield() -> Caller {
    Caller::NONE
}

pub(crate) fn charge_for<R>(enter: impl FnOnce(Caller) -> Option<R>) -> Option<R> {
    enter(Caller::NONE)
}

/// What a wait comes to whose deadline has passed.
pub(crate) fn wait_for_no_time(_: &'static str) -> Outcome {
    if CANCELLED.with(Cell::get) { Outcome::Cancelled } else { Outcome::TimedOut }
}

pub(crate) fn try_charge() -> bool {
    true
}

/// Where somebody was put: it does not matter to the models.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination(usize);

impl Destination {
    pub(crate) fn of(_: Option<&Wake>) -> Destination {
        Destination(0)
    }

    pub(crate) fn from_word(word: usize) -> Destination {
        Destination(word)
    }

    pub(crate) fn word(self) -> usize {
        self.0
    }
}

/// The caller's own word for it.
pub(crate) fn is_near(_: Destination) -> bool {
    NEAR.with(Cell::get)
}

pub(crate) fn is_beside_workers() -> bool {
    false
}

/// Runs `f` as one who is on the worker of whoever has been woken.
pub(crate) fn near<R>(f: impl FnOnce() -> R) -> R {
    NEAR.with(|near| near.set(true));
    let result = f();
    NEAR.with(|near| near.set(false));
    result
}
