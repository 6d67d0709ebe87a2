//! Threads of the operating system.

pub(crate) use std::thread::{Builder, JoinHandle, panicking, sleep, yield_now};
