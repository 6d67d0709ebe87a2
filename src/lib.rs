//! volt: fibers (stackful coroutines) for plain, blocking-looking code.
mod primitives;
mod stack;
mod util;
mod context;
