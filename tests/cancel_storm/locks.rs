//! Mutexes, reader-writer locks, condition variables, semaphores.

use crate::weather::{Inside, dawdle, micros, storm, storm_on};
use std::sync::atomic::{AtomicUsize, Ordering};
use volt::runtime::Migrate;
use volt::sync::{Arc, Condvar, Mutex, RwLock, Semaphore};

#[test]
fn mutexes() {
    storm(|round| {
        let shared = Arc::new((Mutex::new(0u64), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        round.crowd(10, move |me| {
            me.gust("lock", |rng| {
                let mut guard = theirs.0.lock().unwrap();
                let _inside = Inside::enter(&theirs.1, 1, 1);
                let before = *guard;
                dawdle(rng);
                *guard = before + 1;
            });
        });
        round.blow();
        assert!(shared.0.try_lock().is_ok() && !shared.0.is_poisoned());
    });
}

#[test]
fn rwlocks() {
    const ALL: usize = 1_000;
    storm(|round| {
        let shared = Arc::new((RwLock::new(()), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        // One reader to the end: whoever wants to write is cut off, and those behind go on then.
        let held = (round.rng.below(2) == 0).then(|| shared.0.read().unwrap());
        let in_vain = held.is_some();
        round.crowd(10, move |me| {
            let (lock, inside) = (&theirs.0, &theirs.1);
            match me.rng.below(4) {
                0 if in_vain => {
                    me.cut("write in vain", |_| drop(lock.write().unwrap()));
                }
                0 => {
                    me.gust("write", |rng| {
                        let _guard = lock.write().unwrap();
                        let _inside = Inside::enter(inside, ALL, ALL);
                        dawdle(rng);
                    });
                }
                1 if !in_vain => {
                    me.gust("downgrade", |rng| {
                        let guard = lock.write().unwrap();
                        drop(Inside::enter(inside, ALL, ALL));
                        let _guard = volt::sync::RwLockWriteGuard::downgrade(guard);
                        let _inside = Inside::enter(inside, 1, ALL - 1);
                        dawdle(rng);
                    });
                }
                _ => {
                    me.gust("read", |rng| {
                        let _guard = lock.read().unwrap();
                        let _inside = Inside::enter(inside, 1, ALL - 1);
                        dawdle(rng);
                    });
                }
            }
        });
        round.blow();
        drop(held);
        assert!(shared.0.try_write().is_ok() && !shared.0.is_poisoned());
    });
}

/// One of some tokens under a mutex, put back whatever happens.
struct Taken<'a>(&'a (Mutex<u32>, Condvar));

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Dropped before its fiber unwinds, it must not be cut off itself.
        volt::cancel::shield(|| *self.0.0.lock().unwrap() += 1);
        self.0.1.notify_one();
    }
}

#[test]
fn condvars() {
    // A destructor that waits while its fiber unwinds keeps the thread, and under `BeforeStart` those who
    // belong there, of whom one may have the lock.
    storm_on(
        |builder| builder.migrate(Migrate::Anytime),
        |round| {
            let tokens = 1 + round.rng.below(3) as u32;
            let shared = Arc::new((Mutex::new(tokens), Condvar::new()));
            let theirs = Arc::clone(&shared);
            round.crowd(10, move |me| {
                me.gust("wait", |rng| {
                    let mut left = theirs.0.lock().unwrap();
                    while *left == 0 {
                        if rng.below(2) == 0 {
                            left = theirs.1.wait(left).unwrap();
                            continue;
                        }
                        let wait = theirs.1.wait_timeout(left, micros(rng, 100)).unwrap();
                        left = wait.0;
                        if wait.1.timed_out() && *left == 0 {
                            return;
                        }
                    }
                    *left -= 1;
                    let taken = Taken(&theirs);
                    drop(left);
                    dawdle(rng);
                    drop(taken);
                });
            });
            round.blow();
            assert_eq!(*shared.0.try_lock().unwrap(), tokens);
        },
    );
}

/// All who wait come on, over and over, although some of them are taken away.
#[test]
fn condvars_that_tell_all() {
    storm(|round| {
        let shared = Arc::new((Mutex::new(0u64), Condvar::new()));
        for _ in 0..10 {
            let theirs = Arc::clone(&shared);
            round.fiber(move |me| {
                me.cut("wait_while", |_| {
                    let seen = *theirs.0.lock().unwrap();
                    let turns = theirs.0.lock().unwrap();
                    let turns = theirs.1.wait_while(turns, |turns| *turns == seen).unwrap();
                    assert!(*turns > seen);
                });
            });
        }
        let theirs = Arc::clone(&shared);
        round.steady(move |_| {
            let turns = theirs.0.lock().unwrap();
            drop(theirs.1.wait_while(turns, |turns| *turns < 1_000).unwrap());
        });
        let theirs = Arc::clone(&shared);
        round.thread(move |_| {
            *theirs.0.lock().unwrap() += 1;
            theirs.1.notify_all();
        });
        round.blow();
        *shared.0.lock().unwrap() = 1_000;
        shared.1.notify_all();
    });
}

#[test]
fn semaphores() {
    const PERMITS: usize = 4;
    storm(|round| {
        let shared = Arc::new((Arc::new(Semaphore::new(PERMITS)), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        // One permit to the end: whoever wants all is cut off, and those behind go on then.
        let held = (round.rng.below(2) == 0).then(|| shared.0.try_acquire().unwrap());
        let less = usize::from(held.is_some());
        round.crowd(10, move |me| {
            let (semaphore, inside) = (&theirs.0, &theirs.1);
            let count = 1 + me.rng.below(PERMITS as u64) as u32;
            let how = me.rng.below(5);
            let acquire = |rng: &mut _| match how {
                0 => {
                    if let Ok(_permit) = semaphore.acquire_timeout(micros(rng, 100)) {
                        let _inside = Inside::enter(inside, 1, PERMITS);
                        dawdle(rng);
                    }
                }
                1 => {
                    let _permit = semaphore.acquire().unwrap();
                    let _inside = Inside::enter(inside, 1, PERMITS);
                    dawdle(rng);
                }
                2 => {
                    let _permit = Arc::clone(semaphore).acquire_owned().unwrap();
                    let _inside = Inside::enter(inside, 1, PERMITS);
                    dawdle(rng);
                }
                3 => {
                    let _permits = Arc::clone(semaphore).acquire_many_owned(count).unwrap();
                    let _inside = Inside::enter(inside, count as usize, PERMITS);
                    dawdle(rng);
                }
                _ => {
                    let _permits = semaphore.acquire_many(count).unwrap();
                    let _inside = Inside::enter(inside, count as usize, PERMITS);
                    dawdle(rng);
                }
            };
            match how {
                3.. if count as usize > PERMITS - less => me.cut("acquire in vain", acquire),
                _ => me.gust("acquire", acquire),
            };
        });
        round.blow();
        drop(held);
        assert_eq!(shared.0.available_permits(), PERMITS);
        assert!(shared.0.try_acquire_many(PERMITS as u32).is_ok());
    });
}

/// Permits come and go for good; and a close at the end that nobody sleeps through.
#[test]
fn semaphores_that_grow_and_close() {
    storm(|round| {
        let shared = Arc::new((Semaphore::new(0), AtomicUsize::new(0), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        round.crowd(8, move |me| {
            let count = 1 + me.rng.below(2);
            me.cut("acquire_many", |_| {
                theirs.0.acquire_many(count as u32).unwrap().forget();
                theirs.1.fetch_add(count as usize, Ordering::SeqCst);
            });
        });
        let theirs = Arc::clone(&shared);
        round.steady(move |_| {
            while let Ok(permit) = theirs.0.acquire() {
                permit.forget();
                theirs.1.fetch_add(1, Ordering::SeqCst);
            }
        });
        let theirs = Arc::clone(&shared);
        round.thread(move |me| {
            let count = me.rng.below(3) as usize;
            theirs.0.add_permits(count);
            theirs.2.fetch_add(count, Ordering::SeqCst);
            dawdle(&mut me.rng);
        });
        round.blow();
        shared.0.close();
        round.settle();
        let (taken, added) = (shared.1.load(Ordering::SeqCst), shared.2.load(Ordering::SeqCst));
        assert_eq!(taken + shared.0.available_permits(), added);
    });
}
