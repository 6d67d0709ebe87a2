//! Sockets whose operations wait: what `net` and `signal` are built on.

mod source;

pub(crate) use source::{Source, Wanted};
