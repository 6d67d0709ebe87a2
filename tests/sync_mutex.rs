//! `Mutex` and `Condvar`: what the standard library's do, on fibers, threads, and both.

mod sync_support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use sync_support::{World, fail, until_waiting};
use volt::sync::{Arc, Condvar, Mutex, TryLockError};

scenarios! {
    smoke
    counts_are_exact
    counts_are_exact_over_waits
    try_lock_of_a_taken_lock
    a_guard_is_exclusive_while_others_wait
    into_inner_and_get_mut
    into_inner_drops_once
    a_panic_poisons
    a_panic_caught_inside_does_not_poison
    a_lock_in_a_destructor_of_a_panic
    unsized_values
    formats
    condvar_smoke
    condvar_wakes_all
    condvar_wakes_one_at_a_time
    condvar_wait_while
    condvar_wait_timeout
    condvar_wait_timeout_woken
    condvar_wait_timeout_while
    condvar_for_ever_is_not_at_once
    condvar_of_a_poisoned_lock
    a_queue_of_two_condvars
}

fn smoke(_: &World) {
    let mutex = Mutex::new(());
    drop(mutex.lock().unwrap());
    drop(mutex.lock().unwrap());
    drop(mutex.try_lock().unwrap());
}

fn count(world: &World, each: u32, inside: fn()) {
    let mutex = Arc::new(Mutex::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let mutex = Arc::clone(&mutex);
            world.go(move || {
                for _ in 0..each {
                    let mut count = mutex.lock().unwrap();
                    let before = *count;
                    inside();
                    *count = before + 1;
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join());
    assert_eq!(*mutex.lock().unwrap(), 8 * each);
}

fn counts_are_exact(world: &World) {
    count(world, 2_000, || {});
}

fn counts_are_exact_over_waits(world: &World) {
    count(world, 200, volt::yield_now);
}

fn try_lock_of_a_taken_lock(world: &World) {
    let mutex = Arc::new(Mutex::new(1));
    let guard = mutex.lock().unwrap();
    let theirs = Arc::clone(&mutex);
    let would_block =
        world.go(move || matches!(theirs.try_lock(), Err(TryLockError::WouldBlock))).join();
    assert!(would_block);
    drop(guard);
    assert_eq!(*mutex.try_lock().unwrap(), 1);
}

fn a_guard_is_exclusive_while_others_wait(world: &World) {
    let mutex = Arc::new(Mutex::new(()));
    let inside = Arc::new(AtomicUsize::new(0));
    let guard = mutex.lock().unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (mutex, inside) = (Arc::clone(&mutex), Arc::clone(&inside));
            world.go(move || {
                let _guard = mutex.lock().unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                volt::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    until_waiting("mutex", &tasks);
    assert_eq!(inside.load(Ordering::SeqCst), 0);
    assert!(tasks.iter().all(|task| !task.is_finished()));
    drop(guard);
    tasks.into_iter().for_each(|task| task.join());
}

fn into_inner_and_get_mut(_: &World) {
    let mut mutex = Mutex::new(String::from("a"));
    mutex.get_mut().unwrap().push('b');
    assert_eq!(mutex.into_inner().unwrap(), "ab");
    assert_eq!(*Mutex::from(3).lock().unwrap(), 3);
    assert_eq!(*Mutex::<u8>::default().lock().unwrap(), 0);
}

struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn into_inner_drops_once(_: &World) {
    let drops = Arc::new(AtomicUsize::new(0));
    let inner = Mutex::new(CountsDrops(Arc::clone(&drops))).into_inner().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    drop(inner);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

fn poison(world: &World, mutex: &Arc<Mutex<i32>>) {
    let theirs = Arc::clone(mutex);
    let task = world.go(move || {
        let mut guard = theirs.lock().unwrap();
        *guard = 2;
        fail();
    });
    assert!(task.result().is_err());
}

fn a_panic_poisons(world: &World) {
    let mut mutex = Arc::new(Mutex::new(1));
    assert!(!mutex.is_poisoned());
    poison(world, &mutex);
    assert!(mutex.is_poisoned());
    assert_eq!(*mutex.lock().unwrap_err().into_inner(), 2);
    assert!(
        matches!(mutex.try_lock(), Err(TryLockError::Poisoned(guard)) if **guard.get_ref() == 2)
    );
    let only = Arc::get_mut(&mut mutex).unwrap();
    assert_eq!(**only.get_mut().unwrap_err().get_ref(), 2);
    mutex.clear_poison();
    assert_eq!(*mutex.lock().unwrap(), 2);
    poison(world, &mutex);
    assert_eq!(Arc::into_inner(mutex).unwrap().into_inner().unwrap_err().into_inner(), 2);
}

fn a_panic_caught_inside_does_not_poison(_: &World) {
    let mutex = Mutex::new(1);
    let guard = mutex.lock().unwrap();
    assert!(std::panic::catch_unwind(|| fail()).is_err());
    drop(guard);
    assert!(!mutex.is_poisoned());
}

fn a_lock_in_a_destructor_of_a_panic(world: &World) {
    struct AddsOne(Arc<Mutex<i32>>);
    impl Drop for AddsOne {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let mutex = Arc::new(Mutex::new(1));
    let adds = AddsOne(Arc::clone(&mutex));
    let task = world.go(move || {
        let _adds = adds;
        fail();
    });
    assert!(task.result().is_err());
    assert_eq!(*mutex.lock().unwrap(), 2, "locked while panicking already: not poisoned");
}

fn unsized_values(_: &World) {
    let mutex: &Mutex<[i32]> = &Mutex::new([1, 2, 3]);
    mutex.lock().unwrap()[0] = 4;
    assert_eq!(*mutex.lock().unwrap(), [4, 2, 3]);
}

fn formats(_: &World) {
    let mutex = Mutex::new(7);
    assert_eq!(format!("{mutex:?}"), "Mutex { data: 7, poisoned: false, .. }");
    let guard = mutex.lock().unwrap();
    assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked>, poisoned: false, .. }");
    assert_eq!(format!("{guard:?} {guard}"), "7 7");
}

type Pair<T> = Arc<(Mutex<T>, Condvar)>;

fn pair<T>(value: T) -> Pair<T> {
    Arc::new((Mutex::new(value), Condvar::new()))
}

fn condvar_smoke(_: &World) {
    let condvar = Condvar::new();
    condvar.notify_one();
    condvar.notify_all();
}

/// Tasks that say they are there, and wait for the second value.
fn waiters(
    world: &World,
    pair: &Pair<(usize, usize)>,
    count: usize,
) -> Vec<sync_support::Task<()>> {
    let tasks = (0..count)
        .map(|_| {
            let pair = Arc::clone(pair);
            world.go(move || {
                let mut guard = pair.0.lock().unwrap();
                guard.0 += 1;
                while guard.1 == 0 {
                    guard = pair.1.wait(guard).unwrap();
                }
                guard.1 -= 1;
            })
        })
        .collect();
    // Whoever is counted stands in the queue as soon as the lock is free again.
    while pair.0.lock().unwrap().0 < count {
        volt::yield_now();
    }
    tasks
}

fn condvar_wakes_all(world: &World) {
    let pair = pair((0, 0));
    let tasks = waiters(world, &pair, 6);
    pair.0.lock().unwrap().1 = 6;
    pair.1.notify_all();
    tasks.into_iter().for_each(|task| task.join());
}

fn condvar_wakes_one_at_a_time(world: &World) {
    let pair = pair((0, 0));
    let tasks = waiters(world, &pair, 6);
    for _ in 0..6 {
        pair.0.lock().unwrap().1 += 1;
        pair.1.notify_one();
    }
    tasks.into_iter().for_each(|task| task.join());
    assert_eq!(pair.0.lock().unwrap().1, 0);
}

fn condvar_wait_while(world: &World) {
    let pair = pair(false);
    let theirs = Arc::clone(&pair);
    let task = world.go(move || {
        *theirs.0.lock().unwrap() = true;
        theirs.1.notify_one();
    });
    assert!(*pair.1.wait_while(pair.0.lock().unwrap(), |ready| !*ready).unwrap());
    task.join();
}

fn condvar_wait_timeout(_: &World) {
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    for millis in [0, 1, 20] {
        let start = Instant::now();
        let timeout = Duration::from_millis(millis);
        let (guard, result) = condvar.wait_timeout(mutex.lock().unwrap(), timeout).unwrap();
        assert!(result.timed_out() && start.elapsed() >= timeout);
        assert!(mutex.try_lock().is_err(), "the lock is back");
        drop(guard);
    }
}

fn condvar_wait_timeout_woken(world: &World) {
    let pair = pair(());
    let guard = pair.0.lock().unwrap();
    let theirs = Arc::clone(&pair);
    let task = world.go(move || {
        let _guard = theirs.0.lock().unwrap();
        theirs.1.notify_one();
    });
    let (guard, result) = pair.1.wait_timeout(guard, Duration::MAX).unwrap();
    assert!(!result.timed_out());
    drop(guard);
    task.join();
}

fn condvar_wait_timeout_while(world: &World) {
    let pair = pair(0);
    let timeout = Duration::from_millis(10);
    let guard = pair.0.lock().unwrap();
    let (guard, result) = pair.1.wait_timeout_while(guard, timeout, |_| true).unwrap();
    assert!(result.timed_out());
    let (guard, result) = pair.1.wait_timeout_while(guard, Duration::ZERO, |_| false).unwrap();
    assert!(!result.timed_out());
    let theirs = Arc::clone(&pair);
    let task = world.go(move || {
        for _ in 0..3 {
            *theirs.0.lock().unwrap() += 1;
            theirs.1.notify_all();
        }
    });
    let forever = Duration::MAX;
    let (guard, result) = pair.1.wait_timeout_while(guard, forever, |count| *count < 3).unwrap();
    assert!(!result.timed_out() && *guard == 3);
    drop(guard);
    task.join();
}

fn condvar_for_ever_is_not_at_once(world: &World) {
    let pair = pair((0, 0));
    let tasks = waiters(world, &pair, 2);
    until_waiting("condvar", &tasks);
    assert!(tasks.iter().all(|task| !task.is_finished()), "no spurious end");
    pair.0.lock().unwrap().1 = 2;
    pair.1.notify_all();
    tasks.into_iter().for_each(|task| task.join());
}

fn condvar_of_a_poisoned_lock(world: &World) {
    let pair = pair(0);
    let guard = pair.0.lock().unwrap();
    let theirs = Arc::clone(&pair);
    let task = world.go(move || {
        let _guard = theirs.0.lock().unwrap();
        theirs.1.notify_one();
        fail();
    });
    assert!(pair.1.wait(guard).is_err());
    assert!(task.result().is_err());
}

/// A queue of one place, the classic use of two condition variables.
fn a_queue_of_two_condvars(world: &World) {
    type Place = (Mutex<Option<u32>>, Condvar, Condvar);
    let place: Arc<Place> = Arc::new((Mutex::new(None), Condvar::new(), Condvar::new()));
    const VALUES: u32 = 500;
    let senders: Vec<_> = (0..3)
        .map(|_| {
            let place = Arc::clone(&place);
            world.go(move || {
                for n in 0..VALUES {
                    let (mutex, filled, emptied) = &*place;
                    let full = |value: &mut Option<u32>| value.is_some();
                    let mut guard = emptied.wait_while(mutex.lock().unwrap(), full).unwrap();
                    *guard = Some(n);
                    filled.notify_one();
                }
            })
        })
        .collect();
    let mut sum = 0;
    for _ in 0..3 * VALUES {
        let (mutex, filled, emptied) = &*place;
        let mut guard = filled.wait_while(mutex.lock().unwrap(), |value| value.is_none()).unwrap();
        sum += guard.take().unwrap();
        emptied.notify_one();
    }
    assert_eq!(sum, 3 * (0..VALUES).sum::<u32>());
    senders.into_iter().for_each(|task| task.join());
}
