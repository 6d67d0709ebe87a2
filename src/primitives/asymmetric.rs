//! A pair of fences for a store-then-load race (Dekker) in which one side comes often and the other
//! hardly ever: the frequent side pays nothing, the rare one pays for both.
//!
//! [`light`] only keeps the compiler from reordering. [`heavy`] makes the kernel run a full fence on
//! every processor that runs a thread of this process (`membarrier`, Linux 4.14), so each `light` of
//! another thread lies, as a full fence would, before or after it. Where the kernel does not offer
//! that, both are full fences.
//!
//! Which of the two is decided once. Light fences that have been light cannot be made up for when the kernel
//! takes its part away later, as a seccomp filter may: nobody can tell what has passed them. Other ways to
//! interrupt all processors (`mprotect`, which a processor with broadcast invalidation need not notice) are
//! no fences by contract. So the process ends there: to go on would be to break a lock, and to panic, with
//! locks held, to leave others waiting for ever.

use super::sync::atomic::{AtomicU8, Ordering};
use super::sync::full_fence;

const UNKNOWN: u8 = 0;
/// The kernel does the frequent side's part.
const EXPEDITED: u8 = 1;
const FULL: u8 = 2;

/// Known once, before any thread relies on it, and the same from then on.
static KIND: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The frequent side's fence, between its store and its load.
#[inline(always)]
pub(crate) fn light() {
    if is_light() {
        super::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        full_fence();
    }
}

/// As [`light`], after something that happens only where [`is_light`] has said yes.
#[inline(always)]
pub(crate) fn surely_light() {
    super::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// As [`surely_light`], for who makes up for it where it is not.
#[inline(always)]
pub(crate) fn no_more_than_light() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Does the frequent side pay nothing?
#[inline(always)]
pub(crate) fn is_light() -> bool {
    KIND.load(Ordering::Relaxed) == EXPEDITED
}

/// The rare side's fence; a system call. Ends the process where that has been forbidden since the start.
#[cold]
pub(crate) fn heavy() {
    full_fence();
    if is_light() {
        expedite();
    }
}

/// Asks the kernel for its part, once. Until somebody has, light fences are full. In a process that has threads already
/// it may take milliseconds.
///
/// Threads that ask at the same time do not wait for each other, since in the child of a fork they would wait for ever.
/// Whoever has an answer first decides.
pub(crate) fn register() {
    if KIND.load(Ordering::Relaxed) == UNKNOWN {
        let kind = if registered() { EXPEDITED } else { FULL };
        _ = KIND.compare_exchange(UNKNOWN, kind, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
mod system {
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn registered() -> bool {
        membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED)
    }

    pub(super) fn expedite() {
        if !membarrier(PRIVATE_EXPEDITED) {
            let error = std::io::Error::last_os_error();
            crate::primitives::forbidden("membarrier", &error);
        }
    }
}

#[cfg(any(not(any(target_os = "linux", target_os = "android")), miri))]
mod system {
    pub(super) fn registered() -> bool {
        false
    }

    pub(super) fn expedite() {}
}

use system::{expedite, registered};
