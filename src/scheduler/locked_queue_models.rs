//! Under loom: nothing that is pushed is slept over, and nothing is left in a queue that was closed.

use super::*;
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use crate::scheduler::idle::Idle;
use loom::thread;

const PREEMPTIONS: usize = 3;

/// Fibers that stand in no queue any more when this goes.
struct World {
    queue: LockedQueue,
    idle: Idle,
    fibers: Vec<FiberPtr>,
}

impl World {
    fn new(fibers: usize) -> Arc<World> {
        let fibers = (0..fibers).map(|_| FiberPtr::fresh()).collect();
        Arc::new(World { queue: LockedQueue::new(), idle: Idle::new(1, 1), fibers })
    }

    /// Goes to bed; true if the last look saw nothing.
    fn sleeps(&self) -> bool {
        self.idle.park(0, false);
        self.queue.is_empty()
    }

    /// Every thread is done: each of `fibers` is in one of `places`, in order there.
    fn finish(&self, places: &[Vec<FiberPtr>]) {
        let mut seen = Vec::new();
        for place in places {
            let number = |fiber| self.fibers.iter().position(|known| known == fiber).unwrap();
            let numbers: Vec<_> = place.iter().map(number).collect();
            assert!(numbers.is_sorted(), "out of order: {numbers:?}");
            seen.extend(numbers);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..self.fibers.len()).collect::<Vec<_>>(), "lost or taken twice");
        assert!(self.queue.is_empty());
        for fiber in &self.fibers {
            // SAFETY: every thread has ended.
            let _ = unsafe { fiber.destroy() };
        }
    }
}

#[test]
fn the_last_look_sees_a_push_into_the_injector_or_the_pusher_wakes() {
    check(PREEMPTIONS, || {
        let world = World::new(1);
        let theirs = Arc::clone(&world);
        let pusher = thread::spawn(move || {
            theirs.queue.push(theirs.fibers[0]).unwrap();
            theirs.idle.notify(None)
        });
        let sleeps = world.sleeps();
        let claimed = pusher.join().unwrap();
        assert!(!sleeps || claimed == Some(0), "asleep over a full injector");
        world.finish(&[world.queue.take(1).collect()]);
    });
}

#[test]
fn the_last_look_sees_a_push_into_the_mailbox_or_the_pusher_wakes() {
    check(PREEMPTIONS, || {
        let world = World::new(1);
        let theirs = Arc::clone(&world);
        let pusher = thread::spawn(move || {
            theirs.queue.push(theirs.fibers[0]).unwrap();
            theirs.idle.claim(0)
        });
        let sleeps = world.sleeps();
        let claimed = pusher.join().unwrap();
        assert!(!sleeps || claimed, "asleep over a full mailbox");
        world.finish(&[world.queue.take(1).collect()]);
    });
}

/// A take meanwhile: the length that is left is seen, not an older one.
#[test]
fn the_last_look_sees_what_a_take_leaves() {
    check(2, || {
        let world = World::new(3);
        world.queue.push(world.fibers[0]).unwrap();
        let (theirs, others) = (Arc::clone(&world), Arc::clone(&world));
        let pusher = thread::spawn(move || {
            let mut batch = Batch::new();
            batch.push(theirs.fibers[1]);
            batch.push(theirs.fibers[2]);
            theirs.queue.push_batch(batch);
            theirs.idle.notify(None)
        });
        let taker = thread::spawn(move || others.queue.take(1).collect::<Vec<_>>());
        let sleeps = world.sleeps();
        let claimed = pusher.join().unwrap();
        let taken = taker.join().unwrap();
        assert!(!sleeps || claimed == Some(0), "asleep over a full injector");
        world.finish(&[taken, world.queue.take(3).collect()]);
    });
}

#[test]
fn two_push_and_two_take() {
    check(2, || {
        let world = World::new(2);
        let (theirs, others) = (Arc::clone(&world), Arc::clone(&world));
        let pusher = thread::spawn(move || theirs.queue.push(theirs.fibers[1]).unwrap());
        let taker = thread::spawn(move || others.queue.take(2).collect::<Vec<_>>());
        world.queue.push(world.fibers[0]).unwrap();
        let mine = world.queue.take(1).collect::<Vec<_>>();
        pusher.join().unwrap();
        let theirs = taker.join().unwrap();
        let rest: Vec<_> = world.queue.take(2).collect();
        // Two pushers have no order between them, so only the places are looked at.
        world.finish(
            &[mine, theirs, rest].concat().into_iter().map(|f| vec![f]).collect::<Vec<_>>(),
        );
    });
}

#[test]
fn a_push_into_a_queue_that_closes_is_given_back_or_handed_over() {
    check(2, || {
        let world = World::new(2);
        world.queue.push(world.fibers[0]).unwrap();
        let (theirs, others) = (Arc::clone(&world), Arc::clone(&world));
        let pusher = thread::spawn(move || theirs.queue.push(theirs.fibers[1]).err());
        let taker = thread::spawn(move || others.queue.take(1).collect::<Vec<_>>());
        let left: Vec<_> = world.queue.close().collect();
        let given_back = pusher.join().unwrap().into_iter().collect();
        world.finish(&[left, given_back, taker.join().unwrap()]);
    });
}
