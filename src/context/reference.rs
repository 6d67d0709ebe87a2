//! The reference switch of `asm/x86_64_reference.s` behind the room's contract, for the suite only:
//! what holds for a plain called function must hold for the inline block.

use super::{Bounds, Entry};
use std::arch::global_asm;

global_asm!(include_str!("../../asm/x86_64_reference.s"));

unsafe extern "C" {
    #[link_name = "volt_rt_reference_switch"]
    fn reference_switch(from: *mut Context, to: Context, transfer: usize) -> usize;
    fn volt_rt_reference_entry();
}

/// The stack pointer of a suspended flow.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Context(*mut u8);

impl Context {
    const fn thread() -> Context {
        Context(std::ptr::null_mut())
    }
}

/// MXCSR 0x1F80 and x87 control word 0x037F.
const DEFAULT_CONTROL: u64 = 0x037F_0000_1F80;

/// # Safety
///
/// As the backends' `prepare`.
unsafe fn prepare(bounds: Bounds, entry: Entry) -> Context {
    let frame = bounds.top.cast::<u64>().wrapping_sub(10);
    let begin = volt_rt_reference_entry as *const () as u64;
    // Control words, r15, r14, r13, r12, rbx, rbp, return address; above it an aligned stack.
    let words = [DEFAULT_CONTROL, 0, 0, entry as usize as u64, 0, 0, 0, begin, 0, 0];
    // SAFETY: the caller owns the memory below `top`.
    unsafe { frame.cast::<[u64; 10]>().write(words) };
    Context(frame.cast())
}

/// # Safety
///
/// As the backends' `retire`.
unsafe fn retire(_context: Context) {}

/// # Safety
///
/// As the backends' `switch`.
unsafe fn switch(from: *mut Context, to: Context, transfer: usize) -> usize {
    // SAFETY: passed on; the function keeps what the ABI says, and the flow's control words.
    unsafe { reference_switch(from, to, transfer) }
}

#[path = "tests.rs"]
#[allow(clippy::duplicate_mod, reason = "one suite for every backend")]
mod tests;
