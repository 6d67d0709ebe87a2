//! The thread that runs a current-thread runtime: for as long as a `run` takes, or until nothing is left.

use super::join::JoinHandle;
use crate::park;
use crate::primitives::clock::Moment;
use crate::scheduler::{self, Shared, SpawnOptions, Target};
use std::panic::Location;
use std::time::Duration;

/// A fiber that ends looks for drainers without a fence, which would cost each fiber more than its
/// spawn; so one that ends in the very moment when the drain begins may tell nobody.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Runs fibers until `fiber` has ended, which is cancelled when a timeout or a token around the caller ends
/// its waits.
pub(super) fn drive<T: Send>(shared: &Shared, fiber: &JoinHandle<T>) {
    let bound = park::bound();
    let deadline = bound.deadline;
    let tokens = Tokens::watch(shared);
    let is_over = || deadline != Moment::NEVER && Moment::now() >= deadline || tokens.are_over();
    scheduler::run_here(shared, deadline, &|| fiber.is_finished() || is_over());
    if !fiber.is_finished() {
        bound.ended();
        fiber.cancel();
        scheduler::run_here(shared, Moment::NEVER, &|| fiber.is_finished());
    }
    tokens.end(shared);
}

/// The tokens that the caller runs under. It does not wait as others do, so that a cancel could wake it: a
/// fiber that it runs waits in its place.
struct Tokens {
    interrupts: park::Interrupts,
    watcher: Option<JoinHandle<()>>,
}

impl Tokens {
    fn watch(shared: &Shared) -> Tokens {
        let interrupts = park::interrupts();
        let watcher = (!interrupts.is_empty()).then(|| {
            let name = Some(Box::from("token around run"));
            let options = SpawnOptions { name, size: None, site: Location::caller() };
            let theirs = interrupts.clone();
            // SAFETY: `end` waits for it, inside the scopes that the tokens are of, and nothing unwinds before.
            unsafe { JoinHandle::spawn(Target::On(shared), options, move || theirs.wait()) }
        });
        Tokens { interrupts, watcher }
    }

    fn are_over(&self) -> bool {
        self.interrupts.is_any_raised()
    }

    fn end(self, shared: &Shared) {
        if let Some(watcher) = self.watcher {
            watcher.cancel();
            scheduler::run_here(shared, Moment::NEVER, &|| watcher.is_finished());
        }
    }
}

/// Runs the fibers of a current-thread runtime until none is left.
pub(super) fn drive_drained(shared: &Shared, deadline: Moment) {
    shared.begin_drain();
    while shared.live() != 0 && Moment::now() < deadline {
        let slice = Moment::now().saturating_add(LOOK_AGAIN).min(deadline);
        scheduler::run_here(shared, slice, &|| shared.live() == 0 || Moment::now() >= slice);
    }
}
