//! Settings of a runtime, checked before anything starts.

use super::runtime::Runtime;
use crate::scheduler::{Config, Hook, Migrate, Shared};
use crate::stack::StackSize;
use crate::{fiber, park, stack};
use std::io;
use std::time::Duration;

/// Most workers of one runtime.
const MAX_WORKERS: usize = 1024;
/// How long an idle stack keeps its memory, unless set.
const STACK_AGE: Duration = Duration::from_secs(2);

/// Configures a [`Runtime`].
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// let runtime = volt::runtime::Builder::new().workers(2).thread_name("web").build()?;
/// let sum = runtime.run(|| (1..=10).sum::<u32>());
/// assert_eq!(sum, 55);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `build`"]
pub struct Builder {
    current_thread: bool,
    workers: Option<usize>,
    stack_size: Option<usize>,
    config: Config,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// A runtime with threads of its own: as many workers as the process may use processors.
    pub fn new() -> Builder {
        Builder {
            current_thread: false,
            workers: None,
            stack_size: None,
            config: Config {
                workers: 1,
                stack_size: StackSize::DEFAULT,
                migrate: Migrate::default(),
                thread_name: "volt-worker".to_owned(),
                on_thread_start: None,
                on_thread_stop: None,
                stack_age: STACK_AGE,
            },
        }
    }

    /// A runtime without threads: its fibers run on the thread that calls [`Runtime::run`], while it
    /// does. For tests, small tools and embedding.
    pub fn new_current_thread() -> Builder {
        Builder { current_thread: true, ..Builder::new() }
    }

    /// How many threads run fibers, from 1 to 1,024. A current-thread runtime has one.
    pub fn workers(mut self, workers: usize) -> Builder {
        self.workers = Some(workers);
        self
    }

    /// The address space of a fiber's stack in bytes, rounded up to a power of two: 256 KiB unless
    /// set (1 MiB with debug assertions), at least 32 KiB (64 KiB), at most 1 GiB. A quarter of it,
    /// at most 64 KiB, is guard. Memory is used only where the stack was touched.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = Some(bytes);
        self
    }

    /// Names the worker threads: `name-0`, `name-1`, and so on.
    pub fn thread_name(mut self, name: impl Into<String>) -> Builder {
        self.config.thread_name = name.into();
        self
    }

    /// Runs `hook` on each worker thread before its first fiber.
    pub fn on_thread_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Builder {
        self.config.on_thread_start = Some(Hook::from(Box::new(hook) as Box<_>));
        self
    }

    /// Runs `hook` on each worker thread after its last fiber.
    pub fn on_thread_stop(mut self, hook: impl Fn() + Send + Sync + 'static) -> Builder {
        self.config.on_thread_stop = Some(Hook::from(Box::new(hook) as Box<_>));
        self
    }

    /// Whether fibers that have started may move to other threads.
    pub fn migrate(mut self, migrate: Migrate) -> Builder {
        self.config.migrate = migrate;
        self
    }

    /// How long an idle stack keeps its memory before it goes back to the system: 2 s unless set.
    pub fn stack_age(mut self, age: Duration) -> Builder {
        self.config.stack_age = age;
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a setting out of its bounds, with the bounds; what the system says where
    /// it refuses a thread, the poller or the overflow handler.
    pub fn build(self) -> io::Result<Runtime> {
        let mut config = self.config;
        config.workers = match (self.current_thread, self.workers) {
            (true, None | Some(1)) => 1,
            (true, Some(n)) => {
                let message = format!("{n} workers: a current-thread runtime has exactly 1");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            (false, None) => default_workers(),
            (false, Some(n)) => check_workers(n)?,
        };
        if let Some(bytes) = self.stack_size {
            config.stack_size = StackSize::new(bytes)?;
        }
        stack::install()?;
        stack::set_describe(super::describe::describe);
        fiber::install_hook();
        park::watch_forks();
        let shared = Shared::new(config)?;
        if self.current_thread {
            Ok(Runtime::current_thread(shared))
        } else {
            Runtime::start(shared)
        }
    }
}

fn check_workers(n: usize) -> io::Result<usize> {
    if (1..=MAX_WORKERS).contains(&n) {
        return Ok(n);
    }
    let message = format!("{n} workers: a runtime has from 1 to {MAX_WORKERS}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// What the process may use: affinity and cgroup quotas are the standard library's business.
fn default_workers() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_WORKERS))
}
