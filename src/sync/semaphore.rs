//! [`Semaphore`] and its permits.

use super::raw_semaphore::{self, RawSemaphore, Refused};
use crate::cancel;
use crate::park::deadline_after;
use crate::primitives::sync::Arc;
use std::fmt;
use std::time::Duration;

/// A number of permits to do something; mirrors Tokio's, without the futures. Left out are `merge` and
/// `split` of permits, and `const_new`, which is [`new`](Semaphore::new) here. On a plain thread its waits
/// block the thread.
///
/// First come, first served: who wants many permits is not overtaken by those who want few. A permit
/// gives itself back when it is dropped, by whomever, a panic included.
///
/// [`acquire_timeout`](Semaphore::acquire_timeout), which Tokio's has not, is for one borrowed permit. For
/// many or owned ones there is [`volt::timeout`](crate::timeout) around the call.
///
/// # Cancellation
///
/// `acquire...` unwinds if it would have to wait; permits that had reached the waiter go on to the
/// next.
///
/// ```
/// use volt::sync::{Arc, Semaphore};
///
/// let at_once = Arc::new(Semaphore::new(2));
/// let fibers: Vec<_> = (0..10)
///     .map(|_| {
///         let at_once = Arc::clone(&at_once);
///         volt::go(move || {
///             let _permit = at_once.acquire().unwrap();
///             volt::yield_now(); // at most two fibers are here
///         })
///     })
///     .collect();
/// for fiber in fibers {
///     fiber.join().unwrap();
/// }
/// assert_eq!(at_once.available_permits(), 2);
/// ```
pub struct Semaphore(RawSemaphore);

// As the type that it mirrors: the lock inside is never left with a change half made.
impl std::panic::UnwindSafe for Semaphore {}
impl std::panic::RefUnwindSafe for Semaphore {}

/// The semaphore has been closed.
///
/// ```
/// let semaphore = volt::sync::Semaphore::new(1);
/// semaphore.close();
/// assert_eq!(semaphore.acquire().unwrap_err(), volt::sync::AcquireError);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireError;

/// Why there was no permit.
///
/// ```
/// use volt::sync::{Semaphore, TryAcquireError};
///
/// assert_eq!(Semaphore::new(0).try_acquire().unwrap_err(), TryAcquireError::NoPermits);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore has been closed.
    Closed,
    /// There were too few, or others came before.
    NoPermits,
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the semaphore has been closed")
    }
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryAcquireError::Closed => "the semaphore has been closed",
            TryAcquireError::NoPermits => "no permits are available",
        })
    }
}

impl std::error::Error for AcquireError {}
impl std::error::Error for TryAcquireError {}

// A wait that was cancelled has no error: these two unwind.
impl From<Refused> for TryAcquireError {
    fn from(refused: Refused) -> TryAcquireError {
        match refused {
            Refused::TooFew => TryAcquireError::NoPermits,
            Refused::Closed => TryAcquireError::Closed,
            Refused::Cancelled => cancel::unwind(),
        }
    }
}

impl From<Refused> for AcquireError {
    fn from(refused: Refused) -> AcquireError {
        match refused {
            Refused::Cancelled => cancel::unwind(),
            Refused::TooFew | Refused::Closed => AcquireError,
        }
    }
}

/// Permits of a borrowed [`Semaphore`]; given back when dropped.
///
/// ```
/// let semaphore = volt::sync::Semaphore::new(3);
/// let permit = semaphore.acquire_many(2).unwrap();
/// assert_eq!((permit.num_permits(), semaphore.available_permits()), (2, 1));
/// ```
#[derive(Debug)]
#[must_use = "the permit is given back at once if it is not kept"]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    count: usize,
}

/// Permits that hold their [`Semaphore`] by an [`Arc`]: they can go to other fibers.
///
/// ```
/// use volt::sync::{Arc, Semaphore};
///
/// let semaphore = Arc::new(Semaphore::new(1));
/// let permit = Arc::clone(&semaphore).acquire_owned().unwrap();
/// volt::go(move || drop(permit)).join().unwrap();
/// assert_eq!(semaphore.available_permits(), 1);
/// ```
#[derive(Debug)]
#[must_use = "the permit is given back at once if it is not kept"]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    count: usize,
}

impl Semaphore {
    /// The most permits that there can be.
    ///
    /// ```
    /// use volt::sync::Semaphore;
    ///
    /// let most = Semaphore::new(Semaphore::MAX_PERMITS);
    /// assert_eq!(most.available_permits(), Semaphore::MAX_PERMITS);
    /// ```
    pub const MAX_PERMITS: usize = raw_semaphore::MAX_PERMITS;

    /// One with `permits` permits.
    ///
    /// # Panics
    ///
    /// If they are more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    ///
    /// ```
    /// static FILES: volt::sync::Semaphore = volt::sync::Semaphore::new(100);
    /// assert_eq!(FILES.available_permits(), 100);
    /// ```
    #[must_use]
    pub const fn new(permits: usize) -> Semaphore {
        Semaphore(RawSemaphore::new(permits))
    }

    /// How many permits nobody has.
    ///
    /// ```
    /// assert_eq!(volt::sync::Semaphore::new(2).available_permits(), 2);
    /// ```
    pub fn available_permits(&self) -> usize {
        self.0.available()
    }

    /// Adds `count` permits.
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    ///
    /// ```
    /// let semaphore = volt::sync::Semaphore::new(0);
    /// semaphore.add_permits(1);
    /// semaphore.acquire().unwrap().forget();
    /// ```
    pub fn add_permits(&self, count: usize) {
        self.0.release(count);
    }

    /// Takes away up to `count` permits that nobody has; returns how many those were.
    ///
    /// ```
    /// assert_eq!(volt::sync::Semaphore::new(2).forget_permits(5), 2);
    /// ```
    pub fn forget_permits(&self, count: usize) -> usize {
        self.0.forget(count)
    }

    /// From now on no permit is given; those who wait get the error.
    ///
    /// ```
    /// let semaphore = volt::sync::Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.acquire().is_err());
    /// ```
    pub fn close(&self) {
        self.0.close();
    }

    /// Has it been closed?
    ///
    /// ```
    /// assert!(!volt::sync::Semaphore::new(1).is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets closed.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait, without a permit.
    ///
    /// ```
    /// let semaphore = volt::sync::Semaphore::new(1);
    /// let permit = semaphore.acquire().unwrap();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// ```
    pub fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many(1)
    }

    /// Waits for `count` permits at once. For 0 of them it waits only behind others.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets closed.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait, without any of the permits.
    ///
    /// ```
    /// let semaphore = volt::sync::Semaphore::new(4);
    /// let permits = semaphore.acquire_many(3).unwrap();
    /// assert_eq!(permits.num_permits(), 3);
    /// ```
    pub fn acquire_many(&self, count: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        let count = count as usize;
        self.0.acquire(count, None)?;
        Ok(SemaphorePermit { semaphore: self, count })
    }

    /// Waits for a permit for at most `timeout`.
    ///
    /// # Errors
    ///
    /// `NoPermits` when the time is over, `Closed` if the semaphore is or gets closed.
    ///
    /// # Cancellation
    ///
    /// As [`acquire`](Semaphore::acquire).
    ///
    /// ```
    /// use volt::sync::{Semaphore, TryAcquireError};
    /// use volt::time::Duration;
    ///
    /// let result = Semaphore::new(0).acquire_timeout(Duration::from_millis(1)).map(drop);
    /// assert_eq!(result, Err(TryAcquireError::NoPermits));
    /// ```
    pub fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.0.acquire(1, Some(deadline_after(timeout)))?;
        Ok(SemaphorePermit { semaphore: self, count: 1 })
    }

    /// Takes a permit if one is there and nobody waits.
    ///
    /// # Errors
    ///
    /// If it is not, or the semaphore has been closed.
    ///
    /// ```
    /// assert!(volt::sync::Semaphore::new(1).try_acquire().is_ok());
    /// ```
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes `count` permits if they are there and nobody waits.
    ///
    /// # Errors
    ///
    /// If they are not, or the semaphore has been closed.
    ///
    /// ```
    /// assert!(volt::sync::Semaphore::new(1).try_acquire_many(2).is_err());
    /// ```
    pub fn try_acquire_many(&self, count: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        let count = count as usize;
        self.0.try_acquire(count)?;
        Ok(SemaphorePermit { semaphore: self, count })
    }

    /// As [`acquire`](Semaphore::acquire), for a permit that outlives the borrow.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets closed.
    ///
    /// # Cancellation
    ///
    /// As [`acquire`](Semaphore::acquire).
    ///
    /// ```
    /// use volt::sync::{Arc, Semaphore};
    ///
    /// let permit = Arc::new(Semaphore::new(1)).acquire_owned().unwrap();
    /// assert_eq!(permit.num_permits(), 1);
    /// ```
    pub fn acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned(1)
    }

    /// As [`acquire_many`](Semaphore::acquire_many), for permits that outlive the borrow.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets closed.
    ///
    /// # Cancellation
    ///
    /// As [`acquire_many`](Semaphore::acquire_many).
    ///
    /// ```
    /// use volt::sync::{Arc, Semaphore};
    ///
    /// let permits = Arc::new(Semaphore::new(2)).acquire_many_owned(2).unwrap();
    /// assert_eq!(permits.semaphore().available_permits(), 0);
    /// ```
    pub fn acquire_many_owned(
        self: Arc<Self>,
        count: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        let count = count as usize;
        self.0.acquire(count, None)?;
        Ok(OwnedSemaphorePermit { semaphore: self, count })
    }

    /// As [`try_acquire`](Semaphore::try_acquire), for a permit that outlives the borrow.
    ///
    /// # Errors
    ///
    /// If there is none, or the semaphore has been closed.
    ///
    /// ```
    /// use volt::sync::{Arc, Semaphore};
    ///
    /// assert!(Arc::new(Semaphore::new(0)).try_acquire_owned().is_err());
    /// ```
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// As [`try_acquire_many`](Semaphore::try_acquire_many), for permits that outlive the borrow.
    ///
    /// # Errors
    ///
    /// If there are too few, or the semaphore has been closed.
    ///
    /// ```
    /// use volt::sync::{Arc, Semaphore};
    ///
    /// assert!(Arc::new(Semaphore::new(1)).try_acquire_many_owned(2).is_err());
    /// ```
    pub fn try_acquire_many_owned(
        self: Arc<Self>,
        count: u32,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        let count = count as usize;
        self.0.try_acquire(count)?;
        Ok(OwnedSemaphorePermit { semaphore: self, count })
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("permits", &self.available_permits()).finish()
    }
}

macro_rules! permit {
    ($permit:ident, $($lifetime:lifetime)?) => {
        impl $permit $(<$lifetime>)? {
            /// How many permits this holds.
            ///
            /// ```
            /// use volt::sync::{Arc, Semaphore};
            ///
            /// let semaphore = Arc::new(Semaphore::new(3));
            /// let one = semaphore.acquire().unwrap();
            /// let two = Arc::clone(&semaphore).acquire_many_owned(2).unwrap();
            /// assert_eq!((one.num_permits(), two.num_permits()), (1, 2));
            /// ```
            #[must_use]
            pub fn num_permits(&self) -> usize {
                self.count
            }

            /// Never gives the permits back.
            ///
            /// ```
            /// use volt::sync::{Arc, Semaphore};
            ///
            /// let semaphore = Arc::new(Semaphore::new(3));
            /// semaphore.acquire().unwrap().forget();
            /// Arc::clone(&semaphore).acquire_owned().unwrap().forget();
            /// assert_eq!(semaphore.available_permits(), 1);
            /// ```
            pub fn forget(mut self) {
                self.count = 0;
            }
        }

        impl Drop for $permit $(<$lifetime>)? {
            fn drop(&mut self) {
                if self.count > 0 {
                    self.semaphore.0.release(self.count);
                }
            }
        }
    };
}

permit!(SemaphorePermit, '_);
permit!(OwnedSemaphorePermit,);

impl OwnedSemaphorePermit {
    /// Where the permits are from.
    ///
    /// ```
    /// use volt::sync::{Arc, Semaphore};
    ///
    /// let permit = Arc::new(Semaphore::new(2)).acquire_owned().unwrap();
    /// assert_eq!(permit.semaphore().available_permits(), 1);
    /// ```
    #[must_use]
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }
}
