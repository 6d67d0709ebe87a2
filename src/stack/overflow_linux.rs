//! The siginfo as Linux fills it.

use libc::siginfo_t;

/// The address that faulted; `None` if the signal was sent by a process.
pub(super) fn fault_address(info: &siginfo_t) -> Option<usize> {
    // Positive codes are the kernel's own; only with them the address is there.
    // SAFETY: the kernel filled the fields of a fault.
    (info.si_code > 0).then(|| unsafe { info.si_addr() } as usize)
}
