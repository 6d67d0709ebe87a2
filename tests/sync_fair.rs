//! The policy of `Mutex`: whoever runs may overtake those who wait, but not for long. `sync_overtaken.rs`
//! has its rules one by one.

mod sync_support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync_support::{LONG, within};
use volt::runtime::{Builder, Runtime};
use volt::sync::{Arc, Mutex};

/// How often the lock was taken, and how often since others began to wait, at most.
#[derive(Default)]
struct Taken {
    lock: Mutex<()>,
    times: AtomicU64,
    most: AtomicU64,
}

impl Taken {
    fn lock(&self, inside: impl FnOnce()) {
        let before = self.times.load(Ordering::SeqCst);
        let _guard = self.lock.lock().unwrap();
        let now = self.times.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(now - before, Ordering::SeqCst);
        inside();
    }
}

fn runtime(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

/// A fiber that never waits, on the only worker, gives way to the one that it overtakes.
#[test]
fn a_greedy_fiber_yields() {
    within(LONG, || {
        runtime(1).run(|| {
            let (taken, stop) = (Arc::new(Taken::default()), Arc::new(AtomicBool::new(false)));
            let (theirs, their_stop) = (Arc::clone(&taken), Arc::clone(&stop));
            let guard = taken.lock.lock().unwrap();
            let waiter = volt::go(move || {
                theirs.lock(|| ());
                their_stop.store(true, Ordering::SeqCst);
            });
            volt::yield_now();
            drop(guard);
            while !stop.load(Ordering::SeqCst) {
                taken.lock(|| ());
            }
            waiter.join().unwrap();
            assert!(taken.most.load(Ordering::SeqCst) <= 200, "{:?}", taken.most);
        });
    });
}

/// Fibers that wait while they hold the lock, and take it again at once.
#[test]
fn nobody_waits_for_many_turns() {
    const FIBERS: u64 = 16;
    within(LONG, || {
        // With two workers the system may keep one from running while the other goes on.
        for (workers, bound) in [(1, 3 * FIBERS), (2, u64::MAX)] {
            let taken = runtime(workers).run(|| {
                let taken = Arc::new(Taken::default());
                let fibers: Vec<_> = (0..FIBERS)
                    .map(|_| {
                        let taken = Arc::clone(&taken);
                        volt::go(move || (0..500).for_each(|_| taken.lock(volt::yield_now)))
                    })
                    .collect();
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
                taken
            });
            assert_eq!(taken.times.load(Ordering::SeqCst), 500 * FIBERS);
            assert!(taken.most.load(Ordering::SeqCst) <= bound, "{workers}: {:?}", taken.most);
        }
    });
}

/// A thread that hardly lets go does not keep others out.
#[test]
fn a_greedy_thread_is_made_to_hand_over() {
    within(LONG, || {
        let (taken, stop) = (Arc::new(Taken::default()), Arc::new(AtomicBool::new(false)));
        let (theirs, their_stop) = (Arc::clone(&taken), Arc::clone(&stop));
        let greedy = std::thread::spawn(move || {
            while !their_stop.load(Ordering::Relaxed) {
                theirs.lock(|| (0..2_000).for_each(|_| std::hint::spin_loop()));
            }
        });
        for _ in 0..20 {
            taken.lock(|| ());
        }
        let theirs = Arc::clone(&taken);
        volt::go(move || (0..20).for_each(|_| theirs.lock(|| ()))).join().unwrap();
        stop.store(true, Ordering::Relaxed);
        greedy.join().unwrap();
    });
}

/// So many fibers that never leave a lock alone, from when all of them wait for it.
fn all_contend(taken: &Arc<Taken>, fibers: u64, turns: u64) {
    let guard = taken.lock.lock().unwrap();
    let fibers: Vec<_> = (0..fibers)
        .map(|_| {
            let taken = Arc::clone(taken);
            volt::go(move || (0..turns).for_each(|_| taken.lock(|| ())))
        })
        .collect();
    volt::yield_now();
    drop(guard);
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

/// On one worker nothing is left to chance: everybody before one in the queue has its 17 turns.
#[test]
fn among_fibers_of_one_worker_everybody_has_some_turns() {
    within(LONG, || {
        // What the system does to the one thread must not bring in another.
        let runtime = Builder::new().workers(1).stall_period(None).build().unwrap();
        for fibers in [2, 8, 50] {
            let taken = runtime.run(move || {
                let taken = Arc::new(Taken::default());
                all_contend(&taken, fibers, 2_000);
                taken
            });
            assert_eq!(taken.times.load(Ordering::SeqCst), fibers * 2_000);
            let most = taken.most.load(Ordering::SeqCst);
            assert!(most <= fibers * 17, "{fibers} fibers: {most} turns");
        }
    });
}

/// How often a fiber that never leaves the lock alone overtakes another, on the worker of both, which a
/// thread has woken: it stands in the injector, at which a busy worker looks once a millisecond.
fn overtaken_when_woken_from_outside(runtime: &Runtime) -> u64 {
    let (taken, stop) = (Arc::new(Taken::default()), Arc::new(AtomicBool::new(false)));
    let guard = taken.lock.lock().unwrap();
    let queued = Arc::new(AtomicBool::new(false));
    let (theirs, their_stop, begun) = (Arc::clone(&taken), Arc::clone(&stop), Arc::clone(&queued));
    let waiter = runtime.go(move || {
        begun.store(true, Ordering::SeqCst);
        theirs.lock(|| their_stop.store(true, Ordering::SeqCst));
    });
    let (theirs, greedy) = (Arc::clone(&taken), Arc::new(AtomicBool::new(false)));
    let begun = Arc::clone(&greedy);
    let busy = runtime.go(move || {
        // The other was spawned first, so it waits by now or will not before this one leaves.
        begun.store(queued.load(Ordering::SeqCst), Ordering::SeqCst);
        while theirs.lock.try_lock().is_err() {
            std::hint::spin_loop();
        }
        while !stop.load(Ordering::SeqCst) {
            theirs.lock(|| ());
        }
    });
    while !greedy.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    drop(guard);
    waiter.join().unwrap();
    busy.join().unwrap();
    taken.most.load(Ordering::SeqCst)
}

#[test]
fn a_greedy_fiber_makes_way_for_one_that_a_thread_has_woken() {
    within(LONG, || {
        let runtime = Builder::new().workers(1).stall_period(None).build().unwrap();
        for _ in 0..20 {
            let most = overtaken_when_woken_from_outside(&runtime);
            assert!(most <= 20, "{most} turns");
        }
    });
}

/// Where fibers stay with their workers, those that were woken come by mail, which a worker does not see
/// before it looks; so whoever barges is charged, and yields.
#[test]
fn a_greedy_fiber_is_charged() {
    within(LONG, || {
        let migrate = volt::runtime::Migrate::BeforeStart;
        let runtime =
            Builder::new().workers(1).stall_period(None).migrate(migrate).build().unwrap();
        overtaken_when_woken_from_outside(&runtime);
    });
}

/// A guard belongs to its fiber: locked on one thread, it is dropped on whichever runs the fiber then.
#[test]
fn guards_migrate() {
    within(LONG, || {
        let runtime = runtime(2);
        let moved = Arc::new(AtomicBool::new(false));
        let lock = Arc::new(Mutex::new(0u64));
        let theirs = Arc::clone(&moved);
        let counted = Arc::clone(&lock);
        runtime.run(move || {
            let mut fibers = Vec::new();
            for _ in 0..8 {
                let (lock, moved) = (Arc::clone(&counted), Arc::clone(&theirs));
                fibers.push(volt::go(move || {
                    while !moved.load(Ordering::Relaxed) {
                        let mut guard = lock.lock().unwrap();
                        let before = std::thread::current().id();
                        volt::sleep(std::time::Duration::from_micros(50));
                        *guard += 1;
                        if std::thread::current().id() != before {
                            moved.store(true, Ordering::Relaxed);
                        }
                    }
                }));
            }
            // Others that compute, so that fibers are taken from one worker by the other.
            let busy = Arc::clone(&theirs);
            let burn = volt::go(move || {
                while !busy.load(Ordering::Relaxed) {
                    (0..1_000).for_each(|_| std::hint::spin_loop());
                    volt::yield_now();
                }
            });
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            burn.join().unwrap();
        });
        assert!(moved.load(Ordering::Relaxed));
        assert!(lock.try_lock().is_ok() && !lock.is_poisoned());
    });
}
