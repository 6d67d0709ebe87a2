//! The results of a set's fibers, on their way to its owner.
//!
//! # Order
//!
//! A fiber puts its result under the lock of `ended`, tells those who wait, and then, if it has failed and the
//! set fails fast, cancels the token. So nobody who is cancelled because of a failure comes before it. And
//! nobody is left behind: who waits looks a last time under the lock of `waiters`, and is linked under it,
//! and a fiber takes that lock after it has put its result.
//!
//! The lock of `waiters` comes before that of `ended`; who puts a result has one at a time.

use super::park::{self, Outcome, Wait};
use super::untaken::drop_untaken;
use crate::cancel::Token;
use crate::fiber::{WaiterPtr, Waiters};
use crate::primitives::sync::{Arc, Mutex};
use std::collections::VecDeque;
use std::thread::Result;

/// See the module. Each with the number of its fiber.
pub(super) struct Results<T> {
    ended: Mutex<VecDeque<(usize, Result<T>)>>,
    waiters: Waiters,
}

impl<T> Results<T> {
    pub(super) fn new() -> Results<T> {
        Results { ended: Mutex::default(), waiters: Waiters::default() }
    }

    fn put(&self, number: usize, result: Result<T>) {
        self.ended.lock().push_back((number, result));
        self.waiters.settle_all().into_iter().for_each(park::wake);
    }

    pub(super) fn take(&self) -> Option<(usize, Result<T>)> {
        self.ended.lock().pop_front()
    }

    /// Is there one to take?
    pub(super) fn is_ready(&self) -> bool {
        !self.ended.lock().is_empty()
    }

    /// Waits until there is one to take.
    pub(super) fn wait(&self, wait: Wait) -> Outcome {
        park::wait_until(&self.waiters, wait, || self.is_ready())
    }

    /// Links one who waits for a result, unless there is one; unlinked by its owner.
    pub(super) fn link(&self, waiter: WaiterPtr, outcome: u32) -> bool {
        self.waiters.link_as(waiter, outcome, || self.is_ready())
    }

    pub(super) fn unlink(&self, waiter: WaiterPtr, outcome: u32) {
        self.waiters.unlink_as(waiter, outcome);
    }
}

impl<T> Drop for Results<T> {
    fn drop(&mut self) {
        while let Some((_, result)) = self.take() {
            drop_untaken(result);
        }
    }
}

/// A fiber's way to say how it ended, if it never ran too.
pub(super) struct Report<T> {
    results: Arc<Results<T>>,
    number: usize,
    result: Option<Result<T>>,
    /// The set's: this fiber runs under it.
    token: Token,
    /// It is cancelled when this fiber ends.
    cancels: bool,
}

impl<T> Report<T> {
    /// For the fiber `number`, which runs under `token`. An end that is a failure cancels that if
    /// `fails_fast` says so.
    pub(super) fn new(
        results: &Arc<Results<T>>,
        number: usize,
        token: &Token,
        fails_fast: bool,
    ) -> Report<T> {
        Report {
            results: Arc::clone(results),
            number,
            result: None,
            token: token.clone(),
            cancels: fails_fast,
        }
    }

    pub(super) fn token(&self) -> &Token {
        &self.token
    }

    pub(super) fn ends(mut self, result: Result<T>, failed: bool) {
        self.result = Some(result);
        self.cancels &= failed;
    }
}

impl<T> Drop for Report<T> {
    fn drop(&mut self) {
        let not_run = || Err(Box::new("the fiber could not run, or not any more") as Box<_>);
        let result = self.result.take().unwrap_or_else(not_run);
        self.results.put(self.number, result);
        if self.cancels {
            self.token.cancel();
        }
    }
}

#[cfg(all(test, loom))]
#[path = "results_models.rs"]
mod models;
