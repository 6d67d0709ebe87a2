//! The policy of `Mutex`: whoever runs may overtake those who wait, but not for long.

#[path = "../benches/common/contention.rs"]
mod contention;
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

/// Among fibers nobody waits for more than a thousand hand-overs while others get through. They are counted
/// and not timed: what the machine does to whoever has the lock is no turn of another. Of several short
/// runs one must do, since it may also keep a worker from running. Where threads wait that is more than
/// the lock's own doing; `benches/sync.rs` has the figures.
fn nobody_waits_for_a_thousand(workers: usize) {
    const TRIES: u32 = 25;
    const FIBERS: usize = 8;
    within(LONG, move || {
        let runtime = runtime(workers);
        let mut seen = Vec::new();
        let fair = (0..TRIES).any(|_| {
            let time = std::time::Duration::from_millis(100);
            let [waits, _] = contention::contend(&runtime, FIBERS, 0, time);
            let (ratio, most) = (waits.ratio(), waits.overtaken);
            seen.push((waits.hand_over(), waits.longest, ratio, most));
            ratio.is_finite() && most <= 1_000
        });
        assert!(fair, "hand-over, longest wait, their ratio, turns of others: {seen:?}");
    });
}

#[test]
fn among_fibers_of_one_worker_nobody_waits_for_a_thousand_hand_overs() {
    nobody_waits_for_a_thousand(1);
}

#[test]
fn among_fibers_nobody_waits_for_a_thousand_hand_overs() {
    nobody_waits_for_a_thousand(2);
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
