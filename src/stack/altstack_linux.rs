//! How large a signal frame is: the kernel tells, as it depends on the processor's registers.

/// From the kernel's `auxvec.h`.
const AT_MINSIGSTKSZ: libc::c_ulong = 51;

pub(super) fn least_bytes() -> usize {
    // SAFETY: reads a table that the kernel made at the start of the process; zero if not there.
    let told = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    told.max(libc::MINSIGSTKSZ)
}
