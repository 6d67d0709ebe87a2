//! Under loom: a closure that waits for nothing but its limit.

use crate::fiber::{Ends, Limit, ThreadBlock, WaiterPtr};

/// In place of `f`, one wait that only the limit ends.
pub(super) fn limited<T>(limit: Limit<'_>, _f: impl FnOnce() -> T) -> Option<T> {
    let Limit::Interrupt(interrupt) = limit;
    let thread = ThreadBlock::new();
    thread.state().begin_wait();
    if interrupt.link(WaiterPtr::of_thread(&thread)) {
        thread.wait(thread.state(), Ends::BY_SOURCES, None);
    }
    assert!(interrupt.unlink(), "ended by nobody");
    None
}
