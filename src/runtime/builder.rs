//! Settings of a runtime, checked before anything starts.

use super::runtime::Runtime;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::scheduler::{Config, Deadlock, DeadlockHook, Hook, Hooks, Migrate, Placement, Shared};
use crate::stack::StackSize;
use crate::{fiber, primitives, stack};
use std::io::{self, Write};
use std::num::NonZero;
use std::time::Duration;

/// Most workers of one runtime.
const MAX_WORKERS: usize = 1024;
/// How long an idle stack keeps its memory, unless set.
const STACK_AGE: Duration = Duration::from_secs(2);
/// The supervisor's period, unless set.
const STALL_PERIOD: Duration = Duration::from_millis(100);
const SHORTEST_STALL_PERIOD: Duration = Duration::from_millis(1);
/// Fibers in blocking mode at the same time, unless set.
const MAX_BLOCKING: usize = 512;
const STEAL_ATTEMPTS: u32 = 32;

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
///
/// All settings, as they are unless set, but for what is said and for the hooks:
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use volt::runtime::{Builder, Migrate, Placement};
/// use volt::time::Duration;
///
/// let runtime = Builder::new()
///     .workers(4) // as many as there are processors
///     .stack_size(256 << 10)
///     .stack_age(Duration::from_secs(2))
///     .thread_name("volt-worker")
///     .on_thread_start(|| println!("a worker comes"))
///     .on_thread_stop(|| println!("a worker goes"))
///     .max_blocking(512)
///     .stall_period(Some(Duration::from_millis(100)))
///     .learn_blocking(true)
///     .migrate(Migrate::Anytime)
///     .force_migrate(false)
///     .placement(Placement::Injector)
///     .stealing(true)
///     .steal_attempts(32)
///     .injector_every(61) // about once a millisecond
///     .park_timeout(Duration::from_secs(1)) // never
///     .build()?;
/// assert_eq!(runtime.stats().workers.len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `build`"]
pub struct Builder {
    current_thread: bool,
    workers: Option<usize>,
    stack_size: Option<usize>,
    force_migrate: Option<bool>,
    pub(super) config: Config,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// A runtime with threads of its own: as many workers as the process may use processors.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().build()?;
    /// assert_eq!(runtime.run(|| 6 * 7), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new() -> Builder {
        Builder {
            current_thread: false,
            workers: None,
            stack_size: None,
            force_migrate: None,
            config: Config {
                workers: 1,
                processors: 1,
                stack_size: StackSize::DEFAULT,
                migrate: Migrate::default(),
                placement: Placement::default(),
                injector_every: None,
                stealing: true,
                steal_attempts: STEAL_ATTEMPTS,
                park_timeout: None,
                max_blocking: MAX_BLOCKING,
                stall_period: Some(STALL_PERIOD),
                learn_blocking: true,
                force_migrate: false,
                thread_name: "volt-worker".to_owned(),
                hooks: Hooks::default(),
                stack_age: STACK_AGE,
            },
        }
    }

    /// A runtime without threads: its fibers run on the thread that calls [`Runtime::run`], while it
    /// does. For tests, small tools and embedding.
    ///
    /// A fiber that is left when a `run` returns goes on upon the thread of the next one, or of the shutdown, under
    /// [`Migrate::BeforeStart`] too: where that is another thread, it must not hold [what belongs to one](crate).
    ///
    /// While that thread unwinds from a panic, where a destructor calls `run`, they run on another one: they would be
    /// taken for such as unwind themselves. (Not under [`Migrate::BeforeStart`].)
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new_current_thread().build()?;
    /// let here = std::thread::current().id();
    /// runtime.run(|| assert_eq!(std::thread::current().id(), here));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new_current_thread() -> Builder {
        let mut builder = Builder { current_thread: true, ..Builder::new() };
        builder.config.stall_period = None;
        builder
    }

    /// How many threads run fibers, from 1 to 1,024. A current-thread runtime has one.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(3).build()?;
    /// assert_eq!(runtime.stats().workers.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn workers(mut self, workers: usize) -> Builder {
        self.workers = Some(workers);
        self
    }

    /// The address space of a fiber's stack in bytes, rounded up to a power of two: 256 KiB unless
    /// set (1 MiB with debug assertions), at least 32 KiB (64 KiB), at most 1 GiB. A quarter of it,
    /// at most 64 KiB, is guard, and so is one page below it. Memory is used only where the stack was touched.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(1).stack_size(8 << 20).build()?;
    /// let length = runtime.run(|| std::hint::black_box([0_u8; 1 << 20]).len());
    /// assert_eq!(length, 1 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = Some(bytes);
        self
    }

    /// Names the worker threads: `name-0`, `name-1`, and so on; `volt-worker` unless set. The supervisor's
    /// thread is `name-supervisor`.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(1).thread_name("web").build()?;
    /// let name = runtime.run(|| std::thread::current().name().map(str::to_owned));
    /// assert!(name.unwrap().starts_with("web-"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn thread_name(mut self, name: impl Into<String>) -> Builder {
        self.config.thread_name = name.into();
        self
    }

    /// Runs `hook` on each worker thread before its first fiber, also on those that replace another. Not
    /// on the thread that drives a current-thread runtime, nor on the supervisor's. A panic in it ends
    /// that thread, which then runs no fiber; a supervisor starts another a tenth of a second later.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let started = Arc::new(AtomicU32::new(0));
    /// let theirs = Arc::clone(&started);
    /// let hook = move || _ = theirs.fetch_add(1, Ordering::Relaxed);
    /// let runtime = volt::runtime::Builder::new().workers(2).on_thread_start(hook).build()?;
    /// runtime.run(|| assert_ne!(started.load(Ordering::Relaxed), 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_thread_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Builder {
        self.config.hooks.on_thread_start = Some(Hook::from(Box::new(hook) as Box<_>));
        self
    }

    /// Runs `hook` on each worker thread after its last fiber; see
    /// [`on_thread_start`](Builder::on_thread_start).
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    ///
    /// let stopped = Arc::new(AtomicU32::new(0));
    /// let theirs = Arc::clone(&stopped);
    /// let hook = move || _ = theirs.fetch_add(1, Ordering::Relaxed);
    /// let runtime = volt::runtime::Builder::new().workers(2).on_thread_stop(hook).build()?;
    /// runtime.shutdown(Duration::from_secs(10)).unwrap(); // the threads have left
    /// assert!(stopped.load(Ordering::Relaxed) >= 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_thread_stop(mut self, hook: impl Fn() + Send + Sync + 'static) -> Builder {
        self.config.hooks.on_thread_stop = Some(Hook::from(Box::new(hook) as Box<_>));
        self
    }

    /// Whether fibers that have started may move to other threads: [`Migrate::Anytime`] unless set.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::thread;
    /// use volt::runtime::{Builder, Migrate};
    ///
    /// let runtime = Builder::new().workers(2).migrate(Migrate::BeforeStart).build()?;
    /// runtime.run(|| {
    ///     let before = thread::current().id();
    ///     volt::yield_now();
    ///     assert_eq!(thread::current().id(), before);
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn migrate(mut self, migrate: Migrate) -> Builder {
        self.config.migrate = migrate;
        self
    }

    /// How long an idle stack keeps its memory before it goes back to the system: 2 s unless set. Longer
    /// after a burst while all workers are busy: they spend at most a hundredth of their time on that.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    ///
    /// let age = Duration::from_secs(30);
    /// let runtime = volt::runtime::Builder::new().workers(1).stack_age(age).build()?;
    /// assert_eq!(runtime.run(|| 6 * 7), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stack_age(mut self, age: Duration) -> Builder {
        self.config.stack_age = age;
        self
    }

    /// Lets every resume of a fiber move it to another worker than the last, so that code breaks early
    /// that cannot stand it. Unless set, `VOLT_FORCE_MIGRATE=1` in the environment says so. Without
    /// effect on a runtime of one worker, and with `Migrate::BeforeStart`.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(2).force_migrate(true).build()?;
    /// let kept = runtime.run(|| {
    ///     let on_the_stack = 7;
    ///     volt::yield_now(); // goes on upon the other worker
    ///     on_the_stack
    /// });
    /// assert_eq!(kept, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn force_migrate(mut self, force: bool) -> Builder {
        self.force_migrate = Some(force);
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a setting out of its bounds, with the bounds; what the system says where
    /// it refuses a thread, a descriptor (with what it was to be, and the limit that was met) or the overflow handler.
    ///
    /// ```
    /// let error = volt::runtime::Builder::new().workers(0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "0 workers: a runtime has from 1 to 1024");
    /// ```
    pub fn build(self) -> io::Result<Runtime> {
        let mut config = self.config;
        config.processors = processors();
        config.workers = match (self.current_thread, self.workers) {
            (true, None | Some(1)) => 1,
            (true, Some(n)) => {
                let message = format!("{n} workers: a current-thread runtime has exactly 1");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            (false, None) => config.processors.min(MAX_WORKERS),
            (false, Some(n)) => check_workers(n)?,
        };
        if let Some(bytes) = self.stack_size {
            config.stack_size = StackSize::new(bytes)?;
        }
        check(&config)?;
        if self.current_thread || cfg!(debug_assertions) {
            config.hooks.on_deadlock.get_or_insert_with(|| DeadlockHook::from(report_once()));
        }
        config.force_migrate = self.force_migrate.unwrap_or_else(force_migrate_is_set)
            && config.migrate == Migrate::Anytime
            && config.workers > 1;
        stack::install()?;
        stack::set_describe(super::describe::describe);
        fiber::install_hook();
        primitives::watch_forks();
        let held = if self.current_thread { 0 } else { config.workers };
        let shared = Shared::new(config, held)?;
        if self.current_thread { Runtime::current_thread(shared) } else { Runtime::start(shared) }
    }
}

fn check(config: &Config) -> io::Result<()> {
    let message = match config.stall_period {
        _ if config.max_blocking == 0 => {
            "0 fibers in blocking mode: at least 1, or blocking could never return".to_owned()
        }
        _ if config.thread_name.contains('\0') => {
            format!("a thread name with a NUL in it: {:?}", config.thread_name)
        }
        Some(period) if period < SHORTEST_STALL_PERIOD => {
            format!("a stall period of {period:?}: at least {SHORTEST_STALL_PERIOD:?}, or None")
        }
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Writes the first deadlock to stderr.
fn report_once() -> Box<dyn Fn(&Deadlock) + Send + Sync> {
    let told = AtomicBool::new(false);
    Box::new(move |deadlock| {
        if !told.swap(true, Ordering::Relaxed) {
            // Where stderr is gone there is nobody to tell.
            let _ = writeln!(io::stderr(), "volt: {deadlock}");
        }
    })
}

fn force_migrate_is_set() -> bool {
    std::env::var_os("VOLT_FORCE_MIGRATE").is_some_and(|on| on == "1")
}

fn check_workers(n: usize) -> io::Result<usize> {
    if (1..=MAX_WORKERS).contains(&n) {
        return Ok(n);
    }
    let message = format!("{n} workers: a runtime has from 1 to {MAX_WORKERS}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// What the process may use: affinity and cgroup quotas are the standard library's business.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}
