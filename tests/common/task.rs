//! A fiber or a plain thread, of which a test sees that it waits.
#![allow(dead_code, reason = "each test file uses a part of it")]

use super::waits::{Announced, until_true, until_waits};
use std::any::Any;
use std::sync::Arc;

pub enum Task<T> {
    Fiber(volt::JoinHandle<T>),
    Thread(std::thread::JoinHandle<T>, Arc<Announced>),
}

impl<T: Send + 'static> Task<T> {
    pub fn fiber(f: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        Task::Fiber(volt::go(f))
    }

    pub fn thread(f: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        let announced = Arc::new(Announced::default());
        let theirs = Arc::clone(&announced);
        let begin = move || {
            theirs.announce();
            f()
        };
        Task::Thread(std::thread::spawn(begin), announced)
    }
}

impl<T> Task<T> {
    pub fn result(self) -> Result<T, Box<dyn Any + Send>> {
        match self {
            Task::Fiber(fiber) => fiber.join(),
            Task::Thread(thread, _) => thread.join(),
        }
    }

    /// Panics as it did.
    #[track_caller]
    pub fn join(self) -> T {
        self.result().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }

    pub fn is_finished(&self) -> bool {
        match self {
            Task::Fiber(fiber) => fiber.is_finished(),
            Task::Thread(thread, _) => thread.is_finished(),
        }
    }

    /// Waits until it is in its wait, a fiber in one for `what`. Fails if it ends before.
    #[track_caller]
    pub fn until_waits(&self, what: &str) {
        match self {
            Task::Fiber(fiber) => until_waits(what, fiber),
            Task::Thread(thread, announced) => until_true(what, || {
                assert!(!thread.is_finished(), "it has ended instead of waiting: {what}");
                announced.sleeps()
            }),
        }
    }
}
