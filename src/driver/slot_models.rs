//! Under loom: an event is seen by whoever looks, tries and waits, wherever it comes.

use super::slot::{Direction, IoNode, READ_CLOSED, READ_READY, Readiness, Slot};
use crate::fiber::{Batch, Ends, Interrupt, Outcome, ThreadBlock, WaiterPtr, Wake};
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use crate::primitives::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread::spawn;
use std::pin::pin;

struct World {
    slot: Slot,
    generation: u32,
    /// What the kernel has for a read.
    data: AtomicBool,
    /// Those that the kernel has for an accept.
    connections: AtomicUsize,
}

impl World {
    fn new() -> Arc<World> {
        let slot = Slot::new();
        let generation = slot.open(Direction::Read);
        let (data, connections) = (AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(World { slot, generation, data, connections })
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
        let outcome = self.wait_for(Direction::Read, thread, || ());
        assert!(matches!(outcome, None | Some(Outcome::Woken(0))));
    }

    /// How the wait has ended, if there was one.
    fn wait_for(
        &self,
        direction: Direction,
        thread: &Arc<ThreadBlock>,
        linked: impl FnOnce(),
    ) -> Option<Outcome> {
        thread.state().begin_wait();
        let mut node = pin!(IoNode::new(WaiterPtr::of_thread(thread)));
        if !self.slot.enqueue(direction, node.as_mut()) {
            return None;
        }
        linked();
        // A wake that never comes is a deadlock, which loom reports.
        let outcome = thread.wait(thread.state(), Ends::BY_SOURCES, None);
        self.slot.cancel(direction, node);
        Some(outcome)
    }

    /// A connection comes, and the poller is told.
    fn connection(&self) {
        self.connections.fetch_add(1, Ordering::AcqRel);
        self.deliver();
    }

    /// Accepts one, and passes on.
    fn accept(&self) {
        let thread = ThreadBlock::new();
        loop {
            let Some(tick) = self.slot.ready(Direction::Accept) else {
                self.wait_for(Direction::Accept, &thread, || ());
                continue;
            };
            if self.take() {
                break;
            }
            self.slot.clear(Direction::Accept, tick);
        }
        self.pass_on();
    }

    /// What the kernel does for an accept.
    fn take(&self) -> bool {
        let connections = &self.connections;
        let mut left = connections.load(Ordering::Acquire);
        while left != 0 {
            match connections.compare_exchange(left, left - 1, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return true,
                Err(seen) => left = seen,
            }
        }
        false
    }

    /// Waits to accept, and may be told to stop.
    fn accept_until(&self, stop: &Interrupt) {
        let thread = ThreadBlock::new();
        let linked = || {
            if !stop.link(WaiterPtr::of_thread(&thread)) {
                let _ = thread.state().settle(Outcome::Cancelled);
            }
        };
        let outcome = self.wait_for(Direction::Accept, &thread, linked);
        if outcome.is_some() {
            stop.unlink();
        }
        // Whom an event chose is on the way. Others pass on too, elsewhere: it is not needed here.
        if outcome != Some(Outcome::Cancelled) {
            self.pass_on();
        }
    }

    fn pass_on(&self) {
        run(self.slot.pass_on(|| self.connections.load(Ordering::Acquire) != 0));
    }
}

fn run(wake: Option<Wake>) {
    match wake {
        Some(Wake::Thread(thread)) => thread.wake(),
        Some(Wake::Fiber(fiber)) => panic!("{fiber:?} does not wait here"),
        None => {}
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

/// Two accept one each of the two that `poller` tells of.
fn two_are_accepted(poller: fn(&World)) {
    check(2, move || {
        let world = World::new();
        let beside = |f: fn(&World)| {
            let world = Arc::clone(&world);
            spawn(move || f(&world))
        };
        let others = [beside(poller), beside(World::accept)];
        world.accept();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// The kernel tells of two that come together by one event.
#[test]
fn one_event_of_two_connections_serves_two() {
    two_are_accepted(|world| {
        world.connections.fetch_add(2, Ordering::AcqRel);
        world.deliver();
    });
}

#[test]
fn each_of_two_connections_is_accepted() {
    two_are_accepted(|world| (0..2).for_each(|_| world.connection()));
}

#[test]
fn a_connection_for_one_who_is_stopped_serves_the_next() {
    check(2, || {
        let world = World::new();
        let stop = Arc::new(Interrupt::new());
        let (theirs, until) = (Arc::clone(&world), Arc::clone(&stop));
        let stopped = spawn(move || theirs.accept_until(&until));
        let theirs = Arc::clone(&world);
        let poller = spawn(move || theirs.connection());
        run(stop.raise());
        world.accept();
        poller.join().unwrap();
        stopped.join().unwrap();
    });
}

#[test]
fn the_end_of_a_listener_wakes_all_acceptors() {
    check(2, || {
        let world = World::new();
        let waits = || {
            let (world, thread) = (Arc::clone(&world), ThreadBlock::new());
            spawn(move || {
                world.wait_for(Direction::Accept, &thread, || ());
            })
        };
        let waiters = [waits(), waits()];
        let mut settled = Batch::new();
        let readiness = Readiness(READ_READY | READ_CLOSED);
        world.slot.deliver(world.generation, readiness, &mut settled);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}
