//! Under loom: an event is seen by whoever looks, tries and waits, wherever it comes.

use super::slot::{Direction, IoNode, READ_READY, Readiness, Slot};
use crate::fiber::{Batch, Ends, Outcome, ThreadBlock, WaiterPtr};
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use loom::thread::spawn;
use std::pin::pin;

struct World {
    slot: Slot,
    generation: u32,
    /// What the kernel has for a read.
    data: AtomicBool,
}

impl World {
    fn new() -> Arc<World> {
        let slot = Slot::new();
        let generation = slot.open(Direction::Read);
        Arc::new(World { slot, generation, data: AtomicBool::new(false) })
    }

    /// Something comes, and the poller is told.
    fn event(&self) {
        self.data.store(true, Ordering::Release);
        self.deliver();
    }

    fn deliver(&self) {
        let mut settled = Batch::new();
        self.slot.deliver(self.generation, Readiness(READ_READY), &mut settled);
        assert!(settled.is_empty(), "a thread is no fiber");
    }

    /// Tries until there is something, and waits in between, as `io` does.
    fn read(&self) {
        let thread = ThreadBlock::new();
        loop {
            let Some(tick) = self.slot.ready(Direction::Read) else {
                self.wait(&thread);
                continue;
            };
            if self.data.load(Ordering::Acquire) {
                return;
            }
            self.slot.clear(Direction::Read, tick);
        }
    }

    fn wait(&self, thread: &Arc<ThreadBlock>) {
        thread.state().begin_wait();
        let mut node = pin!(IoNode::new(WaiterPtr::of_thread(thread)));
        if !self.slot.enqueue(Direction::Read, node.as_mut()) {
            return;
        }
        // A wake that never comes is a deadlock, which loom reports.
        let outcome = thread.wait(thread.state(), Ends::BY_SOURCES, None);
        assert_eq!(outcome, Outcome::Woken(0));
        self.slot.cancel(Direction::Read, node);
    }
}

/// Something comes, after so many old events, while so many read.
fn an_event_is_read(preemptions: usize, before: usize, readers: usize) {
    check(preemptions, move || {
        let world = World::new();
        (0..before).for_each(|_| world.deliver());
        let beside = |f: fn(&World)| {
            let world = Arc::clone(&world);
            spawn(move || f(&world))
        };
        let poller = beside(World::event);
        let others: Vec<_> = (1..readers).map(|_| beside(World::read)).collect();
        world.read();
        poller.join().unwrap();
        others.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn an_event_is_never_slept_over() {
    an_event_is_read(3, 0, 1);
}

/// Readiness is noted, and turns out to be old just when something comes.
#[test]
fn an_event_is_not_taken_for_the_one_before() {
    an_event_is_read(3, 1, 1);
}

#[test]
fn an_event_wakes_all_who_wait() {
    an_event_is_read(2, 0, 2);
}
