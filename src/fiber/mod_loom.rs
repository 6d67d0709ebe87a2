//! What of this room runs under loom: all that several threads touch. A control block has no context,
//! no stack and no closure there (`header_loom.rs`).

#[path = "asleep_loom.rs"]
mod asleep;
mod batch;
mod end;
#[path = "header_loom.rs"]
mod header;
mod interrupt;
mod reference;
#[path = "scopes_loom.rs"]
mod scopes;
mod state;
mod thread;
mod waiter;
mod waiters;
mod word;

pub(crate) use batch::Batch;
pub(crate) use header::{FiberPtr, Header};
pub(crate) use interrupt::Interrupt;
pub(crate) use reference::{FiberRef, release_block};
pub(crate) use scopes::Limit;
pub(crate) use state::{Ends, State};
pub(crate) use thread::ThreadBlock;
pub(crate) use waiter::{Late, WaiterPtr, Wake};
pub(crate) use waiters::Waiters;
pub(crate) use word::{Outcome, Settle};

use crate::primitives::sync::Caller;
use header::{drop_left_result, drop_locals, drop_own_result};

/// The same in each run of a model.
pub(crate) fn random() -> u32 {
    0
}

/// No lock knows it again.
pub(crate) fn caller() -> Caller {
    Caller::NONE
}

#[cfg(test)]
mod models;
#[cfg(test)]
mod run_next_models;
