//! The HTTP example from outside: the real binary as a child process, talked to over plain sockets.
//!
//! Nothing here waits for a guessed time: what should happen is polled for, with a deadline that fails the test.

mod harness;
mod lifecycle;
mod messages;
mod refusals;
