//! Scopes, pairs, races and sets: what ends together.

mod common;

use common::waits::{until_true, wait_of};
use common::{LONG, child, everywhere, limit_address_space, within};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use volt::cancel::Cancelled;
use volt::runtime::{Builder, Handle};
use volt::scope::{JoinSet, try_join};
use volt::sync::Event;
use volt::thread::park;
use volt::{StackError, join, race, scope};

/// Waits until it is cut off, and says that it was.
fn waits(ended: &AtomicUsize) {
    let payload = catch_unwind(park).unwrap_err();
    assert!(payload.is::<Cancelled>());
    volt::cancel::shield(|| volt::sleep(Duration::from_millis(1)));
    ended.fetch_add(1, Ordering::SeqCst);
    resume_unwind(payload);
}

fn panics<T>(number: i32, f: impl FnOnce() -> T) {
    let payload = catch_unwind(AssertUnwindSafe(f)).map(drop).unwrap_err();
    assert_eq!(*payload.downcast::<i32>().unwrap(), number);
}

#[test]
fn a_cancelled_scope_ends_its_fibers_first() {
    everywhere(|| {
        // Cancelled in its closure, at its end, and before its fibers start.
        for at_end in [true, false] {
            let ended = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&ended);
            let fiber = volt::go(move || {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    scope(|scope| {
                        (0..10).for_each(|_| drop(scope.go(|| waits(&theirs))));
                        if !at_end {
                            park();
                        }
                    });
                }));
                assert_eq!(theirs.load(Ordering::SeqCst), 10, "all have ended");
                resume_unwind(caught.unwrap_err());
            });
            fiber.cancel();
            assert!(fiber.join().unwrap_err().is::<Cancelled>());
            assert_eq!(ended.load(Ordering::SeqCst), 10);
        }
    });
}

#[test]
fn a_panic_in_a_scope_cancels_nobody() {
    everywhere(|| {
        let done = AtomicUsize::new(0);
        panics(7, || {
            scope(|scope| {
                scope.go(|| {
                    volt::sleep(Duration::from_millis(2));
                    done.fetch_add(1, Ordering::SeqCst);
                });
                resume_unwind(Box::new(7));
            })
        });
        assert_eq!(done.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn one_cancelled_fiber_of_a_scope_is_no_panic() {
    everywhere(|| {
        scope(|scope| scope.go(park).cancel());
        let joined = scope(|scope| {
            let fiber = scope.go(park);
            fiber.cancel();
            fiber.join()
        });
        assert!(joined.unwrap_err().is::<Cancelled>());
    });
}

#[test]
fn pairs() {
    everywhere(|| {
        let text = String::from("borrowed");
        assert_eq!(join(|| text.len(), || text.as_str()), (8, "borrowed"));
        let nested = join(|| join(|| 1, || 2), || join(|| 3, || 4));
        assert_eq!(nested, ((1, 2), (3, 4)));
        assert_eq!(try_join(|| Ok::<_, ()>(1), || Ok(2)), Ok((1, 2)));
    });
}

#[test]
fn a_failed_half_cancels_the_other() {
    everywhere(|| {
        let ended = AtomicUsize::new(0);
        let fails = || Err::<(), _>(7);
        let waits = || {
            waits(&ended);
            Ok(())
        };
        assert_eq!(try_join(fails, waits), Err(7));
        assert_eq!(try_join(waits, fails), Err(7));
        panics(8, || join(|| resume_unwind(Box::new(8)), || assert!(waits().is_ok())));
        panics(9, || join(|| assert!(waits().is_ok()), || resume_unwind(Box::new(9))));
        assert!(ended.load(Ordering::SeqCst) >= 2, "those that run here have waited");
    });
}

#[test]
fn races() {
    everywhere(|| {
        let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let slow = || {
            begun.fetch_add(1, Ordering::SeqCst);
            waits(&ended);
            0
        };
        assert_eq!(race(|| 1, slow), 1);
        assert_eq!(race(slow, || 2), 2);
        let (begun, ended) = (begun.load(Ordering::SeqCst), ended.load(Ordering::SeqCst));
        assert!(begun == ended && begun >= 1, "{ended} of {begun}: the first may not have begun");
        panics(3, || race(slow, || resume_unwind(Box::new(3))));
        panics(4, || race(|| resume_unwind(Box::new(4)), slow));
        assert_eq!(race(|| race(|| 5, slow), slow), 5);
        assert!(volt::timeout(Duration::from_millis(2), || race(slow, slow)).is_err());
    });
}

#[test]
fn a_set_gives_results_as_they_come_or_in_order() {
    everywhere(|| {
        let mut set = JoinSet::new();
        assert!(set.is_empty() && set.join_next().is_none());
        for millis in [4, 1] {
            set.go(move || {
                volt::sleep(Duration::from_millis(millis));
                millis
            });
        }
        assert_eq!(set.len(), 2);
        let mut seen = [set.join_next(), set.join_next()].map(|next| next.unwrap().unwrap());
        assert!(set.join_next().is_none());
        seen.sort_unstable();
        assert_eq!(seen, [1, 4]);
        let mut set = JoinSet::new();
        for n in 0..100 {
            set.go(move || {
                volt::sleep(Duration::from_micros(100 - n));
                n
            });
        }
        assert_eq!(set.join_all().unwrap(), (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn the_first_failure_of_a_set_cancels_the_rest() {
    everywhere(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let came = Arc::new(Mutex::new(Vec::new()));
        let mut set = JoinSet::new();
        for _ in 0..10 {
            let ended = Arc::clone(&ended);
            let came = Arc::clone(&came);
            set.go(move || {
                came.lock().unwrap().push(volt::current().id());
                waits(&ended);
            });
        }
        until_true("park", || {
            let came = came.lock().unwrap().clone();
            let wait = |id| wait_of(&Handle::current(), id);
            came.len() == 10 && came.into_iter().all(|id| wait(id) == Some("park"))
        });
        set.go(|| resume_unwind(Box::new(7)));
        let payload = set.join_all().unwrap_err();
        assert_eq!(*payload.downcast::<i32>().unwrap(), 7);
        assert_eq!(ended.load(Ordering::SeqCst), 10);
        // Those of the other kind go on.
        let mut set = JoinSet::independent();
        set.go(|| resume_unwind(Box::new(7)));
        set.go(|| volt::sleep(Duration::from_millis(2)));
        let results = [set.join_next().unwrap(), set.join_next().unwrap()];
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    });
}

/// It has failed too: its runtime is gone before it could start.
#[test]
fn a_fiber_of_a_set_that_never_runs_cancels_the_rest() {
    within(LONG, || {
        let one = || Builder::new().workers(1).stall_period(None).force_migrate(false);
        let (here, there) = (one().build().unwrap(), one().build().unwrap());
        let (ended, queued) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let release = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::new();
        let theirs = Arc::clone(&ended);
        here.run(|| set.go(move || waits(&theirs)));
        let (is_queued, released) = (Arc::clone(&queued), Arc::clone(&release));
        let keeps_its_worker = there.go(move || {
            set.go(|| ());
            is_queued.store(1, Ordering::SeqCst);
            while released.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            set
        });
        until_true("its turn", || queued.load(Ordering::SeqCst) == 1);
        drop(there);
        until_true("cancelled", || ended.load(Ordering::SeqCst) == 1);
        release.store(1, Ordering::SeqCst);
        let mut set = keeps_its_worker.join().unwrap();
        let results: Vec<_> = std::iter::from_fn(|| set.join_next()).collect();
        assert!(results.len() == 2 && results.iter().all(Result::is_err), "{results:?}");
    });
}

fn sleep() {
    volt::sleep(Duration::MAX);
}

fn fails(f: impl FnOnce()) -> Result<(), ()> {
    f();
    Err(())
}

/// The others do not wait for what cannot end any more.
#[test]
fn a_closure_that_cannot_run_cancels_the_others() {
    const NAME: &str = "a_closure_that_cannot_run_cancels_the_others";
    let left = child(NAME, &[], || {
        let ways: [fn(); 5] = [
            || _ = join(sleep, || ()),
            || _ = try_join(|| fails(sleep), || Ok(())),
            || race(sleep, || ()),
            || _ = join!(sleep, || ()),
            || race!(sleep, || ()),
        ];
        let runtime = Builder::new().workers(1).stack_size(1 << 30).build().unwrap();
        runtime.run(move || {
            // Threads that begin meanwhile need some of it.
            limit_address_space(Some(512 << 20));
            for way in ways {
                let payload = catch_unwind(way).unwrap_err();
                assert!(payload.is::<StackError>(), "{payload:?}");
            }
            // Who does not wait for anything has won.
            assert_eq!((race(|| 1, || 2), race!(|| 1, || 2)), (1, 1));
            limit_address_space(None);
        });
    });
    assert!(left.status.success(), "{left:?}");
}

#[test]
fn a_dropped_set_cancels() {
    everywhere(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::new();
        let theirs = Arc::clone(&ended);
        set.go(move || waits(&theirs));
        drop(set);
        while ended.load(Ordering::SeqCst) == 0 {
            volt::yield_now();
        }
    });
}

/// Runs without a wait until the other side has ended, as code that computes does.
fn computes_until_cut_off() {
    while !volt::cancelled() {
        std::thread::yield_now();
    }
}

/// Two that compute side by side.
fn side_by_side(body: impl FnOnce() + Send + 'static) {
    within(LONG, || Builder::new().workers(2).build().unwrap().run(body));
}

#[test]
fn who_does_not_wait_loses_a_race_all_the_same() {
    side_by_side(|| {
        let slow = || {
            computes_until_cut_off();
            "slow"
        };
        assert_eq!(race(slow, || "fast"), "fast");
        let late_panic = || -> &str {
            computes_until_cut_off();
            resume_unwind(Box::new("late"))
        };
        assert_eq!(race(late_panic, || "fast"), "fast");
        let first = || resume_unwind(Box::new("first"));
        let payload = catch_unwind(AssertUnwindSafe(|| race(slow, first))).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"first"));
    });
}

/// As one worker has it, where nobody waits.
#[test]
fn who_has_not_begun_when_it_is_decided_never_does() {
    within(LONG, || {
        Builder::new().workers(1).stall_period(None).build().unwrap().run(|| {
            let (begun, held) = (AtomicUsize::new(0), Arc::new(()));
            let never = || {
                let held = Arc::clone(&held);
                let begun = &begun;
                move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    Arc::strong_count(&held)
                }
            };
            assert_eq!(race(|| 1, never()), 1);
            assert_eq!(race!(|| 2, never(), never()), 2);
            let beside = never();
            assert_eq!(try_join(|| Err::<(), _>(3), move || Ok(beside())), Err(3));
            panics(4, || join(|| resume_unwind(Box::new(4)), never()));
            panics(5, || join!(|| resume_unwind(Box::new(5)), never()));
            assert_eq!(begun.load(Ordering::SeqCst), 0);
            assert_eq!(Arc::strong_count(&held), 1, "what they held is dropped");
        });
    });
}

/// What a closure that never begins holds is dropped, and a panic of that is one of the closure: it is late.
#[test]
fn a_late_panic_of_who_never_began_is_not_heard() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            resume_unwind(Box::new("late"));
        }
    }
    within(LONG, || {
        Builder::new().workers(1).stall_period(None).build().unwrap().run(|| {
            let never = |panics: Panics| move || std::mem::size_of_val(&panics);
            assert_eq!(race(|| 1, never(Panics)), 1);
            assert_eq!(race!(|| 2, never(Panics)), 2);
        });
    });
}

#[test]
fn the_first_failure_of_two_counts() {
    side_by_side(|| {
        let second = || {
            computes_until_cut_off();
            Err::<(), _>("second")
        };
        assert_eq!(try_join(second, || Err::<(), _>("first")), Err("first"));
        let late_panic = || {
            computes_until_cut_off();
            resume_unwind(Box::new("second"))
        };
        let first = || resume_unwind(Box::new("first"));
        let both = || join::<(), ()>(late_panic, first);
        let payload = catch_unwind(AssertUnwindSafe(both)).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"first"));
    });
}

/// Is cut off before it gives `n`.
fn waits_for<E>(n: u8) -> impl FnOnce() -> Result<u8, E> {
    move || {
        park();
        Ok(n)
    }
}

#[test]
fn a_set_of_fallible_fibers_gives_the_error_that_ended_it() {
    everywhere(|| {
        let mut set = JoinSet::<Result<u8, &str>>::new();
        set.try_go(waits_for(1));
        set.try_go(|| Err("no"));
        set.try_go(waits_for(2));
        assert_eq!(set.try_join_all().unwrap(), Err("no"));
        let mut set = JoinSet::<Result<u8, ()>>::new();
        (0..5).for_each(|n| set.try_go(move || Ok(n)));
        assert_eq!(set.try_join_all().unwrap(), Ok(vec![0, 1, 2, 3, 4]));
        let mut set = JoinSet::<Result<u8, &str>>::independent();
        set.try_go(|| resume_unwind(Box::new("panic")));
        set.try_go(|| Err("no"));
        let payload = set.try_join_all().unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"panic"));
        let mut set = JoinSet::<Result<u8, ()>>::new();
        set.try_go(waits_for(1));
        set.cancel();
        assert!(set.try_join_all().unwrap_err().is::<Cancelled>());
    });
}

/// Its destructor waits for the event; it counts when it begins and when it ends.
struct Lingers(Arc<Event>, Arc<AtomicUsize>);

impl Drop for Lingers {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.wait();
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

/// `f` drops what it is given: the destructor runs to its end, though a cancel of the caller comes meanwhile.
fn drops_whole(f: impl FnOnce(Lingers) + Send + 'static) {
    let (event, steps) = (Arc::new(Event::new()), Arc::new(AtomicUsize::new(0)));
    let lingers = Lingers(Arc::clone(&event), Arc::clone(&steps));
    let fiber = volt::go(move || f(lingers));
    until_true("the destructor begins", || steps.load(Ordering::SeqCst) == 1);
    fiber.cancel();
    event.set();
    drop(fiber.join());
    until_true("the destructor ends", || steps.load(Ordering::SeqCst) == 2);
}

/// Two sides of which one ends at once, when the other has begun, and that one when it is cut off.
fn sides<T: Send>(late: T, early: T) -> (impl FnOnce() -> T + Send, impl FnOnce() -> T + Send) {
    let begun = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&begun);
    let late = move || {
        begun.store(true, Ordering::SeqCst);
        while !volt::cancelled() {
            volt::yield_now();
        }
        late
    };
    let early = move || {
        while !theirs.load(Ordering::SeqCst) {
            volt::yield_now();
        }
        early
    };
    (late, early)
}

#[test]
fn a_cancel_does_not_cut_off_the_destructor_of_what_nobody_takes() {
    everywhere(|| {
        drops_whole(|lingers| {
            let mut set = JoinSet::new();
            set.go(move || lingers);
            volt::channel::select! { wait(set) -> () => () }
        });
        drops_whole(|lingers| {
            let mut set = JoinSet::independent();
            set.go(move || lingers);
            set.go(|| resume_unwind(Box::new(7)));
            assert!(set.join_all().is_err());
        });
        drops_whole(|lingers| {
            let mut set = JoinSet::independent();
            set.try_go(move || Ok(lingers));
            set.try_go(|| Err(7));
            assert!(set.try_join_all().unwrap().is_err());
        });
        drops_whole(|lingers| {
            let (late, early) = sides(Some(lingers), None);
            assert!(race(late, early).is_none());
        });
        drops_whole(|lingers| {
            let (late, early) = sides(Some(lingers), None);
            assert!(race(early, late).is_none());
        });
        drops_whole(|lingers| {
            let (late, early) = sides(Some(lingers), None);
            volt::race!(early, late);
        });
        drops_whole(|lingers| {
            let (late, early) = sides(Ok(lingers), Err(7));
            assert!(try_join(late, early).is_err());
        });
        drops_whole(|lingers| {
            let (late, early) = sides(Ok(lingers), Err(7));
            assert!(try_join(early, late).is_err());
        });
    });
}

#[test]
fn a_set_drops_its_results_whatever_their_destructors_do() {
    /// Counts once as it is dropped, and once as what it panics with is.
    struct Panics(Arc<AtomicUsize>);
    struct Payload(Arc<AtomicUsize>);
    impl Drop for Panics {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            resume_unwind(Box::new(Payload(Arc::clone(&self.0))));
        }
    }
    impl Drop for Payload {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    everywhere(|| {
        let (returned, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut set = JoinSet::new();
        for _ in 0..3 {
            let (returned, dropped) = (Arc::clone(&returned), Arc::clone(&dropped));
            set.go(move || {
                returned.fetch_add(1, Ordering::SeqCst);
                Panics(dropped)
            });
        }
        until_true("all return", || returned.load(Ordering::SeqCst) == 3);
        drop(set);
        until_true("all are dropped", || dropped.load(Ordering::SeqCst) == 6);
    });
}
