//! What tells fibers and threads apart.

use std::fmt;

/// Tells fibers and threads apart for as long as the process runs.
///
/// ```
/// let here: volt::thread::ThreadId = volt::current().id();
/// let there = volt::go(|| volt::current().id());
/// assert_ne!(there.join().unwrap(), here);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId(Id);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Id {
    Fiber(usize),
    Plain(std::thread::ThreadId),
}

impl ThreadId {
    /// Of a fiber; 0 for one that was not spawned.
    pub(crate) fn of_fiber(id: usize) -> ThreadId {
        ThreadId(Id::Fiber(id))
    }

    pub(crate) fn of_plain(id: std::thread::ThreadId) -> ThreadId {
        ThreadId(Id::Plain(id))
    }
}

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Id::Fiber(id) => write!(f, "Fiber({id})"),
            Id::Plain(id) => id.fmt(f),
        }
    }
}
