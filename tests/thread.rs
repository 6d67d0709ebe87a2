//! `volt::thread` against `std::thread`: what std's own tests ask of threads, asked of fibers.

mod common;

use common::waits::until_waits;
use common::{LONG, within};
use std::any::Any;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use volt::thread::{self, Builder, JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId};

fn text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("neither &str nor String")
}

/// Runs the same body on a plain thread and on a fiber.
fn everywhere(body: fn()) {
    within(LONG, body);
    within(LONG, move || volt::go(body).join().unwrap());
}

#[test]
fn unnamed() {
    everywhere(|| {
        let fiber = thread::spawn(|| assert!(thread::current().name().is_none()));
        assert!(fiber.thread().name().is_none());
        fiber.join().unwrap();
    });
}

#[test]
fn named() {
    everywhere(|| {
        let fiber = Builder::new()
            .name("ada lovelace".to_owned())
            .spawn(|| assert_eq!(thread::current().name(), Some("ada lovelace")))
            .unwrap();
        assert_eq!(fiber.thread().name(), Some("ada lovelace"));
        fiber.join().unwrap();
    });
}

/// `main` is still that once it has become a fiber.
#[test]
fn who_runs_for_a_thread_has_its_name() {
    let name = || thread::current().name().map(str::to_owned);
    let runtime = volt::runtime::Builder::new_current_thread().build().unwrap();
    let named = std::thread::Builder::new().name("first".into());
    let runs = move || {
        assert_eq!(volt::run(name).as_deref(), Some("first"));
        assert_eq!(runtime.run(name).as_deref(), Some("first"));
        assert_eq!(volt::run(|| volt::run(name)), None);
        assert_eq!(runtime.run(|| volt::go(name).join().unwrap()), None);
    };
    named.spawn(runs).unwrap().join().unwrap();
    assert_eq!(std::thread::spawn(move || volt::run(name)).join().unwrap(), None);
}

#[test]
fn run_basic() {
    everywhere(|| {
        let (tx, rx) = channel();
        let fiber = thread::spawn(move || tx.send(()).unwrap());
        fiber.join().unwrap();
        rx.try_recv().unwrap();
    });
}

#[test]
fn a_result_comes_out_of_join_once() {
    everywhere(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        struct Count(Arc<AtomicUsize>);
        impl Drop for Count {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let theirs = Arc::clone(&dropped);
        let value = thread::spawn(move || Count(theirs)).join().unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        drop(value);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn join_panic() {
    everywhere(|| {
        let message = |f: fn()| text(&*thread::spawn(f).join().unwrap_err()).to_owned();
        assert_eq!(message(|| panic!("static string")), "static string");
        assert_eq!(message(|| panic!("owned {}", "string")), "owned string");
        let any = thread::spawn(|| std::panic::panic_any(Box::new(3_u16))).join().unwrap_err();
        assert_eq!(**any.downcast::<Box<u16>>().unwrap(), 3);
        struct Juju;
        let unit = thread::spawn(|| std::panic::panic_any(Juju)).join().unwrap_err();
        assert!(unit.is::<Juju>());
    });
}

#[test]
fn a_fiber_that_panics_unwinds_its_own_frames_only() {
    everywhere(|| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        struct Note(Arc<Mutex<Vec<&'static str>>>, &'static str);
        impl Drop for Note {
            fn drop(&mut self) {
                self.0.lock().unwrap().push(self.1);
            }
        }
        let theirs = Arc::clone(&seen);
        let result = thread::spawn(move || {
            let _outer = Note(Arc::clone(&theirs), "outer");
            let _inner = Note(Arc::clone(&theirs), "inner");
            if theirs.lock().is_ok() {
                panic!("unwinds");
            }
        })
        .join();
        assert!(result.is_err());
        assert_eq!(*seen.lock().unwrap(), ["inner", "outer"]);
        assert!(!thread::panicking());
    });
}

#[test]
fn spawn_nested() {
    everywhere(|| {
        fn deeper(level: u32, done: std::sync::mpsc::Sender<u32>) {
            done.send(level).unwrap();
            if level > 0 {
                thread::spawn(move || deeper(level - 1, done)).join().unwrap();
            }
        }
        let (tx, rx) = channel();
        deeper(16, tx);
        assert_eq!(rx.iter().collect::<Vec<_>>(), (0..=16).rev().collect::<Vec<_>>());
    });
}

#[test]
fn spawning_needs_no_join() {
    everywhere(|| {
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let count = Arc::clone(&count);
            drop(thread::spawn(move || count.fetch_add(1, Ordering::Relaxed)));
        }
        let start = Instant::now();
        while count.load(Ordering::Relaxed) < 100 {
            assert!(start.elapsed() < LONG);
            thread::sleep(Duration::from_micros(200));
        }
    });
}

#[test]
fn builder_bounds_are_named() {
    let least = if cfg!(debug_assertions) { 64 << 10 } else { 32 << 10 };
    let most = 1_usize << 30;
    for bytes in [0, 1, least - 1, most + 1, usize::MAX] {
        let error = Builder::new().stack_size(bytes).spawn(|| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let message = error.to_string();
        for wanted in [bytes, least, most] {
            assert!(message.contains(&wanted.to_string()), "{wanted} is not in: {message}");
        }
    }
    within(LONG, move || {
        for bytes in [least, least + 1, 2 << 20] {
            Builder::new().stack_size(bytes).spawn(|| ()).unwrap().join().unwrap();
        }
    });
}

#[test]
fn a_larger_stack_is_larger() {
    #[inline(never)]
    fn fill(left: usize) -> usize {
        let page = std::hint::black_box([left as u8; 4096]);
        if left == 0 { 0 } else { fill(left - 1) + usize::from(page[left % 4096] == left as u8) }
    }
    within(LONG, || {
        let pages = 6 << 8; // 6 MiB
        let fiber = Builder::new().stack_size(16 << 20).spawn(move || fill(pages)).unwrap();
        assert_eq!(fiber.join().unwrap(), pages);
    });
}

#[test]
fn park_unpark_before() {
    everywhere(|| {
        for _ in 0..10 {
            thread::current().unpark();
            thread::park();
        }
    });
}

#[test]
fn two_unparks_make_one_permit() {
    everywhere(|| {
        thread::current().unpark();
        thread::current().unpark();
        thread::park();
        let start = Instant::now();
        thread::park_timeout(Duration::from_millis(5));
        assert!(start.elapsed() >= Duration::from_millis(5), "a second permit");
    });
}

#[test]
fn park_unpark_called_from_another() {
    everywhere(|| {
        for _ in 0..50 {
            let me = thread::current();
            let fiber = thread::spawn(move || me.unpark());
            thread::park();
            fiber.join().unwrap();
        }
    });
}

#[test]
fn park_unpark_between_thread_and_fiber() {
    within(LONG, || {
        let turns = 500;
        let me = thread::current();
        let fiber = thread::spawn(move || {
            for _ in 0..turns {
                thread::park();
                me.unpark();
            }
        });
        let other = fiber.thread();
        for _ in 0..turns {
            other.unpark();
            thread::park();
        }
        fiber.join().unwrap();
    });
}

#[test]
fn a_park_waits_for_a_permit_and_for_nothing_else() {
    everywhere(|| {
        let parked = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&parked);
        let fiber = thread::spawn(move || {
            thread::park();
            assert!(theirs.load(Ordering::SeqCst), "park returned without a permit");
        });
        for _ in 0..100 {
            thread::yield_now();
        }
        assert!(!fiber.is_finished());
        parked.store(true, Ordering::SeqCst);
        fiber.thread().unpark();
        fiber.join().unwrap();
    });
}

#[test]
fn park_timeout_unpark_before() {
    everywhere(|| {
        for _ in 0..10 {
            thread::current().unpark();
            let start = Instant::now();
            thread::park_timeout(LONG);
            assert!(start.elapsed() < LONG / 2);
        }
    });
}

#[test]
fn park_timeout_unpark_not_called() {
    everywhere(|| {
        for _ in 0..5 {
            let start = Instant::now();
            thread::park_timeout(Duration::from_millis(3));
            assert!(start.elapsed() >= Duration::from_millis(3), "early");
        }
    });
}

#[test]
fn park_timeout_unpark_called_from_another() {
    everywhere(|| {
        for _ in 0..10 {
            let me = thread::current();
            let fiber = thread::spawn(move || me.unpark());
            let start = Instant::now();
            thread::park_timeout(LONG);
            assert!(start.elapsed() < LONG / 2);
            fiber.join().unwrap();
        }
    });
}

#[test]
fn the_longest_timeouts_are_no_timeouts() {
    everywhere(|| {
        let fiber = thread::spawn(|| thread::park_timeout(Duration::MAX));
        let sleeper = thread::spawn(|| thread::sleep(Duration::MAX));
        until_waits("park", &fiber);
        until_waits("sleep", &sleeper);
        fiber.thread().unpark();
        fiber.join().unwrap();
    });
}

#[test]
fn is_finished() {
    everywhere(|| {
        let go_on = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&go_on);
        let fiber = thread::spawn(move || {
            while !theirs.load(Ordering::Relaxed) {
                thread::park();
            }
            5
        });
        assert!(!fiber.is_finished());
        go_on.store(true, Ordering::Relaxed);
        fiber.thread().unpark();
        let start = Instant::now();
        while !fiber.is_finished() {
            assert!(start.elapsed() < LONG);
            thread::sleep(Duration::from_micros(100));
        }
        assert_eq!(fiber.join().unwrap(), 5);
    });
}

#[test]
fn a_sleep_is_never_early() {
    everywhere(|| {
        let fibers: Vec<_> = (0..200_u64)
            .map(|i| {
                thread::spawn(move || {
                    let length = Duration::from_micros(37 * i);
                    let (start, clock) = (Instant::now(), volt::time::Instant::now());
                    thread::sleep(length);
                    assert!(start.elapsed() >= length, "{:?} < {length:?}", start.elapsed());
                    assert!(clock.elapsed() >= length);
                    let until = Instant::now() + length / 4;
                    thread::sleep_until(until);
                    assert!(Instant::now() >= until);
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn a_short_sleep_ends_soon_behind_a_long_one() {
    within(LONG, || {
        let long = thread::spawn(|| thread::park_timeout(LONG * 100));
        for _ in 0..20 {
            let start = Instant::now();
            thread::spawn(|| thread::sleep(Duration::from_millis(1))).join().unwrap();
            assert!(start.elapsed() < LONG / 3, "it waited for the long one");
        }
        long.thread().unpark();
        long.join().unwrap();
    });
}

#[test]
fn ids_are_unique_and_stay() {
    everywhere(|| {
        let ids = Arc::new(Mutex::new(HashSet::new()));
        let fibers: Vec<_> = (0..200)
            .map(|_| {
                let ids = Arc::clone(&ids);
                thread::spawn(move || {
                    let id = thread::current().id();
                    thread::yield_now();
                    assert_eq!(thread::current().id(), id);
                    assert!(ids.lock().unwrap().insert(id), "{id:?} twice");
                    id
                })
            })
            .collect();
        for fiber in fibers {
            // Lent by the join handle; the clone has a count of its own.
            let (lent, handle) = (fiber.thread(), fiber.thread().clone());
            assert_eq!(lent.id(), handle.id());
            let inside = fiber.join().unwrap();
            assert_eq!(handle.id(), inside);
        }
        assert_eq!(ids.lock().unwrap().len(), 200);
        assert!(!ids.lock().unwrap().contains(&thread::current().id()));
    });
}

#[test]
fn plain_threads_have_ids_and_names() {
    let (id, name) = std::thread::Builder::new()
        .name("plain".to_owned())
        .spawn(|| (thread::current().id(), thread::current().name().map(str::to_owned)))
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(name.as_deref(), Some("plain"));
    assert_ne!(id, thread::current().id());
    assert_eq!(thread::current().id(), thread::current().id());
}

#[test]
fn sizes_and_traits() {
    assert_eq!(size_of::<JoinHandle<[u8; 64]>>(), size_of::<usize>());

    assert!(size_of::<Thread>() <= 2 * size_of::<usize>());
    assert!(size_of::<ThreadId>() <= 16);
    fn shared<T: Send + Sync>() {}
    shared::<JoinHandle<std::cell::Cell<u8>>>();
    shared::<Thread>();
    shared::<ThreadId>();
    shared::<ScopedJoinHandle<'static, std::cell::Cell<u8>>>();
    fn sync<T: Sync>() {}
    sync::<Scope<'static, 'static>>();
    fn debug<T: std::fmt::Debug>() {}
    debug::<JoinHandle<fn()>>();
    debug::<ScopedJoinHandle<'static, fn()>>();
}

/// Returns to both callers at nearly the same moment.
fn meet(place: &AtomicUsize) {
    place.fetch_add(1, Ordering::SeqCst);
    while place.load(Ordering::Relaxed) < 2 {
        std::hint::spin_loop();
    }
}

#[test]
fn a_handle_made_from_both_sides_at_once_holds_the_fiber() {
    // The fiber names itself while its parent asks the join handle: two first references.
    let left = common::child("a_handle_made_from_both_sides_at_once_holds_the_fiber", &[], || {
        let runtime = volt::runtime::Builder::new().workers(1).build().unwrap();
        let name = "a name that is long enough for the heap";
        let start = Instant::now();
        let mut round = 0_usize;
        while start.elapsed() < Duration::from_millis(1500) {
            let place = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&place);
            round += 1;
            let spins = round % 16;
            let body = move || {
                meet(&theirs);
                (0..spins).for_each(|_| std::hint::spin_loop());
                thread::current()
            };
            let fiber = runtime.run(|| Builder::new().name(name.to_owned()).spawn(body).unwrap());
            meet(&place);
            let outside = fiber.thread().clone();
            let inside = fiber.join().unwrap();
            drop(inside);
            // If that freed the block, its memory is taken by this.
            let filler: Vec<_> = (0..4).map(|_| "x".repeat(name.len())).collect();
            assert_eq!(outside.name(), Some(name), "freed under a handle");
            outside.unpark();
            drop((outside, filler));
        }
        runtime.shutdown(LONG).unwrap();
    });
    assert!(left.status.success(), "{left:?}");
}

// ---- scopes ----

#[test]
fn scoped_fibers_borrow() {
    everywhere(|| {
        let mut a = vec![1, 2, 3];
        let mut x = 0;
        let ten = thread::scope(|s| {
            s.spawn(|| a.iter().for_each(|n| assert!(*n > 0)));
            s.spawn(|| {
                thread::sleep(Duration::from_millis(1));
                x += a[0] + a[2];
            });
            10
        });
        a.push(4);
        assert_eq!((ten, x, a.len()), (10, 4, 4));
    });
}

#[test]
fn a_scope_waits_for_fibers_that_wait() {
    everywhere(|| {
        let done = AtomicUsize::new(0);
        for round in 0..20 {
            thread::scope(|s| {
                for i in 0..10 {
                    let done = &done;
                    s.spawn(move || {
                        for _ in 0..i {
                            thread::yield_now();
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
            assert_eq!(done.load(Ordering::Relaxed), (round + 1) * 10);
        }
    });
}

#[test]
fn nested_scopes() {
    everywhere(|| {
        let total = AtomicUsize::new(0);
        thread::scope(|outer| {
            for _ in 0..4 {
                outer.spawn(|| {
                    let local = AtomicUsize::new(0);
                    thread::scope(|inner| {
                        for _ in 0..4 {
                            inner.spawn(|| {
                                local.fetch_add(1, Ordering::Relaxed);
                                // A fiber of the outer scope, from within the inner one.
                                outer.spawn(|| total.fetch_add(1, Ordering::Relaxed));
                            });
                        }
                    });
                    assert_eq!(local.into_inner(), 4);
                });
            }
        });
        assert_eq!(total.into_inner(), 16);
    });
}

#[test]
fn a_scoped_join_gives_result_or_payload() {
    everywhere(|| {
        let word = String::from("borrowed");
        thread::scope(|s| {
            assert_eq!(s.spawn(|| word.len()).join().unwrap(), 8);
            let failed = s.spawn(|| -> usize { panic!("inside") });
            assert_eq!(text(&*failed.join().unwrap_err()), "inside");
            let named = Builder::new().name("scoped".into()).spawn_scoped(s, || ()).unwrap();
            assert_eq!(named.thread().name(), Some("scoped"));
        });
    });
}

#[test]
fn a_panic_that_nobody_joined_comes_out_of_the_scope() {
    everywhere(|| {
        let others = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|s| {
                s.spawn(|| panic!("lost"));
                s.spawn(|| {
                    thread::sleep(Duration::from_millis(2));
                    others.fetch_add(1, Ordering::Relaxed);
                });
            });
        }));
        assert_eq!(text(&*result.unwrap_err()), "a scoped fiber panicked");
        assert_eq!(others.into_inner(), 1, "the scope waited for the other one");
    });
}

#[test]
fn a_scope_whose_closure_panics_waits_and_keeps_the_payload() {
    everywhere(|| {
        let ended = AtomicBool::new(false);
        let result = catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|s| {
                s.spawn(|| {
                    thread::sleep(Duration::from_millis(3));
                    ended.store(true, Ordering::Relaxed);
                });
                panic!("from the closure");
            })
        }));
        assert_eq!(text(&*result.unwrap_err()), "from the closure");
        assert!(ended.into_inner(), "unwound over a running fiber's borrows");
    });
}

/// Drops slowly, and after that must not be used: it borrows.
struct Slow<'a>(&'a AtomicBool);

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        thread::sleep(Duration::from_millis(2));
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn results_are_dropped_before_the_scope_returns() {
    everywhere(|| {
        for how in 0..3 {
            let dropped = AtomicBool::new(false);
            thread::scope(|s| {
                let fiber = s.spawn(|| Slow(&dropped));
                match how {
                    0 => drop(fiber),
                    1 => drop(fiber.join().unwrap()),
                    // Ended first, its result dropped by the handle.
                    _ => {
                        let start = Instant::now();
                        while !fiber.is_finished() {
                            assert!(start.elapsed() < LONG);
                            thread::yield_now();
                        }
                    }
                }
            });
            assert!(dropped.load(Ordering::SeqCst), "case {how}");
        }
    });
}

#[test]
fn captures_are_dropped_before_the_scope_returns() {
    everywhere(|| {
        let dropped = AtomicBool::new(false);
        thread::scope(|s| {
            let slow = Slow(&dropped);
            s.spawn(move || {
                let _slow = &slow;
            });
        });
        assert!(dropped.load(Ordering::SeqCst));
    });
}

#[test]
fn a_scope_takes_no_permit_and_leaves_none() {
    everywhere(|| {
        // A permit from before is there after.
        thread::current().unpark();
        thread::scope(|s| {
            s.spawn(|| thread::sleep(Duration::from_millis(1)));
        });
        let start = Instant::now();
        thread::park_timeout(LONG);
        assert!(start.elapsed() < LONG / 2, "the scope took the permit");
        // Ends of scoped fibers are no permits.
        for _ in 0..50 {
            thread::scope(|s| {
                s.spawn(|| ());
            });
        }
        let start = Instant::now();
        thread::park_timeout(Duration::from_millis(3));
        assert!(start.elapsed() >= Duration::from_millis(3), "the scope left a permit");
    });
}

#[test]
fn bad_settings_of_a_scoped_fiber_leave_the_scope_whole() {
    everywhere(|| {
        thread::scope(|s| {
            let error = Builder::new().stack_size(1).spawn_scoped(s, || ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert_eq!(s.spawn(|| 1).join().unwrap(), 1);
        });
    });
}

#[test]
fn a_scope_in_a_destructor_that_runs_while_unwinding_returns() {
    struct Scopes<'a>(&'a AtomicUsize);
    impl Drop for Scopes<'_> {
        fn drop(&mut self) {
            assert!(thread::panicking());
            thread::scope(|s| {
                s.spawn(|| self.0.fetch_add(1, Ordering::Relaxed));
            });
        }
    }
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    fn body() {
        let result = catch_unwind(|| {
            let _scopes = Scopes(&COUNT);
            panic!("unwinds through a scope");
        });
        assert!(result.is_err());
    }
    let limit = Duration::from_secs(5);
    within(limit, body);
    // The fiber holds its thread meanwhile, so there must be another one.
    within(limit, || {
        let runtime = volt::runtime::Builder::new().workers(2).build().unwrap();
        runtime.run(body);
        runtime.shutdown(LONG).unwrap();
    });
    assert_eq!(COUNT.load(Ordering::Relaxed), 2);
}

/// Of a fiber that nobody joins: its result's destructor panics, and with something that has one too.
#[test]
fn what_a_results_destructor_panics_with_is_dropped() {
    struct Panics(Arc<AtomicUsize>);
    struct Payload(Arc<AtomicUsize>);
    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(Payload(Arc::clone(&self.0))));
        }
    }
    impl Drop for Payload {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    within(LONG, || {
        let dropped = Arc::new(AtomicUsize::new(0));
        thread::scope(|s| drop(s.spawn(|| Panics(Arc::clone(&dropped)))));
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn many_scopes_at_once() {
    within(LONG, || {
        let total = AtomicUsize::new(0);
        std::thread::scope(|plain| {
            for _ in 0..3 {
                plain.spawn(|| {
                    for _ in 0..100 {
                        thread::scope(|s| {
                            for _ in 0..8 {
                                s.spawn(|| total.fetch_add(1, Ordering::Relaxed));
                            }
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 2400);
    });
}

/// How often the calling thread has given its processor up to wait.
#[cfg(target_os = "linux")]
fn sleeps() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: plain data, which the call fills.
    unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()), 0);
        usage.assume_init().ru_nvcsw
    }
}

/// A sleep and a wake cost more than some microseconds on the processor, during which the permit comes. A thread
/// that went to sleep at once would do so nearly each time: it is given the time for that.
#[test]
#[cfg(target_os = "linux")]
fn a_plain_thread_does_not_sleep_before_a_wait_of_two_microseconds() {
    const IN_A_ROW: u32 = 10;
    within(LONG, || {
        let turns = Arc::new(AtomicUsize::new(0));
        let (theirs, (tell, told)) = (Arc::clone(&turns), channel());
        let waiter = std::thread::spawn(move || {
            tell.send(thread::current()).unwrap();
            let mut awake = 0;
            while awake < IN_A_ROW {
                let before = sleeps();
                theirs.fetch_add(1, Ordering::SeqCst);
                thread::park();
                awake = if sleeps() == before { awake + 1 } else { 0 };
            }
        });
        let (waits, mut seen) = (told.recv().unwrap(), 0);
        while !waiter.is_finished() {
            let now = turns.load(Ordering::SeqCst);
            if now == seen {
                std::thread::yield_now();
                continue;
            }
            seen = now;
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(2) {}
            waits.unpark();
        }
        waiter.join().unwrap();
    });
}
