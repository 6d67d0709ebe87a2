//! The settings of one scheduler.

use super::hooks::Hooks;
use crate::stack::StackSize;
use std::fmt;
use std::time::Duration;

/// Whether a fiber that has started may go on upon another worker.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Migrate {
    /// At any wait: the best balance, and the contract of [the crate's docs](crate) applies.
    #[default]
    Anytime,
    /// Only before it first runs: afterwards it stays on its thread, so thread-locals stay its own. (In a
    /// current-thread runtime that is the thread which drives it: a fiber that outlives a `run` goes on upon that of
    /// the next one, or of the shutdown.)
    ///
    /// Whoever blocks the thread holds up all that have started there. A destructor that waits while
    /// its fiber unwinds (from a panic, or since it was cancelled) does: it must not wait for a fiber
    /// of the same thread, such as the owner of a lock.
    BeforeStart,
}

/// Where a fiber goes that a plain thread, or a fiber of another runtime, spawns or wakes.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use volt::runtime::{Builder, Placement};
///
/// let runtime = Builder::new().workers(2).placement(Placement::LeastLoaded).build()?;
/// assert_eq!(runtime.go(|| 6 * 7).join().unwrap(), 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The queue that all workers share: the first to look takes it.
    #[default]
    Injector,
    /// The mailbox of the less loaded of two workers picked at random.
    TwoChoices,
    /// The mailbox of the least loaded worker.
    LeastLoaded,
}

/// The settings of one scheduler, checked by `runtime`.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) workers: usize,
    /// That the process may use.
    pub(crate) processors: usize,
    pub(crate) stack_size: StackSize,
    pub(crate) migrate: Migrate,
    pub(crate) placement: Placement,
    /// Dispatches between two looks at the injector; `None` keeps them near one a millisecond, with early ones
    /// between (`tick.rs`).
    pub(crate) injector_every: Option<u32>,
    pub(crate) stealing: bool,
    /// Victims that a searcher looks at before it gives up.
    pub(crate) steal_attempts: u32,
    /// The longest sleep of a worker.
    pub(crate) park_timeout: Option<Duration>,
    /// Fibers that may be in blocking mode at the same time.
    pub(crate) max_blocking: usize,
    /// After how long without a dispatch a worker counts as stalled; `None` for no supervisor.
    pub(crate) stall_period: Option<Duration>,
    pub(crate) learn_blocking: bool,
    /// Every resume moves to another worker: to find what breaks when fibers migrate.
    pub(crate) force_migrate: bool,
    pub(crate) thread_name: String,
    pub(crate) hooks: Hooks,
    /// How long an idle stack keeps its memory.
    pub(crate) stack_age: Duration,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("workers", &self.workers)
            .field("stack_size", &self.stack_size)
            .field("migrate", &self.migrate)
            .finish_non_exhaustive()
    }
}
