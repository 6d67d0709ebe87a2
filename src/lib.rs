//! volt: fibers (stackful coroutines) for plain, blocking-looking code.
mod primitives;
mod util;
mod stack;
mod context;
#[doc(hidden)]
pub mod fiber;
mod driver;
mod scheduler;
mod park;
pub mod runtime;
pub mod cancel;
pub mod time;
pub mod thread;
mod io;
pub mod net;
pub mod signal;

pub use runtime::{JoinHandle, go, run, yield_now};
pub use stack::{SiteUsage, StackError};
pub use thread::current;
pub use time::sleep;
