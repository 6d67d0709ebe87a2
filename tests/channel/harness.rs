//! Where the two sides of a channel run.

use crate::common::task::Task;
use crate::common::{LONG, within};
use std::time::Duration;

/// Where one side runs.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Fiber,
    Thread,
}

impl Place {
    pub fn go<T: Send + 'static>(self, f: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        match self {
            Place::Fiber => Task::fiber(f),
            Place::Thread => Task::thread(f),
        }
    }
}

/// Runs a scenario on fibers, on threads, and across in both directions; with both runtimes of the
/// default kind and of one worker. The scenario is told where to run each side.
#[track_caller]
pub fn everywhere(scenario: impl Fn(Place, Place) + Send + Sync + Clone + 'static) {
    use Place::{Fiber, Thread};
    for (one, two) in [(Fiber, Fiber), (Thread, Thread), (Fiber, Thread), (Thread, Fiber)] {
        let scenario = scenario.clone();
        within(LONG, move || scenario(one, two));
    }
}

/// Runs `f` on a fiber of one worker, of two, and on a plain thread.
#[track_caller]
pub fn on_each(f: impl Fn() + Send + Sync + Clone + 'static) {
    within(LONG, f.clone());
    for workers in [1, 2] {
        let f = f.clone();
        within(LONG, move || {
            volt::runtime::Builder::new().workers(workers).build().unwrap().run(f);
        });
    }
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
