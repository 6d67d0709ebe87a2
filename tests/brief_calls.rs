//! Calls of `blocking` that are expected to be brief keep the core; and what happens where they are not.

mod common;

use common::{LONG, until, within};
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::Duration;
use volt::net::{TcpListener, TcpStream};
use volt::runtime::{Builder, Handle, Migrate, WorkerStats};

/// With workers of its own; `VOLT_FORCE_MIGRATE` would have every call hand its core on.
fn builder(workers: usize) -> Builder {
    Builder::new().workers(workers).force_migrate(false)
}

/// The one place in this program where the runtime learns.
fn call<T>(f: impl FnOnce() -> T) -> T {
    volt::blocking(f)
}

fn total() -> WorkerStats {
    Handle::current().stats().total
}

/// Calls until the runtime knows that calls from here are brief.
fn learn() {
    let start = total().brief_calls;
    while total().brief_calls < start + 1_000 {
        call(|| ());
    }
}

/// Runs `step`, which makes one call, until that has kept the core and the supervisor was not needed. It may
/// come in between where the system lets the whole process wait. Returns the hand-offs of that time.
fn undisturbed(step: impl Fn()) -> u64 {
    loop {
        learn();
        let before = total();
        step();
        let after = total();
        if after.brief_calls == before.brief_calls + 1
            && after.overdue_calls == before.overdue_calls
        {
            return after.hand_offs - before.hand_offs;
        }
    }
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

/// A flag, and a fiber that sets it.
fn setter() -> (Arc<AtomicBool>, volt::JoinHandle<()>) {
    let flag = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&flag);
    (flag, volt::go(move || theirs.store(true, Ordering::SeqCst)))
}

/// Makes a call that keeps the core of the only worker and blocks until another fiber has run; then it does `more`.
/// Returns what was counted before and after, with no scheduling point of this fiber in between or since.
fn overdue(more: impl Fn()) -> (WorkerStats, WorkerStats) {
    loop {
        learn();
        let (flag, setter) = setter();
        let before = total();
        call(|| {
            block_until(&flag);
            more();
        });
        let after = total();
        drop(setter);
        if after.brief_calls == before.brief_calls + 1 {
            return (before, after);
        }
    }
}

#[test]
fn a_place_is_learned_and_then_nothing_is_handed_on() {
    within(LONG, || {
        builder(2).build().unwrap().run(|| assert_eq!(undisturbed(|| call(|| ())), 0));
    });
}

/// One worker, and the fiber that ends the call stood in its LIFO slot.
#[test]
fn a_call_that_turns_out_long_loses_the_core_and_is_no_stall() {
    within(LONG, || {
        builder(1).build().unwrap().run(|| {
            let (before, after) = overdue(|| ());
            assert_eq!(after.overdue_calls, before.overdue_calls + 1);
            assert_eq!(after.hand_offs, before.hand_offs);
            assert_eq!(total().stalls, 0);
            assert_eq!(Handle::current().blocking_sites(), []);
            // It has to be paid for: the next call is not trusted.
            let before = total();
            call(|| ());
            assert_eq!(total().brief_calls, before.brief_calls);
            assert_eq!(total().hand_offs, before.hand_offs + 1);
        });
    });
}

#[test]
fn who_has_lost_the_core_and_waits_inside_goes_on_among_the_others() {
    within(LONG, || {
        builder(1).build().unwrap().run(|| {
            let (before, _) = overdue(|| volt::sleep(Duration::from_millis(1)));
            until("the old worker to be back", || {
                let now = total();
                now.rejoined + now.retired > before.rejoined + before.retired
            });
        });
    });
}

#[test]
fn who_waits_inside_hands_the_core_on() {
    within(LONG, || {
        builder(1).build().unwrap().run(|| {
            let waits = || {
                let ids = call(|| {
                    let child = volt::go(here);
                    (here(), child.join().unwrap())
                });
                assert_ne!(ids.0, ids.1, "the child ran while the thread was blocked");
            };
            assert_eq!(undisturbed(waits), 1);
            let blocks_in_there = || {
                let (flag, setter) = setter();
                call(|| volt::blocking(|| block_until(&flag)));
                setter.join().unwrap();
            };
            assert_eq!(undisturbed(blocks_in_there), 1);
            let yields = || {
                let (flag, setter) = setter();
                call(|| {
                    while !flag.load(Ordering::SeqCst) {
                        volt::yield_now();
                    }
                });
                setter.join().unwrap();
            };
            assert_eq!(undisturbed(yields), 1);
        });
    });
}

/// The peer is a fiber of the same worker.
#[test]
fn who_reads_from_a_socket_inside_hands_the_core_on() {
    within(LONG, || {
        builder(1).build().unwrap().run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut theirs, _) = listener.accept().unwrap();
            let echo = volt::go(move || {
                let mut byte = [0];
                while theirs.read_exact(&mut byte).is_ok() {
                    theirs.write_all(&byte).unwrap();
                }
            });
            let asks = || {
                let mut ours = &ours;
                ours.write_all(b"?").unwrap();
                call(|| ours.read_exact(&mut [0]).unwrap());
            };
            assert_eq!(undisturbed(asks), 1);
            ours.flush().unwrap();
            drop(ours);
            echo.join().unwrap();
        });
    });
}

/// A runtime on one thread waits for its last fiber, which waits for one of this worker.
#[test]
fn who_shuts_a_runtime_down_inside_hands_the_core_on() {
    within(LONG, || {
        builder(1).build().unwrap().run(|| {
            let shuts_down = || {
                let (flag, setter) = setter();
                let inner = Builder::new_current_thread().build().unwrap();
                drop(inner.go(move || {
                    while !flag.load(Ordering::SeqCst) {
                        volt::yield_now();
                    }
                }));
                call(|| inner.shutdown(LONG).unwrap());
                setter.join().unwrap();
            };
            assert_eq!(undisturbed(shuts_down), 1);
        });
    });
}

#[test]
fn what_is_spawned_inside_runs_elsewhere_at_once() {
    within(LONG, || {
        builder(2).build().unwrap().run(|| {
            undisturbed(|| {
                volt::sleep(Duration::from_millis(2)); // the other worker sleeps
                call(|| {
                    let (flag, setter) = setter();
                    // Nobody of volt is asked: the other worker must have been told.
                    block_until(&flag);
                    drop(setter);
                });
            });
        });
    });
}

#[test]
fn who_was_to_run_next_runs_elsewhere() {
    within(LONG, || {
        builder(2).build().unwrap().run(|| {
            undisturbed(|| {
                volt::sleep(Duration::from_millis(2)); // the other worker sleeps
                let (flag, setter) = setter();
                call(|| block_until(&flag));
                drop(setter);
            });
        });
    });
}

#[test]
fn a_panic_inside_gives_the_core_back() {
    within(LONG, || {
        builder(1).build().unwrap().run(|| {
            let panics = || {
                let caught = catch_unwind(AssertUnwindSafe(|| call(|| panic!("inside"))));
                assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"inside"));
            };
            assert_eq!(undisturbed(panics), 0);
            assert_eq!(volt::go(|| 8).join().unwrap(), 8);
            volt::sleep(Duration::from_millis(1));
        });
    });
}

/// The fiber that calls again and again must yield, or the others wait for the supervisor.
#[test]
fn who_calls_again_and_again_lets_others_run() {
    within(LONG, || {
        builder(1).build().unwrap().run(|| {
            learn();
            let (flag, setter) = setter();
            let mut calls = 0;
            while !flag.load(Ordering::SeqCst) {
                call(|| calls += 1);
            }
            setter.join().unwrap();
            assert!(calls <= 200, "{calls} calls without a turn for others");
        });
    });
}

#[test]
fn fibers_that_stay_on_their_thread_do_so() {
    within(LONG, || {
        let runtime = builder(2).migrate(Migrate::BeforeStart).build().unwrap();
        let fibers: Vec<_> = (0..8)
            .map(|n| {
                runtime.go(move || {
                    let home = here();
                    learn();
                    assert_eq!(here(), home);
                    for round in 0..400 {
                        let long = round == 399 && n % 4 == 0;
                        let time = if long { Duration::from_millis(60) } else { Duration::ZERO };
                        call(|| {
                            if long {
                                std::thread::sleep(time)
                            }
                        });
                        assert_eq!(here(), home);
                        volt::yield_now();
                        assert_eq!(here(), home);
                    }
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        assert!(runtime.handle().stats().total.brief_calls > 0);
    });
}

#[test]
fn nothing_is_kept_where_nobody_would_look_soon() {
    within(LONG, || {
        let never = [
            builder(1).stall_period(None),
            builder(1).stall_period(Some(Duration::from_millis(101))),
            builder(1).learn_blocking(false),
            builder(2).force_migrate(true),
            Builder::new_current_thread().stall_period(Some(Duration::from_millis(100))),
        ];
        for builder in never {
            let stats = builder.build().unwrap().run(|| {
                (0..100).for_each(|_| call(|| ()));
                volt::sleep(Duration::from_millis(5)); // the supervisor has had its first look
                (0..100).for_each(|_| call(|| ()));
                total()
            });
            assert_eq!(stats.brief_calls, 0, "{stats:?}");
        }
    });
}

#[test]
fn shutdown_waits_for_a_call_that_keeps_the_core() {
    within(LONG, || {
        let runtime = builder(1).build().unwrap();
        let (began, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let theirs = (Arc::clone(&began), Arc::clone(&goes_on));
        drop(runtime.go(move || {
            loop {
                learn();
                let before = total().brief_calls;
                call(|| {
                    if total().brief_calls != before {
                        theirs.0.store(true, Ordering::SeqCst);
                        block_until(&theirs.1);
                    }
                });
            }
        }));
        block_until(&began);
        let error = runtime.shutdown(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.fibers, 1, "{error}");
        goes_on.store(true, Ordering::SeqCst);
    });
}
