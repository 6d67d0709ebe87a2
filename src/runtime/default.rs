//! The default runtime: started by the first use from a plain thread, never stopped.

use super::builder::Builder;
use super::join::JoinHandle;
use super::runtime::Runtime;
use crate::fiber;
use crate::primitives::sync::{Mutex, OnceLock};
use crate::scheduler::{Shared, SpawnOptions, Target};
use std::io;

/// The runtime of calls from plain threads.
///
/// # Panics
///
/// If it cannot start: `VOLT_WORKERS` or `VOLT_STACK_SIZE` is no valid setting, or the system
/// refuses threads.
pub(super) fn default_runtime() -> &'static Runtime {
    static DEFAULT: OnceLock<Runtime> = OnceLock::new();
    static STARTS: Mutex<()> = Mutex::new(());
    // By whoever may, if the one who built it was panicking. Before the lock: it waits for hooks that are running,
    // which may come here.
    fiber::install_hook();
    if let Some(runtime) = DEFAULT.get() {
        return runtime;
    }
    let starts = STARTS.lock();
    if let Some(runtime) = DEFAULT.get() {
        return runtime;
    }
    let built = from_environment().and_then(Builder::build);
    let runtime = built.map(|runtime| DEFAULT.get_or_init(|| runtime));
    // The hook of the panic may come here too.
    drop(starts);
    runtime.unwrap_or_else(|error| panic!("the default runtime cannot start: {error}"))
}

fn from_environment() -> io::Result<Builder> {
    let mut builder = Builder::new();
    if let Some(workers) = number("VOLT_WORKERS")? {
        builder = builder.workers(workers);
    }
    if let Some(bytes) = number("VOLT_STACK_SIZE")? {
        builder = builder.stack_size(bytes);
    }
    Ok(builder)
}

fn number(name: &str) -> io::Result<Option<usize>> {
    let Some(value) = std::env::var_os(name) else { return Ok(None) };
    let parsed = value.to_str().and_then(|value| value.trim().parse().ok());
    parsed.map(Some).ok_or_else(|| {
        let message = format!("{name}={value:?} is not a whole number");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })
}

/// Spawns on the scheduler that the caller is on, or on the default runtime.
///
/// # Safety
///
/// What `f` and its result borrow must outlive the fiber and its result.
#[inline]
pub(crate) unsafe fn spawn_current<F, T>(options: SpawnOptions, f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    // SAFETY: passed on.
    unsafe { JoinHandle::spawn(Target::HereOr(default_scheduler), options, f) }
}

fn default_scheduler() -> &'static Shared {
    &default_runtime().handle().0
}
