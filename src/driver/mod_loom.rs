//! What of this room runs under loom: the timers, and the alarm of the one in the poller.

mod alarm;
#[path = "poller_loom.rs"]
mod poller;
mod timers;
mod wheel;

pub(crate) use poller::Driver;
pub(crate) use timers::Timer;

#[cfg(test)]
mod models;
