//! Short waits for a timer, to the nanosecond: `epoll_wait` counts in milliseconds and rounds up, so that a fiber alone
//! would sleep for two of them instead of one.
//!
//! The poller's descriptor is readable when events are there, and `ppoll` counts in nanoseconds. Two system calls
//! instead of one, so where a millisecond is little the wait stays as it is. (`epoll_pwait2` would do it in one; mio
//! does not offer it.) And the kernel lets a thread's timer be late by its *slack*, 50 us, so that one wake may do for
//! several. The wheel has done that for the timers that it has; for such a wait the slack is a tenth of what a wake
//! takes. It is given back after it: a program that is started from here would inherit it.

use mio::Poll;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Of longer waits a millisecond is less than a twentieth.
const LONG: Duration = Duration::from_millis(20);

/// In nanoseconds.
const SLACK: NonZeroU64 = NonZeroU64::new(5_000).unwrap();

pub(super) fn is_worth_it(timeout: Duration) -> bool {
    !timeout.is_zero() && timeout < LONG
}

/// Waits until `poll` has events, or for `timeout`, which is worth it. Are there any? `None` if the system refuses to
/// say.
pub(super) fn wait(poll: &Poll, timeout: Duration) -> Option<bool> {
    // SAFETY: the descriptor is open for as long as `poll` is there.
    let fd = unsafe { BorrowedFd::borrow_raw(poll.as_raw_fd()) };
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    let _punctual = Punctual::begin();
    match rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
        Ok(count) => Some(count > 0),
        // A signal ends the wait, as it does the poller's own.
        Err(Errno::INTR) => Some(true),
        Err(_) => None,
    }
}

/// While it is there the thread's timers are hardly late; its own slack is given back.
struct Punctual(Option<NonZeroU64>);

impl Punctual {
    /// Where the system refuses, timers are as late as they were.
    fn begin() -> Punctual {
        let before = current_timer_slack().ok().and_then(NonZeroU64::new);
        let changed =
            before.filter(|before| *before > SLACK && set_current_timer_slack(Some(SLACK)).is_ok());
        Punctual(changed)
    }
}

impl Drop for Punctual {
    fn drop(&mut self) {
        if self.0.is_some() {
            let _ = set_current_timer_slack(self.0);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use mio::Waker;

    fn slack() -> u64 {
        current_timer_slack().expect("it can be read")
    }

    #[test]
    fn a_thread_gets_its_slack_back() {
        let before = slack();
        assert!(before > SLACK.get(), "nothing to see: {before} ns");
        let punctual = Punctual::begin();
        assert_eq!(slack(), SLACK.get());
        drop(punctual);
        assert_eq!(slack(), before);
        let poll = Poll::new().expect("a poller");
        assert_eq!(wait(&poll, Duration::from_micros(10)), Some(false));
        assert_eq!(slack(), before);
    }

    #[test]
    fn who_has_less_slack_keeps_it() {
        let before = slack();
        set_current_timer_slack(NonZeroU64::new(1)).expect("it can be set");
        let punctual = Punctual::begin();
        assert_eq!(slack(), 1);
        drop(punctual);
        assert_eq!(slack(), 1);
        set_current_timer_slack(NonZeroU64::new(before)).expect("it can be set");
    }

    #[test]
    fn an_event_ends_the_wait() {
        let poll = Poll::new().expect("a poller");
        let waker = Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        waker.wake().expect("it is there");
        assert_eq!(wait(&poll, Duration::from_millis(19)), Some(true));
    }
}
