//! volt's own switch for x86-64 System V: one inline block, straight from stack to stack.
//!
//! The compiler is told that every register but the stack pointer is lost, so it saves only what is
//! live at each place where a switch is inlined; only rbx and rbp, which LLVM does not let an asm
//! block name, are pushed. The floating-point control words are stored each time but loaded only
//! where they differ, because loading MXCSR drains the pipeline. Storing it costs more than all the
//! rest where it is microcoded (3.4 of 6 ns on Zen 5), and nothing else tells whether it changed.
//!
//! A suspended flow's stack, lowest address first (`Context` points at it):
//! MXCSR and x87 control word, address to continue at, rbx, rbp.

use super::{Bounds, Entry};
use std::arch::{asm, global_asm};

global_asm!(include_str!("../../asm/x86_64.s"));

unsafe extern "C" {
    fn volt_rt_fiber_entry();
}

/// The stack pointer of a suspended flow.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Context(*mut u8);

impl Context {
    /// The place where a thread's own flow is stored when it first switches away.
    pub(crate) const fn thread() -> Context {
        Context(std::ptr::null_mut())
    }

    /// Where the frames begin that the flow returns through: what to fetch before it is continued. Null
    /// if that is not known.
    #[inline(always)]
    #[allow(dead_code, reason = "a bench of the switch alone")]
    pub(crate) fn frames(self) -> *const u8 {
        self.0
    }
}

/// MXCSR 0x1F80 and x87 control word 0x037F: all exceptions masked, round to nearest.
const DEFAULT_CONTROL: u64 = 0x037F_0000_1F80;

/// Lays out the first frame of a flow that has not begun.
///
/// # Safety
///
/// `bounds` must span writable memory that nothing else uses until the flow is retired.
#[inline]
pub(crate) unsafe fn prepare(bounds: Bounds, entry: Entry) -> Context {
    debug_assert_eq!(bounds.top as usize % 16, 0);
    debug_assert!(bounds.limit < bounds.top);
    let frame = bounds.top.cast::<u64>();
    // SAFETY: the caller owns the memory below `top`; five words are far from its limit. The frame
    // is the one that `asm/x86_64.s` documents; its lowest word is 16-byte aligned less 8 so that
    // the entry function sees an aligned stack.
    unsafe {
        frame.sub(1).write(0);
        frame.sub(2).write(0);
        frame.sub(3).write(0);
        frame.sub(4).write(entry as usize as u64);
        frame.sub(5).write(volt_rt_fiber_entry as *const () as u64);
        frame.sub(6).write(DEFAULT_CONTROL);
        Context(frame.sub(6).cast())
    }
}

/// Ends a flow for good.
///
/// # Safety
///
/// `context` must never be continued again.
#[inline(always)]
pub(crate) unsafe fn retire(_context: Context) {}

/// A line for the unwind tables, where there are any for sure: the assembler refuses it in a function that has none.
#[cfg(panic = "unwind")]
macro_rules! unwind_table {
    ($line:literal) => {
        $line
    };
}
#[cfg(not(panic = "unwind"))]
macro_rules! unwind_table {
    ($line:literal) => {
        ""
    };
}

/// Stores the running flow in `*from`, continues `to`, and returns the word that is handed over by
/// whoever continues the stored flow.
///
/// # Safety
///
/// The room's invariants 1 and 2; the caller keeps invariant 4 after it returns.
#[inline(always)]
pub(crate) unsafe fn switch(from: *mut Context, to: Context, transfer: usize) -> usize {
    let arrived: usize;
    // SAFETY: all state that the compiler may keep over this block is on this stack, in rbx or rbp,
    // which are pushed, or in registers named as clobbered. `to` is a stack in the layout above, by
    // invariant 1. The block is no `nostack`, so the red zone is not in use.
    unsafe {
        asm!(
            // What the compiler says of this frame is wrong in between, by what is pushed and on the other stack: a
            // profiler that unwinds in a signal's handler would read past that one's end, in a guard. So nobody is
            // said to have called.
            unwind_table!(".cfi_remember_state"),
            unwind_table!(".cfi_undefined rip"),
            "stmxcsr [rsp - 32]",
            "fnstcw [rsp - 28]",
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "sub rsp, 8",
            "mov [rdi], rsp",
            "mov eax, [rsp]",
            "movzx ecx, word ptr [rsp + 4]",
            "mov rsp, rsi",
            // Only the control bits count: a sticky flag that differs is no reason to load.
            "xor eax, [rsp]",
            "and eax, 0xFFC0",
            "xor cx, [rsp + 4]",
            "or eax, ecx",
            "jnz 3f",
            "jmp qword ptr [rsp + 8]",
            // The control words differ: keep the thread's sticky flags (rdi held `from`, free now).
            "3:",
            "push rax",
            "stmxcsr [rsp]",
            "mov eax, [rsp]",
            "and eax, 0xFFFF003F",
            "mov ecx, [rsp + 8]",
            "and ecx, 0xFFC0",
            "or eax, ecx",
            "mov [rsp], eax",
            "ldmxcsr [rsp]",
            "pop rax",
            "fldcw [rsp + 4]",
            "jmp qword ptr [rsp + 8]",
            "2:",
            "add rsp, 16",
            "pop rbx",
            "pop rbp",
            unwind_table!(".cfi_restore_state"),
            inlateout("rdi") from => _,
            inlateout("rsi") to.0 => _,
            inlateout("rdx") transfer => arrived,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
    arrived
}
