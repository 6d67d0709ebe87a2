//! `join!` and `race!`: any number of closures side by side, which may borrow. What the macros call stands
//! here; they themselves evaluate the closures, name the handles, and make the tuple.

use super::first::First;
use super::join::or_cancel;
use crate::cancel;
use crate::thread::{Scope, ScopedJoinHandle};
use std::fmt;

/// Closures that run side by side, of which the first end of a certain kind cancels the others: for `race!`
/// the first, for `join!` the first panic.
#[doc(hidden)]
pub struct Group<T>(First<T>);

/// Of a fiber of a [`Group`].
#[doc(hidden)]
pub struct Lane<'scope, T>(ScopedJoinHandle<'scope, Option<T>>);

/// For `join!`, which has results of its own.
#[doc(hidden)]
#[derive(Debug)]
pub enum Nothing {}

impl<T: Send> Group<T> {
    #[allow(clippy::new_without_default, reason = "for the macros")]
    pub fn new() -> Group<T> {
        Group(First::new())
    }

    /// Runs one of those that are joined, right here.
    pub fn join_here<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        self.0.within(f)
    }

    /// Runs one of those that are joined on a fiber.
    #[track_caller]
    pub fn join_beside<'scope, R: Send + 'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        f: impl FnOnce() -> R + Send + 'scope,
    ) -> Lane<'scope, R> {
        Lane(scope.spawn(or_cancel(self.0.token(), move || self.0.within(f))))
    }

    /// The result of a fiber, if it has one.
    pub fn result<R>(&self, lane: Lane<'_, R>) -> Option<R> {
        // An error: it could not run, which has cut off the others.
        lane.0.join().unwrap_or_else(|payload| {
            self.0.end(Err(payload));
            None
        })
    }

    /// Runs one of those that race, right here.
    pub fn race_here(&self, f: impl FnOnce() -> T) {
        if let Some(value) = self.0.within(f) {
            self.0.end(Ok(value));
        }
    }

    /// Runs one of those that race on a fiber.
    #[track_caller]
    pub fn race_beside<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> Lane<'scope, ()>
    where
        T: 'scope,
    {
        let lane = move || {
            self.race_here(f);
            Some(())
        };
        Lane(scope.spawn(or_cancel(self.0.token(), lane)))
    }

    /// Waits for a fiber that races.
    pub fn race_result(&self, lane: Lane<'_, ()>) {
        let _ = self.result(lane);
    }

    /// All have ended: the first end that counted.
    pub fn first(self) -> T {
        self.end().unwrap_or_else(|payload| cancel::resume(payload))
    }

    fn end(self) -> std::thread::Result<T> {
        self.0.into_inner().expect("only the end of one of them cuts off another")
    }
}

impl Group<Nothing> {
    /// As [`first`](Group::first), of those that only count if they panic.
    pub fn panics(self) -> ! {
        let Err(payload) = self.end();
        cancel::resume(payload)
    }
}

impl<T> fmt::Debug for Group<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Group { .. }")
    }
}

impl<T> fmt::Debug for Lane<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Lane { .. }")
    }
}

/// Runs any number of closures side by side, and returns their results as a tuple, when all have ended. The
/// first one runs right here, each other on a fiber; they may borrow. As [`join`](crate::join()), which takes
/// two. On a plain thread the wait for the others blocks it.
///
/// # Panics
///
/// If one of them panics the others are cancelled, or, the first one included, do not begin; with the first payload,
/// when all have ended.
///
/// # Cancel
///
/// A cancel of the caller cancels all, and [unwinds](crate::cancel) when all have ended.
///
/// ```
/// let words = ["one".to_owned(), "three".to_owned()];
/// let (short, long, both) = volt::join!(
///     || words[0].len(),
///     || words[1].len(),
///     || words.concat(),
/// );
/// assert_eq!((short, long, both.as_str()), (3, 5, "onethree"));
/// ```
#[macro_export]
macro_rules! join {
    ($($closure:expr),+ $(,)?) => {
        $crate::__several_internal!(@bind join [] $(($closure))+)
    };
}

/// Runs any number of closures side by side; the first to end gives the result, and the others are cancelled, or, the
/// first one included, never begin. Returns when all have ended. The first one runs right here, each other on a fiber;
/// they may borrow. As [`race`](crate::race()), which takes two. On a plain thread the wait for the others blocks it.
///
/// # Panics
///
/// With the payload of the first to end, if that panics. A later panic of another is printed, and goes no
/// further.
///
/// # Cancel
///
/// As [`join!`](crate::join!).
///
/// ```
/// use std::time::Duration;
///
/// let words = ["slow".to_owned(), "fast".to_owned()];
/// let first = volt::race!(
///     || { volt::sleep(Duration::MAX); "never" },
///     || { volt::sleep(Duration::from_secs(60)); words[0].as_str() },
///     || words[1].as_str(),
/// );
/// assert_eq!(first, "fast");
/// ```
#[macro_export]
macro_rules! race {
    ($($closure:expr),+ $(,)?) => {
        $crate::__several_internal!(@bind race [] $(($closure))+)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __several_internal {
    // The closures are evaluated in order. All have the same name, each of a step of its own.
    (@bind $how:ident [$($bound:ident)*] ($closure:expr) $($rest:tt)*) => {
        match $closure {
            closure => $crate::__several_internal!(@bind $how [$($bound)* closure] $($rest)*),
        }
    };
    (@bind join [$first:ident $($other:ident)*]) => {{
        let group = $crate::scope::internal::Group::<$crate::scope::internal::Nothing>::new();
        let results = $crate::scope::scope(|scope| {
            $crate::__several_internal!(@join group scope $first [] $($other)*)
        });
        match results {
            ::core::option::Option::Some(results) => results,
            ::core::option::Option::None => group.panics(),
        }
    }};
    (@bind race [$first:ident $($other:ident)*]) => {{
        let group = $crate::scope::internal::Group::new();
        $crate::scope::scope(|scope| {
            $crate::__several_internal!(@race group scope $first [] $($other)*)
        });
        group.first()
    }};

    (@join $group:ident $scope:ident $first:ident [$($lane:ident)*] $other:ident $($rest:ident)*) => {{
        let lane = $group.join_beside($scope, $other);
        $crate::__several_internal!(@join $group $scope $first [$($lane)* lane] $($rest)*)
    }};
    (@join $group:ident $scope:ident $first:ident [$($lane:ident)*]) => {{
        let first = $group.join_here($first);
        $crate::__several_internal!(@results $group [first] $($lane)*)
    }};
    (@results $group:ident [$($result:ident)*] $lane:ident $($rest:ident)*) => {{
        let result = $group.result($lane);
        $crate::__several_internal!(@results $group [$($result)* result] $($rest)*)
    }};
    (@results $group:ident [$($result:ident)*]) => {
        match ($($result,)*) {
            ($(::core::option::Option::Some($result),)*) => {
                ::core::option::Option::Some(($($result,)*))
            }
            _ => ::core::option::Option::None,
        }
    };

    (@race $group:ident $scope:ident $first:ident [$($lane:ident)*] $other:ident $($rest:ident)*) => {{
        let lane = $group.race_beside($scope, $other);
        $crate::__several_internal!(@race $group $scope $first [$($lane)* lane] $($rest)*)
    }};
    (@race $group:ident $scope:ident $first:ident [$($lane:ident)*]) => {{
        $group.race_here($first);
        $($group.race_result($lane);)*
    }};
}
