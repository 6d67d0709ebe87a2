//! Fibers as data: control block, state word, waiters, the entry loop, locals, the current fiber.
//!
//! Used by `driver`, which settles waiters, by `scheduler`, which runs fibers, and by every room
//! above. It knows no queue, no driver and no runtime: what it needs of them comes through
//! [`Host`] and through untyped pointers that the scheduler owns.
//!
//! # Invariants
//!
//! 1. A control block lives while its fiber is not done, or its join handle exists, or counted
//!    references do; whoever ends the last of the three frees it (`end.rs`, `reference.rs`).
//! 2. A fiber is in at most one of: one queue, one worker's hands, one published wait. The queue
//!    link and the saved context belong to whoever holds it there.
//! 3. A wait unlinks every node, under its source's lock, before it returns. So a node found under
//!    that lock names a waiter that is alive, in that very wait.
//! 4. Results, locals and panic payload are settled before a fiber is done.

mod asleep;
mod batch;
mod block;
mod blocks;
mod depot;
mod end;
mod entry;
mod header;
mod id;
mod interrupt;
mod locals;
mod panic;
mod reference;
mod refused;
mod scopes;
#[cfg_attr(
    not(all(
        target_arch = "x86_64",
        target_pointer_width = "64",
        target_os = "linux",
        target_env = "gnu",
        not(any(miri, feature = "dylib"))
    )),
    path = "seat_word_any.rs"
)]
mod seat_word;
mod state;
mod thread;
mod tls;
mod waiter;
mod waiters;
mod word;

pub(crate) use asleep::asleep;
pub(crate) use batch::Batch;
pub(crate) use block::{Kind, Spec, Unfilled};
pub(crate) use depot::{
    empty as empty_depot, has_news, is_any_idle as is_any_block_idle, is_any_news, trim,
};
pub(crate) use end::{Joiner, Seen, Woken, drop_handle, has_ended, link_joiner, unlink_joiner};
pub(crate) use entry::{Flow, Host, entry, fail, fail_as};
pub(crate) use header::{FiberPtr, Header, Traits};
pub use id::ThreadId;
pub(crate) use interrupt::Interrupt;
pub use locals::{AccessError, LocalKey};
pub(crate) use panic::install_hook;
pub(crate) use reference::{FiberRef, release_block};
pub(crate) use refused::may_wait;
pub use scopes::Cancelled;
pub(crate) use scopes::{Limit, Owner, Scope, Scopes};
pub(crate) use state::{Ends, State};
pub(crate) use thread::ThreadBlock;
pub(crate) use tls::{
    Seat, caller, current, deadline_after, has_passed, is_close, note_if_close, note_received,
    note_sent, random, seat, set_seat, thread_block, with_marks_if_any,
};
pub(crate) use waiter::{Late, WaiterPtr, Wake};
pub(crate) use waiters::Waiters;
pub(crate) use word::Outcome;

use entry::{drop_left_result, drop_locals, drop_own_result};
