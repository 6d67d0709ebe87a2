//! Who sleeps in the poller, as a hint: so that all other workers sleep on their threads, but never all
//! of them while the poller is nobody's.
//!
//! The driver's role is a lock; a worker that parks tries it. Where it is taken, either somebody sleeps
//! there, who has said so here, or a busy worker has a look and lets go in a moment. Who rises says so
//! before it lets go of the role, and if it goes on to run something it wakes another worker: so a
//! worker that was put off by a sleeper who has risen meanwhile is woken, and comes here again.
//!
//! # Left for a moment
//!
//! Who rises for a single fiber, or for few, that will not take long is mostly back in some microseconds. To wake
//! another for that is a system call and two switches for each turn. So the poller is left to nobody, and the fibers
//! are told of to nobody, while the supervisor *watches*: 1.5 to 8 ms after the poller was left last (`watch.rs`) it
//! wakes a worker if the seat is empty or something is queued. (Not where it pays to wake one, see `assist.rs`.)
//!
//! Who rises empties the seat, pushes the fibers, full fence, reads `watched`. Who ends the watch stores that, full
//! fence, reads the seat and the queues. Of the two reads one sees the other's store: either a worker is woken by
//! the one who rises, or by the one who has ended the watch. The queues too: another worker may have sat down
//! between the first two steps, and looked at the queues before that.
//!
//! Until the supervisor has looked it will see to those few too that a busy worker finds in the poller in passing,
//! whoever left it: nobody is told of them either. That worker pushes them, full fence, reads the clock; who looks has
//! read the clock, full fence, reads seat and queues. No look comes before `Watch::soonest`: a clock below that was
//! read before the look's, so the look sees what was pushed.

use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::primitives::sync::full_fence;
use crate::primitives::thread;

#[derive(Debug)]
pub(crate) struct PollerSeat {
    /// The worker in the poller plus one, or 0. Written by the holder of the role.
    sitter: AtomicUsize,
    /// When somebody has last left it to nobody, in nanoseconds.
    left: AtomicU64,
    /// The supervisor looks after an empty seat.
    watched: AtomicBool,
}

impl PollerSeat {
    pub(super) fn new() -> PollerSeat {
        PollerSeat {
            sitter: AtomicUsize::new(0),
            left: AtomicU64::new(0),
            watched: AtomicBool::new(false),
        }
    }

    pub(crate) fn taken_by(&self) -> Option<usize> {
        self.sitter.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The holder of the role is about to sleep in it.
    pub(super) fn sit(&self, worker: usize) {
        self.sitter.store(worker + 1, Ordering::Relaxed);
    }

    /// The holder is awake, and still has the role.
    pub(super) fn rise(&self) {
        self.sitter.store(0, Ordering::Relaxed);
    }

    /// Asked by who has risen for few fibers and pushed them: may the poller be left to nobody meanwhile, and the
    /// fibers be told of to nobody?
    #[must_use]
    pub(crate) fn is_watched(&self) -> bool {
        // Pairs with the fence in `end_watch`.
        full_fence();
        self.watched.load(Ordering::Relaxed)
    }

    /// The caller leaves it to nobody, at `now`.
    pub(super) fn leave(&self, now: Moment) {
        self.left.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// When somebody has last done so.
    pub(super) fn left(&self) -> Moment {
        Moment::from_nanos(self.left.load(Ordering::Relaxed))
    }

    /// As `is_watched`, where nothing depends on it but how soon somebody looks.
    pub(super) fn seems_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// From now on the caller looks after the seat.
    pub(crate) fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Ends the watch. `true` if the seat is empty. Then, or if something is queued, the caller wakes a worker: who
    /// has left the seat may have counted on the watch.
    #[must_use]
    pub(crate) fn end_watch(&self) -> bool {
        self.watched.store(false, Ordering::Relaxed);
        // Pairs with the fence in `is_watched`.
        full_fence();
        self.taken_by().is_none()
    }

    /// The role, from `try_role`; `None` if somebody sleeps there. Sleeping elsewhere while a busy
    /// worker has it for a look would leave the poller to nobody.
    pub(super) fn role<R>(&self, try_role: impl Fn() -> Option<R>) -> Option<R> {
        loop {
            if let Some(role) = try_role() {
                return Some(role);
            }
            if self.taken_by().is_some() {
                return None;
            }
            thread::yield_now();
        }
    }
}

/// Under loom: two workers, the role, and the idle set: nobody is left to sleep on its thread while the
/// poller is empty and the other one runs on.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::primitives::models::check;
    use crate::primitives::sync::{Arc, Mutex};
    use crate::scheduler::idle::{Idle, Left};

    struct World {
        seat: PollerSeat,
        role: Mutex<()>,
        idle: Idle,
        queued: AtomicBool,
    }

    fn world() -> Arc<World> {
        Arc::new(World {
            seat: PollerSeat::new(),
            role: Mutex::new(()),
            idle: Idle::new(2, 2),
            queued: AtomicBool::new(false),
        })
    }

    /// Worker 1 parks: true if it sleeps on its thread, with nothing to wake it but a claim.
    fn park(world: &World) -> bool {
        world.idle.park(1, false);
        world.seat.role(|| world.role.try_lock()).is_none()
    }

    #[test]
    fn who_rises_to_work_leaves_the_poller_to_somebody() {
        check(3, || {
            let world = world();
            // Worker 0 sleeps in the poller.
            world.idle.park(0, false);
            let theirs = Arc::clone(&world);
            let role = world.role.lock();
            world.seat.sit(0);
            let other = loom::thread::spawn(move || park(&theirs));
            // An event: it rises, and is about to run what the event has woken.
            world.seat.rise();
            drop(role);
            let left = world.idle.unpark(0);
            let mut woken = world.idle.notify(world.seat.taken_by());
            let last = left == Left::Claimed && world.idle.end_search();
            if last && world.seat.taken_by().is_none() {
                // Somebody has claimed it, so it counted as searching. It finds the work, and wakes the next.
                woken = woken.or(world.idle.notify(world.seat.taken_by()));
            }
            let on_thread = other.join().unwrap();
            assert!(!on_thread || woken == Some(1), "nobody is in the poller, nobody comes");
        });
    }

    /// Worker 0 rises for few fibers and tells nobody of them; meanwhile the watch ends, and worker 1 may sit down.
    #[test]
    fn who_leaves_the_poller_to_nobody_is_watched_or_replaced() {
        check(3, || {
            let world = world();
            world.seat.watch();
            let role = world.role.lock();
            world.seat.sit(0);
            let theirs = Arc::clone(&world);
            let supervisor = loom::thread::spawn(move || {
                theirs.seat.end_watch() || theirs.queued.load(Ordering::Relaxed)
            });
            let theirs = Arc::clone(&world);
            let other = loom::thread::spawn(move || {
                if let Some(_role) = theirs.role.try_lock() {
                    theirs.seat.sit(1);
                }
            });
            world.seat.rise();
            drop(role);
            world.queued.store(true, Ordering::Relaxed);
            let leaves = world.seat.is_watched();
            other.join().unwrap();
            let replaces = supervisor.join().unwrap();
            assert!(!leaves || replaces, "nobody is told, nobody comes");
        });
    }

    /// Worker 0, busy, has found few in passing and tells nobody; the supervisor has not looked for the poller yet, as
    /// the clock says.
    #[test]
    fn few_that_come_in_passing_are_seen_by_the_look_that_is_to_come() {
        check(3, || {
            let world = world();
            world.seat.watch();
            let time = Arc::new(AtomicU64::new(0));
            let (theirs, clock) = (Arc::clone(&world), Arc::clone(&time));
            let supervisor = loom::thread::spawn(move || {
                clock.store(1, Ordering::Relaxed);
                let now = clock.load(Ordering::Relaxed);
                full_fence();
                (now >= 1).then(|| theirs.queued.load(Ordering::Relaxed))
            });
            world.queued.store(true, Ordering::Relaxed);
            let leaves = world.seat.is_watched() && time.load(Ordering::Relaxed) < 1;
            let sees = supervisor.join().unwrap();
            assert!(!leaves || sees == Some(true), "nobody is told, nobody looks");
        });
    }

    #[test]
    fn a_look_in_passing_sends_nobody_to_bed() {
        check(3, || {
            let world = world();
            let theirs = Arc::clone(&world);
            let role = world.role.lock();
            let other = loom::thread::spawn(move || park(&theirs));
            // Its look takes a while.
            loom::thread::yield_now();
            drop(role);
            assert!(!other.join().unwrap(), "asleep on its thread, and the poller is empty");
        });
    }
}
