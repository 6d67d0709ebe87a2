//! Sees fibers and threads wait, so that a test goes on when they do, and not after a while.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};
use volt::JoinHandle;
use volt::runtime::Handle;
use volt::thread::ThreadId;

/// Far beyond what any fiber needs to come to its wait.
const LONG: Duration = Duration::from_secs(30);

/// What a fiber of `runtime` waits for, if it does, and does not block its thread meanwhile.
pub fn wait_of(runtime: &Handle, fiber: ThreadId) -> Option<&'static str> {
    let fibers = runtime.fibers(usize::MAX);
    fibers.into_iter().find(|report| report.id == fiber)?.waits_for
}

/// Waits, on a fiber or a plain thread, until `fiber`, one of the caller's runtime, waits for `what`. Fails
/// if it ends before.
#[track_caller]
pub fn until_waits<T>(what: &str, fiber: &JoinHandle<T>) {
    until_waits_on(&Handle::current(), what, fiber);
}

/// As [`until_waits`], for a fiber of `runtime`.
#[track_caller]
pub fn until_waits_on<T>(runtime: &Handle, what: &str, fiber: &JoinHandle<T>) {
    until_true(what, || {
        assert!(!fiber.is_finished(), "it has ended instead of waiting: {what}");
        wait_of(runtime, fiber.thread().id()) == Some(what)
    });
}

/// Waits, on a fiber or a plain thread, until `condition`, which is a wait for `what`, holds.
#[track_caller]
pub fn until_true(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "nobody waits: {what}");
        // Others need the processor to come there, and each look stops the runtime.
        volt::sleep(Duration::from_micros(100));
    }
}

/// The number of a thread, once it is about to do what blocks it.
#[derive(Default)]
pub struct Announced(AtomicI32);

impl Announced {
    pub fn announce(&self) {
        // SAFETY: takes nothing, and does not fail.
        self.0.store(unsafe { libc::gettid() }, Ordering::Release);
    }

    /// Is the thread asleep in its wait?
    ///
    /// It has announced itself and goes straight to the operation: so if it sleeps, it does so there. It
    /// waits, or wants an inner lock that another holds for some instructions; since that one goes on while
    /// the looker sleeps, who has not been woken from one look to the next is in its wait.
    pub fn sleeps(&self) -> bool {
        let thread = self.0.load(Ordering::Acquire);
        if thread == 0 {
            return false;
        }
        let first = sleeps_counted(thread);
        first.is_some() && {
            std::thread::sleep(Duration::from_micros(200));
            sleeps_counted(thread) == first
        }
    }
}

/// How often the thread has gone to sleep, if it sleeps.
#[cfg(target_os = "linux")]
fn sleeps_counted(thread: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("the kernel does not tell {name}")).trim()
    };
    let count = field("voluntary_ctxt_switches:").parse().unwrap();
    field("State:").starts_with('S').then_some(count)
}

/// Where nobody tells, it has had time to come there.
#[cfg(not(target_os = "linux"))]
fn sleeps_counted(_: i32) -> Option<u64> {
    (0..1_000).for_each(|_| std::thread::yield_now());
    Some(0)
}
