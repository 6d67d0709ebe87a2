//! Guards by advice: `MADV_GUARD_INSTALL`, Linux 6.13 and later.

use rustix::io;
use std::ffi::c_void;
use std::ptr::NonNull;

/// From the kernel's `mman-common.h`; the libc crate does not have it yet.
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// # Safety
/// Nobody relies on access to these pages, or on what is in them.
#[inline(never)] // errno, see invariant 1 of `memory`
pub(super) unsafe fn install(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    match unsafe { libc::madvise(base.as_ptr().cast::<c_void>(), bytes, MADV_GUARD_INSTALL) } {
        0 => Ok(()),
        _ => {
            Err(io::Errno::from_io_error(&std::io::Error::last_os_error())
                .unwrap_or(io::Errno::INVAL))
        }
    }
}
