//! Current-thread runtimes whose fibers block: helper threads come and go, and the thread that drives
//! the runtime learns of everything. Stacks are not trimmed here, since that would wake it too.

mod common;

use common::{LONG, until, within};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use volt::runtime::{Builder, Migrate, Runtime};

const NEVER: Duration = Duration::from_secs(3_600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn driven(migrate: Migrate) -> Runtime {
    Builder::new_current_thread().migrate(migrate).stack_age(NEVER).build().unwrap()
}

/// Leaves a helper thread with a fiber that is at home there and runs `body`.
fn with_helper(body: impl FnOnce() + Send + 'static) -> impl FnOnce() + Send {
    move || {
        let begun = Arc::new(AtomicBool::new(false));
        let begin = Arc::clone(&begun);
        volt::blocking(|| {
            drop(volt::go(move || {
                begin.store(true, Ordering::SeqCst);
                body();
            }));
            until("the fiber to run on a helper", || begun.load(Ordering::SeqCst));
        });
    }
}

#[test]
fn a_shutdown_learns_of_a_fiber_that_ends_on_a_helper() {
    within(LONG, || {
        let runtime = driven(Migrate::Anytime);
        let handle = runtime.handle().clone();
        runtime.run(move || {
            drop(handle.go(|| volt::blocking(|| std::thread::sleep(ms(20)))));
            drop(handle.go(|| {
                volt::sleep(ms(5));
                volt::blocking(|| {
                    std::thread::sleep(ms(50));
                    resume_unwind(Box::new("unwinds without a core"));
                });
            }));
        });
        let begin = Instant::now();
        runtime.shutdown(LONG).unwrap();
        assert!(begin.elapsed() < LONG / 4, "{:?}", begin.elapsed());
    });
}

#[test]
fn a_run_returns_when_its_fiber_panics_in_blocking() {
    within(LONG, || {
        for _ in 0..300 {
            let runtime = driven(Migrate::Anytime);
            let run = catch_unwind(AssertUnwindSafe(|| {
                runtime.run(|| {
                    for _ in 0..5 {
                        volt::blocking(std::thread::yield_now);
                    }
                    volt::blocking(|| {
                        std::thread::sleep(ms(1));
                        resume_unwind(Box::new(1));
                    });
                });
            }));
            assert!(run.is_err());
        }
    });
}

/// The one that has the core then does not stop.
#[test]
fn a_run_returns_whoever_computes_when_its_fiber_panics_in_blocking() {
    within(LONG, || {
        let (runtime, stop) = (driven(Migrate::Anytime), Arc::new(AtomicBool::new(false)));
        let stops = Arc::clone(&stop);
        let run = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(move || {
                let begun = Arc::new(AtomicBool::new(false));
                let begin = Arc::clone(&begun);
                drop(volt::go(move || {
                    begin.store(true, Ordering::SeqCst);
                    while !stops.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                }));
                volt::blocking(|| {
                    until("another computes", || begun.load(Ordering::SeqCst));
                    resume_unwind(Box::new(1));
                });
            });
        }));
        assert!(run.is_err());
        stop.store(true, Ordering::SeqCst);
        runtime.shutdown(LONG).unwrap();
    });
}

/// The driver, which another fiber has kept, waits for a core by then.
#[test]
fn a_run_returns_though_its_driver_waits_for_the_core_of_one_that_computes() {
    within(LONG, || {
        let (runtime, stop) = (driven(Migrate::Anytime), Arc::new(AtomicBool::new(false)));
        let (stops, handle) = (Arc::clone(&stop), runtime.handle().clone());
        let run = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(move || {
                let flags = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
                let [lets_go, begun] = flags.each_ref().map(Arc::clone);
                let until_set =
                    |what, flag: &AtomicBool| until(what, || flag.load(Ordering::SeqCst));
                drop(volt::go(move || {
                    volt::blocking(|| until_set("the driver to be let go", &lets_go))
                }));
                volt::yield_now();
                drop(volt::go(move || {
                    begun.store(true, Ordering::SeqCst);
                    while !stops.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                }));
                volt::blocking(|| {
                    until_set("another computes", &flags[1]);
                    flags[0].store(true, Ordering::SeqCst);
                    // Its fiber waits for the core as well then.
                    until("the driver is back", || handle.stats().queue.size > 0);
                    std::thread::sleep(ms(5));
                    resume_unwind(Box::new(1));
                });
            });
        }));
        assert!(run.is_err());
        stop.store(true, Ordering::SeqCst);
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_shutdown_ends_at_its_deadline_whoever_sleeps_in_the_poller() {
    within(LONG, || {
        let runtime = driven(Migrate::BeforeStart);
        runtime.run(with_helper(|| volt::sleep(NEVER)));
        let begin = Instant::now();
        assert!(runtime.shutdown(ms(200)).is_err());
        assert!(begin.elapsed() < LONG / 4, "{:?}", begin.elapsed());
    });
}

#[test]
fn a_helper_passes_on_the_wakes_that_are_not_for_it() {
    within(LONG, || {
        let runtime = driven(Migrate::BeforeStart);
        let handle = runtime.handle().clone();
        runtime.run(move || {
            with_helper(|| volt::sleep(NEVER))();
            for _ in 0..200 {
                let (me, handle) = (volt::current(), handle.clone());
                let other = std::thread::spawn(move || {
                    std::thread::sleep(ms(1));
                    drop(handle.go(move || me.unpark()));
                });
                volt::thread::park();
                other.join().unwrap();
            }
        });
    });
}

#[test]
fn a_helper_goes_on_with_what_is_at_home_there() {
    within(LONG, || {
        let runtime = driven(Migrate::BeforeStart);
        runtime.run(|| {
            let (tell, told) = mpsc::channel();
            let done = Arc::new(AtomicBool::new(false));
            let ends = Arc::clone(&done);
            with_helper(move || {
                volt::sleep(ms(20));
                let sum = (0..2_000).map(|n| volt::go(move || n).join().unwrap()).sum::<u64>();
                tell.send(sum).unwrap();
                ends.store(true, Ordering::SeqCst);
            })();
            while !done.load(Ordering::SeqCst) {
                volt::sleep(ms(1));
            }
            assert_eq!(told.recv().unwrap(), 1_999_000);
        });
    });
}

#[test]
fn a_thread_whose_hook_panics_leaves_its_core_to_others() {
    within(LONG, || {
        let first = AtomicBool::new(true);
        let hook = move || {
            if !first.swap(false, Ordering::SeqCst) {
                resume_unwind(Box::new("the hook of a replacement"));
            }
        };
        let runtime =
            Builder::new().workers(1).stall_period(None).on_thread_start(hook).build().unwrap();
        for n in 0..20 {
            let fiber = runtime.go(move || {
                volt::blocking(|| std::thread::sleep(ms(1)));
                volt::yield_now();
                n
            });
            assert_eq!(fiber.join().unwrap(), n);
        }
    });
}

#[test]
fn a_thread_name_that_no_thread_can_have_is_refused() {
    for builder in [Builder::new(), Builder::new_current_thread()] {
        let error = builder.thread_name("web\0").build().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("NUL"), "{error}");
    }
}

/// Whoever drives runs the fibers of all: the other thread's call ends when its fiber has, though the first one goes on and
/// waits for just that.
#[test]
fn a_run_ends_while_another_thread_drives() {
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        let (sender, receiver) = volt::channel::unbounded();
        let begun = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            let (drives, waits) = (&runtime, &begun);
            let driver = threads.spawn(move || {
                drives.run(|| {
                    waits.wait();
                    (receiver.recv().unwrap(), receiver.recv().unwrap())
                })
            });
            begun.wait();
            sender.send(runtime.run(|| 1)).unwrap();
            let bounded =
                volt::timeout(Duration::from_millis(5), || runtime.run(volt::thread::park));
            assert!(bounded.is_err());
            sender.send(runtime.run(|| 2)).unwrap();
            assert_eq!(driver.join().unwrap(), (1, 2));
        });
    });
}

/// And who waits drives as soon as nobody does.
#[test]
fn a_run_goes_on_where_the_driver_leaves() {
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        for _ in 0..100 {
            let (sender, receiver) = volt::channel::bounded(0);
            std::thread::scope(|threads| {
                let drives = &runtime;
                threads.spawn(move || drives.run(|| receiver.recv().unwrap()));
                runtime.run(|| {
                    sender.send(()).unwrap();
                    volt::sleep(Duration::from_micros(100));
                });
            });
        }
    });
}

/// Calls `f` in a destructor while the thread unwinds from a panic.
fn while_unwinding(f: impl FnOnce()) {
    struct Calls<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Calls<F> {
        fn drop(&mut self) {
            self.0.take().unwrap()();
        }
    }
    let unwinds = || {
        let _calls = Calls(Some(f));
        resume_unwind(Box::new("on purpose"));
    };
    assert!(catch_unwind(AssertUnwindSafe(unwinds)).is_err());
}

/// Its fibers do not unwind: a wait leaves the thread as ever, and the thread comes to its deadline.
#[test]
fn a_shutdown_while_unwinding_ends_at_its_deadline() {
    within(LONG, || {
        let runtime = driven(Migrate::Anytime);
        drop(runtime.go(|| {
            loop {
                volt::sleep(ms(1));
            }
        }));
        while_unwinding(|| {
            let error = runtime.shutdown(ms(50)).unwrap_err();
            assert_eq!(error.fibers, 1, "{error}");
        });
    });
}

#[test]
fn a_run_while_unwinding_ends_with_its_fiber_and_poisons_nothing() {
    within(LONG, || {
        let runtime = driven(Migrate::Anytime);
        let mutex = Arc::new(volt::sync::Mutex::new(()));
        let theirs = Arc::clone(&mutex);
        let holder = runtime.go(move || {
            let guard = theirs.lock().unwrap();
            volt::thread::park();
            drop(guard);
            loop {
                volt::sleep(ms(1));
            }
        });
        runtime.run(volt::yield_now);
        assert!(mutex.try_lock().is_err(), "it holds the lock");
        let unparked = holder.thread().clone();
        while_unwinding(|| {
            unparked.unpark();
            runtime.run(|| {
                until("the holder to let go", || {
                    volt::yield_now();
                    mutex.try_lock().is_ok() || mutex.is_poisoned()
                })
            });
        });
        assert!(!mutex.is_poisoned());
    });
}
