//! `fiber_local!`: one value per fiber, made at the first use, dropped at the end, newest first.

mod common;

use common::{LONG, within};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use volt::thread;

type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, what: impl Into<String>) {
    log.lock().unwrap().push(what.into());
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

#[test]
fn a_constant_s_type_may_leave_lifetimes_out_and_closures_types_be_named() {
    volt::fiber_local! {
        static WORD: Cell<&str> = const { Cell::new("none") };
        static LIST: RefCell<Vec<&str>> = const { RefCell::new(Vec::new()) };
    }
    assert_eq!(volt::run(|| WORD.replace("one")), "none");
    assert_eq!(WORD.with::<_, usize>(|word| word.get().len()), 4);
    assert_eq!(LIST.with_borrow::<_, usize>(|list| list.len()), 0);
}

#[test]
fn made_once_per_fiber() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    volt::fiber_local! {
        static VALUE: Cell<usize> = {
            MADE.fetch_add(1, Ordering::Relaxed);
            Cell::new(100)
        };
    }
    within(LONG, || {
        let fibers: Vec<_> = (0..50)
            .map(|i| {
                volt::go(move || {
                    for _ in 0..20 {
                        VALUE.with(|value| value.set(value.get() + i));
                        volt::yield_now();
                    }
                    VALUE.with(Cell::get)
                })
            })
            .collect();
        for (i, fiber) in fibers.into_iter().enumerate() {
            assert_eq!(fiber.join().unwrap(), 100 + 20 * i);
        }
        assert_eq!(MADE.load(Ordering::Relaxed), 50);
    });
}

/// Says when it is dropped.
struct Says(Option<Log>, &'static str);

impl Drop for Says {
    fn drop(&mut self) {
        if let Some(log) = &self.0 {
            note(log, self.1);
        }
    }
}

impl Says {
    fn set(cell: &RefCell<Says>, log: &Log, name: &'static str) {
        let mut place = cell.borrow_mut();
        *place = Says(Some(Arc::clone(log)), name);
    }
}

volt::fiber_local! {
    static FIRST: RefCell<Says> = RefCell::new(Says(None, ""));
    static SECOND: RefCell<Says> = RefCell::new(Says(None, ""));
    static THIRD: RefCell<Says> = RefCell::new(Says(None, ""));
}

#[test]
fn dropped_at_the_end_newest_first() {
    within(LONG, || {
        let log = Log::default();
        let theirs = Arc::clone(&log);
        let fiber = volt::go(move || {
            SECOND.with(|cell| Says::set(cell, &theirs, "second"));
            THIRD.with(|cell| Says::set(cell, &theirs, "third"));
            FIRST.with(|cell| Says::set(cell, &theirs, "first"));
            note(&theirs, "body");
        });
        // Locals are gone when `join` returns.
        fiber.join().unwrap();
        assert_eq!(taken(&log), ["body", "first", "third", "second"]);
    });
}

#[test]
fn dropped_after_a_panic_too() {
    within(LONG, || {
        let log = Log::default();
        let theirs = Arc::clone(&log);
        let result = volt::go(move || {
            FIRST.with(|cell| Says::set(cell, &theirs, "first"));
            panic!("the fiber's");
        })
        .join();
        assert!(result.is_err());
        assert_eq!(taken(&log), ["first"]);
    });
}

/// Waits in its destructor, in every way.
struct Waits(Option<Log>);

impl Drop for Waits {
    fn drop(&mut self) {
        let Some(log) = self.0.take() else { return };
        volt::yield_now();
        note(&log, "yielded");
        volt::sleep(Duration::from_millis(1));
        note(&log, "slept");
        assert_eq!(volt::go(|| 7).join().unwrap(), 7);
        note(&log, "joined");
        thread::current().unpark();
        thread::park();
        note(&log, "parked");
    }
}

#[test]
fn a_destructor_may_wait() {
    volt::fiber_local! {
        static WAITS: RefCell<Waits> = RefCell::new(Waits(None));
    }
    within(LONG, || {
        let log = Log::default();
        let fibers: Vec<_> = (0..10)
            .map(|_| {
                let theirs = Arc::clone(&log);
                volt::go(move || WAITS.with(|cell| cell.borrow_mut().0 = Some(theirs)))
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        assert_eq!(taken(&log).len(), 40);
    });
}

/// Uses another local in its destructor.
struct Touches(Option<Log>);

volt::fiber_local! {
    static TOUCHES: RefCell<Touches> = RefCell::new(Touches(None));
    static LATE: RefCell<Says> = RefCell::new(Says(None, ""));
}

impl Drop for Touches {
    fn drop(&mut self) {
        if let Some(log) = self.0.take() {
            // It may be there already or be made now; either way it is dropped.
            LATE.with(|cell| Says::set(cell, &log, "late"));
            note(&log, "touched");
        }
    }
}

#[test]
fn a_destructor_may_use_other_locals() {
    within(LONG, || {
        let log = Log::default();
        for early in [false, true] {
            let theirs = Arc::clone(&log);
            volt::go(move || {
                if early {
                    LATE.with(|_| ());
                }
                TOUCHES.with(|cell| cell.borrow_mut().0 = Some(theirs));
            })
            .join()
            .unwrap();
            assert_eq!(taken(&log), ["touched", "late"], "made before: {early}");
        }
    });
}

#[test]
fn a_destructor_that_uses_its_own_local_ends() {
    struct Again;
    volt::fiber_local! {
        static AGAIN: Again = Again;
    }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    impl Drop for Again {
        fn drop(&mut self) {
            // Far beyond any bound that would be sensible; without one this would never end.
            if DROPS.fetch_add(1, Ordering::Relaxed) < 100_000 {
                let _ = AGAIN.try_with(|_| ());
            }
        }
    }
    within(LONG, || volt::go(|| AGAIN.with(|_| ())).join().unwrap());
    assert!(DROPS.load(Ordering::Relaxed) < 1_000, "{DROPS:?} values of one local in one fiber");
}

#[test]
fn a_destructor_that_panics_is_the_end_of_its_value_only() {
    struct Panics(bool);
    impl Drop for Panics {
        fn drop(&mut self) {
            if self.0 {
                panic!("in a local's destructor");
            }
        }
    }
    volt::fiber_local! {
        static PANICS: Cell<Option<Panics>> = Cell::new(None);
    }
    within(LONG, || {
        let log = Log::default();
        let theirs = Arc::clone(&log);
        let fiber = volt::go(move || {
            FIRST.with(|cell| Says::set(cell, &theirs, "first"));
            PANICS.with(|cell| cell.set(Some(Panics(true))));
            THIRD.with(|cell| Says::set(cell, &theirs, "third"));
            11
        });
        assert_eq!(fiber.join().unwrap(), 11);
        assert_eq!(taken(&log), ["third", "first"]);
    });
}

#[test]
fn the_destructor_of_a_dropped_result_may_make_locals() {
    // No join handle: the fiber drops its own result, after its locals. What that makes is dropped
    // like any other local: once, by the fiber, panics and further locals included.
    static LOG: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    struct Result;
    struct One;
    struct Two;
    struct Three;
    volt::fiber_local! {
        static ONE: One = One;
        static TWO: Two = Two;
        static THREE: Three = Three;
        static FILL_A: Cell<u64> = Cell::new(1);
        static FILL_B: Cell<u64> = Cell::new(2);
        static FILL_C: Cell<u64> = Cell::new(3);
    }
    fn say(what: &'static str) {
        LOG.lock().unwrap().push(what);
    }
    impl Drop for Result {
        fn drop(&mut self) {
            ONE.with(|_| ());
            TWO.with(|_| ());
            say("result");
        }
    }
    impl Drop for One {
        fn drop(&mut self) {
            say("one");
            // Enough to make the table grow.
            FILL_A.with(|_| ());
            FILL_B.with(|_| ());
            FILL_C.with(|_| ());
            THREE.with(|_| ());
            volt::yield_now();
        }
    }
    impl Drop for Two {
        fn drop(&mut self) {
            say("two");
            panic!("in a late local's destructor");
        }
    }
    impl Drop for Three {
        fn drop(&mut self) {
            say("three");
        }
    }
    let body = || {
        let runtime = volt::runtime::Builder::new().workers(1).build().unwrap();
        common::detached(&runtime, || Result);
        runtime.shutdown(LONG).unwrap();
        assert_eq!(*LOG.lock().unwrap(), ["result", "two", "one", "three"]);
    };
    // In a process of its own: it may take the process along.
    let left = common::child("the_destructor_of_a_dropped_result_may_make_locals", &[], body);
    assert!(left.status.success(), "{left:?}");
}

#[test]
fn an_initialiser_may_use_locals_and_wait() {
    volt::fiber_local! {
        static OUTER: u32 = {
            volt::yield_now();
            INNER.with(|inner| inner + 1)
        };
        static INNER: u32 = {
            volt::sleep(Duration::from_millis(1));
            41
        };
    }
    within(LONG, || {
        let fibers: Vec<_> = (0..10).map(|_| volt::go(|| OUTER.with(|n| *n))).collect();
        for fiber in fibers {
            assert_eq!(fiber.join().unwrap(), 42);
        }
    });
}

#[test]
fn an_initialiser_that_uses_its_own_local_ends() {
    static DEPTH: AtomicUsize = AtomicUsize::new(0);
    volt::fiber_local! {
        static SELF: usize = {
            let depth = DEPTH.fetch_add(1, Ordering::Relaxed);
            if depth == 0 { SELF.with(|inner| inner + 100) } else { depth }
        };
    }
    within(LONG, || {
        let (first, second) = volt::go(|| (SELF.with(|n| *n), SELF.with(|n| *n))).join().unwrap();
        assert_eq!(first, second, "one value, whoever made it");
        assert_eq!(first, 1, "the inner one was made first");
    });
}

#[test]
fn an_initialiser_that_panics_leaves_nothing() {
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    volt::fiber_local! {
        static TRY: usize = {
            let tries = TRIES.fetch_add(1, Ordering::Relaxed);
            assert!(tries > 0, "not yet");
            tries
        };
    }
    within(LONG, || {
        let value = volt::go(|| {
            assert!(std::panic::catch_unwind(|| TRY.with(|n| *n)).is_err());
            TRY.with(|n| *n)
        });
        assert_eq!(value.join().unwrap(), 1);
    });
}

#[test]
fn a_value_comes_along_to_other_threads() {
    volt::fiber_local! {
        static MINE: RefCell<Vec<usize>> = RefCell::new(Vec::new());
    }
    #[inline(never)]
    fn here() -> std::thread::ThreadId {
        std::hint::black_box(std::thread::current().id())
    }
    within(LONG, || {
        let runtime = volt::runtime::Builder::new().workers(4).build().unwrap();
        let start = std::time::Instant::now();
        let mut moved = false;
        while !moved {
            assert!(start.elapsed() < LONG, "no fiber ever moved");
            let fibers: Vec<_> = (0..40)
                .map(|i| {
                    runtime.go(move || {
                        let mut moves = 0;
                        let mut thread = here();
                        for round in 0..50 {
                            MINE.with(|mine| mine.borrow_mut().push(i * 1000 + round));
                            volt::yield_now();
                            if here() != thread {
                                thread = here();
                                moves += 1;
                            }
                        }
                        let expected: Vec<_> = (0..50).map(|round| i * 1000 + round).collect();
                        MINE.with(|mine| assert_eq!(*mine.borrow(), expected));
                        moves
                    })
                })
                .collect();
            moved = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<usize>() > 0;
        }
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn on_a_plain_thread_it_is_the_threads() {
    let log = Log::default();
    let theirs = Arc::clone(&log);
    std::thread::spawn(move || {
        SECOND.with(|cell| Says::set(cell, &theirs, "second"));
        FIRST.with(|cell| Says::set(cell, &theirs, "first"));
        let log = Arc::clone(&theirs);
        // A fiber has its own.
        volt::go(move || FIRST.with(|cell| Says::set(cell, &log, "the fiber's"))).join().unwrap();
        note(&theirs, "body");
    })
    .join()
    .unwrap();
    assert_eq!(taken(&log), ["the fiber's", "body", "first", "second"]);
}

#[test]
fn on_a_plain_thread_a_destructor_gets_an_error() {
    static SEEN: Mutex<Option<bool>> = Mutex::new(None);
    struct Asks;
    volt::fiber_local! {
        static ASKS: Asks = Asks;
        static OTHER: u8 = 5;
    }
    impl Drop for Asks {
        fn drop(&mut self) {
            *SEEN.lock().unwrap() = Some(OTHER.try_with(|n| *n).is_err());
        }
    }
    std::thread::spawn(|| ASKS.with(|_| ())).join().unwrap();
    assert_eq!(*SEEN.lock().unwrap(), Some(true));
}
