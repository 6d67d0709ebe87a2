//! Selects over more than channels, and closures side by side.

#[path = "../common/mod.rs"]
mod common;

mod against;
mod each;
mod helpers;
mod open;
mod sets;
mod several;
mod sockets;
mod storm;
