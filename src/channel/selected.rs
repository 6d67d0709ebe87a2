//! What a select chose, to be completed.

use super::case::{Identity, Selectable, Source};
use super::engine::Choice;
use super::error::{RecvError, SendError};
use super::parcel::Parcel;
use super::receiver::Receiver;
use super::sender::Sender;
use std::fmt;
use std::thread;

/// An operation that a [`Select`](super::Select) chose, to be completed with the handle that it was chosen for.
///
/// # Panics
///
/// When it is dropped and was not completed, unless the thread is panicking. A message that it has
/// received is forgotten then: only who has the receiver knows that it may be dropped on this thread. A
/// place that it was promised is given back.
///
/// ```
/// use volt::channel::{Select, bounded};
///
/// let (s, r) = bounded(1);
/// let mut select = Select::new();
/// select.send(&s);
/// let operation = select.select();
/// assert_eq!(operation.send(&s, "chosen"), Ok(()));
/// assert_eq!(r.recv(), Ok("chosen"));
/// ```
#[must_use]
pub struct SelectedOperation<'a> {
    choice: Choice<'a>,
    /// The message of a receive that succeeded.
    parcel: Parcel,
    completed: bool,
}

// Nothing of it is left half changed by a panic.
impl std::panic::UnwindSafe for SelectedOperation<'_> {}
impl std::panic::RefUnwindSafe for SelectedOperation<'_> {}

impl<'a> SelectedOperation<'a> {
    pub(super) fn new(choice: Choice<'a>, parcel: Parcel) -> SelectedOperation<'a> {
        SelectedOperation { choice, parcel, completed: false }
    }

    /// The number of the operation in its list.
    ///
    /// ```
    /// use volt::channel::{Select, bounded};
    ///
    /// let (s, r) = bounded(0);
    /// drop(s);
    /// let mut select = Select::new();
    /// let number = select.recv::<u8>(&r);
    /// let operation = select.select();
    /// assert_eq!(operation.index(), number);
    /// assert!(operation.recv(&r).is_err());
    /// ```
    pub fn index(&self) -> usize {
        self.choice.case.index
    }

    /// Completes a send.
    ///
    /// # Errors
    ///
    /// Every receiver is gone; the error holds the message.
    ///
    /// # Panics
    ///
    /// If the operation is not a send by this very reference.
    ///
    /// ```
    /// use volt::channel::{Select, SendError, bounded};
    ///
    /// let (s, r) = bounded(0);
    /// drop(r);
    /// let mut select = Select::new();
    /// select.send(&s);
    /// assert_eq!(select.select().send(&s, 1), Err(SendError(1)));
    /// ```
    #[track_caller]
    pub fn send<T>(self, s: &Sender<T>, msg: T) -> Result<(), SendError<T>> {
        self.check(s.identity(), "sender");
        if self.into_promise(s.identity()) { s.core.keep(msg) } else { Err(SendError(msg)) }
    }

    /// Completes a receive.
    ///
    /// # Errors
    ///
    /// There is no message, and every sender is gone.
    ///
    /// # Panics
    ///
    /// If the operation is not a receive by this very reference.
    ///
    /// ```
    /// use volt::channel::{RecvError, Select, bounded};
    ///
    /// let (s, r) = bounded::<u8>(0);
    /// drop(s);
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert_eq!(select.select().recv(&r), Err(RecvError));
    /// ```
    #[track_caller]
    pub fn recv<T>(mut self, r: &Receiver<T>) -> Result<T, RecvError> {
        self.check(r.identity(), "receiver");
        self.completed = true;
        // SAFETY: it was filled by this receiver, so with its type.
        unsafe { self.parcel.take() }.ok_or(RecvError)
    }

    /// Completes any [case](Selectable).
    ///
    /// # Panics
    ///
    /// If the operation is not by this very reference.
    ///
    /// ```
    /// use volt::channel::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// s.send(1).unwrap();
    /// let mut select = Select::new();
    /// select.case(&r);
    /// assert_eq!(select.select().complete(&r), Ok(1));
    /// ```
    #[track_caller]
    pub fn complete<C: Selectable>(self, case: &'a C) -> C::Output<'a> {
        self.check(case.identity(), "case");
        case.complete(self)
    }

    #[track_caller]
    fn check(&self, identity: Identity, what: &str) {
        self.choice.check(identity, what);
    }

    /// Completes it: was there a promise? It is the caller's from now on.
    #[track_caller]
    pub(crate) fn into_promise(mut self, identity: Identity) -> bool {
        self.check(identity, "case");
        self.completed = true;
        self.choice.promised
    }
}

impl Choice<'_> {
    #[track_caller]
    pub(super) fn check(&self, identity: Identity, what: &str) {
        let selected = self.case.source.identity() == identity;
        assert!(selected, "passed a {what} that wasn't selected");
    }
}

impl fmt::Debug for SelectedOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SelectedOperation { .. }")
    }
}

impl Drop for SelectedOperation<'_> {
    fn drop(&mut self) {
        if self.completed {
            return;
        }
        self.parcel.forget();
        if self.choice.promised {
            self.choice.case.source.withdraw();
        }
        // While unwinding, by a panic or a cancel in the code that makes the message, it is over.
        assert!(
            thread::panicking(),
            "dropped `SelectedOperation` without completing the operation"
        );
    }
}
