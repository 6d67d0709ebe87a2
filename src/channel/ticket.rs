//! How the waiters of cases of others reach a select's wait.
//!
//! What a case of others does is safe code, which may keep a waiter as long as it likes, call it from
//! anywhere, wait for a lock of volt's, panic. So it is kept apart from the wait itself:
//!
//! 1. The cases get their waiters before the wait is opened (`register`). All waiters of one wait share a
//!    [`Ticket`]. A waiter that chooses its case now notes that in the ticket.
//! 2. The wait is opened, and the ticket armed with it, before any other case is linked; unless it has a
//!    note, which then ends the wait. From here on a waiter settles the wait, under the ticket's lock, as
//!    any source does under its own.
//! 3. The wait ends; all nodes are unlinked, and the ticket is over: a waiter that comes late finds
//!    nobody.
//! 4. The cases are told (`unregister`).
//!
//! So code of others never runs while a wait is open, and one effect is chosen in step 1 by the ticket,
//! later by the wait.

use crate::park::{self, Outcome, WaiterPtr};
use crate::primitives::sync::Mutex;
use std::mem;

/// What the waiters of one wait share.
#[derive(Debug)]
pub(super) struct Ticket(Mutex<Stand>);

#[derive(Clone, Copy, Debug)]
pub(super) enum Stand {
    /// The wait is not open yet.
    Early,
    /// It is not yet, and is not to be: the case with this place was chosen ...
    Chosen(u32),
    /// ... or something has changed.
    Changed,
    /// The waiter is in the wait, and looks here before it leaves it.
    Armed(WaiterPtr),
    Over,
}

/// The result word of a wait after which the select looks again.
pub(super) const READY: u32 = u32::MAX;

impl Ticket {
    pub(super) fn new() -> Ticket {
        Ticket(Mutex::new(Stand::Early))
    }

    /// Ends the wait, open or not, if nobody else did: with `note` before it is open, with `result` since.
    pub(super) fn end(&self, note: Stand, result: u32) -> bool {
        let mut stand = self.0.lock();
        let wake = match *stand {
            Stand::Early => {
                *stand = note;
                return true;
            }
            Stand::Armed(waiter) => {
                *stand = Stand::Over;
                // SAFETY: armed, and the lock is held, which the waiter takes before it leaves the wait.
                match unsafe { waiter.offer(Outcome::Woken(result)) } {
                    Ok(wake) => wake,
                    Err(_) => return false,
                }
            }
            Stand::Chosen(_) | Stand::Changed | Stand::Over => return false,
        };
        drop(stand);
        if let Some(wake) = wake {
            park::wake(wake);
        }
        true
    }

    /// From now on the wait of `waiter` is ended. `Err` if somebody has spoken already: the wait is to end
    /// with that result.
    pub(super) fn arm(&self, waiter: WaiterPtr) -> Result<(), u32> {
        let mut stand = self.0.lock();
        match *stand {
            Stand::Early => {
                *stand = Stand::Armed(waiter);
                Ok(())
            }
            Stand::Chosen(position) => {
                *stand = Stand::Over;
                Err(position)
            }
            Stand::Changed | Stand::Armed(_) | Stand::Over => Err(READY),
        }
    }

    /// Nobody is found from now on. Returns what stood there.
    pub(super) fn close(&self) -> Stand {
        mem::replace(&mut *self.0.lock(), Stand::Over)
    }
}

#[cfg(all(test, loom))]
#[path = "ticket_models.rs"]
mod models;
