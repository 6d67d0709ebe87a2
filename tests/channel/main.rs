//! Channels and selects between fibers, between plain threads, and across.

#[path = "../common/mod.rs"]
mod common;

mod basics;
mod cancel;
mod cases;
mod clocks;
mod harness;
mod selects;
mod selects_by_hand;
mod stress;
