//! Who runs where and when.
//!
//! `README.md` beside this file
//! has the protocol of parking and waking. A reader who wants to know where a woken fiber goes
//! begins in `schedule.rs`; where a worker looks for work, in `worker.rs`; how a fiber is left, in
//! `switch.rs`.

mod assist;
mod bed;
mod brief;
mod census;
mod config;
mod core;
mod cores;
mod crew;
mod deadlock;
mod finish;
mod follow_up;
mod gate;
mod hand_off;
mod heirs;
mod hold_off;
mod hooks;
mod idle;
mod invite;
mod join;
mod lifo_rest;
mod lifo_run;
mod limit;
mod list_turns;
mod lock_spin;
mod locked_queue;
mod near;
mod parker;
mod placement;
mod poller_seat;
mod ring;
mod schedule;
mod search;
mod share;
mod shared;
mod sites;
mod slot;
mod socket_vigil;
mod spawn;
mod spin;
mod starter;
mod stats;
mod steal;
mod supervisor;
mod switch;
mod tick;
mod trial;
mod vigil;
mod watch;
mod worker;
mod worth;

pub(crate) use brief::CallSite;
pub use census::FiberReport;
pub(crate) use census::LISTED;
pub(crate) use config::Config;
pub use config::{Migrate, Placement};
pub use deadlock::Deadlock;
pub(crate) use hand_off::{end_call, hand_off, holds_core, keep_core, regain_core};
pub(crate) use heirs::bequeath;
pub(crate) use hooks::{DeadlockHook, Hook, Hooks, StallHook};
pub(crate) use join::start_to_join;
pub use limit::BlockingStats;
pub(crate) use lock_spin::{begins_to_spin_at, spin_at};
pub(crate) use near::{Destination, is_beside_workers, is_near as is_near_worker};
#[cfg(test)]
pub(crate) use poller_seat::PollerSeat;
pub(crate) use ring::CAPACITY as QUEUE_CAPACITY;
pub(crate) use schedule::{wake, wake_where_thieves_look};
pub(crate) use shared::Shared;
pub use sites::BlockingSite;
pub(crate) use spawn::{
    SpawnOptions, Target, count_budget_yield, count_leg, current, current_worker_index,
    drop_handle, is_here, release, spawn,
};
pub(crate) use spin::{begins_to_spin, spin};
pub(crate) use starter::Starter;
pub use stats::WorkerStats;
pub use supervisor::Stall;
pub(crate) use supervisor::supervise;
pub(crate) use switch::{park, park_and_run, yield_now};
pub(crate) use worker::{run, run_here};

#[cfg(test)]
mod tests;
