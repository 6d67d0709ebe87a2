//! Everything at once, at random: each fiber runs once, each wait ends, each result is dropped once.
//!
//! A failure prints its seed. The schedule is the machine's, so a seed only repeats the script.

mod common;

use common::{LONG, Rng, Seed, within};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use volt::runtime::{Builder, Handle, Runtime, Stats};
use volt::thread::{self, Thread};

fn runtime(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

/// What all fibers of a storm share.
#[derive(Default)]
struct World {
    spawned: AtomicU64,
    ran: AtomicU64,
    twice: AtomicU64,
    /// Handles of fibers that live, or once did.
    board: Mutex<Vec<Thread>>,
}

impl World {
    /// The body of one fiber: counts itself once, then does `steps` things.
    fn fiber(
        self: &Arc<World>,
        mut rng: Rng,
        steps: u64,
    ) -> impl FnOnce() -> u64 + Send + 'static + use<> {
        self.spawned.fetch_add(1, Ordering::Relaxed);
        let world = Arc::clone(self);
        let once = AtomicBool::new(false);
        move || {
            if once.swap(true, Ordering::Relaxed) {
                world.twice.fetch_add(1, Ordering::Relaxed);
            }
            for step in 0..steps {
                world.step(&mut rng, steps - step - 1);
            }
            world.ran.fetch_add(1, Ordering::Relaxed);
            steps
        }
    }

    fn step(self: &Arc<World>, rng: &mut Rng, left: u64) {
        let below = left.min(3);
        match rng.below(12) {
            0 | 1 => volt::yield_now(),
            2 => volt::sleep(Duration::from_micros(rng.below(300))),
            3 => {
                let child = volt::go(self.fiber(rng.fork(), below));
                assert_eq!(child.join().unwrap(), below);
            }
            4 => drop(volt::go(self.fiber(rng.fork(), below))),
            5 => {
                let mut board = self.board.lock().unwrap();
                if board.len() < 200 {
                    board.push(volt::current());
                } else {
                    let at = rng.below(200) as usize;
                    board[at] = volt::current();
                }
                drop(board);
                thread::park_timeout(Duration::from_micros(rng.below(400)));
            }
            6 | 7 => {
                let board = self.board.lock().unwrap();
                let pick = rng.below(board.len().max(1) as u64) as usize;
                let one = board.get(pick).cloned();
                drop(board);
                one.inspect(Thread::unpark);
            }
            8 => {
                let body = self.fiber(rng.fork(), below);
                let child = volt::go(move || volt::cancel::shield(body));
                child.cancel();
                let other = child.thread().clone();
                if rng.below(2) == 0 {
                    volt::yield_now();
                }
                child.cancel();
                let joined = child.join();
                assert_eq!(joined.unwrap(), below);
                other.unpark();
            }
            9 => {
                let child = volt::go(self.fiber(rng.fork(), below));
                while !child.is_finished() {
                    volt::yield_now();
                }
                if rng.below(2) == 0 {
                    child.join().unwrap();
                }
            }
            10 => {
                let total = AtomicU64::new(0);
                thread::scope(|s| {
                    for _ in 0..rng.below(3) {
                        let (total, body) = (&total, self.fiber(rng.fork(), 0));
                        s.spawn(move || total.fetch_add(body() + 1, Ordering::Relaxed));
                    }
                });
            }
            _ => {
                let child = volt::go(self.fiber(rng.fork(), below));
                child.thread().unpark();
                drop(child);
            }
        }
    }
}

/// The counters of a runtime that has nothing left to do.
fn reconcile(stats: &Stats, spawned: u64) {
    let total = stats.total;
    assert_eq!(stats.live, 0, "{stats:?}");
    assert_eq!(total.spawned, spawned, "{stats:?}");
    assert_eq!(total.finished, spawned, "{stats:?}");
    assert!(total.dispatched >= spawned, "{stats:?}");
    assert!(total.lifo_hits <= total.dispatched, "{stats:?}");
    assert!(total.stolen <= total.dispatched + total.overflows, "{stats:?}");
    assert!(total.stolen == 0 || total.steals_tried > 0, "{stats:?}");
}

fn storm(workers: usize, roots: u64) {
    within(LONG, move || {
        let seed = Seed::new();
        let mut rng = seed.rng();
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        let world = Arc::new(World::default());
        // From plain threads, and from a fiber.
        let spawners: Vec<_> = (0..3)
            .map(|_| {
                let (handle, world, mut rng) = (handle.clone(), Arc::clone(&world), rng.fork());
                std::thread::spawn(move || {
                    let spawn = |_| handle.go(world.fiber(rng.fork(), 8));
                    (0..roots).map(spawn).collect::<Vec<_>>()
                })
            })
            .collect();
        let (inside, mut fork) = (Arc::clone(&world), rng.fork());
        let nest = runtime.go(move || {
            let spawn = |_| volt::go(inside.fiber(fork.fork(), 8));
            (0..roots).map(spawn).collect::<Vec<_>>()
        });
        let mut fibers = nest.join().unwrap();
        for spawner in spawners {
            fibers.extend(spawner.join().unwrap());
        }
        for fiber in fibers {
            match rng.below(4) {
                0 => drop(fiber),
                1 => {
                    let other = fiber.thread().clone();
                    assert_eq!(fiber.join().unwrap(), 8);
                    other.unpark();
                }
                _ => assert_eq!(fiber.join().unwrap(), 8),
            }
        }
        runtime.shutdown(LONG).unwrap();
        let spawned = world.spawned.load(Ordering::Relaxed);
        assert_eq!(world.ran.load(Ordering::Relaxed), spawned, "each runs");
        assert_eq!(world.twice.load(Ordering::Relaxed), 0, "each runs once");
        // The one that spawned others is not in the world's count.
        reconcile(&handle.stats(), spawned + 1);
        // All fibers are gone; their handles are not.
        for thread in world.board.lock().unwrap().drain(..) {
            thread.unpark();
            assert_eq!(thread.name(), None);
        }
    });
}

#[test]
fn on_one_worker() {
    storm(1, 40);
}

#[test]
fn on_two_workers() {
    storm(2, 60);
}

#[test]
fn on_three_workers() {
    storm(3, 60);
}

#[test]
fn on_eight_workers() {
    storm(8, 60);
}

#[test]
fn on_sixty_four_workers() {
    storm(64, 60);
}

#[test]
fn on_a_current_thread_runtime() {
    within(LONG, || {
        let seed = Seed::new();
        let mut rng = seed.rng();
        let runtime = Builder::new_current_thread().build().unwrap();
        let world = Arc::new(World::default());
        let fibers: Vec<_> = (0..100).map(|_| runtime.go(world.fiber(rng.fork(), 8))).collect();
        runtime.run(|| fibers.into_iter().for_each(|fiber| assert_eq!(fiber.join().unwrap(), 8)));
        let handle = runtime.handle().clone();
        runtime.shutdown(LONG).unwrap();
        let spawned = world.spawned.load(Ordering::Relaxed);
        assert_eq!(world.ran.load(Ordering::Relaxed), spawned);
        reconcile(&handle.stats(), spawned + 1);
    });
}

#[test]
fn pairs_hand_over_a_permit() {
    for workers in [1, 2, 3, 8] {
        within(LONG, move || {
            let runtime = runtime(workers);
            let pairs: Vec<_> = (0..8)
                .map(|_| {
                    runtime.go(|| {
                        let turns = 300;
                        let me = volt::current();
                        let other = volt::go(move || {
                            for _ in 0..turns {
                                thread::park();
                                me.unpark();
                            }
                        });
                        let theirs = other.thread();
                        for _ in 0..turns {
                            theirs.unpark();
                            thread::park();
                        }
                        other.join().unwrap();
                    })
                })
                .collect();
            pairs.into_iter().for_each(|pair| pair.join().unwrap());
            runtime.shutdown(LONG).unwrap();
        });
    }
}

#[test]
fn permits_from_plain_threads_wake_sleeping_workers() {
    // Each round lets the workers go to sleep first: a lost wakeup is a hang here.
    within(LONG, || {
        let runtime = runtime(3);
        let me = volt::current();
        let fiber = runtime.go(move || {
            loop {
                thread::park();
                me.unpark();
                if thread::panicking() || volt::cancel::cancelled() {
                    return;
                }
            }
        });
        let theirs = fiber.thread();
        for round in 0..2_000_u32 {
            theirs.unpark();
            thread::park();
            if round % 64 == 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        fiber.cancel();
        theirs.unpark();
        if let Err(payload) = fiber.join() {
            assert!(payload.is::<volt::cancel::Cancelled>());
        }
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn whoever_takes_work_in_wakes_the_next() {
    // `first` holds its worker until `second` has run on another one; both come from outside, and the
    // workers sleep before. The rounds cover every phase of a worker's intervals.
    within(LONG, || {
        let runtime = runtime(4);
        for round in 0..600 {
            let (at, started) = (Arc::new(AtomicUsize::new(0)), Instant::now());
            let theirs = Arc::clone(&at);
            let first = runtime.go(move || {
                theirs.store(1, Ordering::SeqCst);
                while theirs.load(Ordering::SeqCst) == 1 {
                    assert!(
                        started.elapsed() < LONG / 6,
                        "round {round}: three idle workers slept over a runnable fiber"
                    );
                    std::hint::spin_loop();
                }
            });
            common::until("first runs", || at.load(Ordering::SeqCst) != 0);
            let theirs = Arc::clone(&at);
            let second = runtime.go(move || theirs.store(2, Ordering::SeqCst));
            first.join().unwrap();
            second.join().unwrap();
            if round % 8 == 0 {
                std::thread::sleep(Duration::from_micros(300));
            }
        }
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn unparks_that_meet_a_parking_worker() {
    // The only worker finds nothing and goes to sleep; the wake comes at any point of that.
    within(LONG, || {
        let seed = Seed::new();
        let mut rng = seed.rng();
        let runtime = runtime(1);
        let (turn, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (theirs, stopped) = (Arc::clone(&turn), Arc::clone(&stop));
        let fiber = runtime.go(move || {
            while !stopped.load(Ordering::SeqCst) {
                theirs.fetch_add(1, Ordering::SeqCst);
                thread::park();
            }
        });
        let thread = fiber.thread();
        for round in 1..=20_000 {
            let start = Instant::now();
            let mut looks = 0_u32;
            while turn.load(Ordering::SeqCst) < round {
                looks += 1;
                if looks % 1024 == 0 {
                    assert!(
                        start.elapsed() < LONG / 6,
                        "round {round}: the worker slept over a wake"
                    );
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
            }
            (0..rng.below(300)).for_each(|_| std::hint::spin_loop());
            thread.unpark();
        }
        stop.store(true, Ordering::SeqCst);
        thread.unpark();
        fiber.join().unwrap();
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn all_of_a_burst_run_at_once() {
    // One worker is woken for the first and finds all; each that finds work wakes the next, until the
    // fibers, which hold their threads, have met.
    within(LONG, || {
        let runtime = runtime(4);
        for round in 0..200 {
            // Long enough for the workers to go to sleep; if they are late the round proves less.
            std::thread::sleep(Duration::from_micros(300));
            let (met, start) = (Arc::new(AtomicUsize::new(0)), Instant::now());
            let fibers: Vec<_> = (0..4)
                .map(|_| {
                    let met = Arc::clone(&met);
                    runtime.go(move || {
                        met.fetch_add(1, Ordering::SeqCst);
                        while met.load(Ordering::SeqCst) < 4 {
                            assert!(start.elapsed() < LONG / 6, "round {round}: a worker slept on");
                            std::thread::yield_now();
                        }
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        }
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_deadline_set_while_another_worker_sleeps_in_the_poller() {
    within(LONG, || {
        let runtime = runtime(2);
        for round in 0..30 {
            // Both asleep, one of them in the poller, with no deadline or a far one.
            std::thread::sleep(Duration::from_millis(1));
            let start = Instant::now();
            let theirs = runtime.go(|| volt::sleep(Duration::from_millis(1)));
            while !theirs.is_finished() {
                assert!(start.elapsed() < LONG / 6, "round {round}: the poller was not told");
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn timers_fire_while_a_fiber_holds_its_worker() {
    // A worker that has nothing to do waits for the timers that the other one cannot look at.
    within(LONG, || {
        // Where the sleeper wakes decides: not to be moved behind the one that spins.
        let runtime = Builder::new().workers(2).force_migrate(false).build().unwrap();
        for round in 0..200 {
            let done = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&done);
            let fiber = runtime.go(move || {
                let inner = Arc::clone(&theirs);
                let sleeper = volt::go(move || {
                    volt::sleep(Duration::from_micros(200));
                    inner.store(true, Ordering::SeqCst);
                });
                // Until it sleeps.
                for _ in 0..1 + round % 7 {
                    volt::yield_now();
                }
                let start = Instant::now();
                while !theirs.load(Ordering::SeqCst) {
                    assert!(
                        start.elapsed() < LONG / 6,
                        "round {round}: nobody looks at the timers"
                    );
                    std::hint::spin_loop();
                }
                sleeper.join().unwrap();
            });
            fiber.join().unwrap();
        }
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn runtimes_come_and_go() {
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            std::thread::spawn(move || {
                within(LONG, move || {
                    for round in 0..25_usize {
                        let runtime = runtime(1 + (round + thread) % 4);
                        let fibers: Vec<_> = (0..20_u64)
                            .map(|i| {
                                runtime.go(move || {
                                    volt::sleep(Duration::from_micros(10 * (i % 3)));
                                    volt::go(move || i).join().unwrap()
                                })
                            })
                            .collect();
                        if round % 3 == 0 {
                            // Ends by itself; the joins come after.
                            let handle = runtime.handle().clone();
                            runtime.shutdown(LONG).unwrap();
                            assert!(handle.go(|| ()).join().is_err());
                            assert!(fibers.iter().all(volt::JoinHandle::is_finished));
                        }
                        let sum: u64 = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
                        assert_eq!(sum, 190);
                    }
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_shutdown_notices_the_last_end() {
    // With a limit that the test would not survive: the last end must be seen, not timed out.
    within(LONG, || {
        let seed = Seed::new();
        let mut rng = seed.rng();
        for _ in 0..400 {
            let runtime = runtime(2);
            for _ in 0..4 {
                let spins = rng.below(3_000);
                drop(runtime.go(move || {
                    for _ in 0..spins {
                        std::hint::spin_loop();
                    }
                }));
            }
            for _ in 0..rng.below(20_000) {
                std::hint::spin_loop();
            }
            runtime.shutdown(LONG * 10).unwrap();
        }
    });
}

#[test]
fn a_shutdown_waits_for_fibers_that_spawn_and_move() {
    within(LONG, || {
        for _ in 0..60 {
            let runtime = runtime(3);
            let ended = Arc::new(AtomicUsize::new(0));
            for _ in 0..6 {
                let ended = Arc::clone(&ended);
                drop(runtime.go(move || {
                    for _ in 0..60 {
                        let ended = Arc::clone(&ended);
                        drop(volt::go(move || ended.fetch_add(1, Ordering::Relaxed)));
                        volt::yield_now();
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                }));
            }
            runtime.shutdown(LONG).unwrap();
            assert_eq!(ended.load(Ordering::Relaxed), 6 * 61);
        }
    });
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn each_result_is_dropped_once() {
    within(LONG, || {
        let seed = Seed::new();
        let mut rng = seed.rng();
        let runtime = runtime(2);
        let drops = Arc::new(AtomicUsize::new(0));
        let rounds = 4_000;
        for _ in 0..rounds {
            let (drops, spins) = (Arc::clone(&drops), rng.below(200));
            let fiber = runtime.go(move || {
                for _ in 0..spins {
                    std::hint::spin_loop();
                }
                Counted(drops)
            });
            for _ in 0..rng.below(2_000) {
                std::hint::spin_loop();
            }
            match rng.below(5) {
                0 => drop(fiber.join().unwrap()),
                1 => {
                    let thread = fiber.thread().clone();
                    drop(fiber);
                    thread.unpark();
                }
                2 => {
                    let thread = fiber.thread().clone();
                    drop(fiber.join().unwrap());
                    thread.unpark();
                }
                _ => drop(fiber),
            }
        }
        runtime.shutdown(LONG).unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), rounds);
    });
}

#[test]
fn handles_of_ended_fibers_are_made_and_dropped_at_once() {
    // The last counted reference goes while the join handle makes another one.
    let left = common::child("handles_of_ended_fibers_are_made_and_dropped_at_once", &[], || {
        let runtime = runtime(1);
        let name = "a name that is long enough for the heap";
        let (round, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let slot = Mutex::new(None::<Thread>);
        std::thread::scope(|s| {
            // Drops what stands in the slot, at the beginning of each round.
            s.spawn(|| {
                let mut seen = 0;
                while !stop.load(Ordering::Relaxed) {
                    let now = round.load(Ordering::Acquire);
                    if now % 2 == 1 && now != seen {
                        seen = now;
                        let thread = slot.lock().unwrap().take();
                        round.store(now + 1, Ordering::SeqCst);
                        drop(thread);
                    }
                }
            });
            let start = Instant::now();
            let mut rounds = 0;
            while start.elapsed() < Duration::from_millis(1500) {
                rounds += 1;
                let builder = thread::Builder::new().name(name.to_owned());
                let fiber = runtime.run(|| builder.spawn(|| ()).unwrap());
                while !fiber.is_finished() {
                    std::hint::spin_loop();
                }
                *slot.lock().unwrap() = Some(fiber.thread().clone());
                let begun = round.fetch_add(1, Ordering::SeqCst) + 1;
                while round.load(Ordering::Acquire) == begun {
                    std::hint::spin_loop();
                }
                (0..rounds % 24).for_each(|_| std::hint::spin_loop());
                let last = fiber.thread().clone();
                drop(fiber);
                let filler: Vec<_> = (0..4).map(|_| "x".repeat(name.len())).collect();
                assert_eq!(last.name(), Some(name), "freed under a handle");
                drop(filler);
            }
            stop.store(true, Ordering::Relaxed);
        });
        runtime.shutdown(LONG).unwrap();
    });
    assert!(left.status.success(), "{left:?}");
}

#[test]
fn handles_outlive_runtime_and_fibers() {
    within(LONG, || {
        let mut handles = Vec::new();
        for round in 0..20 {
            let runtime = runtime(2);
            let fibers: Vec<_> = (0..10)
                .map(|i| {
                    runtime.run(|| {
                        let builder = volt::thread::Builder::new().name(format!("{round}/{i}"));
                        builder.spawn(volt::current).unwrap()
                    })
                })
                .collect();
            for fiber in fibers {
                handles.push(fiber.thread().clone());
                handles.push(fiber.join().unwrap());
            }
            // Some of them parked for ever, with a handle that is used when nobody can run them.
            let parked = runtime.run(|| volt::go(thread::park));
            let thread = parked.thread().clone();
            drop(parked);
            drop(runtime);
            thread.unpark();
            handles.push(thread);
        }
        for pair in handles.chunks(21).flat_map(|round| round[..20].chunks(2)) {
            pair[0].unpark();
            pair[1].unpark();
            assert_eq!(pair[0].name(), pair[1].name());
            assert_eq!(pair[0].id(), pair[1].id());
        }
    });
}

#[test]
fn cancels_end_sleeps_at_any_time() {
    within(LONG, || {
        let seed = Seed::new();
        let mut rng = seed.rng();
        let runtime = runtime(2);
        let fibers: Vec<_> = (0..500)
            .map(|_| {
                let micros = rng.below(300);
                runtime.go(move || {
                    let start = Instant::now();
                    let cut_off = catch_unwind(|| volt::sleep(Duration::from_micros(micros)));
                    let whole = start.elapsed() >= Duration::from_micros(micros);
                    assert!(whole || volt::cancelled(), "ended early, and was not cancelled");
                    if let Err(payload) = cut_off {
                        std::panic::resume_unwind(payload);
                    }
                })
            })
            .collect();
        for fiber in fibers {
            for _ in 0..rng.below(300) {
                std::hint::spin_loop();
            }
            fiber.cancel();
            if let Err(payload) = fiber.join() {
                assert!(payload.is::<volt::cancel::Cancelled>());
            }
        }
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_panic_in_every_second_fiber() {
    within(LONG, || {
        std::panic::set_hook(Box::new(|_| ()));
        let runtime = runtime(3);
        let fibers: Vec<_> = (0..400)
            .map(|i| {
                runtime.go(move || {
                    volt::yield_now();
                    if i % 2 == 0 {
                        let caught = catch_unwind(AssertUnwindSafe(|| panic!("inner {i}")));
                        volt::yield_now();
                        assert!(caught.is_err() && !thread::panicking());
                        std::panic::panic_any(i);
                    }
                    i
                })
            })
            .collect();
        for (i, fiber) in fibers.into_iter().enumerate() {
            match fiber.join() {
                Ok(value) => assert_eq!((value, i % 2), (i, 1)),
                Err(payload) => assert_eq!((*payload.downcast::<usize>().unwrap(), i % 2), (i, 0)),
            }
        }
        let handle: Handle = runtime.handle().clone();
        runtime.shutdown(LONG).unwrap();
        reconcile(&handle.stats(), 400);
    });
}

/// A thread wakes a fiber, which ends, and with it the runtime's last work: the runtime goes while the
/// waker may still be about to tell a worker. Nothing here makes it come late, so that it may is proven by
/// `who_wakes_from_outside_owns_the_scheduler_meanwhile` (`src/scheduler/tests/wakes.rs`).
#[test]
fn runtimes_go_while_somebody_outside_wakes_their_last_fiber() {
    within(LONG, || {
        for _ in 0..200 {
            let (s, r) = volt::channel::bounded(1);
            let runtime = runtime(1);
            let fiber = runtime.go(move || r.recv());
            let waker = std::thread::spawn(move || s.send(7).unwrap());
            assert_eq!(fiber.join().unwrap(), Ok(7));
            runtime.shutdown(LONG).unwrap();
            waker.join().unwrap();
        }
    });
}
