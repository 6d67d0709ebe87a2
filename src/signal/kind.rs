//! The signals that can be waited for.

use std::ffi::c_int;
use std::fmt;
use std::io;

/// A signal, by its POSIX meaning.
///
/// ```
/// use volt::signal::Signal;
///
/// assert_eq!(Signal::Terminate.to_string(), "Terminate");
/// assert_eq!(Signal::Other(40).to_string(), "signal 40");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// `SIGHUP`: the terminal is gone; for daemons, by custom, "read your settings again".
    Hangup,
    /// `SIGINT`: Ctrl-C.
    Interrupt,
    /// `SIGQUIT`: Ctrl-\.
    Quit,
    /// `SIGUSR1`.
    User1,
    /// `SIGUSR2`.
    User2,
    /// `SIGPIPE`: a write that nobody reads.
    Pipe,
    /// `SIGALRM`: a timer.
    Alarm,
    /// `SIGTERM`: a polite request to end.
    Terminate,
    /// `SIGCHLD`: a child process has changed state.
    Child,
    /// `SIGCONT`: the process goes on after a stop.
    Continue,
    /// `SIGTSTP`: Ctrl-Z.
    TerminalStop,
    /// `SIGWINCH`: the terminal has another size.
    WindowChange,
    /// Any other, by its number.
    Other(i32),
}

/// Named signals and their numbers.
const NAMED: [(Signal, c_int); 12] = [
    (Signal::Hangup, libc::SIGHUP),
    (Signal::Interrupt, libc::SIGINT),
    (Signal::Quit, libc::SIGQUIT),
    (Signal::User1, libc::SIGUSR1),
    (Signal::User2, libc::SIGUSR2),
    (Signal::Pipe, libc::SIGPIPE),
    (Signal::Alarm, libc::SIGALRM),
    (Signal::Terminate, libc::SIGTERM),
    (Signal::Child, libc::SIGCHLD),
    (Signal::Continue, libc::SIGCONT),
    (Signal::TerminalStop, libc::SIGTSTP),
    (Signal::WindowChange, libc::SIGWINCH),
];

/// Signals that no one can catch, or that a fault of the running code raises: there is nobody to
/// hand those to.
const FORBIDDEN: [c_int; 8] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
];

/// Highest signal number of Linux.
const MAX: c_int = 64;

impl Signal {
    /// The signal with this number; [`Other`](Signal::Other) if it has no name here.
    ///
    /// ```
    /// use volt::signal::Signal;
    ///
    /// assert_eq!(Signal::from_raw(2), Signal::Interrupt);
    /// assert_eq!(Signal::from_raw(40), Signal::Other(40));
    /// ```
    pub fn from_raw(number: i32) -> Signal {
        let named = NAMED.iter().find(|(_, raw)| *raw == number);
        named.map_or(Signal::Other(number), |(signal, _)| *signal)
    }

    /// Its number.
    ///
    /// ```
    /// assert_eq!(volt::signal::Signal::Interrupt.as_raw(), 2);
    /// ```
    pub fn as_raw(self) -> i32 {
        match self {
            Signal::Other(number) => number,
            named => NAMED.iter().find(|(signal, _)| *signal == named).map_or(0, |(_, raw)| *raw),
        }
    }

    /// The number of a signal that can be waited for.
    pub(super) fn catchable(self) -> io::Result<c_int> {
        let number = self.as_raw();
        let why = if !(1..=MAX).contains(&number) {
            format!("there is no signal {number}: they go from 1 to {MAX}")
        } else if FORBIDDEN.contains(&number) {
            format!("signal {number} cannot be waited for: it ends, stops or faults the process")
        } else {
            return Ok(number);
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Signal::Other(number) => write!(f, "signal {number}"),
            named => write!(f, "{named:?}"),
        }
    }
}
