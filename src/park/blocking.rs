//! Code that blocks its thread: the worker's core goes to another thread meanwhile.

use super::{Parking, Wait, wake};
use crate::fiber::{self, FiberPtr};
use crate::primitives::thread;
use crate::scheduler::{self, Shared};

/// Runs `f`, which may block its thread: a call into a library that knows nothing of fibers, a file
/// read, a long computation. Other fibers are not held up: the worker's queues and its core go to
/// another thread first, and `f` runs right here, on this fiber's stack.
///
/// Inside, [`go`](crate::go) works as elsewhere, and whatever waits blocks the thread. Calls may be
/// nested; a panic of `f` passes through. On a plain thread `f` simply runs. A call costs one to ten
/// microseconds, for the wake of a thread: the less, the sooner it returns and the fewer fibers wait to run.
///
/// As many fibers as [`Builder::max_blocking`](crate::runtime::Builder::max_blocking) says, 512
/// unless set, may be here at the same time; those beyond wait, and
/// [`Handle::stats`](crate::runtime::Handle::stats) counts how often. A cancel ends neither that wait
/// nor `f`; the waits in `f` it ends as elsewhere, but for one for the kernel (a `read` of a socket, say)
/// that has begun. See [`volt::cancel`](crate::cancel).
///
/// On a runtime with `Migrate::BeforeStart` the fibers that have started on this thread wait until
/// `f` returns, since they cannot go elsewhere. A current-thread runtime runs its other fibers on a
/// helper thread meanwhile.
///
/// ```
/// let fiber = volt::go(|| {
///     let text = volt::blocking(|| std::fs::read_to_string("Cargo.toml"))?;
///     std::io::Result::Ok(text.len())
/// });
/// assert!(fiber.join().unwrap().unwrap() > 0);
/// ```
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    let Some(fiber) = fiber::current() else { return f() };
    if super::stays(fiber) {
        return in_place(fiber, f);
    }
    let _room = Room::enter(fiber);
    let _pin = Pin::new(fiber);
    f()
}

/// The fiber keeps its thread anyway: it is in `blocking` or `pinned`, or unwinding.
fn in_place<T>(fiber: FiberPtr, f: impl FnOnce() -> T) -> T {
    // SAFETY: the calling fiber, on its worker.
    unsafe { scheduler::hand_off(fiber) };
    f()
}

/// Runs `f` with the thread to itself: see `thread::pinned`.
pub(crate) fn pinned<T>(f: impl FnOnce() -> T) -> T {
    let Some(fiber) = fiber::current() else { return f() };
    if super::stays(fiber) {
        return in_place(fiber, f);
    }
    let _pin = Pin::new(fiber);
    f()
}

/// One of the places that `max_blocking` allows.
struct Room(FiberPtr);

impl Room {
    fn enter(fiber: FiberPtr) -> Room {
        // SAFETY: a fiber's scheduler outlives the fiber.
        let limit = unsafe { &(*Shared::of(fiber)).blocking };
        let parking = Parking::begin();
        if !limit.enter(|| parking.waiter()) {
            #[cfg(feature = "tracing")]
            tracing::warn!(site = %fiber.site, "a fiber waits for its turn to block: see max_blocking");
            let _ = parking.park(Wait::new("blocking"));
        }
        Room(fiber)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: as above.
        let limit = unsafe { &(*Shared::of(self.0)).blocking };
        limit.leave().into_iter().for_each(wake);
    }
}

/// The fiber keeps its thread, without a core.
struct Pin(FiberPtr);

impl Pin {
    fn new(fiber: FiberPtr) -> Pin {
        // SAFETY: the calling fiber, on its worker; the flag is its own.
        unsafe {
            scheduler::hand_off(fiber);
            fiber.pinned.with_mut(|pinned| *pinned = true);
        }
        Pin(fiber)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // SAFETY: as above. A fiber that unwinds keeps its thread until its next wait after that.
        unsafe {
            self.0.pinned.with_mut(|pinned| *pinned = false);
            if !thread::panicking() {
                debug_assert_eq!(fiber::current(), Some(self.0));
                scheduler::regain_core(self.0);
            }
        }
    }
}
