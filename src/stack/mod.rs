//! Guarded memory for stacks: slots of slabs, recycled per worker, measured and, when one
//! overflows, explained.
//!
//! Callers: `context/` and `fiber/` run code on a [`Stack`]; `scheduler/` keeps one [`Cache`] per
//! worker, an [`AltStack`] per thread, and calls [`trim`] while it is quiet; `runtime/` calls
//! [`install`] once; `metrics/` reads `stats` and `report`. The room knows nothing of fibers:
//! an owner is a pointer that it hands back to the function given to [`set_describe`].
//!
//! A slot is in one of three states, each with its own type or place:
//!
//! ```text
//!   slab (untouched) --take--> Slot --open--> Stack <--> Cache, pool (warm)
//!                               ^                |
//!                               +---- close -----+      (cold: every page given back)
//! ```
//!
//! Invariants, cited by the SAFETY comments of the room:
//! 1. A slab is never unmapped, so every address in it stays valid. Kept by `slab`.
//! 2. A slot has at most one `Slot` or `Stack`: neither is `Clone`, each conversion consumes the
//!    other, and a slab counts a slot out once. Kept by `slab` and `slot`.
//! 3. A `Stack` has its guard in force and its header written; a `Slot` promises the guard only.
//!    Kept by `slab` (guard before the `Slot` leaves) and `slot` (`open` writes the header).
//! 4. The usable range of a slot ends below its header, which lies in the topmost page; both are
//!    computed from address and size alone. Kept by `slot`.
//! 5. What the signal handler reads is atomic, or written before it is published by a release
//!    store: the list of slabs, the earlier dispositions, the describing function. Kept by `slab`
//!    and `overflow`.

mod altstack;
mod cache;
mod error;
mod guard;
mod memory;
mod overflow;
mod pool;
mod report;
mod sampler;
mod size;
mod slab;
mod slot;
mod stats;
mod usage;

pub(crate) use altstack::AltStack;
pub(crate) use cache::Cache;
pub use error::StackError;
#[cfg(test)]
pub(crate) use guard::{Policy, set_policy};
pub(crate) use overflow::{install, set_describe};
pub(crate) use pool::{is_any_idle, trim};
pub(crate) use report::Report;
pub(crate) use sampler::Sampler;
pub(crate) use size::StackSize;
pub(crate) use slab::{Place, each_owner};
pub(crate) use slot::{SlotHeader, Stack};
pub use stats::StackStats;
pub(crate) use stats::stats;
pub use usage::SiteUsage;
pub(crate) use usage::{high_water, record, report};

#[cfg(test)]
mod tests;
