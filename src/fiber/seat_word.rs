//! The word in which a thread finds its seat, on x86-64 ELF: read and written by one instruction
//! relative to the thread's own segment, wherever that is wanted.
//!
//! A `thread_local!` cannot be read inline: the compiler takes its address for constant and may keep
//! it over a switch, after which the fiber is on another thread. An asm block that reads the word
//! itself, and is not `pure`, leaves nothing to keep: the same block executed after the switch reads
//! the word of the thread that it runs on. What is resolved beforehand, by the linker or when the
//! program is loaded, is the word's distance from the segment's base, which all threads share (the
//! initial-exec model; in an executable it becomes a constant).
//!
//! So a shared library that contains volt takes a word of what the C library sets aside for those that
//! are loaded late: glibc has some, others none. And the symbol is hidden, but named where volt's
//! generic code is instantiated: whoever links to a Rust dylib that contains volt does not find it, and
//! the feature `dylib` is for them.

use super::tls::Seat;
use std::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.volt_rt_seat, \"awT\", @nobits",
    ".hidden volt_rt_seat",
    ".globl volt_rt_seat",
    ".type volt_rt_seat, @object",
    ".size volt_rt_seat, 8",
    ".balign 8",
    "volt_rt_seat:",
    ".zero 8",
    ".popsection",
);

/// The word of the thread that this is executed on; null at first.
#[inline(always)]
pub(super) fn get() -> *const Seat {
    let seat;
    // SAFETY: reads one aligned word, which is the thread's own as long as the thread is there.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + volt_rt_seat@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) seat,
            options(readonly, nostack, preserves_flags),
        );
    }
    seat
}

/// Sets the word of the calling thread.
#[inline(never)]
pub(super) fn set(seat: *const Seat) {
    // SAFETY: writes one aligned word, which nothing but `get` reads.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + volt_rt_seat@GOTTPOFF]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _,
            in(reg) seat,
            options(nostack, preserves_flags),
        );
    }
}
