//! Waiting for the world: sockets through mio, deadlines through the timer wheel.
//!
//! A turn *returns* the fibers whose waits it settled; whoever made the turn (`scheduler`) enqueues
//! them. The driver never schedules, and knows a fiber only as a waiter to settle.
//!
//! # Invariants
//!
//! 1. Whoever holds the role may wait in the kernel; one thread at a time.
//! 2. A registration's slot is reused under a new generation; an event of an old one is dropped.
//! 3. Waiters are linked and settled under the lock of their registration or of their timer shard.

mod alarm;
#[cfg_attr(any(target_os = "linux", target_os = "android"), path = "exact_linux.rs")]
mod exact;
#[cfg_attr(any(target_os = "linux", target_os = "android"), path = "far_linux.rs")]
mod far;
mod poller;
mod registration;
mod slot;
mod slots;
mod timers;
mod wheel;

pub(crate) use poller::{Awake, Driver, GoesOn};
pub(crate) use registration::Registration;
pub(crate) use slot::{Direction, IoNode, Slot};
pub(crate) use timers::Timer;
