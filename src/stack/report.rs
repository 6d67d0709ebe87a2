//! Text for a signal handler: a fixed buffer that is written to stderr at once, past the lock that std puts around it.
//!
//! Callers: `overflow`, and the function that upper rooms give to `set_describe`; `fiber`, where there is hardly
//! memory.
//!
//! 1. No allocation, no lock, no TLS: `core::fmt` with `&str`s and integers has none either.

use std::fmt;
use std::os::fd::BorrowedFd;

/// Enough for two lines with a long path and a long name.
const CAPACITY: usize = 768;

/// A buffer to `write!` to. What does not fit is cut off.
pub(crate) struct Report {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl Report {
    pub(crate) const fn new() -> Report {
        Report { bytes: [0; CAPACITY], len: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `most` bytes, less if that would cut a character in two.
    pub(super) fn text(&self, most: usize) -> &str {
        let bytes = &self.bytes[..self.len.min(most)];
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
        }
    }

    /// Writes it all to stderr, and gives up at the first error: there is nobody to tell.
    pub(crate) fn send(&self) {
        // SAFETY: a number, used for a system call; if it is closed the call fails.
        let stderr = unsafe { BorrowedFd::borrow_raw(2) };
        let mut rest = &self.bytes[..self.len];
        while !rest.is_empty() {
            match rustix::io::write(stderr, rest) {
                Ok(written) if written > 0 => rest = &rest[written..],
                Err(rustix::io::Errno::INTR) => {}
                _ => return,
            }
        }
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Report").field(&self.text(CAPACITY)).finish()
    }
}

impl fmt::Write for Report {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = CAPACITY - self.len;
        let cut = text.len().min(room);
        self.bytes[self.len..self.len + cut].copy_from_slice(&text.as_bytes()[..cut]);
        self.len += cut;
        Ok(())
    }
}
