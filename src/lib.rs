//! volt: fibers (stackful coroutines) for plain, blocking-looking code.
mod primitives;
mod util;
mod context;
