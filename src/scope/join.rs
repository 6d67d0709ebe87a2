//! Two closures side by side.

use super::untaken::drop_untaken;
use crate::cancel::{self, Cancelled, Token};
use crate::thread::{ScopedJoinHandle, scope};
use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a closure ended.
type Ended<T> = Result<T, Box<dyn Any + Send>>;

/// Runs `a` right here and `b` on a fiber beside it, and returns both results. On a plain thread the wait for
/// `b` blocks it.
///
/// # Panics
///
/// If one of them panics the other is cancelled, or does not begin; with that payload, when both have ended.
/// So too if `b` cannot run: with a [`StackError`](crate::StackError) where there is no stack for it.
///
/// # Cancel
///
/// A cancel of the caller cancels both, and [unwinds](crate::cancel) when both have ended.
///
/// ```
/// let numbers = [1, 2, 3, 4];
/// let (left, right) = numbers.split_at(2);
/// let sums = volt::join(|| left.iter().sum::<i32>(), || right.iter().sum::<i32>());
/// assert_eq!(sums, (3, 7));
/// ```
pub fn join<A, B>(a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B)
where
    B: Send,
{
    enum Never {}
    match try_join(|| Ok::<A, Never>(a()), || Ok(b())) {
        Ok(both) => both,
        Err(never) => match never {},
    }
}

/// As [`join`], for closures that can fail: the first failure cancels the other, or keeps it from beginning.
///
/// # Errors
///
/// The first one. What the other has returned is dropped.
///
/// # Panics
///
/// As [`join`].
///
/// # Cancel
///
/// As [`join`].
///
/// ```
/// let result = volt::scope::try_join(|| Err::<(), _>("no"), || Ok(volt::thread::park()));
/// assert_eq!(result, Err("no"));
/// ```
pub fn try_join<A, B, E>(
    a: impl FnOnce() -> Result<A, E>,
    b: impl FnOnce() -> Result<B, E> + Send,
) -> Result<(A, B), E>
where
    B: Send,
    E: Send,
{
    let token = Token::new();
    scope(|scope| {
        let there = scope.spawn(or_cancel(&token, || {
            let ended = unless_over(&token, b);
            if !matches!(ended, Ok(Ok(_))) {
                token.cancel();
            }
            ended
        }));
        match catch_unwind(AssertUnwindSafe(|| token.run(a))) {
            Ok(Ok(Ok(here))) => match unwrap(there) {
                Ok(there) => Ok((here, there)),
                Err(error) => {
                    drop_untaken(here);
                    Err(error)
                }
            },
            Ok(Ok(Err(error))) => {
                let was_second = token.is_cancelled();
                is_over(&token, &there);
                // A later failure of the other, as it ends, is not heard any more; but a panic is.
                match flatten(there) {
                    Err(payload) if !payload.is::<Cancelled>() => cancel::resume(payload),
                    Ok(Err(first)) if was_second => Err(first),
                    late => {
                        drop_untaken(late);
                        Err(error)
                    }
                }
            }
            Ok(Err(Cancelled)) => match unwrap(there) {
                Ok(_) => unreachable!("the other has failed, or this one had not been cut off"),
                Err(error) => Err(error),
            },
            Err(payload) => {
                let was_second = token.is_cancelled() && !payload.is::<Cancelled>();
                is_over(&token, &there);
                match flatten(there) {
                    Err(first) if was_second && !first.is::<Cancelled>() => cancel::resume(first),
                    _ => cancel::resume(payload),
                }
            }
        }
    })
}

/// Runs `a` right here and `b` on a fiber beside it; the first to end gives the result, and the other
/// is cancelled. Returns when both have ended. If `b` has ended by the time that `a` returns, `b` was first;
/// if it has not begun by then, it never does.
/// On a plain thread the wait for `b` blocks it.
///
/// # Panics
///
/// With the payload of the first to end, if that panics. A later panic of the other is printed, and
/// goes no further.
///
/// If `b` cannot run `a` is cut off: with a [`StackError`](crate::StackError) where there is no stack for it, unless
/// `a` returns all the same.
///
/// # Cancel
///
/// As [`join`].
///
/// ```
/// use std::time::Duration;
///
/// let words = ["slow".to_owned(), "fast".to_owned()];
/// let first = volt::race(
///     || {
///         volt::sleep(Duration::MAX);
///         &words[0]
///     },
///     || &words[1],
/// );
/// assert_eq!(first, "fast");
/// ```
pub fn race<T: Send>(a: impl FnOnce() -> T, b: impl FnOnce() -> T + Send) -> T {
    let token = Token::new();
    scope(|scope| {
        let there = scope.spawn(or_cancel(&token, || {
            let ended = unless_over(&token, b);
            token.cancel();
            ended
        }));
        let here = match catch_unwind(AssertUnwindSafe(|| token.run(a))) {
            Ok(Err(Cancelled)) => return unwrap(there),
            Ok(Ok(value)) => Ok(value),
            Err(payload) => Err(payload),
        };
        // Who does not wait is not cut off; a cancel of the caller's own ends both.
        let is_cancel = here.as_ref().is_err_and(|payload| payload.is::<Cancelled>());
        if token.is_cancelled() && !is_cancel {
            // If the other could not run, it has not ended before.
            let ended = match there.join() {
                Ok(first) => {
                    drop_untaken(here);
                    first
                }
                Err(error) => here.or(Err(error)),
            };
            return ended.unwrap_or_else(|payload| cancel::resume(payload));
        }
        is_over(&token, &there);
        drop_untaken(there.join());
        here.unwrap_or_else(|payload| cancel::resume(payload))
    })
}

/// `f`, which cancels `token` if it is dropped instead of run, because there is no stack for it, say: the others
/// do not wait for that then.
pub(super) fn or_cancel<'a, R>(
    token: &'a Token,
    f: impl FnOnce() -> R + Send + 'a,
) -> impl FnOnce() -> R + Send + 'a {
    let not_run = Cancels(token);
    move || {
        mem::forget(not_run);
        f()
    }
}

/// Cancels its token when it is dropped.
struct Cancels<'a>(&'a Token);

impl Drop for Cancels<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs what stands beside, unless its end does not count any more.
fn unless_over<T>(token: &Token, b: impl FnOnce() -> T) -> Ended<T> {
    // What it holds is dropped inside too.
    let run = || if token.is_cancelled() { None } else { Some(b()) };
    catch_unwind(AssertUnwindSafe(run))?.ok_or_else(|| Box::new(Cancelled) as _)
}

/// The end of `there` does not count any more. It does not begin, or its waits end.
fn is_over<T>(token: &Token, there: &ScopedJoinHandle<'_, T>) {
    token.cancel();
    there.cancel();
}

fn flatten<T>(there: ScopedJoinHandle<'_, Ended<T>>) -> Ended<T> {
    there.join().and_then(|ended| ended)
}

fn unwrap<T>(there: ScopedJoinHandle<'_, Ended<T>>) -> T {
    flatten(there).unwrap_or_else(|payload| cancel::resume(payload))
}
