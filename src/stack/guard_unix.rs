//! Guards by advice: not on this system.

use rustix::io;
use std::ptr::NonNull;

/// # Safety
/// None is needed; the signature is that of systems that have such guards.
pub(super) unsafe fn install(_base: NonNull<u8>, _bytes: usize) -> io::Result<()> {
    Err(io::Errno::NOSYS)
}
