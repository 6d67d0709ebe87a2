//! The alternate signal stack: where the overflow handler runs, as the stack it reports is full.
//!
//! Callers: the scheduler, on each thread that runs fibers, for as long as it does.
//!
//! 1. The memory is unmapped only when this thread no longer has it registered.

use super::memory;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

#[cfg(any(target_os = "linux", target_os = "android"))]
#[path = "altstack_linux.rs"]
mod os;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[path = "altstack_unix.rs"]
mod os;

/// For the handler's frames: two reports, formatting, and an earlier handler that is called.
const HANDLER_BYTES: usize = 32 * 1024;

/// This thread has an alternate signal stack of volt's; dropping it restores the one it had.
#[derive(Debug)]
#[must_use = "the alternate stack is removed when this is dropped"]
pub(crate) struct AltStack {
    /// The mapping: a guard page, then the stack.
    base: NonNull<u8>,
    bytes: usize,
    former: libc::stack_t,
    /// Belongs to the thread that made it.
    _thread: PhantomData<*mut ()>,
}

impl AltStack {
    /// # Errors
    /// When there is no memory for it, or when called on an alternate stack.
    pub(crate) fn ensure() -> io::Result<AltStack> {
        let page = memory::page_size();
        let usable = (os::least_bytes().max(16 * 1024) + HANDLER_BYTES).next_multiple_of(page);
        let bytes = page + usable;
        let base = memory::map(bytes)?;
        // SAFETY: just mapped, nobody uses it; the page above the guard is in the mapping.
        let (guarded, start) = unsafe { (memory::forbid(base, page), base.add(page)) };
        let new = libc::stack_t { ss_sp: start.as_ptr().cast(), ss_flags: 0, ss_size: usable };
        // SAFETY: the memory stays mapped until it is no longer registered (invariant 1).
        let former = guarded.map_err(io::Error::from).and_then(|()| unsafe { exchange(&new) });
        match former {
            Ok(former) => Ok(AltStack { base, bytes, former, _thread: PhantomData }),
            Err(error) => {
                // SAFETY: it was not registered.
                unsafe { memory::unmap(base, bytes) };
                Err(error)
            }
        }
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        // SAFETY: a null pointer asks and changes nothing.
        let Ok(current) = (unsafe { exchange(ptr::null()) }) else {
            return;
        };
        let ours = self.base.as_ptr() as usize + memory::page_size();
        if current.ss_sp as usize != ours {
            // Someone registered another one and may restore ours later: it must stay.
            return;
        }
        // SAFETY: the stack that was registered before; who registered it keeps it, as for any
        // signal handler on it.
        if unsafe { exchange(&self.former) }.is_ok() {
            // SAFETY: no longer registered (invariant 1).
            unsafe { memory::unmap(self.base, self.bytes) };
        }
    }
}

/// Registers `new`, unless null, and returns what was registered.
///
/// # Safety
/// The memory of `new` stays valid as long as it is registered.
#[inline(never)] // errno, see invariant 1 of `memory`
unsafe fn exchange(new: *const libc::stack_t) -> io::Result<libc::stack_t> {
    let mut former = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: the caller's promise; `former` is writable.
    match unsafe { libc::sigaltstack(new, former.as_mut_ptr()) } {
        // SAFETY: written by the call.
        0 => Ok(unsafe { former.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}
