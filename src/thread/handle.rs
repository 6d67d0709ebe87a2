//! Who a fiber or thread is, to others.

use crate::fiber::{self, FiberRef, ThreadBlock};
use crate::park;
use crate::primitives::sync::Arc;
use crate::runtime::JoinHandle;
use std::fmt;

/// A counted reference to a fiber or plain thread; mirrors [`std::thread::Thread`].
#[derive(Clone)]
pub struct Thread(Inner);

#[derive(Clone)]
enum Inner {
    Fiber(FiberRef),
    Plain(Arc<ThreadBlock>),
    /// The handle of a fiber that was not spawned.
    Nobody,
}

/// Tells fibers and threads apart for as long as the process runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId(Id);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Id {
    Fiber(usize),
    Plain(std::thread::ThreadId),
}

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Id::Fiber(id) => write!(f, "Fiber({id})"),
            Id::Plain(id) => id.fmt(f),
        }
    }
}

impl Thread {
    /// Makes the permit of [`park`](super::park) available; wakes the one who waits for it.
    ///
    /// It may come late: a fiber or thread that has ended takes no notice.
    pub fn unpark(&self) {
        match &self.0 {
            Inner::Fiber(fiber) => {
                if let Some(wake) = fiber.unpark() {
                    park::wake(wake);
                }
            }
            Inner::Plain(thread) => thread.unpark(),
            Inner::Nobody => {}
        }
    }

    /// Unique among all fibers and threads that the process ever had.
    pub fn id(&self) -> ThreadId {
        ThreadId(match &self.0 {
            Inner::Fiber(fiber) => Id::Fiber(fiber.id()),
            Inner::Plain(thread) => Id::Plain(thread.id()),
            Inner::Nobody => Id::Fiber(0),
        })
    }

    /// The name given to a [`Builder`](super::Builder), or the plain thread's name.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Inner::Fiber(fiber) => fiber.name(),
            Inner::Plain(thread) => thread.name(),
            Inner::Nobody => None,
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).field("name", &self.name()).finish()
    }
}

/// The calling fiber; the calling thread where no fiber runs.
pub fn current() -> Thread {
    match fiber::current() {
        Some(fiber) => Thread(Inner::Fiber(fiber.reference())),
        None => Thread(Inner::Plain(fiber::thread_block())),
    }
}

impl<T> JoinHandle<T> {
    /// The fiber, for its id, its name and its [`unpark`](Thread::unpark).
    pub fn thread(&self) -> Thread {
        Thread(self.reference().map_or(Inner::Nobody, Inner::Fiber))
    }
}
