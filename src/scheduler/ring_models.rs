//! Under loom: whatever owner and thieves do at once, each fiber comes out once, the oldest first, no
//! slot is written while somebody reads it, and the ring is whole afterwards.
//!
//! Rings have four slots here, and begin just below the wrap of their indices.

use super::*;
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use loom::thread::{self, JoinHandle};

/// With two threads.
const PREEMPTIONS: usize = 4;
/// With three.
const PREEMPTIONS_OF_THREE: usize = 2;

struct World {
    ring: Ring,
    fibers: Vec<FiberPtr>,
}

impl World {
    /// A ring that holds the first `queued` of `count` fibers, whose index wraps while they run out.
    fn new(count: usize, queued: usize) -> Arc<World> {
        let fibers: Vec<_> = (0..count).map(|_| FiberPtr::fresh()).collect();
        let ring = Ring::at(u32::MAX - 1);
        for fiber in &fibers[..queued] {
            ring.push(*fiber).expect("not more than it holds");
        }
        Arc::new(World { ring, fibers })
    }

    /// The owner pushes fiber `number`; what overflows is added to `taken`.
    fn push(&self, number: usize, taken: &mut Vec<FiberPtr>) {
        if let Err(overflow) = self.ring.push(self.fibers[number]) {
            taken.extend(overflow);
        }
    }

    fn number(&self, fiber: FiberPtr) -> usize {
        self.fibers.iter().position(|known| *known == fiber).expect("never pushed")
    }

    /// All threads are done: takes what is left and looks at everything. What one thread took it took
    /// in the order of the pushes; only what overflowed is `unordered`, since the new fiber goes with
    /// the oldest.
    fn finish(&self, ordered: Vec<Vec<FiberPtr>>, unordered: Vec<FiberPtr>) {
        let rest: Vec<_> = std::iter::from_fn(|| self.ring.pop()).collect();
        assert_eq!(self.ring.room(), CAPACITY, "a claim was not given back");
        let mut seen = Vec::new();
        for taken in ordered.into_iter().chain([rest]) {
            let numbers: Vec<_> = taken.iter().map(|fiber| self.number(*fiber)).collect();
            assert!(numbers.is_sorted(), "out of order: {numbers:?}");
            seen.extend(numbers);
        }
        seen.extend(unordered.iter().map(|fiber| self.number(*fiber)));
        seen.sort_unstable();
        assert_eq!(seen, (0..self.fibers.len()).collect::<Vec<_>>(), "lost or taken twice");
        for fiber in &self.fibers {
            // SAFETY: every thread has ended.
            let _ = unsafe { fiber.destroy() };
        }
    }
}

/// One more thread, which steals into a ring of its own; returns what it got, oldest first.
fn thief(world: &Arc<World>) -> JoinHandle<Vec<FiberPtr>> {
    let world = Arc::clone(world);
    thread::spawn(move || {
        let mine = Ring::at(u32::MAX);
        let stolen = world.ring.steal_into(&mine);
        let mut taken: Vec<_> = stolen.map(|(first, _)| first).into_iter().collect();
        taken.extend(std::iter::from_fn(|| mine.pop()));
        assert_eq!(taken.len(), stolen.map_or(0, |(_, count)| count));
        assert_eq!(mine.room(), CAPACITY);
        taken
    })
}

/// One more thread, which steals without a ring.
fn batch_thief(world: &Arc<World>) -> JoinHandle<Vec<FiberPtr>> {
    let world = Arc::clone(world);
    thread::spawn(move || world.ring.steal_batch().collect())
}

#[test]
fn an_owner_and_a_thief() {
    check(PREEMPTIONS, || {
        let world = World::new(4, 2);
        let stealing = thief(&world);
        let mut popped = Vec::new();
        let mut overflow = Vec::new();
        world.push(2, &mut overflow);
        popped.extend(world.ring.pop());
        world.push(3, &mut overflow);
        popped.extend(world.ring.pop());
        assert!(overflow.is_empty(), "there was room");
        world.finish(vec![popped, stealing.join().unwrap()], overflow);
    });
}

/// What is stolen here was pushed meanwhile.
#[test]
fn a_push_into_an_empty_ring_meets_a_thief() {
    check(PREEMPTIONS, || {
        let world = World::new(3, 0);
        let stealing = thief(&world);
        let mut overflow = Vec::new();
        (0..3).for_each(|number| world.push(number, &mut overflow));
        assert!(overflow.is_empty(), "there was room");
        world.finish(vec![stealing.join().unwrap()], overflow);
    });
}

#[test]
fn an_overflow_meets_a_thief() {
    check(PREEMPTIONS, || {
        let world = World::new(6, 4);
        let stealing = thief(&world);
        let mut overflow = Vec::new();
        world.push(4, &mut overflow);
        world.push(5, &mut overflow);
        world.finish(vec![stealing.join().unwrap()], overflow);
    });
}

/// The owner pops while a thief copies, and pushes into what has become free.
#[test]
fn a_full_ring_is_emptied_and_filled_under_a_thief() {
    check(PREEMPTIONS, || {
        let world = World::new(6, 4);
        let stealing = thief(&world);
        let mut overflow = Vec::new();
        let popped = world.ring.pop().into_iter().collect();
        world.push(4, &mut overflow);
        world.push(5, &mut overflow);
        world.finish(vec![popped, stealing.join().unwrap()], overflow);
    });
}

#[test]
fn two_thieves_and_an_owner() {
    check(PREEMPTIONS_OF_THREE, || {
        let world = World::new(5, 4);
        let thieves = [thief(&world), thief(&world)];
        let mut overflow = Vec::new();
        let popped = world.ring.pop().into_iter().collect();
        world.push(4, &mut overflow);
        let [first, second] = thieves.map(|thief| thief.join().unwrap());
        world.finish(vec![popped, first, second], overflow);
    });
}

#[test]
fn a_thief_without_a_ring() {
    check(PREEMPTIONS_OF_THREE, || {
        let world = World::new(5, 4);
        let thieves = [thief(&world), batch_thief(&world)];
        let mut overflow = Vec::new();
        world.push(4, &mut overflow);
        let popped = world.ring.pop().into_iter().collect();
        let [first, second] = thieves.map(|thief| thief.join().unwrap());
        world.finish(vec![popped, first, second], overflow);
    });
}

/// A thief fills its ring while another one steals from there.
#[test]
fn a_thief_of_a_thief() {
    check(PREEMPTIONS_OF_THREE, || {
        let world = World::new(4, 4);
        let middle = Arc::new(Ring::at(u32::MAX));
        let (victims, theirs) = (Arc::clone(&world), Arc::clone(&middle));
        let first = thread::spawn(move || {
            let stolen = victims.ring.steal_into(&theirs);
            let stolen = stolen.map(|(first, _)| first).into_iter();
            stolen.chain(theirs.pop()).collect::<Vec<_>>()
        });
        let second = middle.steal_batch().collect();
        let first = first.join().unwrap();
        assert!(middle.is_empty());
        world.finish(vec![first, second], Vec::new());
    });
}

/// What anyone sees of the length from outside is never more than was pushed, and not zero while
/// fibers stand there that nobody takes: the last look of a parking worker relies on that.
#[test]
fn a_look_at_the_length() {
    check(PREEMPTIONS, || {
        let world = World::new(3, 1);
        let theirs = Arc::clone(&world);
        let looks = thread::spawn(move || theirs.ring.len());
        let mut overflow = Vec::new();
        world.push(1, &mut overflow);
        let popped = world.ring.pop().into_iter().collect();
        world.push(2, &mut overflow);
        let seen = looks.join().unwrap();
        assert!((1..=3).contains(&seen), "saw {seen}");
        world.finish(vec![popped], overflow);
    });
}
