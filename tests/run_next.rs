//! A fiber that is joined before it has started runs at once, on a stack of its own.

mod common;

use common::{LONG, within};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use volt::runtime::{Builder, Handle, Migrate, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

fn run_next() -> u64 {
    Handle::current().stats().total.run_next
}

/// About where the caller's stack is.
#[inline(never)]
fn stack_address() -> usize {
    let local = 0_u8;
    black_box(&raw const local) as usize
}

#[test]
fn it_runs_before_all_others_and_only_once() {
    let (order, count) = runtime().run(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let fibers: Vec<_> = (0..5)
            .map(|n| {
                let log = Arc::clone(&log);
                volt::go(move || log.lock().unwrap().push(n))
            })
            .collect();
        let mut fibers = fibers.into_iter();
        // In the ring behind another; its entry stays there.
        let (_first, second) = (fibers.next(), fibers.next().unwrap());
        second.join().unwrap();
        assert_eq!(*log.lock().unwrap(), [1]);
        (0..5).for_each(|_| volt::yield_now());
        (log.lock().unwrap().clone(), run_next())
    });
    // Its end woke the joiner into the slot, which sent the newest behind the others.
    assert_eq!(order, [1, 0, 2, 3, 4]);
    assert_eq!(count, 1);
}

#[test]
fn the_one_in_the_slot_is_next_anyway() {
    let count = runtime().run(|| {
        volt::go(|| ()).join().unwrap();
        run_next()
    });
    assert_eq!(count, 0);
}

#[test]
fn its_stack_is_its_own_and_of_its_size() {
    let runtime = Builder::new_current_thread().stack_size(64 << 10).build().unwrap();
    runtime.run(|| {
        let mine = stack_address();
        // More than once: the first fiber of a spawn site is measured, on a stack apart. And one that
        // has ended leaves a stack of the usual size at hand.
        for round in 1..=3 {
            volt::go(|| ()).join().unwrap();
            let builder = volt::thread::Builder::new().stack_size(8 << 20);
            let deep = builder
                .spawn(|| {
                    // More than the joiner's whole stack.
                    let room = black_box([1_u8; 1 << 20]);
                    (stack_address(), room.iter().map(|n| u64::from(*n)).sum::<u64>())
                })
                .unwrap();
            let same = volt::go(stack_address);
            drop(volt::go(|| ()));
            let (theirs, sum) = deep.join().unwrap();
            assert_eq!(sum, 1 << 20);
            assert!(theirs.abs_diff(mine) > 64 << 10, "{theirs:x} beside {mine:x}");
            let theirs = same.join().unwrap();
            assert!(theirs.abs_diff(mine) >= 32 << 10, "{theirs:x} beside {mine:x}");
            assert_eq!(run_next(), 2 * round);
        }
    });
}

/// The entry that it left behind is met while it waits, while it stands in a queue, and after its end.
#[test]
fn the_entry_left_behind_starts_nothing() {
    within(LONG, || {
        let (runs, count) = runtime().run(|| {
            let runs = Arc::new(AtomicUsize::new(0));
            for waits in 0..6 {
                let theirs = Arc::clone(&runs);
                let fiber = volt::go(move || {
                    for wait in 0..waits {
                        match wait % 3 {
                            0 => volt::yield_now(),
                            1 => volt::sleep(Duration::from_micros(50)),
                            _ => volt::thread::park_timeout(Duration::from_micros(50)),
                        }
                    }
                    theirs.fetch_add(1, Ordering::SeqCst);
                });
                let others: Vec<_> = (0..3).map(|_| volt::go(volt::yield_now)).collect();
                fiber.join().unwrap();
                others.into_iter().for_each(|other| other.join().unwrap());
            }
            (0..20).for_each(|_| volt::yield_now());
            (runs.load(Ordering::SeqCst), run_next())
        });
        assert_eq!(runs, 6);
        assert!(count >= 6, "{count}");
    });
}

#[test]
fn its_panic_and_its_name_are_its_own() {
    runtime().run(|| {
        let builder = volt::thread::Builder::new().name("the joined".into());
        let fiber = builder
            .spawn(|| {
                assert_eq!(volt::current().name(), Some("the joined"));
                panic!("as it should");
            })
            .unwrap();
        drop(volt::go(|| ()));
        let payload = fiber.join().map(|(): ()| ()).unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"as it should"));
        assert_eq!(run_next(), 1);
    });
}

/// The joiner waits as ever: what it joined may itself join, wait and spawn.
#[test]
fn a_chain_of_joins_runs_depth_first() {
    fn sum(depth: u64) -> u64 {
        if depth == 0 {
            return 0;
        }
        let fiber = volt::go(move || sum(depth - 1) + depth);
        drop(volt::go(|| ()));
        fiber.join().unwrap()
    }
    let (total, count) = runtime().run(|| (sum(100), run_next()));
    assert_eq!((total, count), (5050, 100));
}

/// A cancel of the joined fiber is its own affair, and a join by others works as ever.
#[test]
fn a_cancelled_fiber_that_is_joined_runs_to_its_end() {
    within(LONG, || {
        runtime().run(|| {
            let listener = volt::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let fiber = volt::go(move || listener.accept().map(|_| ()).unwrap_err());
            drop(volt::go(|| ()));
            fiber.cancel();
            assert!(volt::cancel::is_cancelled(&fiber.join().unwrap()));
            assert_eq!(run_next(), 1);
        });
    });
}

#[test]
fn not_where_it_would_have_to_stay_nor_where_the_thread_is_blocked() {
    within(LONG, || {
        let runtime = Builder::new().workers(1).migrate(Migrate::BeforeStart).build().unwrap();
        let count = runtime.run(|| {
            let fiber = volt::go(|| 1);
            drop(volt::go(|| ()));
            assert_eq!(fiber.join().unwrap(), 1);
            run_next()
        });
        assert_eq!(count, 0);
        let runtime = Builder::new().workers(1).force_migrate(false).build().unwrap();
        let count = runtime.run(|| {
            volt::blocking(|| {
                let fibers: Vec<_> = (0..10).map(|_| volt::go(|| ())).collect();
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            });
            run_next()
        });
        assert_eq!(count, 0);
    });
}

/// Workers that steal meet the entries too, and handles are dropped beside them.
#[test]
fn among_thieves_each_runs_once() {
    within(LONG, || {
        let runtime = Builder::new().workers(4).force_migrate(false).build().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        runtime.run(move || {
            for round in 0..300 {
                let fibers: Vec<_> = (0..20)
                    .map(|_| {
                        let runs = Arc::clone(&counted);
                        volt::go(move || runs.fetch_add(1, Ordering::SeqCst))
                    })
                    .collect();
                for (n, fiber) in fibers.into_iter().enumerate() {
                    if (n + round) % 3 == 0 {
                        drop(fiber);
                    } else {
                        fiber.join().unwrap();
                    }
                }
            }
        });
        let total = runtime.stats().total;
        runtime.shutdown(LONG).unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 6000);
        assert!(total.run_next > 0, "{total:?}");
    });
}
