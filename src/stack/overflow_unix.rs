//! The siginfo as the BSDs and macOS fill it.

use libc::siginfo_t;

/// SI_USER to SI_LWP as FreeBSD and macOS number them.
const SENT: std::ops::RangeInclusive<i32> = 0x10001..=0x10007;

/// The address that faulted; `None` if the signal was sent by a process.
pub(super) fn fault_address(info: &siginfo_t) -> Option<usize> {
    let sent = info.si_code <= 0 || SENT.contains(&info.si_code);
    // SAFETY: the kernel filled the fields of a fault.
    (!sent).then(|| unsafe { info.si_addr() } as usize)
}
