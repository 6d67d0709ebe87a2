//! Fibers that wait for a lock, a channel or an initialiser which they keep from themselves.

use super::{Case, Expected, LONG, expecting, named};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use volt::runtime::{Builder, Deadlock, FiberReport};
use volt::sync::{
    Barrier, Condvar, Event, LazyLock, Mutex, Notify, Once, RwLock, Semaphore, WaitGroup,
    broadcast, mpsc, oneshot, watch,
};

/// A runtime with a supervisor looks when it has been quiet for longer than this.
const LOOKS_AFTER: Duration = Duration::from_millis(100);

pub(crate) const CASES: &[Case] = &[
    ("a_mutex_locked_twice", Expected::Ends, || {
        stuck_in("mutex", Mutex::new(()), |lock| {
            let _once = lock.lock().unwrap();
            let _twice = lock.lock().unwrap();
        });
    }),
    ("a_mutex_locked_twice_after_a_rest_of_150_ms", Expected::Ends, || stuck_after_a_rest(150)),
    ("a_mutex_locked_twice_after_a_rest_of_165_ms", Expected::Ends, || stuck_after_a_rest(165)),
    ("a_mutex_locked_twice_after_a_rest_of_180_ms", Expected::Ends, || stuck_after_a_rest(180)),
    ("a_rwlock_written_twice", Expected::Ends, || {
        stuck_in("rwlock", RwLock::new(()), |lock| {
            let _once = lock.write().unwrap();
            let _twice = lock.write().unwrap();
        });
    }),
    ("a_rwlock_written_while_read", Expected::Ends, || {
        stuck_in("rwlock", RwLock::new(()), |lock| {
            let _once = lock.read().unwrap();
            let _twice = lock.write().unwrap();
        });
    }),
    ("a_rwlock_read_while_written", Expected::Ends, || {
        stuck_in("rwlock", RwLock::new(()), |lock| {
            let _once = lock.write().unwrap();
            let _twice = lock.read().unwrap();
        });
    }),
    ("a_once_inside_itself", Expected::Ends, || {
        stuck_in("once", Once::new(), |once| once.call_once(|| once.call_once(|| ())));
    }),
    ("a_lazy_lock_inside_itself", Expected::Ends, || {
        static LAZY: LazyLock<u8> = LazyLock::new(|| *LAZY + 1);
        stuck_in("once", (), |()| {
            let _ = *LAZY;
        });
    }),
    ("a_channel_of_ones_own", Expected::Ends, || {
        stuck_in("receive from a channel", (), |()| {
            let (_sender, receiver) = volt::channel::unbounded::<u8>();
            let _ = receiver.recv();
        });
    }),
    ("a_full_channel_of_ones_own", Expected::Ends, || {
        stuck_in("send to a channel", (), |()| {
            let (sender, _receiver) = volt::channel::bounded(1);
            (0..2).for_each(|n| sender.send(n).unwrap());
        });
    }),
    ("a_channel_after_std_of_ones_own", Expected::Ends, || {
        stuck_in("channel", (), |()| {
            let (_sender, receiver) = mpsc::channel::<u8>();
            let _ = receiver.recv();
        });
    }),
    ("a_condvar_that_nobody_notifies", Expected::Ends, || {
        stuck_in("condvar", (Mutex::new(()), Condvar::new()), |(lock, condvar)| {
            let _guard = condvar.wait(lock.lock().unwrap()).unwrap();
        });
    }),
    ("a_barrier_for_two", Expected::Ends, || {
        stuck_in("barrier", Barrier::new(2), |barrier| _ = barrier.wait());
    }),
    ("a_semaphore_without_permits", Expected::Ends, || {
        stuck_in("semaphore", Semaphore::new(0), |permits| drop(permits.acquire()));
    }),
    ("a_wait_group_of_ones_own", Expected::Ends, || {
        stuck_in("wait group", (), |()| {
            let group = WaitGroup::new();
            let _member = group.clone();
            group.wait();
        });
    }),
    ("a_notify_that_nobody_calls", Expected::Ends, || {
        stuck_in("notify", Notify::new(), Notify::notified);
    }),
    ("an_event_that_nobody_sets", Expected::Ends, || {
        stuck_in("event", Event::new(), Event::wait);
    }),
    ("a_oneshot_of_ones_own", Expected::Ends, || {
        stuck_in("oneshot", (), |()| {
            let (_sender, receiver) = oneshot::channel::<u8>();
            let _ = receiver.recv();
        });
    }),
    ("a_watch_of_ones_own", Expected::Ends, || {
        stuck_in("watch", (), |()| {
            let (_sender, mut receiver) = watch::channel(0);
            let _ = receiver.changed();
        });
    }),
    ("a_watch_whose_receiver_stays", Expected::Ends, || {
        stuck_in("watch receivers", (), |()| {
            let (sender, _receiver) = watch::channel(0);
            sender.closed();
        });
    }),
    ("a_broadcast_of_ones_own", Expected::Ends, || {
        stuck_in("broadcast", (), |()| {
            let (_sender, mut receiver) = broadcast::channel::<u8>(1);
            let _ = receiver.recv();
        });
    }),
    ("two_locks_crosswise", Expected::Ends, || {
        let locks = [(); 2].map(|()| Arc::new(Mutex::new(())));
        let here = locks.clone();
        expecting(Builder::new().workers(2), 3, move |deadlock| {
            // Each waits for what the other has.
            for (name, wanted) in [("left", &locks[1]), ("right", &locks[0])] {
                let fiber = called(deadlock, name);
                assert_eq!(fiber.waits_for, Some("mutex"));
                assert!(is_of(wanted, fiber.object), "{fiber}");
            }
        })
        .run(move || crosswise(here));
    }),
    // The default is silent in builds without debug assertions.
    #[cfg(debug_assertions)]
    (
        "two_locks_crosswise_by_default",
        Expected::SaysOnce(&[
            "volt: possible deadlock: all 3 fibers wait for each other\n",
            "fiber 'left' spawned at tests/deadlock/locks.rs:",
            "fiber 'right' spawned at tests/deadlock/locks.rs:",
            " waits for mutex (0x",
            " waits for join (0x",
            "ms\n",
        ]),
        || {
            let runtime = Builder::new().workers(2).build().unwrap();
            runtime.run(|| crosswise([(); 2].map(|()| Arc::new(Mutex::new(())))));
        },
    ),
];

/// A fiber that waits in `body` for ever: the report says for what, for how long, who it is and
/// where it was spawned.
fn stuck_in<T: Send + Sync + 'static>(reason: &'static str, object: T, body: fn(&T)) {
    let object = Arc::new(object);
    let theirs = Arc::clone(&object);
    let check = move |deadlock: &Deadlock| {
        let fiber = called(deadlock, "stuck");
        assert_eq!(fiber.waits_for, Some(reason));
        assert!(fiber.waiting >= LOOKS_AFTER && fiber.waiting < LONG, "{fiber}");
        // In the line below that of the one that joins it.
        let joiner =
            deadlock.fibers.iter().find(|fiber| fiber.name.as_deref() != Some("stuck")).unwrap();
        assert_eq!((joiner.waits_for, joiner.object != 0), (Some("join"), true));
        let site = (joiner.site.file(), joiner.site.line() + 1);
        assert_eq!((fiber.site.file(), fiber.site.line()), site);
        // What stands in the fiber's own frame is somewhere.
        let known = size_of::<T>() != 0;
        assert!(if known { is_of(&object, fiber.object) } else { fiber.object != 0 }, "{fiber}");
        assert!(deadlock.to_string().contains("all 2 fibers wait for each other"), "{deadlock}");
    };
    let runtime = expecting(Builder::new().workers(2), 2, check);
    // The supervisor, which has begun already, is about to go to sleep.
    std::thread::sleep(Duration::from_millis(AWAKE.swap(0, Ordering::Relaxed)));
    runtime.run(move || {
        named("stuck", move || body(&theirs)).join().unwrap();
    });
}

/// So many milliseconds after the runtime was built its first fiber begins.
static AWAKE: AtomicU64 = AtomicU64::new(0);

fn stuck_after_a_rest(millis: u64) {
    AWAKE.store(millis, Ordering::Relaxed);
    stuck_in("mutex", Mutex::new(()), |lock| {
        let _once = lock.lock().unwrap();
        let _twice = lock.lock().unwrap();
    });
}

/// Two fibers, each of which has a lock that the other wants.
fn crosswise([left, right]: [Arc<Mutex<()>>; 2]) {
    let both = Arc::new(Barrier::new(2));
    let fiber = |name, first: &Arc<Mutex<()>>, second: &Arc<Mutex<()>>| {
        let (first, second, both) = (Arc::clone(first), Arc::clone(second), Arc::clone(&both));
        named(name, move || {
            let _first = first.lock().unwrap();
            both.wait();
            let _second = second.lock().unwrap();
        })
    };
    let fibers = [fiber("left", &left, &right), fiber("right", &right, &left)];
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

fn called<'a>(deadlock: &'a Deadlock, name: &str) -> &'a FiberReport {
    let mut fibers = deadlock.fibers.iter();
    fibers.find(|fiber| fiber.name.as_deref() == Some(name)).unwrap()
}

/// Is `address` within `value`?
fn is_of<T>(value: &Arc<T>, address: usize) -> bool {
    let start = Arc::as_ptr(value) as usize;
    (start..start + size_of::<T>()).contains(&address)
}
