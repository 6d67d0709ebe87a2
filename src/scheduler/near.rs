//! Where a woken fiber went, and whether it runs as soon as the caller makes way.

use super::core::Core;
use super::shared::Shared;
use super::worker::Worker;
use crate::fiber::Wake;
use crate::primitives::sync::atomic::Ordering;
use std::ptr;

/// So many robberies of a core are told apart, less one.
const ROBBERIES: usize = 63;

/// The queues into which a wake puts its fiber: addresses that are compared and nothing else, so that a
/// wrong one does no harm but to speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination(usize);

impl Destination {
    /// None: a thread was woken, which takes long to come; or whoever it was had not gone to sleep yet, and so
    /// runs on another thread than the caller does.
    const NONE: Destination = Destination(0);

    /// Those into which the caller's wake puts its fiber.
    pub(crate) fn of(wake: Option<&Wake>) -> Destination {
        let fiber = match wake {
            None | Some(Wake::Thread(_)) => return Destination::NONE,
            Some(Wake::Fiber(fiber)) => fiber,
        };
        let shared = Shared::of(*fiber);
        // SAFETY: valid until the next switch; none comes here.
        match unsafe { Worker::current().as_ref() } {
            Some(worker) if ptr::eq(worker.shared, shared) && !worker.is_vacated() => {
                Destination::of_core(worker.held())
            }
            _ => Destination::of_all(shared),
        }
    }

    /// They change when somebody steals from the core: the fiber may be among what was taken.
    fn of_core(core: &Core) -> Destination {
        const _: () = assert!(align_of::<Core>() > ROBBERIES);
        let robbed = core.robbed.load(Ordering::Relaxed) as usize & ROBBERIES;
        Destination(ptr::from_ref(core) as usize + robbed)
    }

    /// Where the workers of a scheduler share.
    fn of_all(shared: *const Shared) -> Destination {
        Destination(shared as usize)
    }

    pub(crate) fn from_word(word: usize) -> Destination {
        Destination(word)
    }

    pub(crate) fn word(self) -> usize {
        self.0
    }
}

/// Does a fiber that was put there (`to`) run once the calling fiber leaves its worker? So it does if
/// that worker is the one to run it, and nobody has stolen from it since.
pub(crate) fn is_near(to: Destination) -> bool {
    // SAFETY: valid until the next switch; none comes here.
    let Some(worker) = (unsafe { Worker::current().as_ref() }) else { return false };
    let shared = worker.shared;
    if to == Destination::NONE || !shared.moves_freely || worker.is_vacated() {
        return false;
    }
    to == Destination::of_core(worker.held())
        || shared.config.workers == 1 && to == Destination::of_all(shared)
}

/// Is the calling fiber on a worker whose place another has taken? It runs beside all others then, and
/// keeps none of them from running.
pub(crate) fn is_beside_workers() -> bool {
    // SAFETY: as above.
    unsafe { Worker::current().as_ref() }.is_some_and(Worker::is_vacated)
}
