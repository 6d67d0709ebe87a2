//! Under loom: one owner at a time, and nobody waits for a free lock (loom would report a deadlock).

use super::*;
use crate::park::{cancelled, near};
use crate::primitives::sync::{Arc, UnsafeCell};
use crate::sync::check;
use loom::thread;

struct Guarded {
    lock: RawMutex,
    count: UnsafeCell<u32>,
}

// SAFETY: `count` is touched by the lock's owner; loom checks it.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new() -> Arc<Guarded> {
        Arc::new(Guarded { lock: RawMutex::new(), count: UnsafeCell::new(0) })
    }

    /// One that is freed plainly.
    fn plain() -> Arc<Guarded> {
        let guarded = Guarded::new();
        guarded.lock.flags.store(PLAIN, Relaxed);
        guarded
    }

    fn add(&self) {
        // SAFETY: see above.
        self.count.with_mut(|count| unsafe { *count += 1 });
    }

    fn lock_and_add(&self) -> bool {
        let locked = self.lock.lock().is_ok();
        if locked {
            self.add();
            self.lock.unlock();
        }
        locked
    }

    /// All are through: the lock is as new.
    fn check(&self, count: u32) {
        assert_eq!(self.lock.locked.load(Relaxed), FREE);
        assert_eq!(self.lock.flags.load(Relaxed) & !PLAIN, 0);
        // SAFETY: see above.
        self.count.with(|now| assert_eq!(unsafe { *now }, count));
    }
}

fn beside(guarded: &Arc<Guarded>, f: fn(&Guarded) -> bool) -> thread::JoinHandle<bool> {
    let guarded = Arc::clone(guarded);
    thread::spawn(move || f(&guarded))
}

#[test]
fn two_lock_twice() {
    check(3, || {
        let guarded = Guarded::new();
        let other = beside(&guarded, |guarded| guarded.lock_and_add() && guarded.lock_and_add());
        assert!(guarded.lock_and_add() && guarded.lock_and_add());
        assert!(other.join().unwrap());
        guarded.check(4);
    });
}

#[test]
fn three_lock() {
    check(2, || {
        let guarded = Guarded::new();
        let others = [(); 2].map(|()| beside(&guarded, Guarded::lock_and_add));
        assert!(guarded.lock_and_add());
        others.into_iter().for_each(|other| assert!(other.join().unwrap()));
        guarded.check(3);
    });
}

#[test]
fn an_owner_comes_again_past_two_who_wait() {
    check(2, || {
        let guarded = Guarded::new();
        let others = [(); 2].map(|()| beside(&guarded, Guarded::lock_and_add));
        assert!(guarded.lock_and_add() && guarded.lock_and_add());
        others.into_iter().for_each(|other| assert!(other.join().unwrap()));
        guarded.check(4);
    });
}

/// Three turns: one gives the token out, two overtake it, of which the second hands the lock to the second waiter, over
/// the head of the first.
#[test]
fn an_owner_overtakes_the_token_and_hands_over() {
    check(2, || {
        let guarded = Guarded::new();
        let others = [(); 2].map(|()| beside(&guarded, Guarded::lock_and_add));
        (0..3).for_each(|_| assert!(guarded.lock_and_add()));
        others.into_iter().for_each(|other| assert!(other.join().unwrap()));
        guarded.check(5);
    });
}

/// It is freed plainly when the others come, and has to be freed by an exchange from then on.
#[test]
fn two_come_to_a_lock_that_is_freed_plainly() {
    check(3, || {
        let guarded = Guarded::plain();
        let others = [(); 2].map(|()| beside(&guarded, Guarded::lock_and_add));
        assert!(guarded.lock_and_add());
        others.into_iter().for_each(|other| assert!(other.join().unwrap()));
        guarded.check(3);
    });
}

/// The one with the token finds it taken by an owner that frees it plainly, and goes back to the queue.
#[test]
fn a_token_comes_to_a_lock_that_is_freed_plainly() {
    check(2, || {
        let guarded = Guarded::plain();
        let others = [(); 2].map(|()| beside(&guarded, Guarded::lock_and_add));
        (0..3).for_each(|_| assert!(guarded.lock_and_add()));
        others.into_iter().for_each(|other| assert!(other.join().unwrap()));
        guarded.check(5);
    });
}

#[test]
fn one_who_waits_for_a_lock_that_is_freed_plainly_is_cancelled() {
    check(2, || {
        let guarded = Guarded::plain();
        let gives_up = beside(&guarded, |guarded| cancelled(|| guarded.lock_and_add()));
        let waits = beside(&guarded, Guarded::lock_and_add);
        assert!(guarded.lock_and_add());
        let locked = gives_up.join().unwrap();
        assert!(waits.join().unwrap());
        guarded.check(2 + u32::from(locked));
    });
}

#[test]
fn an_owner_makes_way_for_one_that_is_near() {
    check(3, || {
        let guarded = Guarded::new();
        let other = beside(&guarded, |guarded| guarded.lock_and_add() && guarded.lock_and_add());
        near(|| (0..3).for_each(|_| assert!(guarded.lock_and_add())));
        assert!(other.join().unwrap());
        guarded.check(5);
    });
}

/// The hand-over past the token reaches a waiter that has not gone to sleep yet: that one, and who has the token, may be
/// through before the one who hands over has said in the flags that it did.
#[test]
fn one_who_is_handed_the_lock_comes_at_once_and_so_does_the_token() {
    check(4, || {
        let guarded = Guarded::new();
        assert!(guarded.lock.lock().is_ok());
        guarded.lock.flags.store(WAKING, Relaxed);
        let other = beside(&guarded, |guarded| {
            let locked = guarded.lock_and_add();
            // Whose the token is.
            while !guarded.lock.take(WAKING, Role::HasToken) {
                thread::yield_now();
            }
            guarded.add();
            guarded.lock.unlock();
            locked
        });
        guarded.add();
        guarded.lock.serve();
        assert!(other.join().unwrap());
        guarded.check(3);
    });
}

/// Among those whose worker the token is near to.
#[test]
fn one_who_is_near_is_handed_the_lock() {
    check(2, || {
        let guarded = Guarded::plain();
        let near_by = |guarded: &Guarded| near(|| guarded.lock_and_add());
        // The others find it taken: who comes to a free lock has models enough.
        assert!(guarded.lock.lock().is_ok());
        let others = [(); 2].map(|()| beside(&guarded, near_by));
        guarded.add();
        guarded.lock.unlock();
        (0..2).for_each(|_| assert!(guarded.lock_and_add()));
        others.into_iter().for_each(|other| assert!(other.join().unwrap()));
        guarded.check(5);
    });
}

#[test]
fn an_owner_makes_way_beside_one_who_overtakes() {
    check(2, || {
        let guarded = Guarded::new();
        let others = [(); 2].map(|()| beside(&guarded, Guarded::lock_and_add));
        near(|| (0..3).for_each(|_| assert!(guarded.lock_and_add())));
        others.into_iter().for_each(|other| assert!(other.join().unwrap()));
        guarded.check(5);
    });
}

#[test]
fn one_who_makes_way_is_cancelled() {
    check(2, || {
        let guarded = Guarded::new();
        let other = beside(&guarded, |guarded| guarded.lock_and_add() && guarded.lock_and_add());
        let locked = near(|| cancelled(|| (0..3).filter(|_| guarded.lock_and_add()).count()));
        assert!(other.join().unwrap());
        guarded.check(2 + locked as u32);
    });
}

#[test]
fn one_who_waits_is_cancelled() {
    check(2, || {
        let guarded = Guarded::new();
        let gives_up = beside(&guarded, |guarded| cancelled(|| guarded.lock_and_add()));
        let waits = beside(&guarded, Guarded::lock_and_add);
        assert!(guarded.lock_and_add());
        let locked = gives_up.join().unwrap();
        assert!(waits.join().unwrap());
        guarded.check(2 + u32::from(locked));
    });
}

#[test]
fn a_try_comes_between() {
    check(2, || {
        let guarded = Guarded::new();
        let waits = beside(&guarded, Guarded::lock_and_add);
        let tries = beside(&guarded, |guarded| {
            let locked = guarded.lock.try_lock();
            if locked {
                guarded.add();
                guarded.lock.unlock();
            }
            locked
        });
        assert!(guarded.lock_and_add());
        assert!(waits.join().unwrap());
        let locked = tries.join().unwrap();
        guarded.check(2 + u32::from(locked));
    });
}
