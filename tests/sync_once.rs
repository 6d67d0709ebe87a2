//! `Once`, `OnceLock`, `LazyLock`: what the standard library's do, on fibers, threads, and both.

mod sync_support;

use std::sync::atomic::{AtomicUsize, Ordering};
use sync_support::{World, fail, until_waiting};
use volt::sync::{Arc, LazyLock, Once, OnceLock};

scenarios! {
    once_smoke
    stampede
    a_panic_poisons
    force_heals
    others_wait_for_one
    a_failing_one_with_a_waiter
    wait_for_call
    wait_for_a_panic
    wait_force_outlasts_a_panic
    place_smoke
    place_is_written_once
    place_survives_a_panic
    place_values
    place_drops
    place_wait
    lazy_smoke
    lazy_is_computed_once
    lazy_after_a_panic
    lazy_exclusive
    lazy_drops
    an_initialiser_may_wait
}

fn once_smoke(_: &World) {
    let once = Once::new();
    let mut times = 0;
    assert!(!once.is_completed());
    once.call_once(|| times += 1);
    once.call_once(|| times += 1);
    once.call_once_force(|_| times += 1);
    assert!(once.is_completed());
    once.wait();
    assert_eq!(times, 1);
    assert_eq!(format!("{once:?}"), "Once { .. }");
}

fn stampede(world: &World) {
    for _ in 0..100 {
        let (once, times) = (Arc::new(Once::new()), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let (once, times) = (Arc::clone(&once), Arc::clone(&times));
                world.go(move || {
                    once.call_once(|| {
                        volt::yield_now();
                        times.fetch_add(1, Ordering::Relaxed);
                    });
                    assert_eq!(times.load(Ordering::Relaxed), 1);
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join());
    }
}

fn poisoned(world: &World) -> Arc<Once> {
    let once = Arc::new(Once::new());
    let theirs = Arc::clone(&once);
    assert!(world.go(move || theirs.call_once(|| fail())).result().is_err());
    once
}

/// The message of the panic that `f` makes, without a word on stderr.
fn message(f: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(f).unwrap_err();
    payload.downcast_ref::<&str>().map_or_else(String::new, |text| (*text).to_owned())
}

fn a_panic_poisons(world: &World) {
    let once = poisoned(world);
    assert!(!once.is_completed());
    let text = message(|| once.call_once(|| unreachable!()));
    assert!(text.starts_with("Once instance has previously been poisoned"), "{text}");
    assert!(message(|| once.wait()).starts_with("Once instance"));
}

fn force_heals(world: &World) {
    let once = poisoned(world);
    let theirs = Arc::clone(&once);
    assert!(world.go(move || theirs.call_once_force(|_| fail())).result().is_err());
    let mut called = false;
    once.call_once_force(|state| {
        assert!(state.is_poisoned());
        called = true;
    });
    assert!(called);
    once.call_once(|| unreachable!());
}

fn others_wait_for_one(world: &World) {
    let (once, go) = (Arc::new(Once::new()), Arc::new(volt::sync::Event::new()));
    let (theirs, their_go) = (Arc::clone(&once), Arc::clone(&go));
    let (began, begins) = volt::sync::oneshot::channel();
    let first = world.go(move || {
        theirs.call_once(|| {
            began.send(()).unwrap();
            their_go.wait();
        });
    });
    begins.recv().unwrap();
    let others: Vec<_> = (0..4)
        .map(|_| {
            let once = Arc::clone(&once);
            world.go(move || once.call_once(|| unreachable!()))
        })
        .collect();
    until_waiting("once", &others);
    assert!(others.iter().all(|task| !task.is_finished()));
    go.set();
    first.join();
    others.into_iter().for_each(|task| task.join());
}

fn a_failing_one_with_a_waiter(world: &World) {
    let (once, go) = (Arc::new(Once::new()), Arc::new(volt::sync::Event::new()));
    let (theirs, their_go) = (Arc::clone(&once), Arc::clone(&go));
    let (began, begins) = volt::sync::oneshot::channel();
    let first = world.go(move || {
        theirs.call_once_force(|state| {
            assert!(!state.is_poisoned());
            began.send(()).unwrap();
            their_go.wait();
            fail();
        });
    });
    begins.recv().unwrap();
    let theirs = Arc::clone(&once);
    let second = world.go(move || {
        let mut seen = None;
        theirs.call_once_force(|state| seen = Some(state.is_poisoned()));
        seen
    });
    until_waiting("once", [&second]);
    go.set();
    assert!(first.result().is_err());
    assert_eq!(second.join(), Some(true));
}

fn wait_for_call(world: &World) {
    let once = Arc::new(Once::new());
    let value = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (once, value) = (Arc::clone(&once), Arc::clone(&value));
            world.go(move || {
                once.wait();
                assert!(once.is_completed());
                assert_eq!(value.load(Ordering::Relaxed), 1);
            })
        })
        .collect();
    until_waiting("once", &tasks);
    assert!(tasks.iter().all(|task| !task.is_finished()));
    once.call_once(|| value.store(1, Ordering::Relaxed));
    tasks.into_iter().for_each(|task| task.join());
}

fn wait_for_a_panic(world: &World) {
    let once = Arc::new(Once::new());
    let theirs = Arc::clone(&once);
    let waiter = world.go(move || message(|| theirs.wait()));
    let theirs = Arc::clone(&once);
    assert!(world.go(move || theirs.call_once(|| fail())).result().is_err());
    assert!(waiter.join().starts_with("Once instance"));
}

fn wait_force_outlasts_a_panic(world: &World) {
    let once = Arc::new(Once::new());
    let theirs = Arc::clone(&once);
    let waiter = world.go(move || theirs.wait_force());
    let theirs = Arc::clone(&once);
    assert!(world.go(move || theirs.call_once(|| fail())).result().is_err());
    until_waiting("once", [&waiter]);
    assert!(!waiter.is_finished());
    once.call_once_force(|_| ());
    waiter.join();
}

fn place_smoke(_: &World) {
    let place = OnceLock::new();
    assert_eq!(place.get(), None);
    assert_eq!(place.get_or_init(|| 1), &1);
    assert_eq!(place.set(2), Err(2));
    assert_eq!(place.get(), Some(&1));
}

fn place_is_written_once(world: &World) {
    for _ in 0..100 {
        let place = Arc::new(OnceLock::new());
        let tasks: Vec<_> = (0..6)
            .map(|n| {
                let place = Arc::clone(&place);
                world.go(move || {
                    if n % 2 == 0 {
                        (place.set(n).is_ok(), *place.get().unwrap())
                    } else {
                        let mut mine = false;
                        let value = *place.get_or_init(|| {
                            mine = true;
                            n
                        });
                        (mine, value)
                    }
                })
            })
            .collect();
        let results: Vec<_> = tasks.into_iter().map(|task| task.join()).collect();
        assert_eq!(results.iter().filter(|(mine, _)| *mine).count(), 1);
        let value = *place.get().unwrap();
        assert!(results.iter().all(|(_, seen)| *seen == value));
    }
}

fn place_survives_a_panic(world: &World) {
    let place: Arc<OnceLock<String>> = Arc::new(OnceLock::new());
    let theirs = Arc::clone(&place);
    assert!(world.go(move || theirs.get_or_init(|| fail()).len()).result().is_err());
    assert_eq!(place.get(), None);
    assert_eq!(place.get_or_init(|| "second".into()), "second");
}

fn place_values(_: &World) {
    let mut place = OnceLock::from(String::from("a"));
    assert_eq!(format!("{place:?}"), "OnceLock(\"a\")");
    place.get_mut().unwrap().push('b');
    let copy = place.clone();
    assert_eq!(copy, place);
    assert_eq!(place.take().as_deref(), Some("ab"));
    assert_eq!(format!("{place:?}"), "OnceLock(<uninit>)");
    assert_ne!(copy, place);
    place.set("again".into()).unwrap();
    assert_eq!(place.into_inner().as_deref(), Some("again"));
    assert_eq!(OnceLock::<u8>::default().into_inner(), None);
}

struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn place_drops(_: &World) {
    let drops = Arc::new(AtomicUsize::new(0));
    drop(OnceLock::<CountsDrops>::new());
    // What a value borrows may go before its place does: the place has no destructor of its own.
    let borrows = OnceLock::new();
    {
        let text = String::from("gone before the place");
        borrows.set(&text).unwrap();
    }
    let place = OnceLock::from(CountsDrops(Arc::clone(&drops)));
    assert!(place.set(CountsDrops(Arc::clone(&drops))).is_err());
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    drop(place);
    assert_eq!(drops.load(Ordering::SeqCst), 2);
}

fn place_wait(world: &World) {
    let place = Arc::new(OnceLock::new());
    let theirs = Arc::clone(&place);
    let waiter = world.go(move || *theirs.wait());
    until_waiting("once", [&waiter]);
    assert!(!waiter.is_finished());
    place.set(3).unwrap();
    assert_eq!(waiter.join(), 3);
}

fn lazy_smoke(_: &World) {
    static LAZY: LazyLock<Vec<u8>> = LazyLock::new(|| vec![1, 2]);
    assert_eq!(*LAZY, [1, 2]);
    let lazy = LazyLock::new(|| 1);
    assert_eq!(format!("{lazy:?}"), "LazyLock(<uninit>)");
    assert_eq!(*lazy, 1);
    assert_eq!(format!("{lazy:?}"), "LazyLock(1)");
    assert_eq!(*LazyLock::<u8>::default(), 0);
}

fn lazy_is_computed_once(world: &World) {
    let times = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&times);
    let lazy = Arc::new(LazyLock::new(move || {
        volt::yield_now();
        counts.fetch_add(1, Ordering::Relaxed) + 1
    }));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let lazy = Arc::clone(&lazy);
            world.go(move || **lazy)
        })
        .collect();
    assert!(tasks.into_iter().all(|task| task.join() == 1));
    assert_eq!(times.load(Ordering::Relaxed), 1);
}

fn lazy_after_a_panic(world: &World) {
    let lazy: Arc<LazyLock<u8>> = Arc::new(LazyLock::new(|| fail()));
    let theirs = Arc::clone(&lazy);
    assert!(world.go(move || **theirs).result().is_err());
    let text = message(|| assert_eq!(**lazy, 0));
    assert!(text.starts_with("LazyLock instance has previously been poisoned"), "{text}");
    assert_eq!(LazyLock::get(&lazy), None);
    let mut lazy = Arc::into_inner(lazy).unwrap();
    let text = message(std::panic::AssertUnwindSafe(|| *LazyLock::force_mut(&mut lazy) = 1));
    assert!(text.starts_with("LazyLock instance"), "{text}");
}

fn lazy_exclusive(_: &World) {
    let mut lazy = LazyLock::new(|| 1);
    assert_eq!(LazyLock::get_mut(&mut lazy), None);
    *lazy += 1;
    assert_eq!(LazyLock::get_mut(&mut lazy), Some(&mut 2));
    assert_eq!(LazyLock::force(&lazy), &2);
}

fn lazy_drops(_: &World) {
    let drops = Arc::new(AtomicUsize::new(0));
    let (in_function, in_value) =
        (CountsDrops(Arc::clone(&drops)), CountsDrops(Arc::clone(&drops)));
    drop(LazyLock::new(move || drop(in_function)));
    assert_eq!(drops.load(Ordering::SeqCst), 1, "the function, unused");
    let lazy = LazyLock::new(move || in_value);
    LazyLock::force(&lazy);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    drop(lazy);
    assert_eq!(drops.load(Ordering::SeqCst), 2, "the value");
}

fn an_initialiser_may_wait(world: &World) {
    let place = Arc::new(OnceLock::new());
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let place = Arc::clone(&place);
            world.go(move || {
                *place.get_or_init(|| {
                    volt::sleep(std::time::Duration::from_millis(1));
                    5
                })
            })
        })
        .collect();
    assert!(tasks.into_iter().all(|task| task.join() == 5));
}
