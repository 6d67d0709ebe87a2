//! A runtime: its life from build to shutdown.

use super::drive::{Driven, LOOK_AGAIN, drive_drained, run_to_end};
use super::handle::{Handle, Stats};
use super::join::JoinHandle;
use super::pool::Pool;
use super::shutdown_error::ShutdownError;
use crate::cancel::{self, Cancelled};
use crate::fiber::{self, Owner};
use crate::park::{self, Wait};
use crate::primitives::sync::Arc;
use crate::primitives::{self, clock::Moment};
use crate::scheduler::{self, LISTED, Shared, SpawnOptions, Target};
use crate::stack::StackError;
use std::io;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::time::Duration;

/// Threads that are told to leave get at least this long, whatever the deadline.
const LEAVE: Duration = Duration::from_millis(100);

/// Runs fibers. Made by a [`Builder`](super::Builder); most programs use the default runtime and
/// never name one.
///
/// Dropping a runtime stops it without waiting for its fibers: those that are parked or queued do not
/// run again, and what they own is not dropped: sockets and files stay open, and five descriptors of the runtime with
/// them. [`shutdown`](Runtime::shutdown) waits, and [`shutdown_now`](Runtime::shutdown_now) ends them. In a forked
/// child, where its threads are not, a drop does nothing, and a shutdown panics.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use volt::runtime::{Builder, Runtime};
/// use volt::time::Duration;
///
/// let runtime: Runtime = Builder::new().workers(2).build()?;
/// let fiber = runtime.go(|| 6 * 7);
/// assert_eq!(runtime.run(|| fiber.join().unwrap()), 42);
/// runtime.shutdown(Duration::from_secs(10)).unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Runtime {
    handle: ManuallyDrop<Handle>,
    pool: Arc<Pool>,
    /// Of a current-thread runtime.
    driven: Option<Driven>,
}

// Nothing of it is left half changed by a panic.
impl std::panic::UnwindSafe for Runtime {}
impl std::panic::RefUnwindSafe for Runtime {}

impl Runtime {
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Runtime> {
        let pool = Pool::start(&shared, shared.config.workers)?;
        Ok(Runtime { handle: ManuallyDrop::new(Handle(shared)), pool, driven: None })
    }

    pub(super) fn current_thread(shared: Arc<Shared>) -> io::Result<Runtime> {
        let pool = Pool::start(&shared, 0)?;
        let driven = Some(Driven::default());
        Ok(Runtime { handle: ManuallyDrop::new(Handle(shared)), pool, driven })
    }

    fn shared(&self) -> &Shared {
        &self.handle.0
    }

    /// A reference to this runtime, to spawn on it from anywhere.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(1).build()?;
    /// let fiber = runtime.handle().go(|| 6 * 7);
    /// assert_eq!(fiber.join().unwrap(), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Starts a fiber that runs `f` on this runtime. See [`Handle::go`].
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(1).build()?;
    /// assert_eq!(runtime.go(|| 6 * 7).join().unwrap(), 42);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn go<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.handle.go(f)
    }

    /// Runs `f` as a fiber of this runtime, and blocks the caller until it has its result. A
    /// current-thread runtime runs all its fibers meanwhile, on the calling thread
    /// ([but](super::Builder::new_current_thread) where that unwinds).
    ///
    /// `f` may borrow, since the call does not return before it has ended. On a plain thread the fiber has the thread's
    /// name.
    ///
    /// # Panics
    ///
    /// With the payload of `f`, if `f` panics. If there is no stack for it, if the runtime has been shut down, and
    /// if its shutdown has cancelled `f`. On a fiber, if this is a current-thread runtime: it would block the fiber's
    /// worker.
    ///
    /// # Cancel
    ///
    /// Where the caller is cancelled, or a timeout or token around it ends, `f` is, and the call ends when
    /// `f` has: it [unwinds](crate::cancel) if that has ended `f`, and else returns what `f` did. The thread
    /// that runs a current-thread runtime looks at its tokens between fibers, and each 5 ms while all wait.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(1).build()?;
    /// let words = ["one", "two"];
    /// assert_eq!(runtime.run(|| words.concat()), "onetwo");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn run<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        assert!(
            self.driven.is_none() || fiber::current().is_none(),
            "a current-thread runtime cannot be run from inside a fiber",
        );
        park::check_wait("run");
        let options = options_of_caller();
        // SAFETY: from here on nothing unwinds but `finish`, after the fiber's end.
        let fiber = unsafe { JoinHandle::spawn(Target::On(self.shared()), options, f) };
        let driven = self.driven.as_ref();
        let cut_off = park::wait_for_borrowers(|| {
            driven.is_some_and(|driven| run_to_end(driven, self.shared(), &fiber))
        });
        finish(fiber, cut_off)
    }

    /// Counters at this moment.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(2).build()?;
    /// assert_eq!(runtime.stats().workers.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        self.handle.stats()
    }

    /// Waits until every fiber has ended, at most for `timeout`, then stops the workers. Fibers are not
    /// cancelled: what is under way is finished. [`shutdown_now`](Runtime::shutdown_now) cancels them.
    /// A cancel of the caller ends neither.
    ///
    /// A current-thread runtime runs its fibers meanwhile, on the calling thread
    /// ([but](super::Builder::new_current_thread) where that unwinds), which another runtime's fiber keeps meanwhile,
    /// as [`pinned`](crate::thread::pinned) does. On a plain thread the call blocks it.
    ///
    /// # On a fiber of this runtime
    ///
    /// The caller is one of those that have not ended, so the call lasts until the deadline, and fails; on a
    /// current-thread runtime it does not wait at all. The threads cannot be waited for: they are detached,
    /// and the error names none of them. The caller goes on up to its next wait, and does not run again
    /// after it.
    ///
    /// # Errors
    ///
    /// What had not ended at the deadline, by name, spawn site and what it waits for. Those fibers do not run again and
    /// take nothing that comes to where they wait, if a cancel could end that wait. (One that stands first in a queue
    /// and asks for more than there is holds others up: at a semaphore until the next release, as a writer until all
    /// readers have left. And what one has been given and not run for yet it keeps: a message, a permit, its turn at a
    /// lock.) Fibers that never started are dropped, and their joins say so. A thread that is stuck in a
    /// fiber's code, or in the destructor of a thread-local, is detached, and ends when that returns.
    ///
    /// # Panics
    ///
    /// In the child of a fork.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use volt::time::Duration;
    ///
    /// let runtime = volt::runtime::Builder::new().workers(1).build()?;
    /// let fiber = runtime.go(|| volt::sleep(Duration::from_millis(1)));
    /// runtime.shutdown(Duration::from_secs(10)).unwrap();
    /// assert!(fiber.is_finished());
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown(self, timeout: Duration) -> Result<(), ShutdownError> {
        park::check_process();
        self.end(Moment::now().saturating_add(timeout))
    }

    /// [Cancels](crate::cancel) every fiber, those that are still to start included, and waits until all
    /// have ended, at most for `timeout`; then stops the workers.
    ///
    /// # Errors
    ///
    /// As [`shutdown`](Runtime::shutdown).
    ///
    /// # Panics
    ///
    /// In the child of a fork.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    ///
    /// let runtime = volt::runtime::Builder::new().workers(1).build()?;
    /// let fiber = runtime.go(|| volt::sleep(Duration::MAX));
    /// runtime.shutdown_now(Duration::from_secs(10)).unwrap();
    /// assert!(fiber.join().unwrap_err().is::<volt::cancel::Cancelled>());
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown_now(self, timeout: Duration) -> Result<(), ShutdownError> {
        park::check_process();
        self.shared().cancel_all();
        self.end(Moment::now().saturating_add(timeout))
    }

    fn end(&self, deadline: Moment) -> Result<(), ShutdownError> {
        let shared = self.shared();
        park::begin_to_block("shutdown");
        if deadline > Moment::now() {
            match &self.driven {
                // One of its own fibers cannot drive it besides.
                Some(_) if scheduler::is_here(shared) => {}
                // The fiber of another runtime keeps its thread, and its worker goes on elsewhere.
                Some(_) => park::pinned(|| drive_drained(shared, deadline)),
                None => wait_drained(shared, deadline),
            }
        }
        shared.stop();
        let mut threads = Vec::new();
        // On one of its own workers it cannot wait for that worker to leave.
        if scheduler::is_here(shared) {
            self.pool.detach();
        } else {
            threads = self.pool.join(deadline.max(Moment::now().saturating_add(LEAVE)));
        }
        shared.drop_unstarted();
        scheduler::bequeath();
        let (live, unstarted) = shared.unfinished();
        match live + unstarted.count {
            0 if threads.is_empty() => Ok(()),
            fibers => {
                let mut unfinished = shared.fibers(LISTED);
                unfinished.extend(unstarted.fibers);
                unfinished.truncate(LISTED);
                shared.give_up_waits();
                Err(ShutdownError { fibers, unfinished, threads })
            }
        }
    }
}

/// Waits until no fiber is left.
pub(super) fn wait_drained(shared: &Shared, deadline: Moment) {
    shared.begin_drain();
    while shared.live() != 0 && Moment::now() < deadline {
        let slice = Moment::now().saturating_add(LOOK_AGAIN).min(deadline);
        // Not spun for: where others want the processors, to let them run takes longer than the slice, again and again.
        let wait = Wait { deadline: Some(slice), at_once: true, ..Wait::new("shutdown") };
        park::wait_until(&shared.drained, wait, || shared.live() == 0);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // In a forked child it is left as it is: the parent's threads may have held any lock at the fork.
        if primitives::is_forked() {
            return;
        }
        // What did not end was the caller's to wait for.
        let _ = self.end(Moment::PAST);
        drop(self.shared().take_hooks());
        // SAFETY: taken once, here.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        scheduler::release(handle.0);
    }
}

/// The result of a fiber that `run` has spawned, once it has ended. It may have been `cut_off`.
#[track_caller]
fn finish<T>(fiber: JoinHandle<T>, cut_off: bool) -> T {
    assert!(fiber.was_spawned(), "the runtime has been shut down: it runs nothing any more");
    let cut_off = park::wait_for_borrowers(|| {
        let cut_off = cut_off || !fiber.wait();
        if cut_off {
            fiber.cancel();
            fiber.wait_uncancelled();
        }
        cut_off
    });
    let took_effect = cut_off && !fiber.has_noticed_a_cancel();
    match fiber.join_uncancelled() {
        Ok(value) => {
            if took_effect {
                // No wait of its own was: the timeout or token around the caller has ended nothing.
                cancel::took_effect();
            }
            value
        }
        Err(payload) if payload.is::<Cancelled>() => end_with_it(),
        Err(payload) => match payload.downcast::<StackError>() {
            // Nobody has printed that: nothing has run.
            Ok(error) => panic!("{error}"),
            Err(payload) => cancel::resume(payload),
        },
    }
}

/// The fiber of a `run` was cancelled. So is the caller, or whoever did it was not to.
#[cold]
#[track_caller]
fn end_with_it() -> ! {
    let caller = Owner::here();
    if matches!(caller, Owner::Thread(_)) && caller.scopes().is_empty() {
        panic!("the fiber of `run` was cancelled, by a shutdown of its runtime or by itself");
    }
    cancel::unwind()
}

/// Runs `f` as a fiber and blocks the caller until it has its result: the way into volt from `main`.
///
/// On a plain thread it uses the default runtime, which starts at its first use; inside a fiber it
/// spawns on the fiber's runtime and waits. `f` may borrow, since the call does not return before it
/// has ended. On a plain thread its fiber has the thread's name, `main` as a rule.
///
/// # Panics
///
/// With the payload of `f`, if `f` panics. If the default runtime cannot start, or the fiber's has been
/// shut down, or there is no stack for `f`. On a plain thread, if `f` was cancelled and the caller was not.
///
/// # Cancel
///
/// Where the caller is cancelled, or a timeout or token around it ends, `f` is cancelled, and the call ends
/// when `f` has: it [unwinds](crate::cancel) if that has ended `f`, and else returns what `f` did.
///
/// ```
/// let words = vec!["plain", "code"];
/// let text = volt::run(|| words.join(" "));
/// assert_eq!(text, "plain code");
/// ```
#[track_caller]
pub fn run<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    park::check_wait("run");
    let options = options_of_caller();
    // SAFETY: `finish` returns, or unwinds, only after the fiber's end.
    finish(unsafe { super::default::spawn_current(options, f) }, false)
}

/// Who runs in place of a plain thread has its name: of `main`, mostly.
#[track_caller]
fn options_of_caller() -> SpawnOptions {
    let name = match fiber::current() {
        Some(_) => None,
        None => std::thread::current().name().map(Box::from),
    };
    SpawnOptions { name, size: None, site: Location::caller() }
}

/// Starts a fiber that runs `f`: on the runtime of the calling fiber, or on the default runtime,
/// which starts at its first use. Costs tens of nanoseconds; a stack is taken when it first runs.
///
/// Dropping the handle lets the fiber go on by itself. A panic of `f` ends this fiber only. So does want of memory for
/// its stack: `join` returns a [`StackError`], and where the handle was dropped that goes to stderr,
/// once a second at most.
///
/// # Panics
///
/// If the default runtime cannot start.
///
/// ```
/// let fiber = volt::go(|| 6 * 7);
/// assert_eq!(fiber.join().unwrap(), 42);
/// ```
#[track_caller]
#[inline]
pub fn go<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let options = SpawnOptions { name: None, size: None, site: Location::caller() };
    // SAFETY: both are 'static.
    unsafe { super::default::spawn_current(options, f) }
}

/// Lets the other runnable fibers of this worker run first; on a plain thread, other threads, and so on
/// a fiber that keeps its thread (in [`blocking`](crate::blocking), say). A cancel does not end it.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// volt::run(|| {
///     let done = Arc::new(AtomicBool::new(false));
///     let theirs = Arc::clone(&done);
///     volt::go(move || theirs.store(true, Ordering::Relaxed));
///     while !done.load(Ordering::Relaxed) {
///         volt::yield_now();
///     }
/// });
/// ```
#[inline]
pub fn yield_now() {
    park::yield_now();
}
