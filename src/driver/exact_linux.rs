//! Short waits for a timer, to the nanosecond: `epoll_wait` counts in milliseconds and rounds up, so that a fiber alone
//! would sleep for two of them instead of one.
//!
//! The poller's descriptor is readable when events are there, and `ppoll` counts in nanoseconds. Two system calls
//! instead of one, so where a millisecond is little the wait stays as it is. (`epoll_pwait2` would do it in one; mio
//! does not offer it.)

use mio::Poll;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Of longer waits a millisecond is less than a twentieth.
const LONG: Duration = Duration::from_millis(20);

pub(super) fn is_worth_it(timeout: Duration) -> bool {
    !timeout.is_zero() && timeout < LONG
}

/// Waits until `poll` has events, or for `timeout`, which is worth it. Are there any? `None` if the system refuses to say.
pub(super) fn wait(poll: &Poll, timeout: Duration) -> Option<bool> {
    // SAFETY: the descriptor is open for as long as `poll` is there.
    let fd = unsafe { BorrowedFd::borrow_raw(poll.as_raw_fd()) };
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    match rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
        Ok(count) => Some(count > 0),
        // A signal ends the wait, as it does the poller's own.
        Err(Errno::INTR) => Some(true),
        Err(_) => None,
    }
}
