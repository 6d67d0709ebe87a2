//! Sockets whose operations wait: what `net` and `signal` are built on.

mod ready;
mod source;

pub use ready::Readiness;
pub(crate) use source::{Source, Wanted};

#[cfg(test)]
mod tests;
