//! Under loom: a fiber that its joiner starts out of turn, while its queue entry is still on its way to
//! a worker: it is started once, stands in one place at a time, and its block outlives the entry.

use super::end::{Left, Unseen, Woken, complete, has_ended};
use super::*;
use crate::primitives::models::check;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};
use crate::primitives::sync::{Arc, Mutex};
use loom::thread::spawn;

const PREEMPTIONS: usize = 3;

/// The queues of all workers, and what has run.
struct World {
    fiber: FiberPtr,
    entries: Mutex<Vec<FiberPtr>>,
    starts: AtomicUsize,
    /// Times that the fiber was given the processor.
    runs: AtomicUsize,
}

impl World {
    /// A fresh fiber in a queue; its join handle is the caller's.
    fn new() -> Arc<World> {
        let fiber = FiberPtr::fresh();
        Arc::new(World {
            fiber,
            entries: Mutex::new(vec![fiber]),
            starts: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
        })
    }

    /// What a waker does, or the worker that the fiber has left by a yield.
    fn enqueue(&self) {
        if !self.fiber.has_entry() {
            let mut entries = self.entries.lock();
            assert!(entries.is_empty(), "in two places");
            entries.push(self.fiber);
        }
    }

    /// A worker takes the entry, if it is there.
    fn work(&self) {
        let taken = self.entries.lock().pop();
        if let Some(fiber) = taken.filter(|fiber| fiber.admit()) {
            self.run(fiber);
        }
    }

    /// Yields at its first run, ends at the second.
    fn run(&self, fiber: FiberPtr) {
        match self.runs.fetch_add(1, Ordering::AcqRel) {
            0 => {
                self.starts.fetch_add(1, Ordering::Relaxed);
                self.enqueue();
            }
            1 => {
                // SAFETY: the fiber's own, at its end; nobody waits for it.
                let woken = unsafe {
                    fiber.put_result();
                    complete::<Unseen>(fiber, Left::Result)
                };
                assert!(matches!(woken, Woken::Nobody));
            }
            n => panic!("given the processor {n} times before"),
        }
    }
}

#[test]
fn an_entry_that_is_left_over_meets_a_worker_and_a_yield() {
    check(PREEMPTIONS, || {
        let world = World::new();
        let theirs = Arc::clone(&world);
        let worker = spawn(move || {
            theirs.work();
            theirs.work();
        });
        if world.fiber.start_out_of_turn() {
            world.run(world.fiber);
        }
        worker.join().unwrap();
        // Whatever is left in the queue is the fiber's.
        while !has_ended(world.fiber) {
            world.work();
        }
        world.work();
        assert!(world.entries.lock().is_empty());
        assert_eq!(world.starts.load(Ordering::Relaxed), 1);
        // SAFETY: the fiber is done, and this is its handle; nobody else is left.
        let (freed, dropped) = unsafe {
            world.fiber.drop_result();
            release_block(world.fiber);
            world.fiber.destroy()
        };
        assert!(freed && dropped);
    });
}

#[test]
fn of_two_who_find_a_left_over_entry_one_has_it() {
    check(PREEMPTIONS, || {
        let fiber = FiberPtr::fresh();
        assert!(fiber.start_out_of_turn());
        // One takes the entry out of its queue, the other one wakes the fiber.
        let skips = spawn(move || !fiber.admit());
        let adopts = fiber.has_entry();
        assert!(skips.join().unwrap() != adopts);
        // SAFETY: nobody else is left; the fiber runs and has its handle still.
        unsafe { fiber.destroy() };
    });
}
