//! The inaccessible low end of a slot, where an overflow faults.
//!
//! Callers: `slab`, once for each slot, before the slot is used for the first time.
//!
//! 1. A guard is in force when [`install`] returns `Ok`, and stays so: giving pages back does not
//!    touch it, and slabs are never unmapped.
//! 2. A guard is never silently missing: where no kind works the error comes out.
//!
//! Two kinds. `Advice` (`MADV_GUARD_INSTALL`, Linux 6.13) marks page table entries and leaves the mapping whole.
//! `Protection` (`mprotect`) splits the mapping in two at every slot, so that `vm.max_map_count` ends it near 32,000
//! stacks; it works everywhere and under `mlockall`. Since these mappings stay for good, they end some thousand before
//! that: threads, libraries and files need some, too.

use super::memory;
use crate::primitives::sync::OnceLock;
use crate::primitives::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use rustix::io;
use std::ptr::NonNull;

#[cfg(any(target_os = "linux", target_os = "android"))]
#[path = "guard_linux.rs"]
mod advice;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[path = "guard_unix.rs"]
mod advice;

/// Of the mappings that a process may have, a sixteenth is left to the rest of it, but no less than this.
const LEAST_LEFT: usize = 500;
/// How many a process may have where nobody tells: Linux's default, and elsewhere there is no such limit.
const UNTOLD: usize =
    if cfg!(any(target_os = "linux", target_os = "android")) { 65_530 } else { usize::MAX };

/// Guards by protection. Relaxed, as the next one: they order nothing.
static PROTECTED: AtomicUsize = AtomicUsize::new(0);
/// How many there may be; 0 before the first one.
static MOST_PROTECTED: AtomicUsize = AtomicUsize::new(0);

/// Which kinds of guard may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Policy {
    /// By advice, and where that is refused by protection.
    Auto,
    /// By advice only.
    Advice,
    /// By protection only.
    Protection,
}

/// The kind of a guard that is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Advice,
    Protection,
}

/// The policy in force. Relaxed: it orders nothing.
static POLICY: OnceLock<AtomicU8> = OnceLock::new();

/// `VOLT_STACK_GUARD` is read here, once; a value that is not known means [`Policy::Auto`].
fn policy_cell() -> &'static AtomicU8 {
    POLICY.get_or_init(|| {
        let policy = match std::env::var("VOLT_STACK_GUARD").as_deref() {
            Ok("madvise") => Policy::Advice,
            Ok("mprotect") => Policy::Protection,
            _ => Policy::Auto,
        };
        AtomicU8::new(policy as u8)
    })
}

fn policy() -> Policy {
    match policy_cell().load(Ordering::Relaxed) {
        value if value == Policy::Advice as u8 => Policy::Advice,
        value if value == Policy::Protection as u8 => Policy::Protection,
        _ => Policy::Auto,
    }
}

/// Overrides `VOLT_STACK_GUARD`, for the guards of slots used for the first time from now on.
#[cfg(test)]
pub(crate) fn set_policy(policy: Policy) {
    policy_cell().store(policy as u8, Ordering::Relaxed);
}

/// Makes `bytes` from `base` inaccessible, as the policy says.
///
/// # Safety
/// Nobody relies on access to these pages, or on what is in them.
pub(super) unsafe fn install(base: NonNull<u8>, bytes: usize) -> io::Result<Kind> {
    // SAFETY: the caller's promise, in each arm.
    let protect = || unsafe { protect(base, bytes) }.map(|()| Kind::Protection);
    // SAFETY: as above.
    let advise = || unsafe { advice::install(base, bytes) }.map(|()| Kind::Advice);
    match policy() {
        Policy::Advice => advise(),
        Policy::Protection => protect(),
        // Any refusal: an older kernel and locked memory say EINVAL, system call filters say
        // EPERM or ENOSYS. It costs less than a tenth of a page's first touch, so it is tried for
        // each slot: memory that was locked may be unlocked later.
        Policy::Auto => advise().or_else(|_| protect()),
    }
}

/// Refuses as the system does at its limit, but before that.
///
/// # Safety
/// As [`install`].
unsafe fn protect(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    if MOST_PROTECTED.load(Ordering::Relaxed) == 0 {
        look_up_limit();
    }
    let earlier = PROTECTED.fetch_add(1, Ordering::Relaxed);
    let done = if earlier < MOST_PROTECTED.load(Ordering::Relaxed) {
        // SAFETY: the caller's promise.
        unsafe { memory::forbid(base, bytes) }
    } else {
        Err(io::Errno::NOMEM)
    };
    done.inspect_err(|_| _ = PROTECTED.fetch_sub(1, Ordering::Relaxed))
}

/// How many mappings the process may have, if it can be read. Looked up before the first guard by protection, and when
/// one was refused: it may have been raised since.
pub(super) fn look_up_limit() -> Option<u64> {
    let told = memory::most_mappings();
    let most = told.map_or(UNTOLD, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let ours = most.saturating_sub((most / 16).max(LEAST_LEFT));
    MOST_PROTECTED.store((ours / 2).max(1), Ordering::Relaxed);
    told
}
