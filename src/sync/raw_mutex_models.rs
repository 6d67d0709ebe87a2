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

    /// It has been inside so often.
    fn visits(&self, times: u32) -> u32 {
        (0..times).for_each(|_| assert!(self.lock_and_add()));
        times
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

/// Returns how often it has been inside.
type Visits = fn(&Guarded) -> u32;

fn once(guarded: &Guarded) -> u32 {
    guarded.visits(1)
}

fn twice(guarded: &Guarded) -> u32 {
    guarded.visits(2)
}

fn three_times(guarded: &Guarded) -> u32 {
    guarded.visits(3)
}

/// Unless that would have to wait.
fn at_once(guarded: &Guarded) -> u32 {
    cancelled(|| u32::from(guarded.lock_and_add()))
}

fn tries(guarded: &Guarded) -> u32 {
    let locked = guarded.lock.try_lock();
    if locked {
        guarded.add();
        guarded.lock.unlock();
    }
    u32::from(locked)
}

fn beside(guarded: &Arc<Guarded>, visits: Visits) -> thread::JoinHandle<u32> {
    let guarded = Arc::clone(guarded);
    thread::spawn(move || visits(&guarded))
}

/// `me` comes, and each of `others` on a thread of its own, all at the same time.
fn model(preemptions: usize, new: fn() -> Arc<Guarded>, me: Visits, others: &'static [Visits]) {
    check(preemptions, move || {
        let guarded = new();
        let others: Vec<_> = others.iter().map(|&visits| beside(&guarded, visits)).collect();
        let mine = me(&guarded);
        let all = others.into_iter().fold(mine, |sum, other| sum + other.join().unwrap());
        guarded.check(all);
    });
}

#[test]
fn two_lock_twice() {
    model(3, Guarded::new, twice, &[twice]);
}

#[test]
fn three_lock() {
    model(2, Guarded::new, once, &[once, once]);
}

#[test]
fn an_owner_comes_again_past_two_who_wait() {
    model(2, Guarded::new, twice, &[once, once]);
}

/// Three turns: one gives the token out, two overtake it, of which the second hands the lock to the second waiter, over
/// the head of the first.
#[test]
fn an_owner_overtakes_the_token_and_hands_over() {
    model(2, Guarded::new, three_times, &[once, once]);
}

/// It is freed plainly when the others come, and has to be freed by an exchange from then on.
#[test]
fn two_come_to_a_lock_that_is_freed_plainly() {
    model(3, Guarded::plain, once, &[once, once]);
}

/// The one with the token finds it taken by an owner that frees it plainly, and goes back to the queue.
#[test]
fn a_token_comes_to_a_lock_that_is_freed_plainly() {
    model(2, Guarded::plain, three_times, &[once, once]);
}

/// The owner may have looked at the flags, and frees it plainly when the one who has ended that is gone. Who comes
/// after that one has a fence for owners that free it by an exchange.
#[test]
fn who_has_ended_the_plain_state_is_gone_before_the_owner_frees_it() {
    model(3, Guarded::plain, once, &[at_once, once]);
}

#[test]
fn an_owner_makes_way_for_one_that_is_near() {
    model(3, Guarded::new, |guarded| near(|| guarded.visits(3)), &[twice]);
}

/// The hand-over past the token reaches a waiter that has not gone to sleep yet: that one, and who has the token, may
/// be through before the one who hands over has said in the flags that it did.
#[test]
fn one_who_is_handed_the_lock_comes_at_once_and_so_does_the_token() {
    check(4, || {
        let guarded = Guarded::new();
        assert!(guarded.lock.lock().is_ok());
        // As if the token had been overtaken often. Whose it is comes when it was handed past.
        guarded.lock.flags.store(WAKING, Relaxed);
        guarded.lock.turns.begin();
        (0..2).for_each(|_| guarded.lock.turns.count());
        let other = beside(&guarded, |guarded| {
            let mine = guarded.visits(1);
            while !guarded.lock.take(WAKING, Role::HasToken) {
                thread::yield_now();
            }
            guarded.add();
            guarded.lock.unlock();
            mine + 1
        });
        guarded.add();
        guarded.lock.serve();
        assert_eq!(other.join().unwrap(), 2);
        guarded.check(3);
    });
}

/// Among those whose worker the token is near to.
#[test]
fn one_who_is_near_is_handed_the_lock() {
    check(2, || {
        let guarded = Guarded::plain();
        // The others find it taken: who comes to a free lock has models enough.
        assert!(guarded.lock.lock().is_ok());
        let others = [(); 2].map(|()| beside(&guarded, |guarded| near(|| guarded.visits(1))));
        guarded.add();
        guarded.lock.unlock();
        guarded.visits(2);
        others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), 1));
        guarded.check(5);
    });
}

#[test]
fn an_owner_makes_way_beside_one_who_overtakes() {
    model(2, Guarded::new, |guarded| near(|| guarded.visits(3)), &[once, once]);
}

#[test]
fn one_who_makes_way_is_cancelled() {
    model(2, Guarded::new, |guarded| near(|| (0..3).map(|_| at_once(guarded)).sum()), &[twice]);
}

#[test]
fn one_who_waits_is_cancelled() {
    model(2, Guarded::new, once, &[at_once, once]);
}

#[test]
fn a_try_comes_between() {
    model(2, Guarded::new, once, &[once, tries]);
}
