//! Code that blocks its thread: the worker's core goes to another thread meanwhile.

use super::{Parking, Wait, wake};
use crate::fiber::{self, FiberPtr};
use crate::primitives::clock::Moment;
use crate::primitives::thread;
use crate::scheduler::{self, CallSite, Shared};
use std::mem;
use std::panic::Location;
use std::time::Duration;

/// Runs `f`, which may block its thread: a call into a library that knows nothing of fibers, a file
/// read, a long computation. Other fibers are not held up, or for 25 ms at most where `f` was expected to be brief (see
/// below): the worker's queues and its core go to another thread first, and `f` runs right here, on this fiber's stack.
///
/// Inside, [`go`](crate::go) works as elsewhere, and whatever waits blocks the thread. Calls may be
/// nested; a panic of `f` passes through. On a plain thread `f` simply runs.
///
/// A call costs up to ten microseconds, for the wake of a thread. So the runtime learns, place by place in the program,
/// which calls return in less than 20 us, as reads of files in the page cache do: after 16 of them the worker keeps its
/// core for the next, which costs 0.15 us. One that is long after all loses the core when `f` waits for something of
/// volt's, or at a look of the supervisor, which comes within a quarter of its
/// [period](crate::runtime::Builder::stall_period), 25 ms unless set; where that is longer, or where there is none, no
/// call keeps the core. Until then others wait, but for those whom free workers take over; and that place has to make
/// up for it: one brief call for each 5 us of it before a call keeps the core again.
/// [`learn_blocking`](crate::runtime::Builder::learn_blocking) switches it off.
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
/// # Panics
///
/// On a fiber that still has its worker's core: in the child of a fork, and inside a signal handler or on a stack that
/// is not volt's, but for a call that is expected to be brief. `f` has not run then.
///
/// ```
/// let fiber = volt::go(|| {
///     let text = volt::blocking(|| std::fs::read_to_string("Cargo.toml"))?;
///     std::io::Result::Ok(text.len())
/// });
/// assert!(fiber.join().unwrap().unwrap() > 0);
/// ```
#[track_caller]
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    let Some(fiber) = fiber::current() else { return f() };
    if super::stays(fiber) {
        return in_place(fiber, f);
    }
    let room = Room::enter(fiber);
    let site = Location::caller();
    let pin = Pin::keep_core(fiber, site).unwrap_or_else(|| Pin::new(fiber));
    let began = Moment::now();
    let result = f();
    let time = Moment::now().since(began);
    // SAFETY: the calling fiber, whose scheduler outlives it.
    unsafe { Shared::of(fiber).as_ref() }.inspect(|shared| shared.blocked_for(site, time));
    let kept = pin.end();
    drop(room);
    charge_for(fiber, if kept { time } else { Duration::ZERO });
    result
}

/// A call is an operation; what a fiber did with the core in its hand counts as many as fill that time otherwise.
fn charge_for(fiber: FiberPtr, time: Duration) {
    const OPERATION: u128 = 150;
    // SAFETY: a fiber runs on a worker; the seat is valid until the next switch.
    let seat = unsafe { &*fiber::seat() };
    seat.shorten_budget(u32::try_from(time.as_nanos() / OPERATION).unwrap_or(u32::MAX));
    super::charge(fiber);
}

/// The fiber keeps its thread anyway: it is in `blocking` or `pinned`, or unwinding.
fn in_place<T>(fiber: FiberPtr, f: impl FnOnce() -> T) -> T {
    super::hand_off(fiber, "blocking");
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
        super::check_process();
        if !limit.try_enter() {
            // The program's own code, which may wait or panic: no wait is open yet.
            #[cfg(feature = "tracing")]
            tracing::warn!(site = %fiber.site, "a fiber waits for its turn to block: see max_blocking");
            let parking = Parking::begin("blocking");
            if !limit.enter(|| parking.waiter()) {
                let _ = parking.park(Wait::new("blocking"));
            }
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

/// The fiber keeps its thread, without a core but where a call is expected to be brief.
struct Pin(FiberPtr);

impl Pin {
    fn new(fiber: FiberPtr) -> Pin {
        super::hand_off(fiber, "blocking");
        Pin::here(fiber)
    }

    /// `None` if a call at `site` may take long.
    fn keep_core(fiber: FiberPtr, site: CallSite) -> Option<Pin> {
        // SAFETY: the calling fiber, on its worker; it is pinned, and the drop ends the call.
        unsafe { scheduler::keep_core(site) }.then(|| Pin::here(fiber))
    }

    fn here(fiber: FiberPtr) -> Pin {
        // SAFETY: the calling fiber's own.
        fiber.pinned.with_mut(|pinned| unsafe { *pinned = true });
        Pin(fiber)
    }

    /// True if the core was kept to the end.
    fn end(self) -> bool {
        let kept = self.unpin();
        mem::forget(self);
        kept
    }

    fn unpin(&self) -> bool {
        let fiber = self.0;
        // SAFETY: as above. A fiber that unwinds keeps its thread until its next wait after that.
        unsafe {
            fiber.pinned.with_mut(|pinned| *pinned = false);
            let kept = scheduler::end_call();
            if !kept && !thread::panicking() {
                debug_assert_eq!(fiber::current(), Some(fiber));
                scheduler::regain_core(fiber);
            }
            kept
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.unpin();
    }
}
