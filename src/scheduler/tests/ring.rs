//! The ring, alone and under thieves: nothing lost, nothing twice, the oldest first. And the queue
//! that takes what flows over, whole.

use super::super::locked_queue::LockedQueue;
use super::super::ring::{CAPACITY, Ring};
use super::Fibers;
use crate::fiber::{Batch, FiberPtr};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Pop,
    Steal,
    StealBatch,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Push),
        2 => Just(Step::Pop),
        1 => Just(Step::Steal),
        1 => Just(Step::StealBatch),
    ];
    proptest::collection::vec(step, 0..1500)
}

/// Takes `count` of the oldest out of the model.
fn front(model: &mut VecDeque<FiberPtr>, count: usize) -> Vec<FiberPtr> {
    model.drain(..count).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One thread: a queue, whatever the steps and wherever the indices begin, over their wrap too.
    #[test]
    fn a_ring_is_a_queue(steps in steps(), before_wrap in 0_u32..2000) {
        let fibers = Fibers::new(1500);
        let mut fresh = fibers.0.iter().copied();
        let (ring, other) = (Ring::at(0_u32.wrapping_sub(before_wrap)), Ring::new());
        let mut model = VecDeque::new();
        for step in steps {
            match step {
                Step::Push => {
                    let fiber = fresh.next().expect("as many as steps");
                    model.push_back(fiber);
                    if let Err(overflow) = ring.push(fiber) {
                        // The older half and the new one, in order.
                        prop_assert_eq!(model.len(), CAPACITY + 1);
                        let mut expected = front(&mut model, CAPACITY / 2);
                        expected.extend(model.pop_back());
                        prop_assert_eq!(overflow.collect::<Vec<_>>(), expected);
                    }
                }
                Step::Pop => prop_assert_eq!(ring.pop(), model.pop_front()),
                Step::Steal => {
                    let half = model.len().div_ceil(2);
                    let stolen = ring.steal_into(&other);
                    let expected = front(&mut model, half);
                    prop_assert_eq!(stolen, expected.first().map(|first| (*first, half)));
                    for fiber in expected.into_iter().skip(1) {
                        prop_assert_eq!(other.pop(), Some(fiber));
                    }
                    prop_assert!(other.is_empty());
                }
                Step::StealBatch => {
                    let half = model.len().div_ceil(2);
                    let stolen: Vec<_> = ring.steal_batch().collect();
                    prop_assert_eq!(stolen, front(&mut model, half));
                }
            }
            prop_assert_eq!(ring.len(), model.len());
            prop_assert_eq!(ring.room(), CAPACITY - model.len());
        }
        while ring.pop().is_some() {}
    }
}

/// An owner that pushes and pops, and thieves: each fiber comes out once.
#[test]
fn thieves_and_owner_share_without_loss() {
    const FIBERS: usize = 60_000;
    for thieves in [1, 3] {
        let fibers = Fibers::new(FIBERS);
        let numbers = fibers.numbers();
        let taken: Vec<AtomicUsize> = (0..FIBERS).map(|_| AtomicUsize::new(0)).collect();
        let take = |fiber: FiberPtr| {
            taken[numbers[&(fiber.as_ptr() as usize)]].fetch_add(1, Ordering::Relaxed);
        };
        let ring = Ring::at(u32::MAX - 1000);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..thieves {
                scope.spawn(|| {
                    let mine = Ring::new();
                    while !done.load(Ordering::Acquire) || !ring.is_empty() {
                        if let Some((first, _)) = ring.steal_into(&mine) {
                            take(first);
                            std::iter::from_fn(|| mine.pop()).for_each(take);
                        }
                    }
                });
            }
            for (i, fiber) in fibers.0.iter().enumerate() {
                if let Err(overflow) = ring.push(*fiber) {
                    overflow.for_each(take);
                }
                if i % 3 == 0 {
                    ring.pop().into_iter().for_each(take);
                }
            }
            done.store(true, Ordering::Release);
        });
        let wrong = taken.iter().filter(|count| count.load(Ordering::Relaxed) != 1).count();
        assert_eq!(wrong, 0, "lost or taken twice, with {thieves} thieves");
    }
}

/// Whoever looks at a ring while others push and take sees a number that can be.
#[test]
fn the_length_is_never_below_nothing_nor_above_the_capacity() {
    let fibers = Fibers::new(CAPACITY);
    let ring = Ring::at(u32::MAX - 1000);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut looks = 0_u64;
            while !done.load(Ordering::Acquire) {
                assert!(ring.len() <= CAPACITY, "{}", ring.len());
                looks += 1;
            }
            looks
        });
        for round in 0..20_000 {
            let some = &fibers.0[..1 + round % CAPACITY];
            some.iter().for_each(|fiber| assert!(ring.push(*fiber).is_ok()));
            while ring.pop().is_some() {}
        }
        done.store(true, Ordering::Release);
        assert!(looker.join().unwrap() > 0);
    });
}

/// What overflows goes under one lock: nobody's fibers come between.
#[test]
fn a_batch_stands_in_the_queue_as_one_piece() {
    const BATCHES: usize = 400;
    let size = CAPACITY / 2 + 1;
    let fibers = Fibers::new(2 * BATCHES * size);
    let numbers = fibers.numbers();
    let queue = LockedQueue::new();
    std::thread::scope(|scope| {
        for half in fibers.0.chunks(BATCHES * size) {
            let queue = &queue;
            scope.spawn(move || {
                for piece in half.chunks(size) {
                    let mut batch = Batch::new();
                    batch.extend(piece.iter().copied());
                    assert!(queue.push_batch(batch).is_empty());
                }
            });
        }
    });
    let order: Vec<_> = queue.take_all().map(|f| numbers[&(f.as_ptr() as usize)]).collect();
    assert_eq!(order.len(), fibers.0.len());
    for piece in order.chunks(size) {
        let whole = piece.windows(2).all(|pair| pair[1] == pair[0] + 1) && piece[0] % size == 0;
        assert!(whole, "another batch came between: {piece:?}");
    }
}
