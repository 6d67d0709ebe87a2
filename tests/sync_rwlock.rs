//! `RwLock` and `Barrier`: what the standard library's do, on fibers, threads, and both.

mod sync_support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync_support::{Seed, World, fail, until_waiting};
use volt::sync::{Arc, Barrier, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

scenarios! {
    smoke
    frob
    readers_share
    a_writer_is_alone
    no_reader_joins_others_while_a_writer_waits
    tries
    a_panicking_writer_poisons
    a_panicking_reader_does_not_poison
    a_lock_in_a_destructor_of_a_panic
    values
    unsized_values
    downgrade_keeps_writers_out
    downgrade_lets_readers_in
    downgrade_while_unwinding_poisons_nothing
    nobody_starves
    barrier
    barrier_again_and_again
    barrier_of_none_and_one
}

fn smoke(_: &World) {
    let lock = RwLock::new(());
    drop(lock.read().unwrap());
    drop(lock.write().unwrap());
    drop((lock.read().unwrap(), lock.read().unwrap()));
    drop(lock.write().unwrap());
}

fn frob(world: &World) {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let lock = Arc::new(RwLock::new((0u64, 0u64)));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (lock, mut rng) = (Arc::clone(&lock), rng.fork());
            world.go(move || {
                let mut writes = 0;
                for _ in 0..500 {
                    if rng.below(8) == 0 {
                        let mut pair = lock.write().unwrap();
                        pair.0 += 1;
                        if rng.below(2) == 0 {
                            volt::yield_now();
                        }
                        pair.1 += 1;
                        writes += 1;
                    } else {
                        let pair = lock.read().unwrap();
                        assert_eq!(pair.0, pair.1);
                    }
                }
                writes
            })
        })
        .collect();
    let writes: u64 = tasks.into_iter().map(|task| task.join()).sum();
    assert_eq!(*lock.read().unwrap(), (writes, writes));
}

fn readers_share(world: &World) {
    let lock = Arc::new(RwLock::new(1));
    let _mine = lock.read().unwrap();
    let theirs = Arc::clone(&lock);
    assert_eq!(world.go(move || *theirs.read().unwrap()).join(), 1);
    assert_eq!(*lock.try_read().unwrap(), 1);
}

fn a_writer_is_alone(world: &World) {
    let lock = Arc::new(RwLock::new(1));
    let mut guard = lock.write().unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let lock = Arc::clone(&lock);
            world.go(move || {
                if n % 2 == 0 {
                    assert!(*lock.read().unwrap() >= 2);
                } else {
                    *lock.write().unwrap() += 1;
                }
            })
        })
        .collect();
    until_waiting("rwlock", &tasks);
    assert!(tasks.iter().all(|task| !task.is_finished()));
    *guard = 2;
    drop(guard);
    tasks.into_iter().for_each(|task| task.join());
    assert_eq!(*lock.read().unwrap(), 4);
}

fn no_reader_joins_others_while_a_writer_waits(world: &World) {
    let lock = Arc::new(RwLock::new(0));
    let guard = lock.read().unwrap();
    let theirs = Arc::clone(&lock);
    let writer = world.go(move || *theirs.write().unwrap() = 1);
    // From when the writer waits, nobody reads before it has written.
    loop {
        match lock.try_read() {
            Ok(shared) => assert_eq!(*shared, 0),
            Err(_) => break,
        }
        volt::yield_now();
    }
    until_waiting("rwlock", [&writer]);
    let theirs = Arc::clone(&lock);
    let reader = world.go(move || *theirs.read().unwrap());
    until_waiting("rwlock", [&reader]);
    assert!(
        lock.try_read().is_err() && !reader.is_finished(),
        "the lock is read, but one writes first"
    );
    drop(guard);
    assert_eq!(reader.join(), 1, "it stood behind the writer");
    writer.join();
    assert_eq!(*lock.read().unwrap(), 1);
}

fn tries(_: &World) {
    let lock = RwLock::new(0);
    let read = lock.read().unwrap();
    assert!(lock.try_read().is_ok());
    assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
    drop(read);
    let write = lock.try_write().unwrap();
    assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
    assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
    drop(write);
    assert!(lock.try_write().is_ok());
}

fn a_panicking_writer_poisons(world: &World) {
    let mut lock = Arc::new(RwLock::new(1));
    let theirs = Arc::clone(&lock);
    let task = world.go(move || {
        *theirs.write().unwrap() = 2;
        let _guard = theirs.write().unwrap();
        fail();
    });
    assert!(task.result().is_err());
    assert!(lock.is_poisoned());
    assert_eq!(**lock.read().unwrap_err().get_ref(), 2);
    assert_eq!(**lock.write().unwrap_err().get_ref(), 2);
    assert!(matches!(lock.try_read(), Err(TryLockError::Poisoned(_))));
    assert!(matches!(lock.try_write(), Err(TryLockError::Poisoned(_))));
    assert!(Arc::get_mut(&mut lock).unwrap().get_mut().is_err());
    lock.clear_poison();
    assert!(lock.read().is_ok());
}

fn a_panicking_reader_does_not_poison(world: &World) {
    let lock = Arc::new(RwLock::new(1));
    let theirs = Arc::clone(&lock);
    let task = world.go(move || {
        let _guard = theirs.read().unwrap();
        fail();
    });
    assert!(task.result().is_err());
    assert!(!lock.is_poisoned());
    *lock.write().unwrap() = 2;
}

fn a_lock_in_a_destructor_of_a_panic(world: &World) {
    struct AddsOne(Arc<RwLock<i32>>);
    impl Drop for AddsOne {
        fn drop(&mut self) {
            *self.0.write().unwrap() += 1;
        }
    }
    let lock = Arc::new(RwLock::new(1));
    let adds = AddsOne(Arc::clone(&lock));
    let task = world.go(move || {
        let _adds = adds;
        fail();
    });
    assert!(task.result().is_err());
    assert_eq!(*lock.read().unwrap(), 2);
}

fn values(_: &World) {
    let mut lock = RwLock::from(vec![1]);
    lock.get_mut().unwrap().push(2);
    assert_eq!(format!("{lock:?}"), "RwLock { data: [1, 2], poisoned: false, .. }");
    let guard = lock.write().unwrap();
    assert_eq!(format!("{lock:?}"), "RwLock { data: <locked>, poisoned: false, .. }");
    assert_eq!(format!("{guard:?}"), "[1, 2]");
    drop(guard);
    assert_eq!(lock.into_inner().unwrap(), [1, 2]);
    assert_eq!(*RwLock::<u8>::default().read().unwrap(), 0);
}

fn unsized_values(_: &World) {
    let lock: &RwLock<[i32]> = &RwLock::new([1, 2, 3]);
    lock.write().unwrap()[0] = 4;
    assert_eq!(*lock.read().unwrap(), [4, 2, 3]);
}

fn downgrade_keeps_writers_out(world: &World) {
    let lock = Arc::new(RwLock::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|n| {
            let lock = Arc::clone(&lock);
            world.go(move || {
                for _ in 0..100 {
                    let mut guard = lock.write().unwrap();
                    *guard = n;
                    let guard = RwLockWriteGuard::downgrade(guard);
                    volt::yield_now();
                    assert_eq!(*guard, n);
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join());
    assert!(lock.try_write().is_ok());
}

fn downgrade_lets_readers_in(world: &World) {
    let lock = Arc::new(RwLock::new(0));
    let guard = lock.write().unwrap();
    let theirs = Arc::clone(&lock);
    let reader = world.go(move || *theirs.read().unwrap());
    until_waiting("rwlock", [&reader]);
    let guard = RwLockWriteGuard::downgrade(guard);
    assert_eq!(reader.join(), 0);
    drop(guard);
}

/// It reads from then on; as in the standard library.
fn downgrade_while_unwinding_poisons_nothing(world: &World) {
    struct Downgrades<'a>(Option<RwLockWriteGuard<'a, u8>>);
    impl Drop for Downgrades<'_> {
        fn drop(&mut self) {
            drop(RwLockWriteGuard::downgrade(self.0.take().unwrap()));
        }
    }
    let lock = Arc::new(RwLock::new(7));
    let theirs = Arc::clone(&lock);
    let task = world.go(move || {
        let unwinds = std::panic::AssertUnwindSafe(|| {
            let _guard = Downgrades(Some(theirs.write().unwrap()));
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(std::panic::catch_unwind(unwinds).is_err());
    });
    task.join();
    assert_eq!(*lock.read().unwrap(), 7);
}

/// Readers that overlap for ever do not keep a writer out, nor writers a reader.
fn nobody_starves(world: &World) {
    let (lock, stop) = (Arc::new(RwLock::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..6)
        .map(|n| {
            let (lock, stop) = (Arc::clone(&lock), Arc::clone(&stop));
            world.go(move || {
                while !stop.load(Ordering::Relaxed) {
                    if n < 4 {
                        let _guard = lock.read().unwrap();
                        volt::yield_now();
                    } else {
                        *lock.write().unwrap() += 1;
                        volt::yield_now();
                    }
                }
            })
        })
        .collect();
    for _ in 0..50 {
        drop(lock.write().unwrap());
        drop(lock.read().unwrap());
    }
    stop.store(true, Ordering::Relaxed);
    tasks.into_iter().for_each(|task| task.join());
}

fn meet(world: &World, size: usize, times: usize) {
    let (barrier, arrived) = (Arc::new(Barrier::new(size)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..size)
        .map(|_| {
            let (barrier, arrived) = (Arc::clone(&barrier), Arc::clone(&arrived));
            world.go(move || {
                let mut led = 0;
                for round in 1..=times {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    led += usize::from(barrier.wait().is_leader());
                    assert!(arrived.load(Ordering::SeqCst) >= round * size, "all were there");
                }
                led
            })
        })
        .collect();
    let led: usize = tasks.into_iter().map(|task| task.join()).sum();
    assert_eq!(led, times, "one leader each time");
}

fn barrier(world: &World) {
    meet(world, 10, 1);
}

fn barrier_again_and_again(world: &World) {
    meet(world, 5, 200);
}

fn barrier_of_none_and_one(_: &World) {
    for size in [0, 1] {
        let barrier = Barrier::new(size);
        assert!(barrier.wait().is_leader() && barrier.wait().is_leader());
    }
}

/// One of a value that lives for ever is one of a value that lives as long as it must.
#[test]
fn a_read_guard_is_covariant() {
    fn shorter<'a, 's: 'a>(
        guard: RwLockReadGuard<'a, &'static str>,
        _: &'s str,
    ) -> RwLockReadGuard<'a, &'s str> {
        guard
    }
    let (lock, here) = (RwLock::new("static"), String::from("here"));
    assert_eq!(*shorter(lock.read().unwrap(), &here), "static");
}
