//! Memory calls as every unix has them.

use super::AllowedMemory;
use rustix::io;
use rustix::mm::{self, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};
use std::ffi::c_void;
use std::ptr::NonNull;

pub(super) const MAP_FLAGS: MapFlags = MapFlags::PRIVATE;

/// Nothing to forbid: these systems promote to large pages only what is resident already.
pub(crate) fn no_huge_pages(_base: NonNull<u8>, _bytes: usize) -> io::Result<()> {
    Ok(())
}

/// Gives the pages back; they read as zero afterwards.
///
/// `MADV_DONTNEED` and `MADV_FREE` may keep the pages here, so they are mapped anew.
///
/// # Safety
/// Nobody relies on what is in these pages, and they belong to a mapping made by this room.
pub(crate) unsafe fn discard(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MAP_FLAGS.union(MapFlags::FIXED);
    // SAFETY: the caller's promise: only pages of our own are replaced.
    unsafe { mm::mmap_anonymous(base.as_ptr().cast::<c_void>(), bytes, protection, flags) }
        .map(drop)
}

/// Sets bit 0 of `pages[i]` if the i-th page from `base` is in memory.
#[inline(never)] // errno, see invariant 1 of the parent
pub(crate) fn resident(base: NonNull<u8>, pages: &mut [u8]) -> io::Result<()> {
    let bytes = pages.len() * super::page_size();
    // SAFETY: `mincore` writes one byte for each page, and there is one byte for each page.
    match unsafe { libc::mincore(base.as_ptr().cast(), bytes, pages.as_mut_ptr().cast()) } {
        0 => Ok(()),
        _ => {
            Err(io::Errno::from_io_error(&std::io::Error::last_os_error())
                .unwrap_or(io::Errno::INVAL))
        }
    }
}

/// The limits that can refuse a mapping.
pub(crate) fn soft_limits() -> [AllowedMemory; 1] {
    let bytes = getrlimit(Resource::Data).current;
    [AllowedMemory { name: "RLIMIT_DATA", flag: 'd', bytes, statm_column: 5 }]
}
