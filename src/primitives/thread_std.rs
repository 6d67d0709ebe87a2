//! Threads of the operating system.

pub(crate) use std::thread::{
    Builder, JoinHandle, Thread, current, panicking, park, park_timeout, yield_now,
};
