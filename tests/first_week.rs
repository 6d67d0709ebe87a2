//! What users run into in their first week: each ends well, or with words.

mod common;

use common::waits::{Announced, until_true};
use common::{LONG, child, detached, limit_address_space, until, within};
use std::cell::Cell;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use volt::runtime::{Builder, Migrate};
use volt::{StackError, thread};

/// Short enough to tell a hang from slowness soon, long enough for a busy machine.
const SOON: Duration = Duration::from_secs(8);

// ---- run ----

#[test]
fn run_inside_a_fiber() {
    within(LONG, || {
        let mut depth = 0;
        volt::run(|| {
            let local = 5;
            depth = volt::run(|| volt::run(|| volt::go(|| 1).join().unwrap() + local) + local);
        });
        assert_eq!(depth, 11);
    });
}

#[test]
fn run_passes_the_panic_on() {
    within(LONG, || {
        let borrowed = String::from("kept");
        for inside in [false, true] {
            let call = || {
                let result = catch_unwind(AssertUnwindSafe(|| {
                    volt::run(|| -> () { panic_any(borrowed.len()) });
                }));
                assert_eq!(*result.unwrap_err().downcast::<usize>().unwrap(), 4);
            };
            if inside { volt::run(call) } else { call() }
        }
    });
}

#[test]
fn run_between_two_runtimes() {
    within(LONG, || {
        let (one, two) = (
            Builder::new().workers(1).build().unwrap(),
            Builder::new().workers(1).build().unwrap(),
        );
        let sum = one.run(|| two.run(|| one.run(|| two.run(|| 4)) + 1));
        assert_eq!(sum, 5);
        one.shutdown(LONG).unwrap();
        two.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_current_thread_runtime_refuses_to_run_inside_a_fiber() {
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        let ran = AtomicBool::new(false);
        let result = catch_unwind(AssertUnwindSafe(|| {
            volt::run(|| {
                let local = 1;
                runtime.run(|| {
                    std::hint::black_box(&raw const local);
                    ran.store(true, Ordering::SeqCst);
                });
            });
        }));
        let payload = result.unwrap_err();
        assert!(payload.downcast_ref::<&str>().unwrap().contains("current-thread"));
        // The closure borrowed from a frame that is gone: it must not run any more.
        runtime.run(volt::yield_now);
        assert!(!ran.load(Ordering::SeqCst), "it ran after its borrows had ended");
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_current_thread_runtime_is_run_from_one_thread_after_another() {
    within(LONG, || {
        let runtime = Arc::new(Builder::new_current_thread().build().unwrap());
        let waiting = Mutex::new(Some(runtime.run(|| volt::go(thread::park))));
        for _ in 0..3 {
            let runtime = Arc::clone(&runtime);
            std::thread::spawn(move || {
                runtime.run(|| volt::sleep(Duration::from_millis(1)));
            })
            .join()
            .unwrap();
        }
        let fiber = waiting.into_inner().unwrap().unwrap();
        fiber.thread().unpark();
        runtime.run(|| fiber.join().unwrap());
    });
}

// ---- thread-locals, shutdown ----

/// Calls its function when its thread ends.
struct AtExit(Cell<Option<fn()>>);

impl Drop for AtExit {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

thread_local! {
    static AT_EXIT: AtExit = const { AtExit(Cell::new(None)) };
}

/// Runs `f` in a thread-local's destructor; `first` says what the thread uses before.
fn at_exit(f: fn(), first: fn()) {
    within(SOON, move || {
        std::thread::spawn(move || {
            AT_EXIT.with(|at_exit| at_exit.0.set(Some(f)));
            first();
        })
        .join()
        .unwrap();
    });
}

/// With volt's own thread-locals never used, and in use.
fn at_exit_either_way(f: fn()) {
    at_exit(f, || ());
    at_exit(f, || volt::go(|| volt::sleep(Duration::from_millis(1))).join().unwrap());
}

static EXITS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn go_from_a_thread_locals_destructor() {
    at_exit_either_way(|| {
        let fiber = volt::go(|| {
            volt::sleep(Duration::from_millis(1));
            EXITS.fetch_add(1, Ordering::SeqCst)
        });
        fiber.join().unwrap();
    });
    assert_eq!(EXITS.load(Ordering::SeqCst), 2);
}

/// What is around a wait there, and who wakes it, mean the same waiter.
#[test]
fn waits_in_a_thread_locals_destructor_end() {
    at_exit_either_way(|| {
        let ended = volt::timeout(Duration::from_millis(1), thread::park);
        assert!(ended.is_err(), "its time was over");
        let me = volt::current();
        let fiber = volt::go(move || me.unpark());
        thread::park();
        fiber.join().unwrap();
        let token = volt::cancel::Token::new();
        let theirs = token.clone();
        let fiber = volt::go(move || theirs.cancel());
        assert!(token.run(thread::park).is_err());
        fiber.join().unwrap();
    });
}

#[test]
fn a_scope_in_a_thread_locals_destructor() {
    at_exit_either_way(|| {
        let count = AtomicUsize::new(0);
        thread::scope(|s| {
            s.spawn(|| volt::sleep(Duration::from_millis(2)));
            s.spawn(|| count.fetch_add(1, Ordering::SeqCst));
        });
        assert_eq!(count.into_inner(), 1);
    });
}

#[test]
fn go_after_shutdown() {
    within(LONG, || {
        let runtime = Builder::new().workers(2).build().unwrap();
        let handle = runtime.handle().clone();
        runtime.shutdown(LONG).unwrap();
        let captured = Arc::new(());
        let theirs = Arc::clone(&captured);
        let fiber = handle.go(move || drop(theirs));
        assert_eq!(Arc::strong_count(&captured), 1, "the closure is gone");
        assert!(fiber.is_finished());
        fiber.cancel();
        fiber.thread().unpark();
        assert_eq!(fiber.thread().name(), None);
        let error = fiber.join().unwrap_err();
        assert!(error.downcast_ref::<&str>().unwrap().contains("shut down"));
    });
}

#[test]
fn fibers_that_never_started_end_at_shutdown() {
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        let captured = Arc::new(());
        let fibers: Vec<_> = (0..400)
            .map(|_| {
                let captured = Arc::clone(&captured);
                runtime.go(move || drop(captured))
            })
            .collect();
        let handle = runtime.handle().clone();
        drop(runtime);
        assert_eq!(Arc::strong_count(&captured), 1, "closures that will not run are gone");
        for fiber in fibers {
            let error = fiber.join().unwrap_err();
            assert!(error.downcast_ref::<&str>().unwrap().contains("shut down"));
        }
        assert_eq!(handle.stats().live, 0);
    });
}

#[test]
fn fibers_behind_a_stuck_one_end_at_shutdown() {
    // A fiber holds its thread beyond the deadline. What stands in the queues never starts, and its
    // joins must say so, at the latest when the thread comes back.
    within(SOON, || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let (running, is_running) = channel();
        let (release, released) = channel::<()>();
        let stuck = runtime.go(move || {
            running.send(()).unwrap();
            let inner = volt::go(|| ());
            let _ = released.recv();
            inner
        });
        is_running.recv().unwrap();
        let queued: Vec<_> = (0..10).map(|_| runtime.go(|| ())).collect();
        let handle = runtime.handle().clone();
        let error = runtime.shutdown(Duration::from_millis(5)).unwrap_err();
        // Another may be named too, that has no processor for as long.
        assert!(error.to_string().contains("volt-worker-0"), "{error}");
        let late = handle.go(|| ());
        release.send(()).unwrap();
        let inner = stuck.join().unwrap();
        assert!(late.join().is_err());
        for fiber in queued {
            assert!(fiber.join().is_err());
        }
        assert!(inner.join().is_err());
    });
}

#[test]
fn a_runtime_dropped_by_its_own_fiber() {
    for workers in [1, 2] {
        within(SOON, move || {
            let runtime = Builder::new().workers(workers).build().unwrap();
            let handle = runtime.handle().clone();
            let (give, taken) = channel::<volt::runtime::Runtime>();
            let queued = Arc::new(Mutex::new(Vec::new()));
            let theirs = Arc::clone(&queued);
            let fiber = handle.go(move || {
                let runtime = taken.recv().unwrap();
                // They stand behind this fiber, some in the ring; it is all the same which still run.
                theirs.lock().unwrap().extend((0..400).map(|_| runtime.go(|| ())));
                drop(runtime);
                5
            });
            give.send(runtime).unwrap();
            assert_eq!(fiber.join().unwrap(), 5);
            assert!(handle.go(|| ()).join().is_err());
            for fiber in queued.lock().unwrap().drain(..) {
                let _ = fiber.join();
            }
        });
    }
}

#[test]
fn a_shutdown_inside_a_fiber_keeps_other_runtimes_going() {
    // The caller's worker has other fibers to run, on which the shutdown may depend.
    within(SOON, || {
        let outer = Builder::new().workers(1).build().unwrap();
        outer.run(|| {
            let inner = Builder::new().workers(1).build().unwrap();
            let helper = volt::go(|| {
                volt::yield_now();
                7
            });
            let dependent = inner.go(move || helper.join().unwrap());
            inner.shutdown(LONG).unwrap();
            assert_eq!(dependent.join().unwrap(), 7);
        });
        outer.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_shutdown_on_the_thread_of_a_fiber_keeps_its_runtime_going() {
    within(SOON, || {
        for outer in [Builder::new().workers(1), Builder::new_current_thread()] {
            // Nobody comes to the rescue.
            let outer = outer.stall_period(None).build().unwrap();
            outer.run(|| {
                let inner = Builder::new_current_thread().build().unwrap();
                let helper = volt::go(|| 7);
                let dependent = inner.go(move || helper.join().unwrap());
                inner.shutdown(Duration::MAX).unwrap();
                assert_eq!(dependent.join().unwrap(), 7);
            });
        }
    });
}

// ---- panics in odd places ----

struct PanicsOnDrop(&'static str);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("{}", self.0);
    }
}

#[test]
fn a_panic_in_a_results_drop() {
    within(LONG, || {
        // The fiber's own to drop: it ends there, and the worker goes on.
        let runtime = Builder::new().workers(1).build().unwrap();
        detached(&runtime, || PanicsOnDrop("in a result's drop"));
        assert_eq!(runtime.go(|| 1).join().unwrap(), 1);
        // The joiner's to drop: it comes out there.
        let result = runtime.go(|| PanicsOnDrop("at the joiner")).join();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(result))).is_err());
        // The handle's to drop, after the end: it ends there too, whoever is first.
        let fiber = runtime.go(|| PanicsOnDrop("at the handle"));
        until("it ended", || fiber.is_finished());
        let thread = fiber.thread().clone();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(fiber))).is_ok());
        thread.unpark();
        let handle = runtime.handle().clone();
        runtime.shutdown(LONG).unwrap();
        assert_eq!(handle.stats().live, 0);
    });
}

#[test]
fn a_payload_whose_drop_panics() {
    within(LONG, || {
        let runtime = Builder::new().workers(1).build().unwrap();
        detached(&runtime, || panic_any(PanicsOnDrop("in a payload's drop")));
        // Even the panic of that drop carries such a payload.
        struct Nested;
        impl Drop for Nested {
            fn drop(&mut self) {
                panic_any(PanicsOnDrop("nested"));
            }
        }
        detached(&runtime, || panic_any(Nested));
        let payload = runtime.go(|| panic_any(PanicsOnDrop("joined"))).join().unwrap_err();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(payload))).is_err());
        assert_eq!(runtime.go(|| 2).join().unwrap(), 2);
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_closure_whose_drop_panics_is_not_run() {
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        let captured = PanicsOnDrop("a capture");
        let fiber = runtime.go(move || {
            let _captured = &captured;
        });
        drop(runtime);
        assert!(fiber.join().is_err());
    });
}

#[test]
fn a_results_drop_may_wait() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            volt::sleep(Duration::from_millis(1));
            volt::yield_now();
            volt::go(|| ()).join().unwrap();
            ENDED.fetch_add(1, Ordering::SeqCst);
        }
    }
    within(LONG, || {
        let runtime = Builder::new().workers(1).build().unwrap();
        detached(&runtime, || Waits);
        let theirs = runtime.go(|| {
            volt::yield_now();
            volt::current()
        });
        let thread = theirs.join().unwrap();
        detached(&runtime, || (Waits, volt::current()));
        runtime.shutdown(LONG).unwrap();
        thread.unpark();
        assert_eq!(ENDED.load(Ordering::SeqCst), 2);
    });
}

/// Waits in its destructor for others, while unwinding.
struct Joins(Arc<AtomicUsize>);

impl Drop for Joins {
    fn drop(&mut self) {
        assert!(thread::panicking());
        volt::yield_now();
        volt::sleep(Duration::from_millis(1));
        let count = Arc::clone(&self.0);
        volt::go(move || count.fetch_add(1, Ordering::SeqCst)).join().unwrap();
    }
}

/// The panic count is the thread's, so the fiber keeps its thread; what it waits for must run on.
fn waits_while_unwinding(workers: usize) {
    within(SOON, move || {
        let runtime = Builder::new().workers(workers).build().unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&count);
        let fiber = runtime.go(move || {
            let _joins = Joins(theirs);
            panic!("unwinds through a join");
        });
        assert!(fiber.join().is_err());
        assert_eq!(count.load(Ordering::SeqCst), 1);
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_destructor_that_waits_while_unwinding() {
    waits_while_unwinding(2);
    waits_while_unwinding(4);
}

#[test]
fn an_unpark_reaches_a_fiber_that_parks_while_unwinding() {
    struct Parks(Arc<Announced>);
    impl Drop for Parks {
        fn drop(&mut self) {
            self.0.announce();
            thread::park();
        }
    }
    within(SOON, || {
        let runtime = Builder::new().workers(2).build().unwrap();
        let announced = Arc::new(Announced::default());
        let parks = Parks(Arc::clone(&announced));
        let fiber = runtime.go(|| {
            let _parks = parks;
            panic!("unwinds into a park");
        });
        until_true("it blocks its thread", || announced.sleeps());
        fiber.thread().unpark();
        assert!(fiber.join().is_err());
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_panic_names_the_fiber() {
    let left = child("a_panic_names_the_fiber", &[], || {
        let fiber = thread::Builder::new().name("clumsy".into()).spawn(|| panic!("oh no")).unwrap();
        let _ = fiber.join();
    });
    assert!(left.status.success());
    for word in ["clumsy", "oh no", "first_week.rs"] {
        assert!(left.text.contains(word), "no '{word}' in: {}", left.text);
    }
}

// ---- stacks ----

/// Uses about `bytes` of stack, in small frames.
#[inline(never)]
fn recurse(bytes: usize) -> usize {
    let here = 0_u8;
    let base = std::hint::black_box(&raw const here) as usize;
    deeper(base, bytes)
}

#[inline(never)]
fn deeper(base: usize, bytes: usize) -> usize {
    let frame = std::hint::black_box([1_u8; 100]);
    let used = base - frame.as_ptr() as usize;
    if used >= bytes {
        used
    } else {
        deeper(base, bytes).max(used * usize::from(frame[used % 100]))
    }
}

#[test]
fn deep_recursion_within_the_default_stack() {
    let default = if cfg!(debug_assertions) { 1 << 20 } else { 256 << 10 };
    // All that is not guard, less a little for what runs above and below.
    let usable = default - (64 << 10) - (12 << 10);
    assert!(usable * 10 > default * 6);
    within(LONG, move || {
        for _ in 0..20 {
            let fibers: Vec<_> = (0..8)
                .map(|_| {
                    volt::go(move || {
                        let used = recurse(usable);
                        volt::yield_now();
                        used
                    })
                })
                .collect();
            for fiber in fibers {
                assert!(fiber.join().unwrap() >= usable);
            }
        }
    });
}

fn assert_overflow_report(left: &common::Left, line: u32) {
    assert_eq!(left.signal(), Some(libc::SIGSEGV), "{left:?}");
    let size = if cfg!(debug_assertions) { "512 KiB" } else { "128 KiB" };
    for word in ["glutton", &format!("first_week.rs:{line}:"), size, "overflowed its stack"] {
        assert!(left.text.contains(word), "no '{word}' in: {}", left.text);
    }
}

/// Starts a fiber that overflows its stack, and returns where it was spawned.
fn glutton(eat: fn() -> usize) -> u32 {
    let size = if cfg!(debug_assertions) { 512 << 10 } else { 128 << 10 };
    let builder = thread::Builder::new().name("glutton".into()).stack_size(size);
    let (fiber, line) = (builder.spawn(eat), line!());
    if std::env::var_os("VOLT_TEST_CHILD").is_some() {
        let _ = fiber.unwrap().join();
    }
    line
}

/// The line that `glutton` spawns at, without its fiber.
fn gluttons_line() -> u32 {
    glutton(|| 0)
}

#[test]
fn an_overflow_is_reported() {
    let name = "an_overflow_is_reported";
    let left = child(name, &[], || {
        glutton(|| recurse(usize::MAX / 2));
    });
    assert_overflow_report(&left, gluttons_line());
}

#[test]
fn an_overflow_after_moving_about_is_reported() {
    // The owner of the stack is found after waits and on recycled stacks, too.
    let left = child("an_overflow_after_moving_about_is_reported", &[], || {
        let warm: Vec<_> =
            (0..50).map(|_| volt::go(|| volt::sleep(Duration::from_millis(1)))).collect();
        warm.into_iter().for_each(|fiber| fiber.join().unwrap());
        glutton(|| {
            for _ in 0..10 {
                volt::yield_now();
                volt::sleep(Duration::from_micros(100));
            }
            recurse(usize::MAX / 2)
        });
    });
    assert_overflow_report(&left, gluttons_line());
}

#[test]
fn an_overflow_below_a_c_frame_is_reported() {
    let left = child("an_overflow_below_a_c_frame_is_reported", &[], || {
        glutton(|| {
            unsafe extern "C" fn compare(_: *const libc::c_void, _: *const libc::c_void) -> i32 {
                (recurse(usize::MAX / 2) % 2) as i32
            }
            let mut numbers = [3_u32, 1, 2];
            // SAFETY: three numbers of four bytes, and a function that compares (if it returns).
            unsafe { libc::qsort(numbers.as_mut_ptr().cast(), 3, 4, Some(compare)) };
            numbers[0] as usize
        });
    });
    assert_overflow_report(&left, gluttons_line());
}

#[test]
fn a_plain_fault_is_no_overflow() {
    let left = child("a_plain_fault_is_no_overflow", &[], || {
        let _ = volt::go(|| {
            // SAFETY: none; it is meant to fault.
            unsafe { std::ptr::without_provenance_mut::<u8>(16).write_volatile(1) }
        })
        .join();
    });
    assert_eq!(left.signal(), Some(libc::SIGSEGV), "{left:?}");
    assert!(!left.text.contains("overflowed"), "{left:?}");
}

#[test]
fn guards_where_memory_is_locked() {
    let left = child("guards_where_memory_is_locked", &[], || {
        // SAFETY: no memory of ours is touched.
        if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
            eprintln!("mlockall refused");
            return;
        }
        let result = volt::go(|| recurse(20 << 10)).join();
        match result {
            // Some kernels and limits let a few stacks through.
            Ok(used) => assert!(used >= 20 << 10),
            Err(payload) => {
                let error = payload.downcast::<StackError>().unwrap();
                assert!(error.to_string().contains("RLIMIT_MEMLOCK"), "{error}");
                eprintln!("no room to lock a stack");
                return;
            }
        }
        let size = if cfg!(debug_assertions) { 512 << 10 } else { 128 << 10 };
        let builder = thread::Builder::new().name("locked".into()).stack_size(size);
        let _ = builder.spawn(|| recurse(usize::MAX / 2)).unwrap().join();
    });
    let skipped = left.text.contains("refused") || left.text.contains("no room");
    if skipped {
        assert!(left.status.success(), "{left:?}");
        eprintln!("not tested: {}", left.text.trim());
    } else {
        assert_eq!(left.signal(), Some(libc::SIGSEGV), "{left:?}");
        assert!(left.text.contains("'locked'") && left.text.contains("overflowed"), "{left:?}");
    }
}

#[test]
fn where_stacks_run_out_joins_say_so_and_the_rest_goes_on() {
    let left = child("where_stacks_run_out_joins_say_so_and_the_rest_goes_on", &[], || {
        within(SOON, || {
            let runtime = Builder::new().workers(2).build().unwrap();
            // Warm: threads, caches, the heap.
            let running = Arc::new(AtomicUsize::new(0));
            let early: Vec<_> = (0..4).map(|_| runtime.go(thread::park)).collect();
            runtime.run(|| volt::sleep(Duration::from_millis(1)));
            limit_address_space(Some(96 << 20));
            let size = 8 << 20;
            let fibers: Vec<_> = runtime.run(|| {
                (0..60)
                    .map(|_| {
                        let running = Arc::clone(&running);
                        let builder = thread::Builder::new().stack_size(size);
                        let body = move || {
                            running.fetch_add(1, Ordering::SeqCst);
                            thread::park();
                            3
                        };
                        builder.spawn(body).unwrap()
                    })
                    .collect()
            });
            let start = Instant::now();
            let failed = || fibers.iter().filter(|fiber| fiber.is_finished()).count();
            while failed() + running.load(Ordering::SeqCst) < 60 {
                assert!(start.elapsed() < SOON);
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(failed() > 0, "the limit was never hit");
            // Everything else runs on: stacks that are there, and waits.
            assert_eq!(runtime.go(|| volt::go(|| 1).join().unwrap()).join().unwrap(), 1);
            // A scope does not return as if nothing had happened.
            let scope = catch_unwind(AssertUnwindSafe(|| {
                runtime.run(|| {
                    let ran = AtomicBool::new(false);
                    thread::scope(|s| {
                        let builder = thread::Builder::new().stack_size(1 << 30);
                        builder.spawn_scoped(s, || ran.store(true, Ordering::SeqCst)).unwrap();
                    });
                    ran.into_inner()
                })
            }));
            assert!(scope.is_err(), "a scope whose fiber could not run returned {scope:?}");
            limit_address_space(None);
            let mut refused = 0;
            for fiber in fibers {
                fiber.thread().unpark();
                match fiber.join() {
                    Ok(three) => assert_eq!(three, 3),
                    Err(payload) => {
                        let error = payload.downcast::<StackError>().expect("a stack error");
                        assert!(error.to_string().contains("RLIMIT_AS"), "{error}");
                        refused += 1;
                    }
                }
            }
            assert!(refused > 0);
            // It works again.
            let again: Vec<_> = (0..30)
                .map(|_| thread::Builder::new().stack_size(size).spawn(|| 4).unwrap())
                .collect();
            again.into_iter().for_each(|fiber| assert_eq!(fiber.join().unwrap(), 4));
            for fiber in early {
                fiber.thread().unpark();
                fiber.join().unwrap();
            }
            runtime.shutdown(SOON).unwrap();
        });
    });
    assert!(left.status.success(), "{left:?}");
}

/// What it holds is dropped on the worker's own flow, and may wait for fibers of that worker.
#[test]
fn the_closure_of_a_fiber_that_cannot_run_may_wait_as_it_is_dropped() {
    struct JoinsOnDrop(Option<volt::JoinHandle<()>>);
    impl Drop for JoinsOnDrop {
        fn drop(&mut self) {
            self.0.take().unwrap().join().unwrap();
        }
    }
    const NAME: &str = "the_closure_of_a_fiber_that_cannot_run_may_wait_as_it_is_dropped";
    let builders: [fn() -> Builder; 3] = [
        || Builder::new().workers(1).migrate(Migrate::Anytime),
        || Builder::new().workers(1).migrate(Migrate::BeforeStart),
        Builder::new_current_thread,
    ];
    let left = child(NAME, &[], || {
        within(SOON, move || {
            for builder in builders {
                let runtime = builder().stall_period(None).build().unwrap();
                runtime.run(|| {
                    limit_address_space(Some(512 << 20));
                    for _ in 0..10 {
                        let joins = JoinsOnDrop(Some(volt::go(|| ())));
                        let builder = thread::Builder::new().stack_size(1 << 30);
                        let fiber = builder.spawn(move || drop(joins)).unwrap();
                        assert!(fiber.join().unwrap_err().is::<StackError>());
                    }
                    limit_address_space(None);
                });
                runtime.shutdown(SOON).unwrap();
            }
        });
    });
    assert!(left.status.success(), "{left:?}");
}

// ---- settings ----

#[test]
fn one_and_sixty_four_workers() {
    for workers in [1, 64] {
        within(LONG, move || {
            // Of so many threads one may get no processor for a while; nobody is to take its place, which is counted.
            let builder =
                Builder::new().workers(workers).thread_name("many").stall_period(Some(LONG));
            let runtime = builder.build().unwrap();
            let fibers: Vec<_> = (0..500_u64)
                .map(|i| {
                    runtime.go(move || {
                        volt::yield_now();
                        volt::sleep(Duration::from_micros(i % 50));
                        i
                    })
                })
                .collect();
            let sum: u64 = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
            assert_eq!(sum, 499 * 500 / 2);
            assert_eq!(runtime.stats().workers.len(), workers);
            runtime.shutdown(LONG).unwrap();
        });
    }
}

#[test]
fn settings_out_of_bounds_are_refused_with_the_bounds() {
    let least = if cfg!(debug_assertions) { 64 << 10 } else { 32 << 10 };
    let refused = |builder: Builder, words: &[String]| {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        for word in words {
            assert!(error.to_string().contains(word), "no '{word}' in: {error}");
        }
    };
    for workers in [0, 1025, usize::MAX] {
        let words = [workers.to_string(), "1".into(), "1024".into()];
        refused(Builder::new().workers(workers), &words);
    }
    for workers in [0, 2] {
        refused(
            Builder::new_current_thread().workers(workers),
            &[workers.to_string(), "exactly 1".into()],
        );
    }
    for bytes in [0, least - 1, (1 << 30) + 1] {
        let words = [bytes.to_string(), least.to_string(), (1 << 30).to_string()];
        refused(Builder::new().stack_size(bytes), &words);
    }
}

#[test]
fn settings_from_the_environment_are_checked() {
    let least = if cfg!(debug_assertions) { "65536" } else { "32768" };
    let bad: [(&str, &str, &[&str]); 6] = [
        ("VOLT_WORKERS", "0", &["0 workers", "1024"]),
        ("VOLT_WORKERS", "abc", &["VOLT_WORKERS", "abc"]),
        ("VOLT_WORKERS", "-1", &["VOLT_WORKERS", "-1"]),
        ("VOLT_WORKERS", "", &["VOLT_WORKERS"]),
        ("VOLT_STACK_SIZE", "1", &["stack size of 1 bytes", least, "1073741824"]),
        ("VOLT_STACK_SIZE", "256K", &["VOLT_STACK_SIZE", "256K"]),
    ];
    let name = "settings_from_the_environment_are_checked";
    for (variable, value, words) in bad {
        let left = child(name, &[(variable, value)], || {
            volt::run(|| ());
        });
        assert_eq!(left.status.code(), Some(101), "{variable}={value}: {left:?}");
        for word in words.iter().chain(&["the default runtime cannot start"]) {
            assert!(left.text.contains(word), "{variable}={value}: no '{word}' in: {}", left.text);
        }
    }
    let good = [("VOLT_WORKERS", " 3 "), ("VOLT_STACK_SIZE", "131072")];
    let left = child(name, &good, || ());
    assert!(left.status.success(), "{left:?}");
}

#[test]
fn settings_from_the_environment_count() {
    let left = child("settings_from_the_environment_count", &[("VOLT_WORKERS", "3")], || {
        let workers = volt::run(|| volt::runtime::Handle::current().stats().workers.len());
        assert_eq!(workers, 3);
    });
    assert!(left.status.success(), "{left:?}");
}

#[test]
fn hooks_run_on_each_worker_thread() {
    within(LONG, || {
        let (started, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (starting, stopping) = (Arc::clone(&started), Arc::clone(&stopped));
        let runtime = Builder::new()
            .workers(3)
            .on_thread_start(move || {
                starting.fetch_add(1, Ordering::SeqCst);
            })
            .on_thread_stop(move || {
                stopping.fetch_add(1, Ordering::SeqCst);
            })
            .build()
            .unwrap();
        until("all have started", || started.load(Ordering::SeqCst) == 3);
        runtime.shutdown(LONG).unwrap();
        assert_eq!(stopped.load(Ordering::SeqCst), 3);
    });
}
