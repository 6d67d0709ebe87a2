//! Under loom: no unpark is lost, wherever the worker sleeps and whoever else disturbs it.

use super::*;
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use crate::primitives::sync::atomic::AtomicBool;
use loom::thread::{JoinHandle, spawn};

const PREEMPTIONS: usize = 3;

#[derive(Clone, Copy)]
enum Bed {
    Thread,
    Poller,
}

struct World {
    parker: Parker,
    driver: Driver,
    /// Relaxed: only the parker's own orderings show it to the one who wakes.
    work: [AtomicBool; 2],
}

impl World {
    /// Made by the worker's thread.
    fn new() -> Arc<World> {
        let work = [AtomicBool::new(false), AtomicBool::new(false)];
        let world = World { parker: Parker::new(), driver: Driver::new(), work };
        world.parker.set_thread();
        Arc::new(world)
    }

    fn sleep(&self, bed: Bed) {
        match bed {
            Bed::Thread => self.parker.sleep_on_thread(None),
            Bed::Poller => self.parker.sleep_in_poller(|| self.driver.wait()),
        }
    }

    fn has(&self, work: usize) -> bool {
        self.work[work].load(Ordering::Relaxed)
    }

    /// As a worker does: looks, and sleeps as long as it sees nothing. loom reports the sleep from
    /// which nobody wakes it.
    fn sleep_until(&self, work: usize, bed: Bed) {
        while !self.has(work) {
            self.sleep(bed);
        }
    }
}

/// One more thread, which brings work and unparks the worker.
fn bring(world: &Arc<World>, work: usize) -> JoinHandle<()> {
    let world = Arc::clone(world);
    spawn(move || {
        world.work[work].store(true, Ordering::Relaxed);
        world.parker.unpark(&world.driver);
    })
}

/// Runs `worker` on a thread of its own, which waits nowhere but in its parker: loom lets an unpark
/// end any wait of a thread. It returns those who are still at it.
fn model<const N: usize>(
    preemptions: usize,
    worker: impl Fn(Arc<World>) -> [JoinHandle<()>; N] + Copy + Sync + Send + 'static,
) {
    check(preemptions, move || {
        let others = spawn(move || worker(World::new())).join().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn an_unpark_ends_the_sleep_or_keeps_it_from_happening() {
    for bed in [Bed::Thread, Bed::Poller] {
        model(PREEMPTIONS, move |world| {
            let other = bring(&world, 0);
            // Once: an unpark ends a sleep, even if it came first.
            world.sleep(bed);
            assert!(world.has(0), "awake, and does not see why");
            [other]
        });
    }
}

#[test]
fn two_who_unpark_are_both_seen() {
    for bed in [Bed::Thread, Bed::Poller] {
        model(PREEMPTIONS, move |world| {
            let others = [bring(&world, 0), bring(&world, 1)];
            world.sleep_until(0, bed);
            world.sleep_until(1, bed);
            others
        });
    }
}

#[test]
fn a_sleep_in_the_poller_that_ends_by_itself() {
    model(PREEMPTIONS, |world| {
        let other = bring(&world, 0);
        let theirs = Arc::clone(&world);
        let event = spawn(move || theirs.driver.interrupt());
        world.sleep_until(0, Bed::Poller);
        [other, event]
    });
}

#[test]
fn a_permit_of_the_thread_that_somebody_else_made() {
    model(PREEMPTIONS, |world| {
        let other = bring(&world, 0);
        let thread = loom::thread::current();
        let stranger = spawn(move || thread.unpark());
        world.sleep(Bed::Thread);
        assert!(world.has(0), "awake without an unpark");
        [other, stranger]
    });
}

/// A late unpark ends a later sleep, of either kind, which then sees what the unparker did.
#[test]
fn from_one_bed_to_the_other() {
    for beds in [[Bed::Poller, Bed::Thread], [Bed::Thread, Bed::Poller]] {
        model(PREEMPTIONS, move |world| {
            let others = [bring(&world, 0), bring(&world, 1)];
            world.sleep_until(0, beds[0]);
            world.sleep_until(1, beds[1]);
            others
        });
    }
}
