//! How large a signal frame is: a constant of the system's.

pub(super) fn least_bytes() -> usize {
    libc::MINSIGSTKSZ
}
