//! The word in which a thread finds its seat, on any target: a `thread_local!` behind functions that
//! are never inlined, and that have a side effect which the compiler cannot see through. So no address
//! is kept over a switch, and two calls are never merged.

use super::tls::Seat;
use std::arch::asm;
use std::cell::Cell;
use std::ptr;

thread_local! {
    /// No destructor, so it can always be read.
    static SEAT: Cell<*const Seat> = const { Cell::new(ptr::null()) };
}

#[inline(never)]
pub(super) fn get() -> *const Seat {
    let seat = SEAT.with(Cell::get);
    // SAFETY: empty; it keeps the function from being seen as pure.
    unsafe { asm!("", options(nostack, preserves_flags)) };
    seat
}

#[inline(never)]
pub(super) fn set(seat: *const Seat) {
    SEAT.with(|word| word.set(seat));
}
