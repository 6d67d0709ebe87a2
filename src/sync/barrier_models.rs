//! Under loom: a round has one leader, all who arrived go on, and who gave up has not arrived.

use super::*;
use crate::primitives::sync::{Arc, UnsafeCell};
use crate::sync::{cancelled, check};
use loom::thread;

struct Meeting<const N: usize> {
    barrier: Barrier,
    brought: [UnsafeCell<u32>; N],
}

// SAFETY: each writes its own before it arrives, and reads the others' after; loom checks it.
unsafe impl<const N: usize> Sync for Meeting<N> {}

impl<const N: usize> Meeting<N> {
    fn new() -> Arc<Meeting<N>> {
        let brought = std::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(Meeting { barrier: Barrier::new(N), brought })
    }

    /// Brings something, and sees what all have brought.
    fn meet(&self, who: usize, wait: impl FnOnce(&Barrier) -> BarrierWaitResult) -> usize {
        // SAFETY: see above.
        self.brought[who].with_mut(|mine| unsafe { *mine = 1 });
        let leads = wait(&self.barrier).is_leader();
        for other in &self.brought {
            // SAFETY: see above.
            other.with(|brought| assert_eq!(unsafe { *brought }, 1));
        }
        usize::from(leads)
    }

    fn check_empty(&self) {
        let inner = self.barrier.inner.lock();
        assert!(inner.arrived == 0 && inner.queue.is_empty());
    }
}

#[test]
fn three_meet() {
    check(2, || {
        let meeting = Meeting::<3>::new();
        let others = [1, 2].map(|who| {
            let meeting = Arc::clone(&meeting);
            thread::spawn(move || meeting.meet(who, Barrier::wait))
        });
        let leaders = meeting.meet(0, Barrier::wait);
        let leaders = others.into_iter().fold(leaders, |sum, other| sum + other.join().unwrap());
        assert_eq!(leaders, 1);
        meeting.check_empty();
    });
}

#[test]
fn two_meet_twice() {
    check(3, || {
        let barrier = Arc::new(Barrier::new(2));
        let other = {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || [(); 2].map(|()| barrier.wait().is_leader()))
        };
        let mine = [(); 2].map(|()| barrier.wait().is_leader());
        let others = other.join().unwrap();
        assert!(mine.iter().zip(others).all(|(mine, other)| *mine != other));
    });
}

#[test]
fn one_gives_up_and_comes_again() {
    check(3, || {
        let meeting = Meeting::<2>::new();
        let other = {
            let meeting = Arc::clone(&meeting);
            thread::spawn(move || {
                meeting.meet(1, |barrier| {
                    cancelled(|| barrier.wait()).unwrap_or_else(|| barrier.wait())
                })
            })
        };
        let leaders = meeting.meet(0, Barrier::wait);
        assert_eq!(leaders + other.join().unwrap(), 1);
        meeting.check_empty();
    });
}
