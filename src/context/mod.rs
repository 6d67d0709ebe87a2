//! The switch from one stack to another.
//!
//! Called by `fiber` (first entry) and `scheduler` (everything else). Two backends stand behind one
//! contract and are run by the same tests: volt's own for the targets it covers, and corosensei for
//! every other (or everywhere, with the feature `context-corosensei`); on x86-64 the tests have a
//! third, the reference switch of `asm/`. This room knows stacks as two addresses and fibers not at
//! all.
//!
//! Sanitizers are told of flows and switches by a layer in between, `watched`, with the same contract;
//! it is compiled only under `--cfg volt_asan` or `--cfg volt_tsan`, so that nobody above has to call
//! a hook, and nothing is paid without.
//!
//! # Contract
//!
//! - [`Context`] is a copyable token for a suspended flow of control. A thread's own flow starts as
//!   [`Context::thread`].
//! - [`prepare`] makes the context of a flow that has not begun: the first switch to it calls
//!   `entry(transfer)` on the given stack. `entry` never returns and lets no panic out.
//! - [`switch`]`(from, to, transfer)` stores the running flow in `*from` and continues `to`, which
//!   sees `transfer` as the result of its own `switch` call (or as `entry`'s argument).
//!   Before a fresh flow's first switch `*from` must hold the context that `prepare` returned.
//! - [`retire`] ends a flow that will never be continued, so that its stack can be used again.
//!
//! # Invariants
//!
//! 1. A context is continued at most once after each time it was stored.
//! 2. `*from` stays in place, and holds the running flow's own context, until the flow is stored; a
//!    thread's own until it is continued.
//! 3. Callee-saved registers and the floating-point *control* bits (MXCSR 6-15, x87 control word)
//!    are the flow's; the sticky exception flags are the thread's.
//! 4. Nothing that the compiler derived from the thread (TLS addresses, `errno`) survives a switch:
//!    the flow may continue on another thread. The scheduler re-reads what it needs.

// The assembly is of ELF, with addresses of eight bytes.
#[cfg(all(
    target_arch = "x86_64",
    target_pointer_width = "64",
    unix,
    not(target_vendor = "apple"),
    not(feature = "context-corosensei")
))]
#[path = "x86_64.rs"]
mod backend;

#[cfg(not(all(
    target_arch = "x86_64",
    target_pointer_width = "64",
    unix,
    not(target_vendor = "apple"),
    not(feature = "context-corosensei")
)))]
#[path = "corosensei.rs"]
mod backend;

#[cfg(any(volt_asan, volt_tsan))]
mod watched;

#[cfg(not(any(volt_asan, volt_tsan)))]
pub(crate) use backend::{Context, prepare, retire, switch};
#[cfg(any(volt_asan, volt_tsan))]
pub(crate) use watched::{Context, prepare, retire, switch};

/// The first function of a fresh flow; its argument is the word handed over by the first switch.
pub(crate) type Entry = extern "C" fn(transfer: usize) -> !;

/// The two ends of the memory that a flow runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The highest address, 16-byte aligned; the stack grows down from here.
    pub(crate) top: *mut u8,
    /// The lowest usable address, right above the guard.
    pub(crate) limit: *mut u8,
}

// Sanitizers know nothing of its switches.
#[cfg(all(
    test,
    target_arch = "x86_64",
    target_pointer_width = "64",
    unix,
    not(target_vendor = "apple"),
    not(any(volt_asan, volt_tsan))
))]
mod reference;
#[cfg(test)]
mod tests;
