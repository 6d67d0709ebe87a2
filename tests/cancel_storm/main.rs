//! Every wait of `volt::sync`, `volt::channel`, `volt::net` and of fibers themselves, in a storm of
//! cancels, tokens and timeouts, on fibers and plain threads: values and bytes are conserved, no permit
//! leaks, no lock stays taken or is poisoned, and nobody is left waiting.
//!
//! A storm is a row of short rounds, each with things of its own, which are looked at when all have
//! left. Each storm goes on for `VOLT_STRESS_SECONDS` (a quarter unless set), which may be a fraction.
//! A failure prints the seed; `VOLT_TEST_SEED` repeats the plan of that storm, though not its schedule.

#[path = "../common/mod.rs"]
mod common;

mod cases;
mod channels;
mod fibers;
mod ledger;
mod locks;
mod once;
mod queues;
mod several;
mod signals;
mod sockets;
mod weather;
