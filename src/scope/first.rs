//! The first end that counts, of closures side by side.
//!
//! # Order
//!
//! The end is written under the lock, and only then is the token cancelled: so whoever is cut off by the
//! token finds the end that did it. Who is late sees so under the same lock. Of a closure that could not run the
//! token hears first, and the end is noted when whoever waits for it learns why.

use super::untaken::drop_untaken;
use crate::cancel::{Cancelled, Token};
use crate::primitives::sync::Mutex;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What a panic carries.
pub(super) type Payload = Box<dyn Any + Send>;

/// See the module.
pub(super) struct First<T> {
    /// Cancelled with the first end that counts.
    token: Token,
    ended: Mutex<Option<Result<T, Payload>>>,
}

impl<T> First<T> {
    pub(super) fn new() -> First<T> {
        First { token: Token::new(), ended: Mutex::new(None) }
    }

    pub(super) fn token(&self) -> &Token {
        &self.token
    }

    /// Notes an end that counts, if it is the first.
    pub(super) fn end(&self, ended: Result<T, Payload>) {
        let late = {
            let mut first = self.ended.lock();
            if first.is_none() {
                *first = Some(ended);
                None
            } else {
                Some(ended)
            }
        };
        match late {
            None => self.token.cancel(),
            Some(late) => drop_untaken(late),
        }
    }

    /// Runs a closure that the first end cuts off: `None` then, or if its panic was noted. Where that has come
    /// already, it does not begin.
    pub(super) fn within<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        // What it holds is dropped inside too.
        let run = || if self.token.is_cancelled() { Err(Cancelled) } else { self.token.run(f) };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(value)) => Some(value),
            Ok(Err(Cancelled)) => None,
            // Of the whole, which unwinds as well.
            Err(payload) if payload.is::<Cancelled>() => resume_unwind(payload),
            Err(payload) => {
                self.end(Err(payload));
                None
            }
        }
    }

    /// All have ended: the first end that counted, if there was one.
    pub(super) fn into_inner(self) -> Option<Result<T, Payload>> {
        self.ended.into_inner()
    }
}

#[cfg(all(test, loom))]
#[path = "first_models.rs"]
mod models;
