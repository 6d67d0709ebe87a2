//! Fibers of one kind, joined in the order in which they end.

use super::first::Payload;
use super::results::{Report, Results};
use super::untaken::drop_untaken;
use crate::cancel::{self, Cancelled, Token, unwind};
use crate::channel::{Attempt, Parcel, Purpose, SelectNode, Selectable, SelectedOperation, Source};
use crate::park::{Outcome, Wait};
use crate::primitives::sync::Arc;
use crate::runtime::spawn_current;
use crate::scheduler::SpawnOptions;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::thread::Result;

/// Fibers that are joined in the order in which they end, and of which the first failure cancels the
/// rest: a panic, and for those of [`try_go`](JoinSet::try_go) an error too.
///
/// Dropping the set cancels its fibers and does not wait for them. On a plain thread its waits block the
/// thread.
///
/// ```
/// use volt::scope::JoinSet;
///
/// let mut set = JoinSet::new();
/// for n in 1..=10 {
///     set.go(move || n * n);
/// }
/// assert_eq!(set.join_all().unwrap().iter().sum::<i32>(), 385);
/// ```
pub struct JoinSet<T> {
    results: Arc<Results<T>>,
    token: Token,
    /// The first failure cancels the rest.
    fails_fast: bool,
    /// Fibers that were started, and of those the ones whose result was taken.
    started: usize,
    taken: usize,
}

// Nothing of it is left half changed by a panic.
impl<T> std::panic::UnwindSafe for JoinSet<T> {}
impl<T> std::panic::RefUnwindSafe for JoinSet<T> {}

impl<T: Send + 'static> JoinSet<T> {
    /// An empty set.
    ///
    /// ```
    /// let set = volt::scope::JoinSet::<u32>::new();
    /// assert_eq!(set.join_all().unwrap(), []);
    /// ```
    pub fn new() -> JoinSet<T> {
        JoinSet::with(true)
    }

    /// An empty set whose fibers go on when one of them fails.
    ///
    /// ```
    /// let mut set = volt::scope::JoinSet::independent();
    /// set.go(|| "goes on");
    /// set.go(|| panic!("fails"));
    /// let ended = std::iter::from_fn(|| set.join_next());
    /// assert_eq!(ended.filter_map(Result::ok).collect::<Vec<_>>(), ["goes on"]);
    /// ```
    pub fn independent() -> JoinSet<T> {
        JoinSet::with(false)
    }

    fn with(fails_fast: bool) -> JoinSet<T> {
        JoinSet {
            results: Arc::new(Results::new()),
            token: Token::new(),
            fails_fast,
            started: 0,
            taken: 0,
        }
    }

    /// Starts a fiber in the set.
    ///
    /// ```
    /// let mut set = volt::scope::JoinSet::new();
    /// for word in ["one", "three"] {
    ///     set.go(move || word.len());
    /// }
    /// assert_eq!(set.join_all().unwrap(), [3, 5]);
    /// ```
    #[track_caller]
    pub fn go(&mut self, f: impl FnOnce() -> T + Send + 'static) {
        self.start(Location::caller(), f, |_| false);
    }

    fn start(
        &mut self,
        site: &'static Location<'static>,
        f: impl FnOnce() -> T + Send + 'static,
        has_failed: impl Fn(&T) -> bool + Send + 'static,
    ) {
        let report = Report::new(&self.results, self.started, &self.token, self.fails_fast);
        self.started += 1;
        let body = move || {
            let ended = catch_unwind(AssertUnwindSafe(|| report.token().run(f)));
            let result = match ended {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(cancelled)) => Err(Box::new(cancelled) as Box<_>),
                Err(payload) => Err(payload),
            };
            let failed = match &result {
                Ok(value) => has_failed(value),
                Err(payload) => !payload.is::<Cancelled>(),
            };
            report.ends(result, failed);
        };
        let options = SpawnOptions { name: None, size: None, site };
        // SAFETY: both are 'static.
        drop(unsafe { spawn_current(options, body) });
    }

    /// Fibers whose result was not taken yet.
    ///
    /// ```
    /// let mut set = volt::scope::JoinSet::new();
    /// set.go(|| 1);
    /// assert_eq!(set.len(), 1);
    /// set.join_next().unwrap().unwrap();
    /// assert_eq!(set.len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.started - self.taken
    }

    /// Was the result of every fiber taken?
    ///
    /// ```
    /// assert!(volt::scope::JoinSet::<u32>::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks all fibers of the set to end, those that are still to be started included.
    ///
    /// ```
    /// let mut set = volt::scope::JoinSet::new();
    /// set.go(volt::thread::park);
    /// set.cancel();
    /// let ended = set.join_next().unwrap();
    /// assert!(ended.unwrap_err().is::<volt::cancel::Cancelled>());
    /// ```
    pub fn cancel(&self) {
        self.token.cancel();
    }

    /// Waits for the next fiber to end, and returns its result; `None` if none is left.
    ///
    /// # Errors
    ///
    /// The payload of the fiber's panic; [`Cancelled`] if it was cancelled.
    ///
    /// # Cancel
    ///
    /// A caller that is cancelled [unwinds](crate::cancel); the set stays as it is.
    ///
    /// ```
    /// let mut set = volt::scope::JoinSet::new();
    /// (1..=3).for_each(|n| set.go(move || n));
    /// let mut sum = 0;
    /// while let Some(ended) = set.join_next() {
    ///     sum += ended.unwrap();
    /// }
    /// assert_eq!(sum, 6);
    /// ```
    pub fn join_next(&mut self) -> Option<Result<T>> {
        self.next().map(|(_, result)| result)
    }

    fn next(&mut self) -> Option<(usize, Result<T>)> {
        if self.is_empty() {
            return None;
        }
        let object = Arc::as_ptr(&self.results) as usize;
        let wait = Wait { object, ..Wait::cancellable("join set") };
        if self.results.wait(wait) == Outcome::Cancelled {
            unwind();
        }
        self.taken += 1;
        self.results.take().map(|(number, result)| (number, cancel::hands_out(result)))
    }

    /// Waits for all fibers, and returns their results in the order in which they were started.
    ///
    /// # Errors
    ///
    /// The payload of the first that panicked, when all have ended; [`Cancelled`] if the set was
    /// cancelled, be it by an error of a fiber of [`try_go`](JoinSet::try_go): see
    /// [`try_join_all`](JoinSet::try_join_all).
    ///
    /// # Cancel
    ///
    /// A caller that is cancelled [unwinds](crate::cancel), and the fibers are cancelled.
    ///
    /// ```
    /// let mut set = volt::scope::JoinSet::new();
    /// (1..=3).for_each(|n| set.go(move || 10 * n));
    /// assert_eq!(set.join_all().unwrap(), [10, 20, 30]);
    /// ```
    pub fn join_all(mut self) -> Result<Vec<T>> {
        let mut values = Vec::with_capacity(self.len());
        match self.take_all(|number, value| values.push((number, value))) {
            Some(payload) => {
                values.into_iter().for_each(drop_untaken);
                Err(payload)
            }
            None => Ok(in_order(values)),
        }
    }

    /// Waits for all fibers, and gives `take` what they return, with the number of each. Returns the
    /// payload of the first that panicked, or else of the last that was cancelled.
    fn take_all(&mut self, mut take: impl FnMut(usize, T)) -> Option<Payload> {
        let mut failure = None::<Payload>;
        while let Some((number, result)) = self.next() {
            match result {
                Ok(value) => take(number, value),
                Err(payload) if failure.as_ref().is_none_or(|first| first.is::<Cancelled>()) => {
                    failure = Some(payload);
                }
                Err(_) => {}
            }
        }
        failure
    }
}

/// Values without their numbers, in the order of these.
fn in_order<T>(mut values: Vec<(usize, T)>) -> Vec<T> {
    values.sort_unstable_by_key(|(number, _)| *number);
    values.into_iter().map(|(_, value)| value).collect()
}

impl<T: Send + 'static> Source for JoinSet<T> {
    fn attempt(&self, _parcel: &mut Parcel) -> Attempt {
        if self.is_ready() { Attempt::Chosen } else { Attempt::NotReady }
    }

    fn is_ready(&self) -> bool {
        self.results.is_ready()
    }

    unsafe fn link(&self, node: &SelectNode, _purpose: Purpose) -> bool {
        self.results.link(node.waiter(), node.result())
    }

    unsafe fn unlink(&self, node: &SelectNode, _purpose: Purpose) {
        self.results.unlink(node.waiter(), node.result());
    }
}

/// Chosen when one of the fibers has ended: [`join_next`](JoinSet::join_next) returns its result then,
/// without a wait. Never, if none is left.
///
/// ```
/// use volt::channel::{select, unbounded};
/// use volt::scope::JoinSet;
///
/// let (s, requests) = unbounded::<u32>();
/// (1..=3).for_each(|n| s.send(n).unwrap());
/// let mut set = JoinSet::new();
/// let mut squares = Vec::new();
/// while squares.len() < 3 {
///     select! {
///         recv(requests) -> n => { let n = n.unwrap(); set.go(move || n * n); }
///         wait(set) -> () => squares.push(set.join_next().unwrap().unwrap()),
///     }
/// }
/// assert_eq!(squares.iter().sum::<u32>(), 14);
/// # drop(s);
/// ```
impl<T: Send + 'static> Selectable for JoinSet<T> {
    type Output<'a> = ();

    fn complete(&self, chosen: SelectedOperation<'_>) {
        chosen.into_promise(self.identity());
    }
}

impl<T: Send + 'static, E: Send + 'static> JoinSet<std::result::Result<T, E>> {
    /// Starts a fiber in the set whose error is a failure as a panic is.
    ///
    /// ```
    /// use volt::scope::JoinSet;
    ///
    /// let mut set = JoinSet::<Result<(), String>>::new();
    /// set.try_go(|| Ok(volt::thread::park()));
    /// set.try_go(|| Err("no".to_owned()));
    /// assert_eq!(set.join_next().unwrap().unwrap(), Err("no".to_owned()));
    /// assert!(set.join_next().unwrap().unwrap_err().is::<volt::cancel::Cancelled>());
    /// ```
    #[track_caller]
    pub fn try_go(&mut self, f: impl FnOnce() -> std::result::Result<T, E> + Send + 'static) {
        self.start(Location::caller(), f, std::result::Result::is_err);
    }

    /// Waits for all fibers, and returns their values in the order in which they were started, or the
    /// first error.
    ///
    /// # Errors
    ///
    /// As [`join_all`](JoinSet::join_all), but a fiber that was cancelled because of an error does not count.
    ///
    /// # Cancel
    ///
    /// As [`join_all`](JoinSet::join_all).
    ///
    /// ```
    /// use volt::scope::JoinSet;
    ///
    /// let mut set = JoinSet::new();
    /// set.try_go(|| Ok(volt::thread::park()));
    /// set.try_go(|| Err("no"));
    /// assert_eq!(set.try_join_all().unwrap(), Err("no"));
    /// ```
    pub fn try_join_all(mut self) -> Result<std::result::Result<Vec<T>, E>> {
        let mut values = Vec::with_capacity(self.len());
        let mut error = None;
        let failure = self.take_all(|number, result| match result {
            Ok(value) => values.push((number, value)),
            Err(first) if error.is_none() => error = Some(first),
            Err(later) => drop_untaken(later),
        });
        let failed = match (failure, error) {
            (None, None) => return Ok(Ok(in_order(values))),
            (Some(payload), None) => Err(payload),
            (Some(payload), _) if !payload.is::<Cancelled>() => Err(payload),
            (_, Some(error)) => Ok(Err(error)),
        };
        values.into_iter().for_each(drop_untaken);
        failed
    }
}

impl<T: Send + 'static> Default for JoinSet<T> {
    fn default() -> JoinSet<T> {
        JoinSet::new()
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        if self.started != self.taken {
            self.token.cancel();
        }
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &(self.started - self.taken)).finish_non_exhaustive()
    }
}
