//! `join!` and `race!`.

use crate::common::{LONG, within};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use volt::cancel::Cancelled;
use volt::channel::bounded;
use volt::sync::Barrier;

fn on_each(f: impl Fn() + Send + Sync + Copy + 'static) {
    within(LONG, f);
    for workers in [1, 3] {
        within(LONG, move || {
            volt::runtime::Builder::new().workers(workers).build().unwrap().run(f);
        });
    }
}

/// Counts one more when it goes.
struct Gone<'a>(&'a AtomicUsize);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn join_of_any_number() {
    on_each(|| {
        assert_eq!(volt::join!(|| 1), (1,));
        let owned = String::from("moved");
        let here = std::rc::Rc::new(5);
        let mut counted = 0;
        let (a, b, c, d, e) = volt::join!(
            // Stays on this thread, so it need not be `Send`.
            || *here,
            || counted += 1,
            move || owned.len(),
            || "four",
            || [5; 5],
        );
        assert_eq!((a, b, c, d, e, counted), (5, (), 5, "four", [5; 5], 1));
    });
}

#[test]
fn those_that_are_joined_run_side_by_side() {
    on_each(|| {
        let (s1, r1) = bounded(0);
        let (s2, r2) = bounded(0);
        let sums = volt::join!(
            || r1.recv().unwrap() + 1,
            || {
                s1.send(r2.recv().unwrap()).unwrap();
                0
            },
            || {
                s2.send(1).unwrap();
                0
            },
        );
        assert_eq!(sums, (2, 0, 0));
    });
}

#[test]
fn a_panic_cancels_the_others_and_comes_out() {
    on_each(|| {
        for panics in 0..3 {
            let (begun, gone) = (Barrier::new(3), AtomicUsize::new(0));
            let run = |n| {
                let _gone = Gone(&gone);
                begun.wait();
                if n == panics {
                    panic_any(n);
                }
                volt::thread::park();
            };
            let ended =
                catch_unwind(AssertUnwindSafe(|| volt::join!(|| run(0), || run(1), || run(2))));
            assert_eq!(*ended.unwrap_err().downcast::<i32>().unwrap(), panics);
            assert_eq!(gone.load(Ordering::SeqCst), 3, "all have ended");
        }
    });
}

#[test]
fn the_first_wins_and_the_others_are_gone() {
    on_each(|| {
        assert_eq!(volt::race!(|| 1), 1);
        for wins in 0..4 {
            let (begun, gone) = (Barrier::new(4), AtomicUsize::new(0));
            let run = |n| {
                let _gone = Gone(&gone);
                begun.wait();
                if n != wins {
                    volt::sleep(Duration::MAX);
                }
                n
            };
            assert_eq!(volt::race!(|| run(0), || run(1), || run(2), || run(3)), wins);
            assert_eq!(gone.load(Ordering::SeqCst), 4, "all have ended");
        }
    });
}

#[test]
fn a_loser_that_lingers_does_not_let_another_win() {
    on_each(|| {
        let (s, gone) = bounded::<()>(0);
        let winner = volt::race!(
            move || {
                while !volt::cancelled() {
                    volt::yield_now();
                }
                drop(s);
                "ends when another has won"
            },
            || {
                let _ = volt::cancel::shield(|| gone.recv());
                "ends last"
            },
            || "first",
        );
        assert_eq!(winner, "first");
    });
}

#[test]
fn the_first_end_may_be_a_panic() {
    on_each(|| {
        let ended = catch_unwind(|| {
            volt::race!(|| volt::sleep(Duration::MAX), || panic_any(8), || volt::sleep(
                Duration::MAX
            ))
        });
        assert!(ended.unwrap_err().is::<i32>());
    });
}

#[test]
fn a_cancel_of_the_caller_ends_all() {
    within(LONG, || {
        static GONE: AtomicUsize = AtomicUsize::new(0);
        fn run() {
            let _gone = Gone(&GONE);
            volt::thread::park();
        }
        let joins = volt::go(|| _ = volt::join!(run, run, run));
        let races = volt::go(|| volt::race!(run, run, run));
        for fiber in [joins, races] {
            fiber.cancel();
            assert!(fiber.join().unwrap_err().is::<Cancelled>());
        }
        let cut = volt::timeout(Duration::from_millis(2), || volt::join!(run, run));
        assert!(cut.is_err());
    });
}
