//! `select!`: the cases are read one by one (`@read`), each handle is bound to a name (`@bind`), and
//! the chosen case's code is looked up by its number (`@run`).
//!
//! The names that `@bind` gives are all `handle`: each step of the macro has names of its own, so
//! they do not meet, nor can a body see them.

/// What the macros call; for them only.
#[doc(hidden)]
pub mod internal {
    use super::super::engine::{self, Choice, Patience};
    use super::super::error::RecvError;
    use super::super::parcel::Parcel;
    use super::super::receiver::Receiver;
    use super::super::selected::SelectedOperation;
    use std::mem;
    use std::time::Duration;

    pub use super::super::case::{Selectable, Source};
    pub use super::super::engine::Listed;

    /// Finds the case behind references and smart pointers, by the rules of method calls.
    pub trait AsCase: Selectable {
        fn __as_case(&self) -> &Self {
            self
        }
    }

    impl<C: Selectable> AsCase for C {}

    /// What a select chose, with the message of a receive where it was put: a
    /// [`SelectedOperation`] that stays in its place. Nothing waits for its end, so that a body may move the handles.
    #[derive(Debug)]
    pub struct Chosen<'a> {
        choice: Option<Choice<'a>>,
        parcel: Forgetful,
    }

    /// A message in it that nobody takes is left to nobody: what it borrows may be gone by then.
    #[derive(Debug)]
    struct Forgetful(Parcel);

    impl Drop for Forgetful {
        #[inline]
        fn drop(&mut self) {
            self.0.forget();
        }
    }

    impl<'a> Chosen<'a> {
        /// Nothing yet.
        #[inline]
        #[allow(clippy::new_without_default, reason = "nobody has a use for one")]
        pub fn new() -> Chosen<'a> {
            Chosen { choice: None, parcel: Forgetful(Parcel::new()) }
        }

        /// Waits as long as it takes.
        pub fn wait(&mut self, cases: &mut [Listed<'a>], biased: bool) {
            self.select(cases, Patience::Until(None), biased);
        }

        /// Does not wait.
        pub fn poll(&mut self, cases: &mut [Listed<'a>], biased: bool) {
            self.select(cases, Patience::None, biased);
        }

        /// Waits for `timeout` at most.
        pub fn wait_for(&mut self, cases: &mut [Listed<'a>], biased: bool, timeout: Duration) {
            self.select(cases, Patience::lasting(timeout), biased);
        }

        #[inline]
        fn select(&mut self, cases: &mut [Listed<'a>], patience: Patience, biased: bool) {
            // What was received for one choice is not another's.
            let completed = self.choice.is_none() && self.parcel.0.is_empty();
            assert!(completed, "the last choice was not completed");
            self.choice = engine::select(cases, patience, biased, &mut self.parcel.0);
        }

        /// The number of the case that was chosen; one that no case has, if none was.
        #[inline]
        pub fn number(&self) -> usize {
            self.choice.map_or(usize::MAX, |choice| choice.case.index)
        }

        #[track_caller]
        fn take(&mut self) -> Choice<'a> {
            self.choice.take().expect("a case has the number only if it was chosen")
        }

        /// Completes a receive.
        #[inline]
        #[track_caller]
        pub fn recv<T>(&mut self, r: &Receiver<T>) -> Result<T, RecvError> {
            self.take().check(r.identity(), "receiver");
            // SAFETY: it was filled by this receiver, so with its type.
            let message = unsafe { self.parcel.0.take() };
            // The case's body may take long.
            self.parcel.0.free_room();
            message.ok_or(RecvError)
        }

        #[cfg(test)]
        pub(super) fn has_room(&self) -> bool {
            self.parcel.0.has_room()
        }

        /// To be completed; withdrawn if it is not.
        #[track_caller]
        pub fn operation(&mut self) -> SelectedOperation<'a> {
            SelectedOperation::new(self.take(), mem::replace(&mut self.parcel.0, Parcel::new()))
        }
    }
}

/// Waits for several operations and carries out the one that is ready first; of several, a random
/// one.
///
/// | case | it is ready when |
/// |---|---|
/// | `recv(r) -> message => body` | there is a message, or all senders are gone |
/// | `send(s, value) -> result => body` | there is room, or all receivers are gone |
/// | `wait(case) -> output => body` | the [case](crate::channel::Selectable) is: a fiber's end, a cancel, a time, a socket, ... |
/// | `default => body` | no other is, now |
/// | `default(timeout) => body` | no other has been for that long |
///
/// The syntax is `crossbeam-channel`'s, `wait` apart. Handles are given by value or by reference, by
/// any expression; all are evaluated first. The value of a `send` is evaluated when it has been chosen:
/// its room, or the receiver of a rendezvous, is kept for it meanwhile, and given back if the expression
/// unwinds. A body is a block, or an expression and a comma. The bodies have one type, which is the
/// macro's.
///
/// A fiber that is cancelled unwinds if it has to wait; no operation has taken effect then. On a plain thread
/// the wait blocks the thread.
///
/// ```
/// use std::time::Duration;
/// use volt::channel::{bounded, select, unbounded};
///
/// let (s1, r1) = unbounded();
/// let (s2, r2) = bounded(1);
/// s1.send(10).unwrap();
///
/// // Both are ready: one of them is carried out.
/// select! {
///     recv(r1) -> message => assert_eq!(message, Ok(10)),
///     send(s2, 20) -> result => {
///         assert_eq!(result, Ok(()));
///         assert_eq!(r2.recv(), Ok(20));
///     }
/// }
///
/// let (_s, nothing) = unbounded::<u8>();
/// let waited = select! {
///     recv(nothing) -> _ => false,
///     default(Duration::from_millis(1)) => true,
/// };
/// assert!(waited);
/// ```
#[macro_export]
macro_rules! select {
    ($($tokens:tt)*) => {
        $crate::__select_internal!(@read false [] [] $($tokens)*)
    };
}

/// As [`select!`](crate::select), but of several operations that are ready the first one is carried
/// out. A cancel and a plain thread mean the same to it.
///
/// ```
/// use volt::channel::{select_biased, unbounded};
///
/// let ((s1, r1), (s2, r2)) = (unbounded(), unbounded());
/// s1.send(1).unwrap();
/// s2.send(2).unwrap();
/// let first = select_biased! {
///     recv(r1) -> message => message,
///     recv(r2) -> message => message,
/// };
/// assert_eq!(first, Ok(1));
/// ```
#[macro_export]
macro_rules! select_biased {
    ($($tokens:tt)*) => {
        $crate::__select_internal!(@read true [] [] $($tokens)*)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __select_internal {
    // ---- @read biased [cases] [default] tokens ----
    (@read $biased:tt [] []) => {
        $crate::__select_internal!(@error "empty `select!` block")
    };
    (@read $biased:tt [$($cases:tt)*] $default:tt) => {
        $crate::__select_internal!(@bind $biased $default [] (0) $($cases)*)
    };
    (@read $biased:tt $cases:tt $default:tt recv($r:expr $(,)?) -> $p:pat => $($rest:tt)*) => {
        $crate::__select_internal!(@body $biased $cases $default (recv ($r) () ($p)) $($rest)*)
    };
    (@read $biased:tt $cases:tt $default:tt send($s:expr, $m:expr $(,)?) -> $p:pat => $($rest:tt)*) => {
        $crate::__select_internal!(@body $biased $cases $default (send ($s) ($m) ($p)) $($rest)*)
    };
    (@read $biased:tt $cases:tt $default:tt wait($c:expr $(,)?) -> $p:pat => $($rest:tt)*) => {
        $crate::__select_internal!(@body $biased $cases $default (wait ($c) () ($p)) $($rest)*)
    };
    (@read $biased:tt $cases:tt [] default $(())? => $($rest:tt)*) => {
        $crate::__select_internal!(@body $biased $cases [] (default ()) $($rest)*)
    };
    (@read $biased:tt $cases:tt [] default($t:expr $(,)?) => $($rest:tt)*) => {
        $crate::__select_internal!(@body $biased $cases [] (default ($t)) $($rest)*)
    };
    (@read $biased:tt $cases:tt [$($first:tt)+] default $($rest:tt)*) => {
        $crate::__select_internal!(@error "there can be only one `default` case in a `select!` block")
    };
    (@read $biased:tt $cases:tt $default:tt $($rest:tt)*) => {
        $crate::__select_internal!(@error concat!(
            "expected `recv(r) -> pattern => body`, `send(s, value) -> pattern => body`, ",
            "`wait(case) -> pattern => body`, `default => body` or `default(timeout) => body`, ",
            "each body a block or followed by a comma; found: ",
            stringify!($($rest)*)
        ))
    };

    // ---- @body biased [cases] [default] head tokens: splits the body off ----
    (@body $biased:tt $cases:tt $default:tt $head:tt $body:block, $($rest:tt)*) => {
        $crate::__select_internal!(@add $biased $cases $default $head ($body) $($rest)*)
    };
    (@body $biased:tt $cases:tt $default:tt $head:tt $body:expr, $($rest:tt)*) => {
        $crate::__select_internal!(@add $biased $cases $default $head ($body) $($rest)*)
    };
    (@body $biased:tt $cases:tt $default:tt $head:tt $body:expr) => {
        $crate::__select_internal!(@add $biased $cases $default $head ($body))
    };
    (@body $biased:tt $cases:tt $default:tt $head:tt $body:block $($rest:tt)*) => {
        $crate::__select_internal!(@add $biased $cases $default $head ($body) $($rest)*)
    };
    (@body $biased:tt $cases:tt $default:tt $head:tt $($rest:tt)*) => {
        $crate::__select_internal!(@error concat!(
            "expected a block, or an expression and a comma, found: ",
            stringify!($($rest)*)
        ))
    };

    (@add $biased:tt $cases:tt [] (default $timeout:tt) $body:tt $($rest:tt)*) => {
        $crate::__select_internal!(@read $biased $cases [$timeout $body] $($rest)*)
    };
    (@add $biased:tt [$($cases:tt)*] $default:tt ($($head:tt)*) $body:tt $($rest:tt)*) => {
        $crate::__select_internal!(
            @read $biased [$($cases)* ($($head)* $body)] $default $($rest)*
        )
    };

    // ---- @bind biased [default] [bound] (number) cases: evaluates the handles, in order ----
    (
        @bind $biased:tt $default:tt [$($bound:tt)*] $number:tt
        (recv ($r:expr) () $pattern:tt $body:tt) $($rest:tt)*
    ) => {
        match $r {
            ref handle => {
                let handle: &$crate::channel::Receiver<_> = handle;
                $crate::__select_internal!(
                    @bind $biased $default
                    [$($bound)* (recv handle $number () $pattern $body)] ($number + 1) $($rest)*
                )
            }
        }
    };
    (
        @bind $biased:tt $default:tt [$($bound:tt)*] $number:tt
        (send ($s:expr) $message:tt $pattern:tt $body:tt) $($rest:tt)*
    ) => {
        match $s {
            ref handle => {
                let handle: &$crate::channel::Sender<_> = handle;
                $crate::__select_internal!(
                    @bind $biased $default
                    [$($bound)* (send handle $number $message $pattern $body)]
                    ($number + 1) $($rest)*
                )
            }
        }
    };
    (
        @bind $biased:tt $default:tt [$($bound:tt)*] $number:tt
        (wait ($c:expr) () $pattern:tt $body:tt) $($rest:tt)*
    ) => {
        match $c {
            ref handle => {
                use $crate::channel::internal::AsCase as _;
                // What is behind references and pointers, too.
                let handle = handle.__as_case();
                $crate::__select_internal!(
                    @bind $biased $default
                    [$($bound)* (wait handle $number () $pattern $body)]
                    ($number + 1) $($rest)*
                )
            }
        }
    };

    // ---- the choice ----
    (@bind $biased:tt [] $bound:tt $count:tt) => {
        $crate::__select_internal!(
            @choose (wait) ($biased) ({
                ::core::unreachable!("a select without a default ends by a choice")
            }) $bound
        )
    };
    (@bind $biased:tt [() $body:tt] $bound:tt $count:tt) => {
        $crate::__select_internal!(@choose (poll) ($biased) $body $bound)
    };
    (@bind $biased:tt [($timeout:expr) $body:tt] $bound:tt $count:tt) => {
        $crate::__select_internal!(@choose (wait_for) ($biased, $timeout) $body $bound)
    };
    (
        @choose ($how:ident) ($($argument:tt)*) ($default:expr)
        [$(($kind:ident $handle:ident $number:tt $message:tt $pattern:tt $body:tt))*]
    ) => {{
        // Mutable: they are shuffled.
        let mut cases: [$crate::channel::internal::Listed<'_>; 0 $(+ $crate::__select_internal!(@one $kind))*] =
            [$($crate::channel::internal::Listed::new($handle, $number)),*];
        let mut chosen = $crate::channel::internal::Chosen::new();
        chosen.$how(&mut cases, $($argument)*);
        let number = chosen.number();
        $crate::__select_internal!(
            @run chosen number ($default) $(($kind $handle $number $message $pattern $body))*
        )
    }};
    (@one $kind:ident) => { 1 };

    // ---- @run chosen number (default) cases ----
    // Each branch completes the operation before the body, which may move the handles.
    (@run $chosen:ident $number:ident ($default:expr)) => {
        $default
    };
    (
        @run $chosen:ident $number:ident $default:tt
        (recv $handle:ident $case:tt () ($pattern:pat) ($body:expr)) $($rest:tt)*
    ) => {
        if $number == $case {
            let $pattern = $chosen.recv($handle);
            $body
        } else {
            $crate::__select_internal!(@run $chosen $number $default $($rest)*)
        }
    };
    (
        @run $chosen:ident $number:ident $default:tt
        (send $handle:ident $case:tt ($message:expr) ($pattern:pat) ($body:expr)) $($rest:tt)*
    ) => {
        if $number == $case {
            let $pattern = $chosen.operation().send($handle, $message);
            $body
        } else {
            $crate::__select_internal!(@run $chosen $number $default $($rest)*)
        }
    };
    (
        @run $chosen:ident $number:ident $default:tt
        (wait $handle:ident $case:tt () ($pattern:pat) ($body:expr)) $($rest:tt)*
    ) => {
        if $number == $case {
            let $pattern = $chosen.operation().complete($handle);
            $body
        } else {
            $crate::__select_internal!(@run $chosen $number $default $($rest)*)
        }
    };

    (@error $message:expr) => { ::core::compile_error!($message) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::internal::{Chosen, Listed};
    use crate::channel::{Receiver, Sender, bounded};
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn select<'a, T>(chosen: &mut Chosen<'a>, receiver: &'a Receiver<T>) {
        chosen.wait(&mut [Listed::new(receiver, 0)], false);
    }

    /// What the message borrows may be gone by then: a message has no part in the lifetime of what it was chosen from.
    #[test]
    fn a_message_that_nobody_takes_is_forgotten() {
        struct Noted<'a>(&'a Cell<u32>);
        impl Drop for Noted<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let drops = Cell::new(0);
        let (sender, receiver) = bounded(1);
        assert!(sender.send(Noted(&drops)).is_ok());
        let mut chosen = Chosen::new();
        select(&mut chosen, &receiver);
        drop(chosen);
        assert_eq!(drops.get(), 0);
    }

    #[test]
    fn a_choice_is_completed_before_the_next() {
        let two: [(Sender<u8>, Receiver<u8>); 2] = [(); 2].map(|()| bounded(1));
        two.iter().for_each(|(sender, _)| sender.send(1).unwrap());
        let [(_, first), (_, second)] = &two;
        let mut chosen = Chosen::new();
        select(&mut chosen, first);
        assert!(catch_unwind(AssertUnwindSafe(|| select(&mut chosen, second))).is_err());
        assert_eq!(chosen.recv(first), Ok(1));
        select(&mut chosen, second);
        // A send has no message that would be in the way.
        let full = &two[0].0;
        let mut chosen_to_send = Chosen::new();
        chosen_to_send.wait(&mut [Listed::new(full, 0)], false);
        let again = || chosen_to_send.poll(&mut [Listed::new(first, 0)], false);
        assert!(catch_unwind(AssertUnwindSafe(again)).is_err());
        // Not by another's: and then it is nobody's, nor is the message taken for one of the next choice.
        assert!(catch_unwind(AssertUnwindSafe(|| chosen.recv(first))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| select(&mut chosen, second))).is_err());
    }

    /// The body of a case may take long.
    #[test]
    fn room_from_the_allocator_goes_with_the_message() {
        let (sender, receiver) = bounded(1);
        sender.send([7; 1_000]).unwrap();
        let mut chosen = Chosen::new();
        select(&mut chosen, &receiver);
        assert!(chosen.has_room());
        assert_eq!(chosen.recv(&receiver), Ok([7; 1_000]));
        assert!(!chosen.has_room());
    }
}
