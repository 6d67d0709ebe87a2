//! Who overflowed: the words for the overflow report, written in a signal handler.

use crate::fiber::Header;
use crate::stack::Report;
use std::fmt::Write;

/// Allocates nothing and takes no lock; the owner's name and site never change.
pub(super) fn describe(owner: *const (), out: &mut Report) {
    // SAFETY: a slot's owner is null or the fiber that runs on it; the fiber is alive while its
    // thread is in the handler.
    let Some(fiber) = (unsafe { owner.cast::<Header>().as_ref() }) else {
        let _ = out.write_str("no fiber");
        return;
    };
    let name = fiber.name().unwrap_or("<unnamed>");
    let _ = write!(out, "fiber '{name}' spawned at {}", fiber.site);
}
