//! A bell: one thread sleeps until it rings; anybody may set it to ring earlier or later meanwhile, and
//! does not wake the sleeper by that. A timer of the kernel's (`timerfd`), since a thread's sleep has an end that
//! only its own waking changes.

use super::clock::Moment;
use rustix::io::{Errno, read};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;

#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    /// # Errors
    ///
    /// What the kernel says, such as that the process has too many descriptors.
    pub(crate) fn new() -> io::Result<Bell> {
        Ok(Bell(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?))
    }

    /// Rings at `at` and not before, at once if that has passed, never at [`Moment::NEVER`]. A ring that nobody
    /// has waited for yet is taken back.
    pub(crate) fn set(&self, at: Moment) {
        const NONE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would be never.
        let nanos = at.as_nanos().max(1);
        let (secs, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        let it_value = match at {
            Moment::NEVER => NONE,
            _ => Timespec { tv_sec: secs as i64, tv_nsec: nanos as _ },
        };
        let time = Itimerspec { it_interval: NONE, it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &time).expect("a time in range");
    }

    /// Sleeps until it rings.
    pub(crate) fn wait(&self) {
        while let Err(error) = read(&self.0, &mut [0; 8]) {
            // A signal.
            assert!(error == Errno::INTR, "the bell failed: {error}");
        }
    }
}
