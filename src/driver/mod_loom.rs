//! What of this room runs under loom: timers, the alarm of the one in the poller, and the readiness of a
//! socket with those who wait for it.

mod alarm;
#[path = "poller_loom.rs"]
mod poller;
#[allow(dead_code, reason = "what the models do not use")]
mod slot;
mod timers;
mod wheel;

pub(crate) use poller::Driver;
pub(crate) use timers::Timer;

#[cfg(test)]
mod models;
#[cfg(test)]
mod slot_models;
