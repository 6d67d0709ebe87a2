//! Pure structures: no threads, no clock reads, no knowledge of fibers.

pub(crate) mod back_off;
pub(crate) mod bitmap;
pub(crate) mod chunks;
mod countdown;
pub(crate) mod drop_all;
pub(crate) mod ewma;
pub(crate) mod few;
pub(crate) mod list;
pub(crate) mod odds;
mod panics;
mod piece;
pub(crate) mod rng;

pub(crate) use panics::forget_panics;
