//! The thread that runs a current-thread runtime: for as long as a `run` takes, or until nothing is left.
//!
//! Who unwinds from a panic has another one do it: the count of panics is the thread's, so that all fibers would be
//! taken for such as unwind themselves, whose waits keep the thread and end by nothing, and whose locks are poisoned.

use super::join::JoinHandle;
use crate::fiber::{Owner, Waiters};
use crate::park::{self, Wait};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::primitives::thread;
use crate::scheduler::{self, Shared};
use std::panic::resume_unwind;
use std::time::Duration;

/// Whether a thread drives a current-thread runtime. Others wait until none does, or for their fiber, which whoever
/// drives runs as well: he may go on for long, or wait for them.
#[derive(Debug, Default)]
pub(super) struct Driven {
    taken: AtomicBool,
    free: Waiters,
}

impl Driven {
    fn take(&self) -> Option<Driving<'_>> {
        let taken = self.taken.swap(true, Ordering::Acquire);
        (!taken).then(|| Driving(self))
    }

    fn is_free(&self) -> bool {
        !self.taken.load(Ordering::Relaxed)
    }
}

struct Driving<'s>(&'s Driven);

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
        self.0.free.settle_all().into_iter().for_each(park::wake);
    }
}

/// Drives, or waits while another thread does, until `fiber` has ended. Was it cancelled, because something around the
/// caller has ended its waits?
pub(super) fn run_to_end<T: Send>(driven: &Driven, shared: &Shared, fiber: &JoinHandle<T>) -> bool {
    let mut cut_off = false;
    while !fiber.is_finished() {
        if let Some(_driving) = driven.take() {
            return calmly(shared, || drive(shared, fiber)) || cut_off;
        }
        let wait = if cut_off { Wait::new("join") } else { Wait::cancellable("join") };
        if !fiber.wait_beside(&driven.free, || driven.is_free(), wait) {
            cut_off = true;
            fiber.cancel();
        }
    }
    cut_off
}

/// How long it takes to notice what wakes nobody: a token that is cancelled around the thread; a last end,
/// where that fiber looked for drainers in the very moment when the drain began (without a fence, which would
/// cost each fiber more than its spawn).
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Runs fibers until `fiber` has ended, which is cancelled when a timeout or a token around the caller ends
/// its waits. Has it been?
///
/// A cancel of a token wakes those who wait under it, and the caller does not wait as they do: it looks.
fn drive<T>(shared: &Shared, fiber: &JoinHandle<T>) -> bool {
    let bound = park::bound();
    let owner = Owner::here();
    let tokens = park::interrupts(&owner);
    let has_passed = |deadline| deadline != Moment::NEVER && Moment::now() >= deadline;
    let is_over = || has_passed(bound.deadline) || tokens.is_any_raised();
    let is_done = || fiber.is_finished() || is_over() || shared.is_stopping();
    while !is_done() {
        let look = if tokens.is_empty() { Duration::MAX } else { LOOK_AGAIN };
        let look = Moment::now().saturating_add(look).min(bound.deadline);
        scheduler::run_here(shared, look, &|| is_done() || has_passed(look));
    }
    let cut_off = !fiber.is_finished();
    if cut_off {
        bound.ended();
        fiber.cancel();
        scheduler::run_here(shared, Moment::NEVER, &|| fiber.is_finished());
    }
    cut_off
}

/// Calls `drive` on a thread that does not unwind: the caller's, or a new one. Fibers that must not leave their thread
/// stay, as they do where there are no more threads.
fn calmly<R: Send>(shared: &Shared, drive: impl Fn() -> R + Sync) -> R {
    if !thread::panicking() || !shared.runs_anywhere() {
        return drive();
    }
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("volt-driver".into());
        match builder.spawn_scoped(scope, &drive) {
            Ok(thread) => thread.join().unwrap_or_else(|payload| resume_unwind(payload)),
            Err(_) => drive(),
        }
    })
}

/// Runs the fibers of a current-thread runtime until none is left.
pub(super) fn drive_drained(shared: &Shared, deadline: Moment) {
    calmly(shared, || drain(shared, deadline));
}

fn drain(shared: &Shared, deadline: Moment) {
    shared.begin_drain();
    while shared.live() != 0 && Moment::now() < deadline {
        let slice = Moment::now().saturating_add(LOOK_AGAIN).min(deadline);
        scheduler::run_here(shared, slice, &|| shared.live() == 0 || Moment::now() >= slice);
    }
}
