//! Waiting for signals.

use super::kind::Signal;
use super::pending::Pending;
use super::taker;
use crate::primitives::clock::Moment;
use crate::primitives::sync::Arc;
use signal_hook_registry::SigId;
use std::fmt;
use std::io;
use std::time::Duration;

/// Receives a set of signals of this process.
///
/// As in POSIX, several signals of one kind that come before the first is received are one. Every
/// `Signals` that names a signal gets it. While a `Signals` lives, the signal's default action is
/// off, and it stays off afterwards: a program that has once waited for Ctrl-C is not ended by it
/// any more.
///
/// It gets them although the thread that makes it blocks them, as workers do and all threads of a program that was
/// started so: a thread of volt's, `volt-signals`, then lets them through, from now on. No other thread's mask is
/// changed. A program that blocks a signal everywhere so as to fetch it by other means (`sigwait`, a `signalfd`) names
/// it here or there, not both.
///
/// ```
/// use volt::signal::{Signal, Signals};
///
/// # fn main() -> std::io::Result<()> {
/// let mut signals = Signals::new([Signal::User1, Signal::User2])?;
/// # std::process::Command::new("sh").args(["-c", "kill -USR2 $PPID"]).status()?;
/// // ... `kill -USR2` from a shell, and then:
/// assert_eq!(signals.recv()?, Signal::User2);
/// # Ok(())
/// # }
/// ```
pub struct Signals {
    pending: Arc<Pending>,
    /// Taken and not handed out yet; served before new ones, so that none is overtaken for ever.
    taken: u64,
    handlers: Vec<SigId>,
}

impl Signals {
    /// Begins to receive `signals`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a signal that cannot be caught (`SIGKILL`, `SIGSTOP`) or that reports a
    /// fault of the running code (such as `SIGSEGV`), or a number that is no signal; what the system
    /// says, also that it starts no thread to let through what is blocked here.
    ///
    /// ```
    /// use volt::signal::{Signal, Signals};
    ///
    /// assert!(Signals::new([Signal::Hangup]).is_ok());
    /// let kill = Signals::new([Signal::from_raw(9)]);
    /// assert_eq!(kill.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    pub fn new(signals: impl IntoIterator<Item = Signal>) -> io::Result<Signals> {
        let mut numbers: Vec<_> =
            signals.into_iter().map(Signal::catchable).collect::<io::Result<_>>()?;
        // One handler for each: between two with the same bit the receiver might take it, and again after.
        numbers.sort_unstable();
        numbers.dedup();
        let pending = Arc::new(Pending::new()?);
        // Made before the first handler, so that it takes them off again if a later one fails.
        let mut made = Signals { pending, taken: 0, handlers: Vec::with_capacity(numbers.len()) };
        for &number in &numbers {
            let pending = Arc::clone(&made.pending);
            let bit = 1 << (number - 1);
            // SAFETY: `raise` is an atomic operation and a system call: safe in a signal handler.
            let id = unsafe { signal_hook_registry::register(number, move || pending.raise(bit)) }?;
            made.handlers.push(id);
        }
        taker::let_through(&numbers)?;
        Ok(made)
    }

    /// Waits for the next signal; a plain thread blocks, and a [token](crate::cancel::Token) does not end
    /// that once it has begun.
    ///
    /// # Errors
    ///
    /// On a cancelled fiber that would have to wait, an error for which
    /// [`is_cancelled`](crate::cancel::is_cancelled) holds.
    ///
    /// ```no_run
    /// use volt::signal::{Signal, Signals};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let mut signals = Signals::new([Signal::Hangup])?;
    /// loop {
    ///     println!("reading the settings again after a {}", signals.recv()?);
    /// }
    /// # }
    /// ```
    pub fn recv(&mut self) -> io::Result<Signal> {
        self.recv_until(None)
    }

    /// Waits for the next signal, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// `TimedOut`; as [`recv`](Signals::recv).
    ///
    /// ```
    /// use volt::signal::{Signal, Signals};
    /// use volt::time::Duration;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let mut signals = Signals::new([Signal::User1])?;
    /// let late = signals.recv_timeout(Duration::from_millis(1));
    /// assert_eq!(late.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    /// # Ok(())
    /// # }
    /// ```
    pub fn recv_timeout(&mut self, timeout: Duration) -> io::Result<Signal> {
        self.recv_until(Some(Moment::now().saturating_add(timeout)))
    }

    /// The next signal if one has come.
    ///
    /// ```
    /// use volt::signal::{Signal, Signals};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let mut signals = Signals::new([Signal::User1])?;
    /// assert_eq!(signals.try_recv(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_recv(&mut self) -> Option<Signal> {
        if self.taken == 0 {
            self.taken = self.pending.take();
        }
        if self.taken == 0 {
            return None;
        }
        let lowest = self.taken.trailing_zeros();
        self.taken &= self.taken - 1;
        Some(Signal::from_raw(lowest as i32 + 1))
    }

    fn recv_until(&mut self, deadline: Option<Moment>) -> io::Result<Signal> {
        loop {
            if let Some(signal) = self.try_recv() {
                return Ok(signal);
            }
            self.pending.wait(deadline.map(|deadline| deadline.since(Moment::now())))?;
        }
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").field("kinds", &self.handlers.len()).finish_non_exhaustive()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.handlers.drain(..) {
            signal_hook_registry::unregister(id);
        }
    }
}

/// Waits for Ctrl-C (`SIGINT`), from the call on.
///
/// A signal that comes between two calls is lost, and does not end the program either; use
/// [`Signals`] to wait more than once.
///
/// # Errors
///
/// As [`Signals::new`] and [`Signals::recv`].
///
/// ```no_run
/// volt::run(|| {
///     volt::signal::ctrl_c().unwrap();
///     println!("ending");
/// });
/// ```
pub fn ctrl_c() -> io::Result<()> {
    Signals::new([Signal::Interrupt])?.recv().map(drop)
}
