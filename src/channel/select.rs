//! Selects over a list that is made while the program runs.

use super::case::{Selectable, Source};
use super::engine::{self, Listed, Patience};
use super::error::{ReadyTimeoutError, SelectTimeoutError, TryReadyError, TrySelectError};
use super::parcel::Parcel;
use super::receiver::Receiver;
use super::selected::SelectedOperation;
use super::sender::Sender;
use crate::time::Instant;
use std::fmt;
use std::time::Duration;

/// A list of operations, of which one is chosen: when the list is not known before the program runs,
/// which [`select!`](macro@crate::channel::select) needs.
///
/// Operations are numbered in the order in which they are added. Of those that are ready a random one
/// is chosen. It must then be completed, by [`SelectedOperation::send`], [`recv`] or [`complete`].
///
/// A wait of a fiber that is cancelled unwinds; no operation has taken effect then. On a plain thread
/// a select blocks the thread.
///
/// [`recv`]: SelectedOperation::recv
/// [`complete`]: SelectedOperation::complete
///
/// ```
/// use volt::channel::{Select, unbounded};
///
/// let channels: Vec<_> = (0..3).map(|_| unbounded()).collect();
/// channels[2].0.send("third").unwrap();
///
/// let mut select = Select::new();
/// for (_, r) in &channels {
///     select.recv(r);
/// }
/// let operation = select.select();
/// assert_eq!(operation.index(), 2);
/// assert_eq!(operation.recv(&channels[2].1), Ok("third"));
/// ```
pub struct Select<'a> {
    cases: Vec<Listed<'a>>,
    next: usize,
    biased: bool,
}

// SAFETY: it has shared references to handles, whose messages it does not touch itself: that is done
// with a handle of the message's type, which is there only if the thread may have it. What it has received
// is moved, and forgotten if no handle takes it.
unsafe impl Send for Select<'_> {}
// SAFETY: as above.
unsafe impl Sync for Select<'_> {}

impl<'a> Select<'a> {
    /// An empty list.
    ///
    /// ```
    /// use volt::channel::Select;
    ///
    /// assert!(Select::new().try_select().is_err());
    /// ```
    pub fn new() -> Select<'a> {
        Select { cases: Vec::new(), next: 0, biased: false }
    }

    /// An empty list, of which the first operation that is ready will be chosen.
    ///
    /// ```
    /// use volt::channel::{Select, unbounded};
    ///
    /// let ((s1, r1), (s2, r2)) = (unbounded(), unbounded());
    /// s1.send(1).unwrap();
    /// s2.send(2).unwrap();
    /// let mut select = Select::new_biased();
    /// select.recv(&r1);
    /// select.recv(&r2);
    /// assert_eq!(select.select().recv(&r1), Ok(1));
    /// ```
    pub fn new_biased() -> Select<'a> {
        Select { biased: true, ..Select::new() }
    }

    fn add(&mut self, source: &'a dyn Source) -> usize {
        let index = self.next;
        self.cases.push(Listed { source, index });
        self.next += 1;
        index
    }

    /// Adds a send and returns its number.
    ///
    /// ```
    /// let (s, _r) = volt::channel::unbounded::<u8>();
    /// assert_eq!(volt::channel::Select::new().send(&s), 0);
    /// ```
    pub fn send<T>(&mut self, s: &'a Sender<T>) -> usize {
        self.add(s)
    }

    /// Adds a receive and returns its number.
    ///
    /// ```
    /// let (_s, r) = volt::channel::unbounded::<u8>();
    /// assert_eq!(volt::channel::Select::new().recv(&r), 0);
    /// ```
    pub fn recv<T>(&mut self, r: &'a Receiver<T>) -> usize {
        self.add(r)
    }

    /// Adds any [case](Selectable) and returns its number.
    ///
    /// ```
    /// use std::time::Duration;
    /// use volt::channel::Select;
    /// use volt::time::Instant;
    ///
    /// let soon = Instant::now() + Duration::from_millis(1);
    /// let mut select = Select::new();
    /// select.case(&soon);
    /// assert_eq!(select.select().complete(&soon), soon);
    /// ```
    pub fn case<C: Selectable>(&mut self, case: &'a C) -> usize {
        self.add(case)
    }

    /// Removes the operation with this number; the others keep theirs.
    ///
    /// # Panics
    ///
    /// If there is no such operation.
    ///
    /// ```
    /// use volt::channel::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// s.send(1).unwrap();
    /// let mut select = Select::new();
    /// let number = select.recv(&r);
    /// select.remove(number);
    /// assert!(select.try_select().is_err());
    /// ```
    #[track_caller]
    pub fn remove(&mut self, index: usize) {
        assert!(index < self.next, "no operation has the number {index}: {} were added", self.next);
        let place = self.cases.iter().position(|case| case.index == index);
        let place = place.unwrap_or_else(|| panic!("operation {index} has been removed before"));
        self.cases.swap_remove(place);
        // A biased choice is by the order of adding.
        self.cases.sort_by_key(|case| case.index);
    }

    /// Chooses an operation that is ready now.
    ///
    /// # Errors
    ///
    /// None is.
    ///
    /// ```
    /// use volt::channel::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// s.send(1).unwrap();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert_eq!(select.try_select().unwrap().recv(&r), Ok(1));
    /// assert!(select.try_select().is_err());
    /// ```
    pub fn try_select(&mut self) -> Result<SelectedOperation<'a>, TrySelectError> {
        self.choose(Patience::None).ok_or(TrySelectError)
    }

    /// Waits until an operation is ready, and chooses it.
    ///
    /// # Panics
    ///
    /// If the list is empty: it would wait forever.
    ///
    /// ```
    /// use volt::channel::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// volt::go(move || s.send(1).unwrap());
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert_eq!(select.select().recv(&r), Ok(1));
    /// ```
    #[track_caller]
    pub fn select(&mut self) -> SelectedOperation<'a> {
        assert!(!self.cases.is_empty(), "no operations have been added to `Select`");
        self.choose(Patience::Until(None)).expect("without a deadline it ends by a choice")
    }

    /// Waits until an operation is ready for `timeout` at most, and chooses it.
    ///
    /// # Errors
    ///
    /// None was ready in time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use volt::channel::{Select, unbounded};
    ///
    /// let (_s, r) = unbounded::<u8>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert!(select.select_timeout(Duration::from_millis(1)).is_err());
    /// ```
    pub fn select_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        self.choose(Patience::lasting(timeout)).ok_or(SelectTimeoutError)
    }

    /// Waits until an operation is ready, until `deadline`, and chooses it.
    ///
    /// # Errors
    ///
    /// None was ready in time.
    ///
    /// ```
    /// use std::time::Instant;
    /// use volt::channel::{Select, unbounded};
    ///
    /// let (_s, r) = unbounded::<u8>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert!(select.select_deadline(Instant::now()).is_err());
    /// ```
    pub fn select_deadline(
        &mut self,
        deadline: impl Into<Instant>,
    ) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        self.choose(Patience::Until(Some(deadline.into().0))).ok_or(SelectTimeoutError)
    }

    fn choose(&mut self, patience: Patience) -> Option<SelectedOperation<'a>> {
        let mut parcel = Parcel::new();
        let choice = engine::select(&mut self.cases, patience, self.biased, &mut parcel);
        choice.map(|choice| SelectedOperation::new(choice, parcel))
    }

    /// The number of an operation that is ready now; it is not carried out. By the time it is tried,
    /// somebody else may have been faster.
    ///
    /// # Errors
    ///
    /// None is.
    ///
    /// ```
    /// use volt::channel::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// let mut select = Select::new();
    /// let number = select.recv(&r);
    /// assert!(select.try_ready().is_err());
    /// s.send(1).unwrap();
    /// assert_eq!(select.try_ready(), Ok(number));
    /// assert_eq!(r.try_recv(), Ok(1));
    /// ```
    pub fn try_ready(&mut self) -> Result<usize, TryReadyError> {
        engine::ready(&mut self.cases, Patience::None, self.biased).ok_or(TryReadyError)
    }

    /// Waits until an operation is ready, and returns its number; it is not carried out. By the time
    /// it is tried, somebody else may have been faster.
    ///
    /// # Panics
    ///
    /// If the list is empty: it would wait forever.
    ///
    /// ```
    /// use volt::channel::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// volt::go(move || s.send(1).unwrap());
    /// let mut select = Select::new();
    /// let number = select.recv(&r);
    /// assert_eq!(select.ready(), number);
    /// assert_eq!(r.try_recv(), Ok(1));
    /// ```
    #[track_caller]
    pub fn ready(&mut self) -> usize {
        assert!(!self.cases.is_empty(), "no operations have been added to `Select`");
        let ready = engine::ready(&mut self.cases, Patience::Until(None), self.biased);
        ready.expect("without a deadline it ends by readiness")
    }

    /// As [`ready`](Select::ready), for `timeout` at most.
    ///
    /// # Errors
    ///
    /// None was ready in time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use volt::channel::{Select, unbounded};
    ///
    /// let (_s, r) = unbounded::<u8>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert!(select.ready_timeout(Duration::from_millis(1)).is_err());
    /// ```
    pub fn ready_timeout(&mut self, timeout: Duration) -> Result<usize, ReadyTimeoutError> {
        let patience = Patience::lasting(timeout);
        engine::ready(&mut self.cases, patience, self.biased).ok_or(ReadyTimeoutError)
    }

    /// As [`ready`](Select::ready), until `deadline`.
    ///
    /// # Errors
    ///
    /// None was ready in time.
    ///
    /// ```
    /// use std::time::Instant;
    /// use volt::channel::{Select, unbounded};
    ///
    /// let (_s, r) = unbounded::<u8>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert!(select.ready_deadline(Instant::now()).is_err());
    /// ```
    pub fn ready_deadline(
        &mut self,
        deadline: impl Into<Instant>,
    ) -> Result<usize, ReadyTimeoutError> {
        let patience = Patience::Until(Some(deadline.into().0));
        engine::ready(&mut self.cases, patience, self.biased).ok_or(ReadyTimeoutError)
    }
}

impl<'a> Clone for Select<'a> {
    fn clone(&self) -> Select<'a> {
        Select { cases: self.cases.clone(), next: self.next, biased: self.biased }
    }
}

impl<'a> Default for Select<'a> {
    fn default() -> Select<'a> {
        Select::new()
    }
}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Select { .. }")
    }
}
