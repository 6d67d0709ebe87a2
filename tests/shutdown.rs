//! Shutdown with cancel, and what its errors tell.

mod common;

use common::waits::{Announced, until_true, until_waits_on};
use common::{LONG, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use volt::cancel::{Cancelled, shield};
use volt::runtime::{Builder, Runtime, ShutdownError, Stall};
use volt::sync::{Mutex, RwLock, Semaphore};
use volt::thread;

const SHORT: Duration = Duration::from_millis(20);

fn runtimes() -> [Runtime; 3] {
    [
        Builder::new().workers(1).build().unwrap(),
        Builder::new().workers(3).build().unwrap(),
        Builder::new_current_thread().build().unwrap(),
    ]
}

/// Do its fibers run though nobody drives it?
fn has_threads(runtime: &Runtime) -> bool {
    runtime.handle().stats().queue.workers > 0
}

#[test]
fn a_shutdown_lets_fibers_finish_and_one_now_does_not() {
    within(LONG, || {
        for runtime in runtimes() {
            let fiber = runtime.go(|| volt::sleep(Duration::from_millis(5)));
            runtime.shutdown(LONG).unwrap();
            fiber.join().unwrap();
        }
        for runtime in runtimes() {
            let started = Arc::new(AtomicUsize::new(0));
            let fibers: Vec<_> = (0..1_000)
                .map(|_| {
                    let started = Arc::clone(&started);
                    runtime.go(move || {
                        started.fetch_add(1, Ordering::SeqCst);
                        // One that it starts as it ends is cancelled too.
                        let payload = std::panic::catch_unwind(thread::park).unwrap_err();
                        let child = volt::go(thread::park);
                        let joined = shield(|| child.join());
                        assert!(joined.unwrap_err().is::<Cancelled>());
                        std::panic::resume_unwind(payload);
                    })
                })
                .collect();
            runtime.shutdown_now(LONG).unwrap();
            for fiber in fibers {
                assert!(fiber.join().unwrap_err().is::<Cancelled>());
            }
            assert_eq!(started.load(Ordering::SeqCst), 1_000, "all have run");
        }
    });
}

#[test]
fn fibers_of_all_kinds_end() {
    within(LONG, || {
        for runtime in runtimes() {
            let waits: [fn(); 5] = [
                || volt::sleep(Duration::MAX),
                || volt::blocking(thread::park),
                || thread::pinned(|| volt::sleep(Duration::MAX)),
                || volt::scope(|scope| (0..10).for_each(|_| drop(scope.go(thread::park)))),
                || drop(volt::go(thread::park).join()),
            ];
            let fibers = waits.map(|wait| runtime.go(wait));
            if has_threads(&runtime) {
                for (fiber, what) in [(0, "sleep"), (3, "scope"), (4, "join")] {
                    until_waits_on(runtime.handle(), what, &fibers[fiber]);
                }
            }
            runtime.shutdown_now(LONG).unwrap();
            fibers
                .into_iter()
                .for_each(|fiber| assert!(fiber.join().unwrap_err().is::<Cancelled>()));
        }
    });
}

#[test]
fn one_of_its_own_fibers_shuts_a_runtime_down() {
    type Way = fn(Runtime, Duration) -> Result<(), ShutdownError>;
    let ways: [Way; 2] = [Runtime::shutdown, Runtime::shutdown_now];
    for (way, workers) in ways.into_iter().flat_map(|way| [(way, 1), (way, 3)]) {
        within(LONG, move || {
            let runtime = Builder::new().workers(workers).build().unwrap();
            let handle = runtime.handle().clone();
            let (give, taken) = volt::channel::bounded(1);
            let fiber = handle.go(move || way(taken.recv().unwrap(), SHORT).unwrap_err());
            give.send(runtime).unwrap();
            // It is there itself, and its thread is not stuck.
            let error = fiber.join().unwrap();
            assert_eq!((error.fibers, error.unfinished.len()), (1, 1), "{error}");
            assert!(error.threads.is_empty(), "{error}");
            assert!(error.unfinished[0].site.file().ends_with("shutdown.rs"));
            assert!(handle.go(|| ()).join().is_err(), "nothing runs there any more");
        });
    }
}

/// It is called by a thread that the shutdown would wait for.
#[test]
fn a_hook_shuts_its_runtime_down() {
    within(LONG, || {
        let (shared, stop) =
            (Arc::new(Mutex::new(None::<Runtime>)), Arc::new(AtomicBool::new(false)));
        let (tell, told) = std::sync::mpsc::channel();
        let (theirs, stops) = (Arc::clone(&shared), Arc::clone(&stop));
        let hook = move |_: &Stall| {
            stops.store(true, Ordering::SeqCst);
            let taken = theirs.lock().unwrap().take();
            if let Some(runtime) = taken {
                tell.send(runtime.shutdown(LONG).map_err(|error| error.to_string())).unwrap();
            }
        };
        let period = Duration::from_millis(20);
        let builder = Builder::new().workers(1).stall_period(Some(period)).on_stall(hook);
        let mut held = shared.lock().unwrap();
        let runtime = held.insert(builder.build().unwrap());
        drop(runtime.go(move || {
            while !stop.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }));
        drop(held);
        let start = Instant::now();
        assert_eq!(told.recv().unwrap(), Ok(()));
        assert!(start.elapsed() < LONG / 2, "it waits for itself");
    });
}

/// Whoever lets go of a scheduler last may be in the midst of a wait, where nothing of the program's may be dropped.
#[test]
fn hooks_go_with_their_runtime_though_a_handle_stays() {
    for current in [false, true] {
        let kept = Arc::new(());
        let [start, stop, stall, deadlock] = [(); 4].map(|()| Arc::clone(&kept));
        let builder = if current { Builder::new_current_thread() } else { Builder::new() };
        let runtime = builder
            .on_thread_start(move || assert!(Arc::strong_count(&start) > 1))
            .on_thread_stop(move || assert!(Arc::strong_count(&stop) > 1))
            .on_stall(move |_| assert!(Arc::strong_count(&stall) > 1))
            .on_deadlock(move |_| assert!(Arc::strong_count(&deadlock) > 1))
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        assert_eq!(runtime.run(|| 7), 7);
        runtime.shutdown(LONG).unwrap();
        assert_eq!(Arc::strong_count(&kept), 1, "current thread: {current}");
        assert_eq!(handle.stats().live, 0);
    }
}

#[test]
fn what_does_not_end_is_named() {
    within(LONG, || {
        for runtime in runtimes() {
            let (go_on, ended) =
                (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let handle = runtime.handle().clone();
            let parked = runtime.go(|| {
                let shielded = || shield(thread::park);
                drop(thread::Builder::new().name("stubborn".into()).spawn(shielded));
                shield(thread::park);
            });
            let multi = handle.stats().queue.workers > 1;
            if multi {
                let (theirs, ended) = (Arc::clone(&go_on), Arc::clone(&ended));
                drop(runtime.go(move || {
                    while !theirs.load(Ordering::Acquire) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    ended.store(true, Ordering::Release);
                }));
            }
            if has_threads(&runtime) {
                until_waits_on(&handle, "park", &parked);
                until_true("park", || {
                    let parked = handle.fibers(usize::MAX).into_iter();
                    parked.filter(|fiber| fiber.waits_for == Some("park")).count() == 2
                });
            }
            let error = runtime.shutdown_now(SHORT).unwrap_err();
            assert_eq!(error.fibers, 2 + u64::from(multi));
            assert_eq!(error.unfinished.len(), 2 + usize::from(multi), "{error}");
            let named = |name| error.unfinished.iter().any(|f| f.name.as_deref() == Some(name));
            assert!(named("stubborn"), "{error}");
            for fiber in &error.unfinished {
                assert!(fiber.site.file().ends_with("shutdown.rs"));
                assert!(fiber.waits_for.is_none_or(|what| what == "park"));
            }
            let running = error.unfinished.iter().filter(|fiber| fiber.waits_for.is_none()).count();
            assert_eq!(running, usize::from(multi), "{error}");
            assert!(!multi || !error.threads.is_empty(), "{error}");
            let text = error.to_string();
            assert!(text.contains("'stubborn' spawned at") && text.contains("waits for park"));
            go_on.store(true, Ordering::Release);
            while multi && !ended.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(parked);
        }
    });
}

/// A worker leaves, and then the thread-local of a library stands still as it is dropped.
#[test]
#[cfg(target_os = "linux")]
fn a_thread_that_does_not_end_is_named() {
    struct Stands(std::sync::mpsc::Receiver<()>);
    impl Drop for Stands {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }
    thread_local! {
        static STANDS: std::cell::Cell<Option<Stands>> = const { std::cell::Cell::new(None) };
    }
    type Way = fn(Runtime) -> Option<ShutdownError>;
    let ways: [Way; 3] = [
        |runtime| Some(runtime.shutdown(SHORT).unwrap_err()),
        |runtime| Some(runtime.shutdown_now(SHORT).unwrap_err()),
        |runtime| {
            drop(runtime);
            None
        },
    ];
    for way in ways {
        let (release, released) = std::sync::mpsc::channel();
        let error = within(LONG, move || {
            let runtime = Builder::new().workers(1).build().unwrap();
            let name = runtime.run(|| {
                STANDS.set(Some(Stands(released)));
                std::thread::current().name().unwrap().to_owned()
            });
            way(runtime).map(|error| (error, name))
        });
        if let Some((error, name)) = error {
            assert!(error.fibers == 0 && error.threads.contains(&name), "{error}");
        }
        drop(release);
    }
}

#[test]
fn a_list_of_fibers_is_taken_while_they_come_and_go() {
    // What is found is alive: a sanitizer would say otherwise.
    within(LONG, || {
        for round in 0..40 {
            let runtime = Builder::new().workers(1 + round % 3).build().unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            for _ in 0..4 {
                let stop = Arc::clone(&stop);
                drop(runtime.go(move || {
                    while !stop.load(Ordering::Relaxed) {
                        for _ in 0..20 {
                            drop(volt::go(volt::yield_now));
                        }
                        volt::go(|| volt::blocking(|| ())).join().unwrap();
                    }
                }));
            }
            let other = Builder::new().workers(2).build().unwrap();
            let churn =
                other.go(|| (0..500).for_each(|_| volt::go(volt::yield_now).join().unwrap()));
            std::thread::sleep(Duration::from_micros(300));
            if round % 2 == 0 {
                stop.store(true, Ordering::Relaxed);
                let _ = runtime.shutdown_now(LONG);
            } else {
                let error = runtime.shutdown_now(Duration::ZERO);
                drop(error);
                stop.store(true, Ordering::Relaxed);
            }
            churn.join().unwrap();
        }
    });
}

/// Nobody has run them; they have ended without that, and that is said.
#[test]
fn what_never_started_is_named() {
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        let fibers: Vec<_> = (0..150).map(|_| runtime.go(|| ())).collect();
        let error = runtime.shutdown_now(Duration::ZERO).unwrap_err();
        assert_eq!((error.fibers, error.unfinished.len()), (150, 100), "{error}");
        assert!(error.to_string().ends_with("\n  and 50 more"), "{error}");
        for fiber in &error.unfinished {
            assert!(fiber.site.file().ends_with("shutdown.rs"));
            assert_eq!(fiber.waits_for, Some("its start"));
        }
        assert!(error.to_string().contains(" waits for its start\n"), "{error}");
        assert!(fibers.into_iter().all(|fiber| fiber.join().is_err()));
    });
}

/// Behind a fiber that keeps the only worker's thread, and comes back before the threads are given up.
#[test]
fn what_never_started_may_hold_the_handle_of_another() {
    struct Joins(Option<thread::JoinHandle<()>>);
    impl Drop for Joins {
        fn drop(&mut self) {
            self.0.take().unwrap().join().unwrap_err();
        }
    }
    within(LONG, || {
        let runtime = Builder::new().workers(1).stall_period(None).build().unwrap();
        let [begun, over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (begins, ends) = (Arc::clone(&begun), Arc::clone(&over));
        let stuck = runtime.go(move || {
            let joins = Joins(Some(volt::go(|| unreachable!())));
            drop(volt::go(move || drop(joins)));
            begins.store(true, Ordering::SeqCst);
            while !ends.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        });
        until_true("it runs", || begun.load(Ordering::SeqCst));
        assert_eq!(runtime.shutdown_now(Duration::ZERO).unwrap_err().fibers, 3);
        over.store(true, Ordering::SeqCst);
        stuck.join().unwrap();
    });
}

#[test]
fn what_waits_behind_one_that_is_stuck_is_named() {
    within(LONG, || {
        let runtime = Builder::new().workers(1).stall_period(None).build().unwrap();
        let (started, starts) = volt::channel::bounded(1);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let stuck = runtime.go(move || {
            started.send(()).unwrap();
            released.recv().unwrap();
        });
        starts.recv().unwrap();
        let (behind, line) = (runtime.go(|| ()), line!());
        let handle = runtime.handle().clone();
        let releases = std::thread::spawn(move || {
            // Nothing is spawned any more once the shutdown has begun.
            until_true("the shutdown", || handle.go(|| ()).is_finished());
            release.send(()).unwrap();
        });
        let error = runtime.shutdown(Duration::ZERO).unwrap_err();
        releases.join().unwrap();
        let is_behind = |f: &&volt::runtime::FiberReport| f.site.line() == line;
        let named: Vec<_> = error.unfinished.iter().filter(is_behind).collect();
        // Not, if the worker lost its processor for a tenth of a second while it was ending it.
        let is_named = named.len() == 1 && named[0].waits_for == Some("its start");
        assert!(is_named || !error.threads.is_empty(), "{error}");
        stuck.join().unwrap();
        assert!(behind.join().is_err());
    });
}

/// How many values whose destructors were begun, and done.
#[derive(Default)]
struct Dropped {
    begun: AtomicUsize,
    done: AtomicUsize,
}

/// Waits in its destructor, from when its fiber is cancelled.
struct Lasting(Arc<Dropped>);

impl Drop for Lasting {
    fn drop(&mut self) {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        while !volt::cancel::cancelled() {
            volt::yield_now();
        }
        volt::sleep(Duration::from_millis(1));
        self.0.done.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_result_that_nobody_takes_is_dropped_whole() {
    type Way = fn(Lasting);
    let ways: [Way; 3] = [
        |result| drop(volt::go(move || result)),
        |result| volt::scope(|scope| drop(scope.spawn(move || result))),
        // Its destructor runs on whoever has the handle.
        |result| {
            let fiber = volt::go(move || result);
            until_true("end", || fiber.is_finished());
            drop(fiber);
        },
    ];
    within(LONG, move || {
        for (number, way) in ways.into_iter().enumerate() {
            for runtime in runtimes().into_iter().filter(has_threads) {
                let dropped = Arc::new(Dropped::default());
                let result = Lasting(Arc::clone(&dropped));
                drop(runtime.go(move || way(result)));
                until_true("drop", || dropped.begun.load(Ordering::SeqCst) == 1);
                runtime.shutdown_now(LONG).unwrap();
                assert_eq!(dropped.done.load(Ordering::SeqCst), 1, "the way {number}");
            }
        }
    });
}

/// A captured value's destructor is nobody's cancel to cut short, be it that of whoever drops the runtime.
#[test]
fn what_a_fiber_that_never_starts_has_captured_is_dropped_whole() {
    struct Captured(Arc<AtomicBool>);
    impl Drop for Captured {
        fn drop(&mut self) {
            volt::sleep(SHORT);
            self.0.store(true, Ordering::SeqCst);
        }
    }
    within(LONG, || {
        let cancelled = volt::go(|| {
            let runtime = Builder::new_current_thread().build().unwrap();
            let dropped = Arc::new(AtomicBool::new(false));
            let captured = Captured(Arc::clone(&dropped));
            drop(runtime.go(move || drop(captured)));
            while !volt::cancelled() {
                volt::yield_now();
            }
            drop(runtime);
            dropped.load(Ordering::SeqCst)
        });
        cancelled.cancel();
        assert!(cancelled.join().unwrap());
    });
}

/// Others may borrow from the stack of a fiber that has started, for as long as it has not ended: it stays where it is though
/// nobody will ever run it, and no other fiber gets it.
#[test]
fn what_others_borrow_from_a_fiber_outlives_its_runtime() {
    within(LONG, || {
        for runtime in runtimes() {
            let (lend, borrowed) = std::sync::mpsc::channel();
            let lender = runtime.go(move || {
                let lent = [7_u8; 4096];
                lend.send(lent.as_ptr().addr()).unwrap();
                thread::park();
                std::hint::black_box(&lent);
            });
            if !has_threads(&runtime) {
                runtime.run(volt::yield_now);
            }
            let lent = borrowed.recv_timeout(LONG).unwrap();
            until_waits_on(runtime.handle(), "park", &lender);
            drop(runtime);
            // As many as find a place in what has become free, each with other bytes there.
            let others: Vec<_> = (0..100)
                .map(|_| {
                    volt::go(|| {
                        std::hint::black_box([9_u8; 16 << 10]);
                        volt::sleep(SHORT);
                    })
                })
                .collect();
            others.into_iter().for_each(|other| other.join().unwrap());
            // SAFETY: the fiber has not ended, so what is on its stack lives on.
            let bytes = unsafe { std::slice::from_raw_parts(lent as *const u8, 4096) };
            assert!(bytes.iter().all(|byte| *byte == 7));
            assert!(!lender.is_finished());
        }
    });
}

/// What comes to where they wait is for those who are left.
#[test]
fn those_who_never_run_again_take_nothing() {
    within(LONG, || {
        for runtime in runtimes() {
            let (sender, receiver) = volt::channel::unbounded();
            let permits = Arc::new(Semaphore::new(0));
            let mutex = Arc::new(Mutex::new(()));
            let held = mutex.lock().unwrap();
            let (theirs, wanted, locked) =
                (receiver.clone(), Arc::clone(&permits), Arc::clone(&mutex));
            let waits = [
                ("receive from a channel", runtime.go(move || _ = theirs.recv())),
                ("semaphore", runtime.go(move || drop(wanted.acquire_many(2)))),
                ("mutex", runtime.go(move || drop(locked.lock()))),
            ];
            if !has_threads(&runtime) {
                runtime.run(volt::yield_now);
            }
            for (what, fiber) in &waits {
                until_waits_on(runtime.handle(), what, fiber);
            }
            let locked = Arc::clone(&mutex);
            let announced = Arc::new(Announced::default());
            let announces = Arc::clone(&announced);
            let next = std::thread::spawn(move || {
                announces.announce();
                drop(locked.lock().unwrap());
            });
            until_true("the thread for the lock", || announced.sleeps());
            drop(runtime);
            sender.send(7).unwrap();
            assert_eq!(receiver.try_recv(), Ok(7));
            permits.add_permits(1);
            assert!(permits.try_acquire().is_ok());
            drop(held);
            next.join().unwrap();
        }
    });
}

/// Such as one that its thread is stuck in, or that has dropped the runtime itself.
#[test]
#[cfg(target_os = "linux")]
fn those_who_come_to_wait_later_take_nothing_either() {
    const NAME: &str = "stuck";
    let has_left = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        !tasks.flatten().any(|task| name(task).is_ok_and(|name| name.starts_with(NAME)))
    };
    within(LONG, move || {
        for drops_itself in [true, false] {
            let builder = Builder::new().workers(1).stall_period(None).thread_name(NAME);
            let runtime = builder.build().unwrap();
            let (sender, receiver) = volt::channel::unbounded();
            let (give, given) = std::sync::mpsc::channel::<Runtime>();
            let (go_on, goes_on) = std::sync::mpsc::channel();
            let (begin, begun) = std::sync::mpsc::channel();
            let theirs = receiver.clone();
            let fiber = runtime.go(move || {
                begin.send(()).unwrap();
                // Its own, or none.
                drop(given.recv());
                goes_on.recv().unwrap();
                _ = theirs.recv();
            });
            begun.recv().unwrap();
            if drops_itself {
                give.send(runtime).unwrap();
            } else {
                drop((give, runtime));
            }
            go_on.send(()).unwrap();
            until_true("its thread to leave", has_left);
            assert!(!fiber.is_finished(), "it waits");
            sender.send(7).unwrap();
            assert_eq!(receiver.try_recv(), Ok(7), "drops itself: {drops_itself}");
        }
    });
}

/// One who was promised a message by a select that has not made it yet.
#[test]
fn a_promise_to_one_who_never_runs_again_is_kept_or_withdrawn_without_harm() {
    within(LONG, || {
        for sends in [true, false] {
            let runtime = Builder::new().workers(1).build().unwrap();
            let (sender, receiver) = volt::channel::bounded::<u8>(0);
            let fiber = runtime.go(move || _ = receiver.recv());
            until_waits_on(runtime.handle(), "receive from a channel", &fiber);
            volt::channel::select! { wait(sender) -> permit => {
                until_waits_on(runtime.handle(), "receive from a chosen sender", &fiber);
                drop(runtime);
                if sends {
                    _ = permit.send(7);
                } else {
                    drop(permit);
                }
            } }
        }
    });
}

/// A writer among them keeps readers out no longer than until those who read have left.
#[test]
fn a_writer_that_never_runs_again_is_passed_over() {
    within(LONG, || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let lock = Arc::new(RwLock::new(()));
        let held = lock.read().unwrap();
        let theirs = Arc::clone(&lock);
        let writer = runtime.go(move || drop(theirs.write()));
        until_waits_on(runtime.handle(), "rwlock", &writer);
        let announced = Arc::new(Announced::default());
        let (announces, locked) = (Arc::clone(&announced), Arc::clone(&lock));
        let next = std::thread::spawn(move || {
            announces.announce();
            drop(locked.write().unwrap());
        });
        until_true("the thread for the lock", || announced.sleeps());
        drop(runtime);
        drop(held);
        next.join().unwrap();
    });
}
