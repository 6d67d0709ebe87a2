//! Making a fiber and putting it where it will be found.

use super::shared::Shared;
use super::worker::Worker;
use crate::fiber::{self, FiberPtr, Kind, Spec, Unfilled};
use crate::primitives::check_process;
use crate::primitives::sync::Arc;
use crate::stack::StackSize;
use std::panic::Location;

/// What a spawn may set.
#[derive(Debug)]
pub(crate) struct SpawnOptions {
    pub(crate) name: Option<Box<str>>,
    pub(crate) size: Option<StackSize>,
    pub(crate) site: &'static Location<'static>,
}

/// The scheduler has been shut down.
#[derive(Debug)]
pub(crate) struct Stopped;

/// On which scheduler a fiber is spawned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    On(&'a Shared),
    /// The caller's, or, on a plain thread, this one.
    HereOr(fn() -> &'static Shared),
}

/// Makes a fiber that will run `f`, and enqueues it. Its join handle exists: the caller holds it.
///
/// # Safety
///
/// What `f` and its result borrow must outlive the fiber and its result.
///
/// # Errors
///
/// [`Stopped`] with nothing spawned; `f` is dropped.
#[inline]
pub(crate) unsafe fn spawn<F, T>(
    target: Target<'_>,
    options: SpawnOptions,
    f: F,
) -> Result<FiberPtr, Stopped>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let (unfilled, place) = make(target, options, Kind::of::<F, T>())?;
    // SAFETY: of this kind; the scheduler outlives its fibers (`Shared::of`); the rest is passed on.
    let fiber = unsafe { unfilled.fill(f) };
    // SAFETY: just made; to move a closure switches to nobody.
    unsafe { enqueue(fiber, place) };
    Ok(fiber)
}

/// The worker that the caller is on, if it is one of the fiber's scheduler; else null.
#[derive(Clone, Copy, Debug)]
struct Here(*const Worker<'static>);

/// What of a spawn comes before the closure. Not inlined, nor is what comes after it: it would be in
/// every caller's crate, once for each closure.
#[inline(never)]
fn make(
    target: Target<'_>,
    options: SpawnOptions,
    kind: Kind,
) -> Result<(Unfilled, Here), Stopped> {
    // SAFETY: valid until the next switch; none comes here.
    let worker = unsafe { Worker::current().as_ref() };
    let shared = match (target, worker) {
        (Target::On(shared), _) => shared,
        (Target::HereOr(_), Some(worker)) => worker.shared,
        (Target::HereOr(other), None) => {
            check_process("a spawn");
            other()
        }
    };
    if shared.is_stopping() {
        return Err(Stopped);
    }
    let here =
        worker.filter(|worker| std::ptr::eq(worker.shared, shared) && worker.core().is_some());
    let sampled = match here {
        Some(here) => here.own().sampler.take(options.site),
        None => {
            check_process("a spawn");
            false
        }
    };
    let spec = Spec {
        scheduler: std::ptr::from_ref(shared).cast(),
        site: options.site,
        name: options.name,
        size: options.size.unwrap_or(shared.config.stack_size),
        sampled,
    };
    let here = Here(here.map_or(std::ptr::null(), |here| std::ptr::from_ref(here).cast()));
    Ok((Unfilled::new(spec, kind), here))
}

/// # Safety
///
/// `here` was found with the fiber, and the caller has not switched since.
#[inline(never)]
unsafe fn enqueue(fiber: FiberPtr, here: Here) {
    // SAFETY: passed on.
    let Some(worker) = (unsafe { here.0.as_ref() }) else {
        // SAFETY: the fiber is not done, so its scheduler is there.
        return unsafe { &*Shared::of(fiber) }.push_spawned(fiber);
    };
    worker.held().stats.spawned.add(1);
    worker.push_woken(fiber);
}

/// The join handle of `fiber` goes away, its result not taken.
///
/// Most go as soon as the fiber is spawned, while it stands in the LIFO slot of this worker.
///
/// # Safety
///
/// The caller is the join handle and does not use the fiber afterwards.
#[inline(never)]
pub(crate) unsafe fn drop_handle(fiber: FiberPtr) {
    // SAFETY: valid until the next switch; none comes here.
    let core = unsafe { Worker::current().as_ref() }.and_then(Worker::core);
    if core.is_some_and(|core| core.slot.detach(&core.gate, fiber)) {
        return;
    }
    // SAFETY: passed on.
    unsafe { fiber::drop_handle(fiber) }
}

/// The scheduler whose worker the caller is on, if it is on one.
#[inline]
pub(crate) fn current() -> Option<*const Shared> {
    let worker = Worker::current();
    // SAFETY: valid until the next switch; none comes here.
    unsafe { worker.as_ref() }.map(|worker| std::ptr::from_ref(worker.shared))
}

/// Is the caller on a worker of `shared`?
pub(crate) fn is_here(shared: &Shared) -> bool {
    current().is_some_and(|here| std::ptr::eq(here, shared))
}

/// A fiber of this worker goes on, after so many operations that others may count them.
#[cold]
pub(crate) fn count_leg() {
    // SAFETY: valid until the next switch; none comes here.
    if let Some(worker) = unsafe { Worker::current().as_ref() } {
        worker.ends_leg();
    }
}

/// A fiber of this worker is about to yield because its budget is used up.
#[cold]
pub(crate) fn count_budget_yield() {
    // SAFETY: valid until the next switch; none comes here.
    let Some(worker) = (unsafe { Worker::current().as_ref() }) else { return };
    if let Some(core) = worker.core() {
        core.stats.budget_yields.add(1);
        worker.own_in(core).tick.budget_used_up();
        worker.own_in(core).lifo_run.budget_used_up();
    }
}

/// The index of the worker that the caller is on, for the choice of a timer wheel.
pub(crate) fn current_worker_index() -> Option<usize> {
    let worker = Worker::current();
    // SAFETY: valid until the next switch; none comes here.
    unsafe { worker.as_ref() }.and_then(|worker| worker.core()).map(|core| core.index)
}

/// Keeps `shared` for ever if a fiber of it is not done: its control block points there.
pub(crate) fn release(shared: Arc<Shared>) {
    if shared.live() != 0 {
        std::mem::forget(shared);
    }
}
