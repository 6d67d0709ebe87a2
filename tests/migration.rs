//! Who moves: under `Migrate::BeforeStart` a fiber that has started stays on its thread.

mod common;

use common::{LONG, until, within};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use volt::runtime::{Builder, Migrate, Runtime};
use volt::thread;

/// The thread that runs the caller now. Not inlined: the address of a thread-local must not be kept
/// over a switch.
#[inline(never)]
fn here() -> ThreadId {
    std::hint::black_box(std::thread::current().id())
}

fn runtime(workers: usize, migrate: Migrate) -> Runtime {
    Builder::new().workers(workers).migrate(migrate).build().unwrap()
}

/// Waits in every way there is, and returns the threads that the fiber ran on, in turn.
fn wander(rounds: usize) -> Vec<ThreadId> {
    let mut threads = vec![here()];
    let mut look = || threads.push(here());
    for round in 0..rounds {
        volt::yield_now();
        look();
        volt::sleep(Duration::from_micros(50 * (round as u64 % 5)));
        look();
        let me = thread::current();
        let waker = volt::go(move || {
            volt::yield_now();
            me.unpark();
        });
        thread::park();
        look();
        waker.join().unwrap();
        look();
        assert!(volt::go(|| panic!("as it should")).join().is_err());
        look();
        thread::scope(|s| {
            s.spawn(|| volt::sleep(Duration::from_micros(50)));
        });
        look();
    }
    threads
}

#[test]
fn before_start_only() {
    std::panic::set_hook(Box::new(|_| ()));
    for workers in [1, 2, 8] {
        within(LONG, move || {
            let runtime = runtime(workers, Migrate::BeforeStart);
            let fibers: Vec<_> = (0..40).map(|_| runtime.go(|| wander(5))).collect();
            let mut used = HashSet::new();
            for fiber in fibers {
                let threads = fiber.join().unwrap();
                assert!(
                    threads.iter().all(|thread| *thread == threads[0]),
                    "it moved: {threads:?}"
                );
                used.insert(threads[0]);
            }
            assert!(used.len() <= workers);
            runtime.shutdown(LONG).unwrap();
        });
    }
}

#[test]
fn before_start_a_fiber_woken_from_outside_stays() {
    within(LONG, || {
        let runtime = runtime(3, Migrate::BeforeStart);
        let fibers: Vec<_> = (0..30)
            .map(|_| {
                runtime.go(|| {
                    let home = here();
                    for _ in 0..50 {
                        thread::park();
                        assert_eq!(here(), home);
                    }
                })
            })
            .collect();
        let handles: Vec<_> = fibers.iter().map(volt::JoinHandle::thread).collect();
        let start = Instant::now();
        while fibers.iter().any(|fiber| !fiber.is_finished()) {
            assert!(start.elapsed() < LONG);
            handles.iter().for_each(|thread| thread.unpark());
            std::thread::yield_now();
        }
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn before_start_fibers_spread_before_they_start() {
    within(LONG, || {
        let runtime = runtime(2, Migrate::BeforeStart);
        // Two fibers that hold their threads until both run.
        let running = Arc::new(AtomicUsize::new(0));
        let fibers: Vec<_> = (0..2)
            .map(|_| {
                let running = Arc::clone(&running);
                runtime.go(move || {
                    running.fetch_add(1, Ordering::SeqCst);
                    let start = Instant::now();
                    while running.load(Ordering::SeqCst) < 2 {
                        assert!(start.elapsed() < LONG / 2, "the other one got no worker");
                        std::hint::spin_loop();
                    }
                    here()
                })
            })
            .collect();
        let threads: HashSet<_> = fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect();
        assert_eq!(threads.len(), 2);
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn before_start_yielding_fibers_let_new_ones_start() {
    // Started fibers stand in their worker's mailbox, new ones in the injector: neither starves.
    within(LONG, || {
        let runtime = runtime(1, Migrate::BeforeStart);
        let stop = Arc::new(AtomicBool::new(false));
        let spinning = Arc::new(AtomicUsize::new(0));
        let spinners: Vec<_> = (0..3)
            .map(|_| {
                let (stop, spinning) = (Arc::clone(&stop), Arc::clone(&spinning));
                runtime.go(move || {
                    spinning.fetch_add(1, Ordering::SeqCst);
                    let start = Instant::now();
                    while !stop.load(Ordering::Relaxed) {
                        assert!(start.elapsed() < LONG / 3, "the new fiber never started");
                        volt::yield_now();
                    }
                })
            })
            .collect();
        common::until("all spin", || spinning.load(Ordering::SeqCst) == 3);
        let theirs = Arc::clone(&stop);
        runtime.go(move || theirs.store(true, Ordering::Relaxed)).join().unwrap();
        spinners.into_iter().for_each(|fiber| fiber.join().unwrap());
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn before_start_new_fibers_let_started_ones_go_on() {
    // A stream of new fibers from outside must not keep a started one from its turn.
    within(LONG, || {
        let runtime = runtime(1, Migrate::BeforeStart);
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let started = runtime.go(move || {
            for _ in 0..200 {
                volt::yield_now();
            }
            theirs.store(true, Ordering::SeqCst);
        });
        let start = Instant::now();
        while !stop.load(Ordering::SeqCst) {
            assert!(start.elapsed() < LONG / 3, "the started fiber starves");
            for _ in 0..100 {
                drop(runtime.go(|| ()));
            }
        }
        started.join().unwrap();
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn anytime_fibers_do_move() {
    within(LONG, || {
        let runtime = runtime(2, Migrate::Anytime);
        let start = Instant::now();
        let mut moved = 0;
        while moved == 0 {
            assert!(start.elapsed() < LONG / 2, "no fiber ever moved");
            let fibers: Vec<_> = (0..20).map(|_| runtime.go(|| wander_quietly(10))).collect();
            for fiber in fibers {
                let threads = fiber.join().unwrap();
                moved += threads.windows(2).filter(|pair| pair[0] != pair[1]).count();
            }
        }
        runtime.shutdown(LONG).unwrap();
    });
}

/// As `wander`, without the panic.
fn wander_quietly(rounds: u64) -> Vec<ThreadId> {
    let mut threads = vec![here()];
    for round in 0..rounds {
        volt::yield_now();
        threads.push(here());
        volt::sleep(Duration::from_micros(30 * round));
        threads.push(here());
    }
    threads
}

#[test]
fn a_current_thread_runtime_stays_on_the_calling_thread() {
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        let me = here();
        let seen = Mutex::new(HashSet::new());
        runtime.run(|| {
            thread::scope(|s| {
                for _ in 0..10 {
                    s.spawn(|| {
                        volt::sleep(Duration::from_micros(100));
                        seen.lock().unwrap().insert(here());
                    });
                }
            });
        });
        assert_eq!(seen.into_inner().unwrap(), HashSet::from([me]));
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn nobody_steals_where_stealing_is_off() {
    within(LONG, || {
        let builder = Builder::new().workers(2).stealing(false).stall_period(None);
        let runtime = builder.force_migrate(false).build().unwrap();
        let handle = runtime.handle().clone();
        runtime.run(|| {
            let parked = || handle.stats().workers.iter().map(|one| one.parked).sum::<u64>();
            until("the other worker sleeps", || parked() > 0);
            let (parent, before) = (here(), parked());
            // Each but the first puts one into the ring, and wakes the other worker.
            let children: Vec<_> = (0..100).map(|_| volt::go(here)).collect();
            until("it has looked, and sleeps again", || parked() > before);
            for child in children {
                assert_eq!(child.join().unwrap(), parent);
            }
        });
        assert_eq!(runtime.stats().total.stolen, 0);
    });
}

/// The helper that stood in has fibers of its own, which cannot leave it either.
#[test]
fn a_current_thread_runtime_comes_back_to_its_fibers() {
    within(LONG, || {
        let builder = Builder::new_current_thread().migrate(Migrate::BeforeStart);
        let runtime = builder.build().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let wait = |over: &Arc<AtomicBool>, began: mpsc::Sender<ThreadId>| {
            let over = Arc::clone(over);
            move || {
                let home = here();
                began.send(home).unwrap();
                while !over.load(Ordering::SeqCst) {
                    volt::sleep(Duration::from_millis(1));
                    assert_eq!(here(), home);
                }
                home
            }
        };
        let (tell, told) = mpsc::channel();
        let theirs = Arc::clone(&over);
        let fibers = runtime.run(move || {
            let own = volt::go(wait(&theirs, tell.clone()));
            volt::yield_now();
            assert_eq!(told.recv().unwrap(), here());
            let other = volt::blocking(|| {
                let other = volt::go(wait(&theirs, tell));
                assert_ne!(told.recv().unwrap(), here());
                other
            });
            [own, other]
        });
        for _ in 0..10 {
            let me = here();
            assert_eq!(runtime.run(|| (volt::yield_now(), here()).1), me);
        }
        over.store(true, Ordering::SeqCst);
        let homes = runtime.run(|| fibers.map(|fiber| fiber.join().unwrap()));
        assert!(homes[0] == here() && homes[1] != here());
    });
}

/// More helpers than one keep their cores because of fibers at home there: whatever the thread waits
/// for in blocking mode is theirs to run all the same.
#[test]
fn helpers_of_a_blocked_current_thread_runtime_run_everything() {
    within(LONG, || {
        let builder = Builder::new_current_thread().migrate(Migrate::BeforeStart);
        let runtime = builder.build().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let stay = |over: &Arc<AtomicBool>| {
            let (over, (tell, told)) = (Arc::clone(over), mpsc::channel());
            let fiber = volt::go(move || {
                tell.send(()).unwrap();
                while !over.load(Ordering::SeqCst) {
                    volt::sleep(Duration::from_millis(1));
                }
            });
            told.recv().unwrap();
            fiber
        };
        let theirs = Arc::clone(&over);
        let fibers = runtime.run(move || {
            volt::blocking(|| {
                let one = stay(&theirs);
                let over = Arc::clone(&theirs);
                // Blocks the helper in turn: its own helper gets a fiber to keep.
                let other = volt::go(move || volt::blocking(|| stay(&over))).join().unwrap();
                for _ in 0..1_000 {
                    volt::go(|| ()).join().unwrap();
                }
                [one, other]
            })
        });
        over.store(true, Ordering::SeqCst);
        runtime.run(|| fibers.map(|fiber| fiber.join().unwrap()));
    });
}
