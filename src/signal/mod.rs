//! Signals that fibers and threads wait for.
//!
//! Worker threads block all signals but those of faults and profilers, so a handler runs on some other thread and never
//! disturbs a fiber. A program that a fiber starts, and a thread, inherits that: see [`unblock`](fn@unblock).
//! [`Signals`] receives what it names in such a program too.
//!
//! ```
//! use volt::signal::{Signal, Signals};
//!
//! # fn main() -> std::io::Result<()> {
//! let mut signals = Signals::new([Signal::Hangup, Signal::Terminate])?;
//! let fiber = volt::go(move || signals.recv());
//! # std::process::Command::new("sh").args(["-c", "kill -HUP $PPID"]).status()?;
//! // ... `kill -HUP` from a shell, and then:
//! assert_eq!(fiber.join().unwrap()?, Signal::Hangup);
//! # Ok(())
//! # }
//! ```

mod kind;
mod pending;
mod signals;
mod taker;
mod unblock;

pub use kind::Signal;
pub use signals::{Signals, ctrl_c};
pub use unblock::unblock;
