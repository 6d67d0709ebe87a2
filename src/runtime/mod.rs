//! The runtime: settings, worker threads, the default runtime, handles. The only room that wires
//! the others.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! let runtime = volt::runtime::Builder::new().workers(2).build()?;
//! let fiber = runtime.go(|| 6 * 7);
//! assert_eq!(fiber.join().unwrap(), 42);
//! # Ok(())
//! # }
//! ```

mod builder;
mod builder_scheduler;
#[cfg(test)]
mod deadlock_tests;
mod default;
mod describe;
mod drive;
mod handle;
mod join;
mod pool;
#[allow(clippy::module_inception, reason = "the room's main type")]
mod runtime;
mod shutdown_error;
#[cfg(test)]
mod shutdown_tests;
#[cfg(test)]
mod tests;

pub use crate::scheduler::{
    BlockingSite, BlockingStats, Deadlock, FiberReport, Migrate, Placement, Stall, WorkerStats,
};
pub use builder::Builder;
pub use handle::{Handle, QueueStats, Stats};
pub use join::JoinHandle;
pub use runtime::Runtime;
#[doc(hidden)]
pub use runtime::{go, run, yield_now};
pub use shutdown_error::ShutdownError;

pub(crate) use default::spawn_current;
pub(crate) use handle::with_scheduler_here;
