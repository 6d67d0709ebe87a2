//! Who runs where and when.
//!
//! `README.md` beside this file
//! has the protocol of parking and waking. A reader who wants to know where a woken fiber goes
//! begins in `schedule.rs`; where a worker looks for work, in `worker.rs`; how a fiber is left, in
//! `switch.rs`.

mod core;
mod idle;
mod locked_queue;
mod parker;
mod ring;
mod schedule;
mod shared;
mod slot;
mod spawn;
mod stats;
mod steal;
mod switch;
mod tick;
mod worker;

/// Dispatches from the LIFO slot in a row, after which it is flushed to the ring.
const LIFO_RUNS: u32 = 3;

pub(crate) use schedule::wake;
pub use shared::Migrate;
pub(crate) use shared::{Config, Hook, Shared};
pub(crate) use spawn::{
    SpawnOptions, about_to_block, count_budget_yield, current, current_worker_index, is_here,
    release, spawn,
};
pub use stats::WorkerStats;
pub(crate) use switch::{park, yield_now};
pub(crate) use worker::run;

#[cfg(test)]
mod tests;
