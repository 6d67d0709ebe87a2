//! Spawning with a name or a stack size of its own.

use crate::runtime::{JoinHandle, spawn_current};
use crate::scheduler::SpawnOptions;
use crate::stack::StackSize;
use std::io;
use std::panic::Location;

/// Starts a fiber; the same as [`volt::go`](crate::go). Its panic ends it alone, and goes to who
/// [joins](JoinHandle::join) it.
///
/// ```
/// let fiber = volt::thread::spawn(|| 6 * 7);
/// assert_eq!(fiber.join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    crate::runtime::go(f)
}

/// Names a fiber or sets its stack size; mirrors [`std::thread::Builder`].
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// let fiber = volt::thread::Builder::new()
///     .name("indexer".into())
///     .stack_size(1 << 20)
///     .spawn(|| volt::thread::current().name().map(str::to_owned))?;
/// assert_eq!(fiber.join().unwrap().as_deref(), Some("indexer"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
#[must_use = "nothing starts before `spawn`"]
pub struct Builder {
    name: Option<String>,
    stack_size: Option<usize>,
}

impl Builder {
    /// No name, and the runtime's stack size.
    ///
    /// ```
    /// let fiber = volt::thread::Builder::new().spawn(|| 6 * 7).unwrap();
    /// assert_eq!(fiber.join().unwrap(), 42);
    /// ```
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the fiber: in panics, reports and [`Thread::name`](super::Thread::name).
    ///
    /// ```
    /// let builder = volt::thread::Builder::new().name("indexer".into());
    /// let fiber = builder.spawn(|| assert_eq!(volt::current().name(), Some("indexer"))).unwrap();
    /// fiber.join().unwrap();
    /// ```
    pub fn name(mut self, name: String) -> Builder {
        self.name = Some(name);
        self
    }

    /// The address space of the stack in bytes, rounded up to a power of two; see
    /// [`runtime::Builder::stack_size`](crate::runtime::Builder::stack_size) for the bounds.
    ///
    /// ```
    /// let builder = volt::thread::Builder::new().stack_size(8 << 20);
    /// let deep = builder.spawn(|| std::hint::black_box([0_u8; 1 << 20]).len()).unwrap();
    /// assert_eq!(deep.join().unwrap(), 1 << 20);
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = Some(bytes);
        self
    }

    /// Starts the fiber.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a stack size out of its bounds. Want of memory for the stack shows later, as the error of
    /// `join`, or on stderr where the handle was dropped, since a fiber gets its stack when it first runs.
    ///
    /// ```
    /// let too_small = volt::thread::Builder::new().stack_size(1).spawn(|| ());
    /// assert_eq!(too_small.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: both are 'static.
        unsafe { self.spawn_here(Location::caller(), f) }
    }

    /// # Safety
    ///
    /// What `f` and its result borrow must outlive the fiber and its result.
    pub(super) unsafe fn spawn_here<F, T>(
        self,
        site: &'static Location<'static>,
        f: F,
    ) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let size = self.stack_size.map(StackSize::new).transpose()?;
        let name = self.name.map(String::into_boxed_str);
        // SAFETY: passed on.
        Ok(unsafe { spawn_current(SpawnOptions { name, size, site }, f) })
    }
}
