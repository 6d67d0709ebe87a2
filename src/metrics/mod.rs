//! What is counted for the whole process, for people and monitoring.
//!
//! A runtime's own counters come from [`Handle::stats`](crate::runtime::Handle::stats).
//!
//! ```
//! let before = volt::metrics::stacks();
//! volt::run(|| ());
//! assert!(volt::metrics::stacks().slots >= before.slots);
//! ```

use crate::stack;

pub use crate::stack::{SiteUsage, StackStats};

/// How many stacks the process has, and where they are.
///
/// ```
/// volt::run(|| assert!(volt::metrics::stacks().handed_out >= 1));
/// ```
pub fn stacks() -> StackStats {
    stack::stats()
}

/// How much of their stacks fibers really used, by spawn site, the deepest first.
///
/// Measured for the first fiber that a worker's fibers spawn at a site, and for one in 16,384 after
/// it; to the page. Fibers that plain threads spawn are not measured.
///
/// ```
/// volt::run(|| volt::go(|| ()).join().unwrap());
/// for site in volt::metrics::stack_usage() {
///     println!("{}: {} of {} bytes", site.site, site.max_bytes, site.stack_size);
/// }
/// ```
pub fn stack_usage() -> Vec<SiteUsage> {
    stack::report()
}
