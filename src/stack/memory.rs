//! The system calls on memory that the room needs, each in one place.
//!
//! Callers: `slab`, `slot`, `guard`, `usage`, `altstack`, `error`. What differs between systems is in
//! `memory_linux.rs` and `memory_unix.rs`, which offer the same functions.
//!
//! 1. Every call returns its error by value. Where only libc has the call, `errno` is read behind
//!    `inline(never)`: its address must not be cached in a function that switches stacks.

use rustix::io;
use rustix::mm::{self, MprotectFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;

#[cfg(any(target_os = "linux", target_os = "android"))]
#[path = "memory_linux.rs"]
mod os;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[path = "memory_unix.rs"]
mod os;

pub(super) use os::{discard, no_huge_pages, resident, soft_limits};

pub(super) fn page_size() -> usize {
    rustix::param::page_size()
}

/// Maps `bytes` of zeroed private memory that is accounted for only when touched.
pub(super) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nobody's memory.
    let base =
        unsafe { mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, os::MAP_FLAGS) }?;
    NonNull::new(base.cast()).ok_or(io::Errno::NOMEM)
}

/// Gives a whole number of pages back to the system. A refusal only wastes address space.
///
/// # Safety
/// Nobody uses these pages any more.
pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    if bytes != 0 {
        // SAFETY: the caller's promise.
        let _ = unsafe { mm::munmap(base.as_ptr().cast::<c_void>(), bytes) };
    }
}

/// Makes pages inaccessible.
///
/// # Safety
/// Nobody relies on access to these pages.
pub(super) unsafe fn forbid(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { mm::mprotect(base.as_ptr().cast::<c_void>(), bytes, MprotectFlags::empty()) }
}

/// How many mappings a process may have, where the system tells.
pub(super) fn most_mappings() -> Option<u64> {
    setting("/proc/sys/vm/max_map_count")
}

/// A setting of the system's, where it can be read.
pub(super) fn setting(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A limit on this process's memory, as it stands now. From [`soft_limits`].
pub(super) struct AllowedMemory {
    pub(super) name: &'static str,
    /// The option of the shell's `ulimit` that sets it.
    pub(super) flag: char,
    /// `None` for no limit.
    pub(super) bytes: Option<u64>,
    /// Which column of `/proc/self/statm`, where there is that file, counts towards it.
    pub(super) statm_column: usize,
}
