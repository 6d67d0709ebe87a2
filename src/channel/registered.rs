//! The cases of others during one wait: steps 1 and 4 of `ticket.rs`, and what holds it all together.

use super::case::Purpose;
use super::engine::Listed;
use super::open::Waiter;
use super::ticket::{READY, Stand, Ticket};
use crate::cancel;
use crate::park::WaiterPtr;
use crate::primitives::sync::Arc;
use std::mem;

/// The cases of others of one wait, while they have their waiters. Unregisters them when it goes, and
/// withdraws what was chosen and does not reach the select.
pub(super) struct Registered<'c, 'a> {
    cases: &'c [Listed<'a>],
    purpose: Purpose,
    ticket: Option<Arc<Ticket>>,
    /// Of the first so many cases those of others are registered.
    count: usize,
}

impl<'c, 'a> Registered<'c, 'a> {
    /// None of them yet.
    pub(super) fn none(cases: &'c [Listed<'a>], purpose: Purpose) -> Registered<'c, 'a> {
        Registered { cases, purpose, ticket: None, count: 0 }
    }

    /// Step 1: user code runs, and no wait may be open.
    #[cold]
    pub(super) fn register(&mut self) {
        let ticket = Arc::new(Ticket::new());
        self.ticket = Some(Arc::clone(&ticket));
        for (position, case) in self.cases.iter().enumerate() {
            if let Some(open) = case.source.open() {
                if !open.register(&self.waiter(&ticket, position)) {
                    ticket.end(Stand::Changed, READY);
                    return;
                }
            }
            self.count = position + 1;
        }
    }

    fn waiter(&self, ticket: &Arc<Ticket>, position: usize) -> Waiter {
        Waiter::new(Arc::clone(ticket), position as u32, self.purpose == Purpose::Watch)
    }

    /// Step 4.
    fn unregister(&mut self, ticket: &Arc<Ticket>) {
        let rest = Rest(self, ticket);
        while rest.0.count > 0 {
            rest.0.count -= 1;
            let position = rest.0.count;
            if let Some(open) = rest.0.cases[position].source.open() {
                // It may wait, and what was received meanwhile would be lost by a cancel.
                cancel::shield(|| open.unregister(&rest.0.waiter(ticket, position)));
            }
        }
        mem::forget(rest);
    }

    /// Step 2: from now on the waiters settle the wait of `waiter`. `Err` if one of them has spoken
    /// already: the wait is to end with that result.
    pub(super) fn arm(&self, waiter: WaiterPtr) -> Result<Armed<'_>, u32> {
        if let Some(ticket) = &self.ticket {
            ticket.arm(waiter)?;
        }
        Ok(Armed(self.ticket.as_ref()))
    }
}

impl Drop for Registered<'_, '_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        // Not heeded, because of a panic on the way to the wait.
        if let Stand::Chosen(position) = ticket.close() {
            self.cases[position as usize].source.withdraw();
        }
        self.unregister(&ticket);
    }
}

/// Goes on with the other cases when one of them panics.
struct Rest<'r, 'c, 'a>(&'r mut Registered<'c, 'a>, &'r Arc<Ticket>);

impl Drop for Rest<'_, '_, '_> {
    fn drop(&mut self) {
        self.0.unregister(self.1);
    }
}

/// A ticket is armed as long as this lives.
pub(super) struct Armed<'t>(Option<&'t Arc<Ticket>>);

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.0 {
            // Not chosen any more, or heard by the wait.
            let _ = ticket.close();
        }
    }
}
