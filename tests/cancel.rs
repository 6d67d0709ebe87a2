//! Cancelling fibers and tokens.

mod common;

use common::waits::{Announced, until_true, until_waits};
use common::{LONG, Seed, child, until, within};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use volt::cancel::{Cancelled, Token, is_cancelled, shield};
use volt::net::{TcpListener, TcpStream};
use volt::runtime::{Builder, JoinHandle};
use volt::sync::Event;

/// Counts its drops.
struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs `body` as a fiber of runtimes of both kinds, with many workers and with one.
fn on_fibers(body: impl Fn() + Send + Sync + Copy + 'static) {
    within(LONG, move || {
        Builder::new().workers(3).build().unwrap().run(body);
        Builder::new_current_thread().build().unwrap().run(body);
    });
}

fn ended_by_cancel<T>(fiber: JoinHandle<T>) {
    match fiber.join() {
        Ok(_) => panic!("not ended by the cancel"),
        Err(payload) => assert!(payload.is::<Cancelled>(), "a panic"),
    }
}

/// When a fiber is cancelled.
#[derive(Clone, Copy, PartialEq)]
enum When {
    BeforeItBegins,
    AsItBegins,
    InItsWait,
}

/// Cancels a fiber that does `wait`, for `what`: before it begins, as it begins, and while it waits.
fn unwinds(what: &str, wait: impl Fn() + Send + Sync + 'static) {
    let in_its_wait = |fiber: &JoinHandle<()>| until_waits(what, fiber);
    unwinds_when([When::BeforeItBegins, When::AsItBegins, When::InItsWait], wait, in_its_wait);
}

fn unwinds_when(
    whens: impl IntoIterator<Item = When>,
    wait: impl Fn() + Send + Sync + 'static,
    until_it_waits: impl Fn(&JoinHandle<()>),
) {
    let wait = Arc::new(wait);
    for when in whens {
        let (begun, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (wait, counts) = (Arc::clone(&wait), Counts(Arc::clone(&dropped)));
        let fiber = volt::go({
            let begun = Arc::clone(&begun);
            move || {
                let _counts = counts;
                while when == When::BeforeItBegins && !volt::cancelled() {
                    volt::yield_now();
                }
                begun.store(true, Ordering::SeqCst);
                wait();
            }
        });
        while when != When::BeforeItBegins && !begun.load(Ordering::SeqCst) {
            volt::yield_now();
        }
        if when == When::InItsWait {
            until_it_waits(&fiber);
        }
        fiber.cancel();
        ended_by_cancel(fiber);
        assert_eq!(dropped.load(Ordering::SeqCst), 1, "destructors run, once");
    }
}

/// As `unwinds`, for one that blocks its thread, of which the runtime does not tell what it waits for:
/// `wait` calls what it is handed on that thread, right before.
fn unwinds_blocking(wait: impl Fn(&dyn Fn()) + Send + Sync + 'static) {
    let announced = Arc::new(Announced::default());
    let theirs = Arc::clone(&announced);
    let (wait, announces) = (Arc::new(wait), move || theirs.announce());
    let again = Arc::clone(&wait);
    unwinds_when([When::BeforeItBegins, When::AsItBegins], move || wait(&|| ()), |_| ());
    let sleeps = |_: &_| until_true("its thread", || announced.sleeps());
    unwinds_when([When::InItsWait], move || again(&announces), sleeps);
}

#[test]
fn waits_without_an_error_unwind() {
    on_fibers(|| {
        unwinds("sleep", || volt::sleep(Duration::MAX));
        unwinds("park", volt::thread::park);
        unwinds("park", || volt::thread::park_timeout(Duration::from_secs(100)));
        unwinds("join", || drop(volt::go(volt::thread::park).join()));
        unwinds("cancel token", || Token::new().cancelled());
        unwinds("scope", || {
            volt::scope(|scope| {
                scope.go(volt::thread::park);
            });
        });
        unwinds("join", || volt::run(volt::thread::park));
        unwinds_blocking(|announce| {
            volt::blocking(|| {
                announce();
                volt::thread::park();
            });
        });
        unwinds_blocking(|announce| {
            volt::thread::pinned(|| {
                announce();
                volt::sleep(Duration::MAX);
            });
        });
    });
}

#[test]
fn the_hook_is_not_called() {
    let left = child("the_hook_is_not_called", &[], || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let fiber = runtime.go(volt::thread::park);
        fiber.cancel();
        ended_by_cancel(fiber);
    });
    assert!(left.status.success());
    assert!(!left.text.contains("panicked"), "{}", left.text);
}

#[test]
fn who_catches_it_is_unwound_again() {
    on_fibers(|| {
        let caught = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&caught);
        let fiber = volt::go(move || {
            for _ in 0..10 {
                let payload = catch_unwind(|| volt::sleep(Duration::MAX)).unwrap_err();
                assert!(payload.is::<Cancelled>());
                theirs.fetch_add(1, Ordering::SeqCst);
            }
            volt::thread::park();
        });
        fiber.cancel();
        ended_by_cancel(fiber);
        assert_eq!(caught.load(Ordering::SeqCst), 10);
    });
}

/// A connection on which nothing comes.
fn silent() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

#[test]
fn a_loop_that_ignores_errors_ends() {
    on_fibers(|| {
        let (near, _far) = silent();
        let errors = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&errors);
        let fiber = volt::go(move || {
            loop {
                // Inside and outside of a timeout of its own, which is not to blame.
                let read = || (&near).read(&mut [0]);
                let error = match volt::timeout(Duration::from_secs(100), read) {
                    Ok(result) => result.unwrap_err(),
                    Err(elapsed) => panic!("{elapsed}"),
                };
                assert!(is_cancelled(&error));
                theirs.fetch_add(1, Ordering::SeqCst);
            }
        });
        fiber.cancel();
        ended_by_cancel(fiber);
        assert_eq!(errors.load(Ordering::SeqCst), 16);
    });
}

#[test]
fn a_shield_hides_a_cancel_and_an_outer_token_but_no_inner_timeout() {
    on_fibers(|| {
        let fiber = volt::go(|| {
            while !volt::cancelled() {
                volt::yield_now();
            }
            shield(|| {
                volt::sleep(Duration::from_millis(1));
                volt::go(volt::yield_now).join().unwrap();
                shield(|| volt::sleep(Duration::from_millis(1)));
                volt::sleep(Duration::from_millis(1));
                let inner = volt::timeout(Duration::from_millis(1), volt::thread::park);
                assert!(inner.is_err(), "a timeout inside works");
            });
            assert!(volt::cancelled());
            volt::sleep(Duration::from_millis(1));
            unreachable!("the next wait outside ends");
        });
        fiber.cancel();
        ended_by_cancel(fiber);

        let token = Token::new();
        token.cancel();
        let ended = token.run(|| {
            shield(|| volt::sleep(Duration::from_millis(1)));
            volt::sleep(Duration::MAX);
        });
        assert_eq!(ended, Err(Cancelled));
    });
}

#[test]
fn destructors_wait_while_they_unwind() {
    struct Waits(Arc<AtomicBool>);
    impl Drop for Waits {
        fn drop(&mut self) {
            volt::sleep(Duration::from_millis(1));
            volt::go(volt::yield_now).join().unwrap();
            self.0.store(true, Ordering::SeqCst);
        }
    }
    volt::fiber_local! {
        static LOCAL: std::cell::RefCell<Option<Waits>> = std::cell::RefCell::new(None);
    }
    on_fibers(|| {
        let whole: [_; 3] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
        let [unwound, local, result] = whole.clone();
        let fiber = volt::go(move || {
            LOCAL.with(|place| *place.borrow_mut() = Some(Waits(local)));
            let _unwound = Waits(unwound);
            volt::thread::park();
        });
        fiber.cancel();
        ended_by_cancel(fiber);
        let fiber = volt::go(move || {
            while !volt::cancelled() {
                volt::yield_now();
            }
            Waits(result)
        });
        fiber.cancel();
        drop(fiber);
        while !whole[2].load(Ordering::SeqCst) {
            volt::yield_now();
        }
        assert!(whole.iter().all(|whole| whole.load(Ordering::SeqCst)));
    });
}

/// The value of a fiber-local is dropped after its fiber was cancelled, and waits: the drop runs to its end,
/// also if the fiber did not wait any more before it.
#[test]
fn a_fiber_locals_destructor_is_shielded() {
    struct Waits(Arc<Event>, Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.wait();
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    volt::fiber_local! {
        static LOCAL: std::cell::RefCell<Option<Waits>> = std::cell::RefCell::new(None);
    }
    on_fibers(|| {
        for waits_before in [true, false] {
            let (event, steps) = (Arc::new(Event::new()), Arc::new(AtomicUsize::new(0)));
            let local = Waits(Arc::clone(&event), Arc::clone(&steps));
            let fiber = volt::go(move || {
                LOCAL.with(|place| *place.borrow_mut() = Some(local));
                if waits_before {
                    volt::thread::park();
                }
                while !volt::cancelled() {
                    volt::yield_now();
                }
            });
            fiber.cancel();
            while steps.load(Ordering::SeqCst) == 0 {
                volt::yield_now();
            }
            // Once more, while the destructor waits or is about to.
            fiber.cancel();
            volt::yield_now();
            assert!(!fiber.is_finished(), "the destructor waits");
            event.set();
            assert_eq!(fiber.join().is_err(), waits_before);
            assert_eq!(steps.load(Ordering::SeqCst), 2, "the destructor ran to its end");
        }
    });
}

#[test]
fn a_panic_is_not_a_cancel() {
    on_fibers(|| {
        let fiber = volt::go(|| resume_unwind(Box::new(7)));
        fiber.cancel();
        assert_eq!(*fiber.join().unwrap_err().downcast::<i32>().unwrap(), 7);
    });
}

#[test]
fn a_cancelled_joiner_leaves_the_joined() {
    on_fibers(|| {
        let go_on = Arc::new(AtomicBool::new(false));
        let (ended, theirs) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&go_on));
        let counts = Counts(Arc::clone(&ended));
        let joiner = volt::go(move || {
            let joined = volt::go(move || {
                let _counts = counts;
                while !theirs.load(Ordering::SeqCst) {
                    volt::yield_now();
                }
                assert!(!volt::cancelled());
            });
            let _ = joined.join();
        });
        joiner.cancel();
        ended_by_cancel(joiner);
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        go_on.store(true, Ordering::SeqCst);
        while ended.load(Ordering::SeqCst) == 0 {
            volt::yield_now();
        }
    });
}

#[test]
fn a_run_inside_a_cancelled_fiber_ends_what_it_runs() {
    on_fibers(|| {
        let borrowed = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&borrowed);
        let fiber = volt::go(move || {
            let here = AtomicUsize::new(0);
            let ended = catch_unwind(AssertUnwindSafe(|| {
                volt::run(|| {
                    let _end = Counts(Arc::clone(&theirs));
                    here.fetch_add(1, Ordering::SeqCst);
                    volt::thread::park();
                })
            }));
            // What it borrowed is here still.
            assert_eq!(theirs.load(Ordering::SeqCst), here.load(Ordering::SeqCst));
            resume_unwind(ended.unwrap_err());
        });
        until_waits("join", &fiber);
        fiber.cancel();
        ended_by_cancel(fiber);
        assert_eq!(borrowed.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_token_cancels_its_subtree() {
    let root = Token::new();
    let (left, right) = (root.child(), root.child());
    let leaf = left.child();
    left.cancel();
    assert!(left.is_cancelled() && leaf.is_cancelled());
    assert!(!root.is_cancelled() && !right.is_cancelled());
    root.cancel();
    root.cancel();
    assert!(right.is_cancelled() && right.child().is_cancelled() && root.clone().is_cancelled());
    // Children that are gone are forgotten, and those that are not stay.
    let root = Token::new();
    let kept: Vec<_> = (0..1_000).map(|_| (root.child(), root.child()).0).collect();
    root.cancel();
    assert!(kept.iter().all(Token::is_cancelled));
}

/// A token in the middle is nobody's any more, as where a request runs on after its connection.
#[test]
fn a_token_reaches_the_children_of_a_child_that_is_gone() {
    let root = Token::new();
    let leaf = root.child().child();
    let others: Vec<_> = (0..1_000).map(|_| root.child().child().child()).collect();
    root.cancel();
    assert!(leaf.is_cancelled() && leaf.child().is_cancelled());
    assert!(others.iter().all(Token::is_cancelled));
    // A line of them that goes at once is longer than a stack.
    let last = (0..100_000).fold(Token::new(), |token, _| token.child());
    volt::go(move || drop(last)).join().unwrap();
}

/// By several threads, in any order, some with the last handle of the parent between.
#[test]
fn children_come_and_go_beside_a_cancel() {
    within(LONG, || {
        let seed = Seed::new();
        let mut seeds = seed.rng();
        for _ in 0..20 {
            let root = Token::new();
            let made = Arc::new(AtomicUsize::new(0));
            let mut run = || {
                let (root, made) = (root.clone(), Arc::clone(&made));
                let mut rng = seeds.fork();
                std::thread::spawn(move || {
                    let mut kept = Vec::new();
                    while !root.is_cancelled() {
                        kept.push(if rng.below(3) == 0 {
                            root.child().child()
                        } else {
                            root.child()
                        });
                        if rng.below(4) != 0 {
                            kept.swap_remove(rng.below(kept.len() as u64) as usize);
                        }
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                    kept
                })
            };
            let threads = [run(), run(), run()];
            until("children are made", || made.load(Ordering::Relaxed) > 300);
            root.cancel();
            let kept: Vec<_> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
            assert!(kept.iter().all(Token::is_cancelled));
        }
    });
}

#[test]
fn a_token_ends_waits_of_fibers_and_threads() {
    on_fibers(|| {
        let token = Token::new();
        let (near, _far) = silent();
        let run = |f: fn()| {
            let token = token.child();
            volt::go(move || token.run(f))
        };
        let fibers = [
            run(volt::thread::park),
            run(|| volt::sleep(Duration::MAX)),
            run(|| drop(volt::go(volt::thread::park).join())),
            run(|| {
                assert!(
                    shield(|| volt::timeout(Duration::from_millis(1), volt::thread::park)).is_err()
                )
            }),
        ];
        let theirs = token.clone();
        let reads = volt::go(move || theirs.run(|| (&near).read(&mut [0])));
        let theirs = token.clone();
        let waits = volt::go(move || theirs.cancelled());
        let theirs = token.clone();
        let thread = std::thread::spawn(move || theirs.run(volt::thread::park));
        let whats = ["park", "sleep", "join"];
        whats.iter().zip(&fibers).for_each(|(what, fiber)| until_waits(what, fiber));
        until_waits("read", &reads);
        until_waits("cancel token", &waits);
        token.cancel();
        let [a, b, c, shielded] = fibers.map(|fiber| fiber.join().unwrap());
        assert_eq!([a, b, c], [Err(Cancelled); 3]);
        assert_eq!(shielded, Ok(()));
        assert_eq!(reads.join().unwrap().unwrap_err(), Cancelled);
        waits.join().unwrap();
        assert_eq!(thread.join().unwrap(), Err(Cancelled));
        // And for good.
        assert_eq!(token.run(volt::thread::park), Err(Cancelled));
        assert_eq!(token.run(|| 5), Ok(5), "what does not wait is not ended");
    });
}

#[test]
fn an_unpark_is_not_lost_to_a_token_that_comes_after_it() {
    on_fibers(|| {
        for _ in 0..100 {
            let token = Token::new();
            let theirs = token.clone();
            let waits = volt::go(move || {
                let ended = theirs.run(volt::thread::park);
                // If the token has ended the wait, the permit is there still.
                ended.is_ok() || volt::timeout(Duration::ZERO, volt::thread::park).is_ok()
            });
            until_waits("park", &waits);
            waits.thread().unpark();
            token.cancel();
            assert!(waits.join().unwrap());
        }
    });
}

#[test]
fn an_inner_token_ends_at_its_own_run_and_an_outer_one_at_the_outer() {
    on_fibers(|| {
        let (outer, inner) = (Token::new(), Token::new());
        inner.cancel();
        let both = outer.run(|| {
            assert_eq!(inner.run(volt::thread::park), Err(Cancelled));
            7
        });
        assert_eq!(both, Ok(7));
        outer.cancel();
        let both = outer.run(|| {
            let _ = inner.run(volt::thread::park);
            unreachable!("the outer one is cancelled too");
        });
        assert_eq!(both, Err::<(), _>(Cancelled));
    });
}

#[test]
fn random_cancels_end_everything_once() {
    within(LONG, || {
        let seed = Seed::new();
        let mut rng = seed.rng();
        let runtime = Builder::new().workers(3).build().unwrap();
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let root = Token::new();
        let fibers: Vec<_> = (0..600)
            .map(|_| {
                let (what, micros) = (rng.below(6), rng.below(200));
                let token = root.child();
                let (begun, counts) = (Arc::clone(&begun), Counts(Arc::clone(&ended)));
                let fiber = runtime.go(move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    let _counts = counts;
                    let nap = Duration::from_micros(micros);
                    let _ = token.run(|| match what {
                        0 => volt::sleep(nap),
                        1 => drop(volt::timeout(nap, volt::thread::park)),
                        2 => drop(volt::go(move || volt::sleep(nap)).join()),
                        3 => volt::scope(|scope| {
                            scope.go(volt::thread::park);
                            volt::sleep(nap);
                            scope.cancel();
                        }),
                        4 => drop(volt::timeout(nap, || {
                            volt::scope(|scope| drop(scope.go(volt::thread::park)));
                        })),
                        _ => volt::thread::park(),
                    });
                });
                (fiber, what == 5)
            })
            .collect();
        for (fiber, endless) in &fibers {
            if *endless || rng.below(3) == 0 {
                (0..rng.below(2_000)).for_each(|_| std::hint::spin_loop());
                fiber.cancel();
            }
        }
        root.cancel();
        for (fiber, _) in fibers {
            if let Err(payload) = fiber.join() {
                assert!(payload.is::<Cancelled>());
            }
        }
        until("all ends", || begun.load(Ordering::SeqCst) == ended.load(Ordering::SeqCst));
        runtime.shutdown(LONG).unwrap();
    });
}
