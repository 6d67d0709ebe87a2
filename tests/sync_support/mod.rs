//! Scenarios that run on fibers, on plain threads, and across the two.
#![allow(dead_code, reason = "each test file uses a part of it")]

#[path = "../common/mod.rs"]
pub mod common;

#[allow(unused_imports, reason = "as above")]
pub use common::{LONG, Rng, Seed, task::Task, until, waits::until_waits, within};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Who takes part in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Fibers,
    Threads,
    /// Fibers and threads in turn.
    Both,
}

/// Starts the parts of a scenario.
pub struct World {
    pub who: Who,
    started: AtomicUsize,
}

impl World {
    pub fn go<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        let odd = self.started.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        match self.who {
            Who::Fibers => Task::fiber(f),
            Who::Both if !odd => Task::fiber(f),
            _ => Task::thread(f),
        }
    }
}

/// Runs a scenario: on a fiber if all are fibers, else on a plain thread.
pub fn run(who: Who, scenario: fn(&World)) {
    within(LONG, move || {
        let world = World { who, started: AtomicUsize::new(0) };
        match who {
            Who::Fibers => volt::run(move || scenario(&world)),
            Who::Threads | Who::Both => scenario(&world),
        }
    });
}

/// Three tests of each scenario.
#[macro_export]
macro_rules! scenarios {
    ($($name:ident)*) => {
        mod fibers {
            $(#[test] fn $name() { $crate::sync_support::run($crate::sync_support::Who::Fibers, super::$name) })*
        }
        mod threads {
            $(#[test] fn $name() { $crate::sync_support::run($crate::sync_support::Who::Threads, super::$name) })*
        }
        mod both {
            $(#[test] fn $name() { $crate::sync_support::run($crate::sync_support::Who::Both, super::$name) })*
        }
    };
}

/// Waits until each of `tasks` is in its wait, a fiber in one for `what`. Fails if one ends before.
#[track_caller]
pub fn until_waiting<'a, T: 'a>(what: &str, tasks: impl IntoIterator<Item = &'a Task<T>>) {
    tasks.into_iter().for_each(|task| task.until_waits(what));
}

/// A payload that does not go through the panic hook.
pub fn fail() -> ! {
    std::panic::resume_unwind(Box::new("planned"))
}
