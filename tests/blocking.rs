//! Code that blocks its thread: `blocking`, `pinned`, and what unwinds.

mod common;

use common::{LONG, within};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::ThreadId;
use std::time::Duration;
use volt::runtime::{Builder, Migrate, Placement, Runtime};

fn runtime(workers: usize) -> Runtime {
    Builder::new().workers(workers).stall_period(None).build().unwrap()
}

fn here() -> ThreadId {
    std::thread::current().id()
}

/// Blocks the thread until `flag` is set, by other fibers of the same runtime.
fn block_until(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn others_run_while_one_blocks_the_only_worker() {
    within(LONG, || {
        runtime(1).run(|| {
            let flag = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&flag);
            // In the LIFO slot when the worker is handed on.
            let setter = volt::go(move || theirs.store(true, Ordering::SeqCst));
            volt::blocking(|| block_until(&flag));
            setter.join().unwrap();
        });
    });
}

/// Another thread was woken for the worker's place; until it has come, the fiber may have that back.
#[test]
fn who_is_back_soon_goes_on_where_it_was() {
    within(LONG, || {
        let builder = Builder::new().workers(2).force_migrate(false);
        builder.build().unwrap().run(|| {
            loop {
                let before = here();
                volt::blocking(|| assert_eq!(here(), before));
                // Otherwise the thread that has come runs it, and this one waits.
                if here() == before {
                    break;
                }
            }
        });
    });
}

#[test]
fn what_is_spawned_inside_runs_elsewhere() {
    within(LONG, || {
        runtime(1).run(|| {
            let ids = volt::blocking(|| {
                let child = volt::go(here);
                // Waits by blocking the thread.
                (here(), child.join().unwrap())
            });
            assert_ne!(ids.0, ids.1);
        });
    });
}

#[test]
fn every_kind_of_wait_blocks_the_thread_inside() {
    within(LONG, || {
        runtime(1).run(|| {
            volt::blocking(|| {
                let before = here();
                volt::sleep(Duration::from_millis(1));
                volt::yield_now();
                let me = volt::current();
                let child = volt::go(move || me.unpark());
                volt::thread::park();
                child.join().unwrap();
                volt::thread::park_timeout(Duration::from_millis(1));
                assert_eq!(here(), before);
            });
        });
    });
}

#[test]
fn nested_calls_and_panics() {
    within(LONG, || {
        runtime(2).run(|| {
            let deep = volt::blocking(|| volt::blocking(|| volt::blocking(|| 7)));
            assert_eq!(deep, 7);
            let fiber = volt::go(|| volt::blocking(|| panic!("inside")));
            let payload = fiber.join().unwrap_err();
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"inside"));
            // The worker is as good as before.
            let caught = std::panic::catch_unwind(|| volt::blocking(|| panic!("caught")));
            assert!(caught.is_err());
            volt::sleep(Duration::from_millis(1));
            assert_eq!(volt::go(|| 8).join().unwrap(), 8);
        });
    });
}

#[test]
fn on_a_plain_thread_it_simply_runs() {
    assert_eq!(volt::blocking(here), here());
    assert_eq!(volt::thread::pinned(here), here());
}

#[test]
fn thousands_at_once_keep_to_the_bound_and_lose_nothing() {
    within(LONG, || {
        const BOUND: usize = 8;
        let runtime = Builder::new().workers(2).max_blocking(BOUND).build().unwrap();
        let inside = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let fibers: Vec<_> = (0..2_000)
            .map(|n| {
                let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
                runtime.go(move || {
                    volt::blocking(|| {
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_micros(50));
                        inside.fetch_sub(1, Ordering::SeqCst);
                    });
                    n
                })
            })
            .collect();
        for (n, fiber) in fibers.into_iter().enumerate() {
            assert_eq!(fiber.join().unwrap(), n);
        }
        assert!(most.load(Ordering::SeqCst) <= BOUND, "{most:?}");
        let stats = runtime.handle().stats();
        assert_eq!((stats.blocking.entries, stats.blocking.inside), (2_000, 0));
        assert!(stats.blocking.waits > 0, "waits at the bound are counted: {stats:?}");
        assert!(stats.total.hand_offs >= 2_000 - 1, "{stats:?}");
    });
}

thread_local!(static MARK: Cell<usize> = const { Cell::new(0) });

/// Of the thread where it is called: an inlined access in a loop may keep the address over a yield.
#[inline(never)]
fn mark() -> usize {
    MARK.get()
}

#[test]
fn pinned_fibers_keep_their_thread_and_share_it_with_nobody() {
    within(LONG, || {
        let runtime = runtime(2);
        let together = Arc::new(Barrier::new(8));
        let pinned: Vec<_> = (1..=8)
            .map(|n| {
                let together = Arc::clone(&together);
                runtime.go(move || {
                    volt::thread::pinned(|| {
                        together.wait();
                        MARK.set(n);
                        let before = here();
                        for _ in 0..20 {
                            volt::sleep(Duration::from_micros(200));
                            volt::yield_now();
                            assert_eq!((mark(), here()), (n, before));
                        }
                        MARK.set(0);
                        before
                    })
                })
            })
            .collect();
        let others: Vec<_> = (0..200)
            .map(|_| {
                runtime.go(|| {
                    for _ in 0..20 {
                        assert_eq!(mark(), 0, "a pinned fiber's thread runs another");
                        volt::yield_now();
                    }
                })
            })
            .collect();
        others.into_iter().for_each(|fiber| fiber.join().unwrap());
        let threads: HashSet<_> = pinned.into_iter().map(|fiber| fiber.join().unwrap()).collect();
        assert_eq!(threads.len(), 8);
    });
}

#[test]
fn many_pinned_do_not_count_against_the_bound_of_blocking() {
    within(LONG, || {
        let runtime = Builder::new().workers(1).max_blocking(1).build().unwrap();
        let barrier = Arc::new(Barrier::new(5));
        let pinned: Vec<_> = (0..4)
            .map(|_| {
                let barrier = Arc::clone(&barrier);
                runtime.go(move || volt::thread::pinned(|| barrier.wait().is_leader()))
            })
            .collect();
        runtime.run(move || volt::blocking(|| barrier.wait().is_leader()));
        let leaders = pinned.into_iter().map(|fiber| fiber.join().unwrap());
        assert!(leaders.filter(|leads| *leads).count() <= 1);
    });
}

struct WaitsWhenDropped(mpsc::Sender<(bool, ThreadId)>);

impl Drop for WaitsWhenDropped {
    fn drop(&mut self) {
        let before = here();
        // Only another fiber of this runtime can end this wait.
        let child = volt::go(|| ());
        child.join().unwrap();
        volt::blocking(|| volt::sleep(Duration::from_millis(1)));
        let _ = self.0.send((std::thread::panicking(), before));
        assert_eq!(here(), before);
    }
}

/// One worker: the wait while unwinding blocks its thread, so another must run the child.
#[test]
fn a_wait_while_unwinding_hands_the_core_on() {
    within(LONG, || {
        let runtime = runtime(1);
        for _ in 0..100 {
            let (tell, told) = mpsc::channel();
            let fiber = runtime.go(move || {
                let _waits = WaitsWhenDropped(tell);
                panic!("unwinds");
            });
            assert!(fiber.join().is_err());
            assert!(told.recv().unwrap().0, "panicking where it was");
            let clean = runtime.go(std::thread::panicking).join().unwrap();
            assert!(!clean, "the panic count stayed with its thread");
        }
    });
}

#[test]
fn a_fiber_that_caught_its_panic_goes_on_as_before() {
    within(LONG, || {
        runtime(1).run(|| {
            let (tell, told) = mpsc::channel();
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _waits = WaitsWhenDropped(tell);
                panic!("unwinds");
            }));
            assert!(caught.is_err() && told.recv().unwrap().0);
            // Without a core here; each of these must work from there.
            let child = volt::go(|| 1);
            volt::yield_now();
            volt::sleep(Duration::from_millis(1));
            assert_eq!(child.join().unwrap() + volt::blocking(|| 1), 2);
        });
    });
}

#[test]
fn a_current_thread_runtime_gets_its_thread_back() {
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        let main = here();
        for _ in 0..20 {
            runtime.run(move || {
                let flag = Arc::new(AtomicBool::new(false));
                let theirs = Arc::clone(&flag);
                let helper = volt::go(move || {
                    theirs.store(true, Ordering::SeqCst);
                    here()
                });
                assert_eq!(here(), main);
                volt::blocking(|| {
                    assert_eq!(here(), main);
                    block_until(&flag);
                });
                assert_ne!(helper.join().unwrap(), main, "it ran while the thread was blocked");
                volt::yield_now();
            });
            runtime.run(move || {
                for _ in 0..10 {
                    volt::yield_now();
                    assert_eq!(here(), main, "afterwards all run on the calling thread again");
                }
            });
        }
    });
}

#[test]
fn under_before_start_fibers_find_their_thread_again() {
    within(LONG, || {
        let runtime = Builder::new().workers(2).migrate(Migrate::BeforeStart).build().unwrap();
        let fibers: Vec<_> = (0..40)
            .map(|n| {
                runtime.go(move || {
                    let home = here();
                    for round in 0..20 {
                        if (n + round) % 8 == 0 {
                            volt::blocking(|| std::thread::sleep(Duration::from_micros(300)));
                        }
                        volt::sleep(Duration::from_micros(100));
                        volt::yield_now();
                        assert_eq!(here(), home);
                    }
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        let stats = runtime.handle().stats();
        runtime.shutdown(Duration::from_secs(10)).unwrap();
        assert!(stats.total.rejoined > 0, "{stats:?}");
    });
}

/// Nobody else can run them, and who blocks again and again has its worker's thread.
#[test]
fn under_before_start_who_blocks_again_and_again_lets_others_run() {
    within(LONG, || {
        let builder = Builder::new().workers(1).migrate(Migrate::BeforeStart).stall_period(None);
        builder.build().unwrap().run(|| {
            let (here, ready) = (here(), Arc::new(AtomicBool::new(false)));
            let theirs = Arc::clone(&ready);
            let other = volt::go(move || {
                let home = self::here();
                volt::yield_now();
                theirs.store(true, Ordering::SeqCst);
                home
            });
            volt::yield_now(); // it has begun, and cannot leave
            while !ready.load(Ordering::SeqCst) {
                volt::blocking(|| ());
            }
            assert_eq!(other.join().unwrap(), here);
        });
    });
}

/// Fibers from outside stand in the worker's mailbox when it is handed on; they have no home yet.
#[test]
fn under_before_start_what_has_not_started_runs_elsewhere() {
    within(LONG, || {
        let runtime = Builder::new()
            .workers(1)
            .migrate(Migrate::BeforeStart)
            .placement(Placement::LeastLoaded)
            .stall_period(None)
            .build()
            .unwrap();
        let flag = || Arc::new(AtomicBool::new(false));
        let (began, mailed, ran) = (flag(), flag(), flag());
        let theirs = (Arc::clone(&began), Arc::clone(&mailed), Arc::clone(&ran));
        let blocks = runtime.go(move || {
            theirs.0.store(true, Ordering::SeqCst);
            block_until(&theirs.1);
            volt::blocking(|| block_until(&theirs.2));
        });
        block_until(&began);
        let child = runtime.go(move || ran.store(true, Ordering::SeqCst));
        mailed.store(true, Ordering::SeqCst);
        blocks.join().unwrap();
        child.join().unwrap();
    });
}

#[test]
fn shutdown_waits_for_what_blocks_and_names_what_does_not_return() {
    within(LONG, || {
        let runtime = runtime(1);
        let fiber = runtime.go(|| volt::blocking(|| std::thread::sleep(Duration::from_millis(50))));
        runtime.shutdown(Duration::from_secs(10)).unwrap();
        fiber.join().unwrap();

        let runtime = Builder::new().workers(1).thread_name("stuck").build().unwrap();
        let flag = Arc::new(AtomicBool::new(false));
        let (theirs, began) = (Arc::clone(&flag), Arc::new(AtomicBool::new(false)));
        let beginning = Arc::clone(&began);
        let (name, names) = mpsc::channel();
        drop(runtime.go(move || {
            volt::blocking(|| {
                name.send(std::thread::current().name().map(str::to_owned)).unwrap();
                beginning.store(true, Ordering::SeqCst);
                block_until(&theirs);
            });
        }));
        block_until(&began);
        let error = runtime.shutdown(Duration::from_millis(20)).unwrap_err();
        let stuck = names.recv().unwrap().unwrap();
        assert!(error.fibers == 1 && error.threads.contains(&stuck), "{error}");
        assert!(error.threads.iter().all(|thread| thread.starts_with("stuck-")), "{error}");
        flag.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_runtime_that_is_refused_threads_says_so_and_goes_on() {
    let left = common::child("a_runtime_that_is_refused_threads_says_so_and_goes_on", &[], || {
        let runtime = runtime(1);
        let stats = runtime.run(|| {
            // SAFETY: plain data; the limit ends with this process.
            unsafe {
                let none = libc::rlimit { rlim_cur: 64 << 20, rlim_max: libc::RLIM_INFINITY };
                libc::setrlimit(libc::RLIMIT_AS, &raw const none);
            }
            assert_eq!(volt::blocking(|| 5), 5);
            volt::yield_now();
            volt::runtime::Handle::current().stats()
        });
        eprintln!("refused {}", stats.total.threads_refused);
    });
    assert!(left.text.contains("refused 1"), "{left:?}");
    let told = "volt: the system has refused the runtime a thread";
    assert!(left.text.contains(told), "{left:?}");
    for limit in ["ulimit -u", "RLIMIT_AS", "pids.max", "kernel.threads-max", "vm.max_map_count"] {
        assert!(left.text.contains(limit), "{limit}: {left:?}");
    }
}

/// The supervisor tries again and again meanwhile, and says nothing of that; until it has been given one.
#[test]
#[cfg(target_os = "linux")]
fn who_is_refused_threads_says_so_once_until_there_is_one_again() {
    let name = "who_is_refused_threads_says_so_once_until_there_is_one_again";
    let left = common::child(name, &[], || {
        let runtime = Builder::new().workers(1).stall_period(Some(Duration::from_millis(4)));
        let runtime = runtime.build().unwrap();
        let refused = || runtime.stats().total.threads_refused;
        let flag = || Arc::new(AtomicBool::new(false));
        let (ends, is_again) = (flag(), flag());
        let (theirs, again) = (Arc::clone(&ends), Arc::clone(&is_again));
        // Stacks for both fibers are there from then on.
        runtime.run(|| volt::go(|| ()).join().unwrap());
        // Less than a thread takes.
        common::limit_address_space(Some(512 << 10));
        let first = runtime.go(move || volt::blocking(|| block_until(&theirs)));
        common::until("the supervisor is refused one too", || refused() > 1);
        let started = runtime.stats().total.threads_started;
        let theirs = Arc::clone(&ends);
        let second = runtime.go(move || {
            common::limit_address_space(Some(512 << 10));
            again.store(true, Ordering::SeqCst);
            volt::blocking(|| block_until(&theirs));
        });
        common::limit_address_space(None);
        block_until(&is_again);
        let before = refused();
        common::until("it is refused again", || refused() > before + 1);
        common::limit_address_space(None);
        ends.store(true, Ordering::SeqCst);
        first.join().unwrap();
        second.join().unwrap();
        assert!(runtime.stats().total.threads_started > started);
    });
    assert!(left.status.success(), "{left:?}");
    assert_eq!(left.text.matches("volt: the system has refused").count(), 2, "{left:?}");
}

/// The only worker has handed its core on, to a thread that comes to nothing some times; and by then nobody else has
/// anything to do.
#[test]
fn who_is_refused_a_thread_is_given_one_later() {
    within(LONG, || {
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        let hook = move || {
            let call = counter.fetch_add(1, Ordering::SeqCst);
            assert!(!(1..4).contains(&call), "no thread for this one");
        };
        // The supervisor sees soon that all is quiet.
        let runtime = Builder::new()
            .workers(1)
            .stall_period(Some(Duration::from_millis(4)))
            .on_thread_start(hook)
            .build()
            .unwrap();
        let seven = runtime.run(|| {
            let fiber = volt::go(|| 7);
            volt::thread::pinned(|| fiber.join().unwrap())
        });
        assert!(seven == 7 && calls.load(Ordering::SeqCst) >= 5, "{calls:?}");
        runtime.shutdown(LONG).unwrap();
    });
}
