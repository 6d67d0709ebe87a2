//! Memory calls as Linux has them.

use super::AllowedMemory;
use rustix::io;
use rustix::mm::{self, Advice, MapFlags};
use std::ffi::c_void;
use std::ptr::NonNull;

/// `STACK` keeps newer kernels from aligning and backing the mapping with huge pages.
pub(super) const MAP_FLAGS: MapFlags =
    MapFlags::PRIVATE.union(MapFlags::NORESERVE).union(MapFlags::STACK);

/// Forbids huge pages: with them the first touch of one stack would make those of its neighbours
/// resident too.
pub(crate) fn no_huge_pages(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the advice changes how memory is backed, not what is in it.
    match unsafe { mm::madvise(base.as_ptr().cast::<c_void>(), bytes, Advice::LinuxNoHugepage) } {
        // A kernel built without huge pages does not know the advice, and does not need it.
        Err(io::Errno::INVAL) => Ok(()),
        result => result,
    }
}

/// Gives the pages back; they read as zero afterwards. Refused where memory is locked.
///
/// # Safety
/// Nobody relies on what is in these pages.
pub(crate) unsafe fn discard(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { mm::madvise(base.as_ptr().cast::<c_void>(), bytes, Advice::LinuxDontNeed) }
}

/// Sets bit 0 of `pages[i]` if the i-th page from `base` is in memory.
#[inline(never)] // errno, see invariant 1 of the parent
pub(crate) fn resident(base: NonNull<u8>, pages: &mut [u8]) -> io::Result<()> {
    let bytes = pages.len() * super::page_size();
    // SAFETY: `mincore` writes one byte for each page, and there is one byte for each page.
    match unsafe { libc::mincore(base.as_ptr().cast::<c_void>(), bytes, pages.as_mut_ptr()) } {
        0 => Ok(()),
        _ => {
            Err(io::Errno::from_io_error(&std::io::Error::last_os_error())
                .unwrap_or(io::Errno::INVAL))
        }
    }
}

/// The limits that can refuse a mapping; none where the system refuses to say, as under a seccomp filter (for which
/// rustix panics).
pub(crate) fn soft_limits() -> [AllowedMemory; 2] {
    let limit = |resource, name, flag, statm_column| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writes to a local variable.
        let is_known = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
        #[allow(clippy::useless_conversion, reason = "it has 32 bits on some targets")]
        let bytes =
            (is_known && limit.rlim_cur != libc::RLIM_INFINITY).then(|| u64::from(limit.rlim_cur));
        AllowedMemory { name, flag, bytes, statm_column }
    };
    [limit(libc::RLIMIT_AS, "RLIMIT_AS", 'v', 0), limit(libc::RLIMIT_DATA, "RLIMIT_DATA", 'd', 5)]
}
