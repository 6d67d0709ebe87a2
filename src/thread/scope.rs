//! Fibers that borrow from their parent's stack; mirrors [`std::thread::scope`].
//!
//! # Invariant
//!
//! `scope` returns, or unwinds, only when `running` is zero; and a fiber counts as running until its
//! closure is gone and its result has been taken by its handle or dropped.
//!
//! A scope whose owner is cancelled, in its closure or while it waits for its fibers, cancels these,
//! waits for all of them, and goes on unwinding then.

use super::Builder;
use super::children::Children;
use super::handle::Thread;
use super::running::Running;
use super::waiting;
use crate::cancel::{self, Cancelled};
use crate::fiber;
use crate::park::{Outcome, Wait};
use crate::primitives::sync::Arc;
use crate::primitives::sync::UnsafeCell;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::runtime::JoinHandle;
use crate::util::forget_panics;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, RefUnwindSafe, catch_unwind};
use std::thread::Result;

/// Spawns fibers that may borrow what outlives the scope. Given to the closure of [`scope`].
///
/// ```
/// let word = String::from("borrowed");
/// volt::scope(|scope| {
///     scope.spawn(|| {
///         assert_eq!(word.len(), 8);
///         scope.spawn(|| assert!(word.starts_with("b"))); // fibers may start others
///     });
/// });
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    data: Arc<ScopeData>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

// As the type that it mirrors: the locks inside are never left with a change half made.
impl RefUnwindSafe for Scope<'_, '_> {}

#[derive(Default)]
struct ScopeData {
    running: Running,
    children: Children,
}

impl ScopeData {
    fn wait(&self, wait: Wait) -> Outcome {
        self.running.wait(Wait { object: std::ptr::from_ref(self) as usize, ..wait })
    }

    /// Waits until no fiber is left, and cancels them first if `cancelled` says so or the caller is
    /// cancelled meanwhile; returns whether it was.
    fn end(&self, cancelled: bool) -> bool {
        let cancelled = cancelled || self.wait(Wait::cancellable("scope")) == Outcome::Cancelled;
        if cancelled {
            self.children.cancel();
            self.wait(Wait::new("scope"));
        }
        cancelled
    }
}

/// A fiber's result on its way to its handle; counts as running until both have let go of it.
struct Packet<'scope, T> {
    scope: Arc<ScopeData>,
    result: UnsafeCell<Option<Result<T>>>,
    /// The fiber has left a result, or its handle has told why not.
    accounted: AtomicBool,
    borrow: PhantomData<&'scope ()>,
}

// SAFETY: written by the fiber before it is done, read by the handle after.
unsafe impl<T: Send> Sync for Packet<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Packet<'_, T> {}

impl<T> Drop for Packet<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the last reference.
        let result = self.result.with_mut(|place| unsafe { (*place).take() });
        // A panic that nobody has taken by `join`, or a fiber that could not run.
        let panicked = matches!(&result, Some(Err(payload)) if !payload.is::<Cancelled>())
            || !*self.accounted.get_mut();
        if let Some(result) = result {
            // A cancel that ended a wait of its destructor's would be forgotten with the panics. The standard library
            // aborts at a panic here; one fiber's destructor is no reason to.
            forget_panics(|| cancel::shield(|| drop(result)));
        }
        self.scope.running.one_ended(panicked);
    }
}

/// What a scoped fiber runs. The closure is first, so that it is gone before the packet also where
/// the fiber cannot run and both are only dropped.
struct Body<'scope, F, T> {
    f: F,
    packet: Arc<Packet<'scope, T>>,
}

impl<F: FnOnce() -> T, T> Body<'_, F, T> {
    fn run(self) {
        let Body { f, packet } = self;
        let fiber = fiber::current().expect("a scoped fiber runs as a fiber");
        let result = packet.scope.children.within(fiber, || catch_unwind(AssertUnwindSafe(f)));
        // SAFETY: nobody reads it before the fiber is done.
        packet.result.with_mut(|place| unsafe { *place = Some(result) });
        packet.accounted.store(true, Ordering::Release);
    }
}

/// Owns the right to a scoped fiber's result; mirrors [`std::thread::ScopedJoinHandle`].
///
/// ```
/// let word = String::from("borrowed");
/// volt::scope(|scope| {
///     let handle: volt::thread::ScopedJoinHandle<'_, usize> = scope.spawn(|| word.len());
///     assert_eq!(handle.join().unwrap(), 8);
/// });
/// ```
pub struct ScopedJoinHandle<'scope, T> {
    fiber: JoinHandle<()>,
    packet: Arc<Packet<'scope, T>>,
}

/// Calls `f` with a scope whose fibers may borrow from the caller's stack, and waits for all of them; a
/// plain thread blocks meanwhile.
///
/// # Panics
///
/// With the payload of `f`, when all fibers have ended, which are not cancelled by that; else, if a
/// fiber panicked whose handle nobody joined, or never ran, with a message.
///
/// # Cancel
///
/// A cancel of the caller, or a timeout or token around it, cancels the fibers of the scope; when all
/// have ended it [unwinds](crate::cancel).
///
/// ```
/// let mut numbers = [1, 2, 3, 4];
/// let (left, right) = numbers.split_at_mut(2);
/// volt::thread::scope(|scope| {
///     scope.spawn(|| left.iter_mut().for_each(|n| *n *= 10));
///     scope.spawn(|| right.iter_mut().for_each(|n| *n *= 100));
/// });
/// assert_eq!(numbers, [10, 20, 300, 400]);
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    waiting::check_wait("scope");
    let scope = Scope { data: Arc::default(), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    let unwinds = matches!(&result, Err(payload) if payload.is::<Cancelled>());
    let cancelled = waiting::wait_for_borrowers(|| scope.data.end(unwinds));
    match result {
        Err(payload) => cancel::resume(payload),
        Ok(_) if cancelled => cancel::unwind(),
        Ok(_) if scope.data.running.has_panicked() => panic!("a scoped fiber panicked"),
        Ok(value) => value,
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a fiber in this scope; the same as [`spawn`](Scope::spawn).
    ///
    /// ```
    /// let words = ["one", "two"];
    /// let both = volt::scope(|scope| scope.go(|| words.concat()).join());
    /// assert_eq!(both.unwrap(), "onetwo");
    /// ```
    #[track_caller]
    pub fn go<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.spawn(f)
    }

    /// Asks all fibers of this scope to end, those that are still to start included; see
    /// [`JoinHandle::cancel`].
    ///
    /// ```
    /// let ended = volt::scope(|scope| {
    ///     let waits = scope.go(volt::thread::park);
    ///     scope.cancel();
    ///     waits.join()
    /// });
    /// assert!(ended.unwrap_err().is::<volt::cancel::Cancelled>());
    /// ```
    pub fn cancel(&self) {
        self.data.children.cancel();
    }

    /// Starts a fiber in this scope.
    ///
    /// If it panics, and nobody joins it, the scope panics when all its fibers have ended.
    ///
    /// ```
    /// let mut count = 0;
    /// volt::scope(|scope| {
    ///     scope.spawn(|| count += 1);
    /// });
    /// assert_eq!(count, 1);
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Builder::new().spawn_scoped(self, f).expect("the default settings are valid")
    }
}

impl Builder {
    /// As [`Scope::spawn`], with this builder's name and stack size.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Builder::spawn).
    ///
    /// ```
    /// let text = String::from("shared");
    /// volt::scope(|scope| {
    ///     let builder = volt::thread::Builder::new().name("reader".into());
    ///     let reader = builder.spawn_scoped(scope, || text.len()).unwrap();
    ///     assert_eq!(reader.join().unwrap(), 6);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        scope.data.running.one_more();
        let packet = Arc::new(Packet {
            scope: Arc::clone(&scope.data),
            result: UnsafeCell::new(None),
            accounted: AtomicBool::new(false),
            borrow: PhantomData,
        });
        let body = Body { f, packet: Arc::clone(&packet) };
        // SAFETY: `scope` waits until both references to the packet are gone, and the body drops
        // its own as its last act; so what `f` and `T` borrow outlives them.
        let fiber = match unsafe { self.spawn_here(Location::caller(), move || body.run()) } {
            Ok(fiber) => fiber,
            Err(error) => {
                packet.accounted.store(true, Ordering::Release);
                return Err(error);
            }
        };
        Ok(ScopedJoinHandle { fiber, packet })
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// The handle of the fiber itself.
    pub(crate) fn fiber(&self) -> &JoinHandle<()> {
        &self.fiber
    }

    /// Waits for the fiber's end and returns its result.
    ///
    /// # Errors
    ///
    /// As [`JoinHandle::join`].
    ///
    /// # Cancel
    ///
    /// As [`JoinHandle::join`]; but the scope, as it unwinds, cancels the fiber and waits for it.
    ///
    /// ```
    /// let ended = volt::scope(|scope| scope.spawn(|| -> u32 { panic!("no answer") }).join());
    /// assert_eq!(ended.unwrap_err().downcast_ref(), Some(&"no answer"));
    /// ```
    pub fn join(self) -> Result<T> {
        let ended = self.fiber.join();
        self.packet.accounted.store(true, Ordering::Release);
        ended?;
        // SAFETY: the fiber is done, and this is its only handle.
        let result = self.packet.result.with_mut(|place| unsafe { (*place).take() });
        cancel::hands_out(result.expect("a scoped fiber that ended has left its result"))
    }

    /// Asks the fiber to end; see [`JoinHandle::cancel`]. If nobody joins it, a scope does not count
    /// that as a panic.
    ///
    /// ```
    /// volt::scope(|scope| {
    ///     let waits = scope.spawn(volt::thread::park);
    ///     waits.cancel(); // or the scope would never end
    /// });
    /// ```
    pub fn cancel(&self) {
        self.fiber.cancel();
    }

    /// The fiber, for its id, its name and its `unpark`.
    ///
    /// ```
    /// volt::scope(|scope| {
    ///     let waits = scope.spawn(volt::thread::park);
    ///     waits.thread().unpark();
    /// });
    /// ```
    pub fn thread(&self) -> &Thread {
        self.fiber.thread()
    }

    /// Has the fiber ended? Its `join` then returns at once.
    ///
    /// ```
    /// volt::scope(|scope| {
    ///     let fiber = scope.spawn(|| ());
    ///     while !fiber.is_finished() {
    ///         volt::yield_now();
    ///     }
    /// });
    /// ```
    pub fn is_finished(&self) -> bool {
        self.fiber.is_finished()
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.data.running.count();
        f.debug_struct("Scope").field("running", &running).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").finish_non_exhaustive()
    }
}
