//! volt's own switch for x86-64 System V: one inline block, straight from stack to stack.
//!
//! The compiler is told that every register but the stack pointer is lost, so it saves only what is
//! live at each place where a switch is inlined; only rbx and rbp, which LLVM does not let an asm
//! block name, are pushed.
//!
//! The floating-point control words are read before the leaver chooses its successor, since storing
//! MXCSR takes some 15 cycles that other work hides; they travel in registers, and whoever arrives
//! loads its own only where they differ, because loading MXCSR drains the pipeline.
//!
//! A suspended flow's stack, lowest address first (`Context` points at it): the address to continue
//! at, rbx, rbp.

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
}

/// The floating-point control words of the running flow: MXCSR and the x87 control word.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Control {
    mxcsr: u32,
    x87: u32,
}

/// Rounding, masks and flushing; the rest of MXCSR are sticky flags.
const MXCSR_CONTROL: u32 = 0xFFC0;

impl Control {
    /// Reads them; the earlier before the switch, the cheaper.
    #[inline(always)]
    pub(crate) fn read() -> Control {
        let mut control = Control { mxcsr: 0, x87: 0 };
        // SAFETY: two stores into a local.
        unsafe {
            asm!(
                "stmxcsr [{0}]",
                "fnstcw [{0} + 4]",
                in(reg) &raw mut control,
                options(nostack, preserves_flags),
            );
        }
        control
    }

    /// Loads what the flow had, if the thread comes with something else.
    #[inline(always)]
    fn restore(self, arrived: Control) {
        if (self.mxcsr ^ arrived.mxcsr) & MXCSR_CONTROL | (self.x87 ^ arrived.x87) != 0 {
            self.load();
        }
    }

    /// Keeps the thread's sticky flags.
    #[cold]
    #[inline(never)]
    fn load(self) {
        let flags = Control::read().mxcsr & !MXCSR_CONTROL;
        let mxcsr = (self.mxcsr & MXCSR_CONTROL) | flags;
        // SAFETY: control words that the same instructions have stored before.
        unsafe {
            asm!(
                "ldmxcsr [{0}]",
                "fldcw [{1}]",
                in(reg) &raw const mxcsr,
                in(reg) &raw const self.x87,
                options(nostack, preserves_flags),
            );
        }
    }
}

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
    // SAFETY: the caller owns the memory below `top`; four words are far from its limit. The frame
    // is the one that `asm/x86_64.s` documents.
    unsafe {
        frame.sub(1).write(0);
        frame.sub(2).write(0);
        frame.sub(3).write(entry as usize as u64);
        frame.sub(4).write(volt_rt_fiber_entry as *const () as u64);
        Context(frame.sub(4).cast())
    }
}

/// Ends a flow for good.
///
/// # Safety
///
/// `context` must never be continued again.
#[inline(always)]
pub(crate) unsafe fn retire(_context: Context) {}

/// Stores the running flow in `*from`, continues `to`, and returns the word that is handed over by
/// whoever continues the stored flow. `control` was read since the flow was last continued.
///
/// # Safety
///
/// The room's invariants 1 and 2; the caller keeps invariant 4 after it returns.
#[inline(always)]
pub(crate) unsafe fn switch(
    from: *mut Context,
    to: Context,
    control: Control,
    transfer: usize,
) -> usize {
    let word: usize;
    let mut arrived = control;
    // SAFETY: all state that the compiler may keep over this block is on this stack, in rbx or rbp,
    // which are pushed, or in registers named as clobbered. `to` is a stack in the layout above, by
    // invariant 1. The block is no `nostack`, so the red zone is not in use.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            inlateout("rdi") from => _,
            inlateout("rsi") to.0 => _,
            inlateout("rdx") transfer => word,
            inlateout("ecx") arrived.mxcsr,
            inlateout("r8d") arrived.x87,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
    control.restore(arrived);
    word
}
