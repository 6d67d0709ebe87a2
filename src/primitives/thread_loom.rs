//! Threads from loom.

pub(crate) use loom::thread::{Thread, current, park, yield_now};
pub(crate) use std::thread::panicking;
use std::time::Duration;

/// Any time may have passed, so it returns; a permit that came is left to the next sleep.
pub(crate) fn park_timeout(_: Duration) {
    yield_now();
}
