//! A bell: one thread sleeps until it rings; anybody may set it to ring earlier or later meanwhile, and
//! does not wake the sleeper by that. A timer of the kernel's (`timerfd`), since a thread's sleep has an end that
//! only its own waking changes; where that is forbidden, `bell_any`.

use super::bell_any;
use super::clock::Moment;
use rustix::io::{Errno, read};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

#[derive(Debug)]
pub(crate) enum Bell {
    Kernel(OwnedFd),
    Own(bell_any::Bell),
}

impl Bell {
    /// # Errors
    ///
    /// What the kernel says, such as that the process has too many descriptors.
    pub(crate) fn new() -> io::Result<Bell> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        match timer.and_then(|timer| set(&timer, Moment::NEVER).map(|()| timer)) {
            Ok(timer) => Ok(Bell::Kernel(timer)),
            Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => bell_any::Bell::new().map(Bell::Own),
            Err(error) => Err(super::not_opened("a timer", &error.into())),
        }
    }

    /// Rings at `at` and not before, at once if that has passed, never at [`Moment::NEVER`]. A ring that nobody
    /// has waited for yet is taken back.
    pub(crate) fn set(&self, at: Moment) {
        match self {
            Bell::Kernel(timer) => {
                set(timer, at).unwrap_or_else(|error| fails("timerfd_settime", error));
            }
            Bell::Own(bell) => bell.set(at),
        }
    }

    /// What is readable once it has rung, until it is set anew; for one who waits for other things as well.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        match self {
            Bell::Kernel(timer) => Some(timer.as_raw_fd()),
            Bell::Own(_) => None,
        }
    }

    /// As [`set`](Bell::set), for who can do without it: false if the system refuses.
    pub(crate) fn try_set(&self, at: Moment) -> bool {
        match self {
            Bell::Kernel(timer) => set(timer, at).is_ok(),
            Bell::Own(bell) => {
                bell.set(at);
                true
            }
        }
    }

    /// Sleeps until it rings.
    pub(crate) fn wait(&self) {
        match self {
            Bell::Kernel(timer) => loop {
                match read(timer, &mut [0; 8]) {
                    Ok(_) => return,
                    // A signal.
                    Err(Errno::INTR) => {}
                    Err(error) => fails("read", error),
                }
            },
            Bell::Own(bell) => bell.wait(),
        }
    }
}

fn set(timer: &OwnedFd, at: Moment) -> Result<(), Errno> {
    const NONE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Zero would be never.
    let time = at.for_the_system().max(Duration::from_nanos(1));
    let it_value = match at {
        Moment::NEVER => NONE,
        _ => Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() },
    };
    let time = Itimerspec { it_interval: NONE, it_value };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &time).map(drop)
}

#[cold]
fn fails(call: &str, error: Errno) -> ! {
    #[cfg(not(miri))]
    super::forbidden(call, &error.into());
    #[cfg(miri)]
    panic!("{call} has failed: {error}");
}
