//! What a cancel does to each wait of `volt::sync`, one by one and in storms.

mod sync_support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use sync_support::{LONG, Rng, Seed, until, within};
use volt::JoinHandle;
use volt::cancel::{Cancelled, Token};
use volt::runtime::{Builder, Handle, Runtime};
use volt::scope::JoinSet;
use volt::sync::{
    Arc, Barrier, Condvar, Event, LazyLock, Mutex, Notify, Once, RwLock, Semaphore, WaitGroup,
    broadcast, mpsc, oneshot, watch,
};

/// Was this the end of a fiber that unwound because it was cancelled?
fn was_cancelled<T>(fiber: JoinHandle<T>) -> bool {
    fiber.join().is_err_and(|payload| payload.is::<volt::cancel::Cancelled>())
}

/// One worker, which runs in its order what comes from outside, until that waits.
static WORKER: std::sync::LazyLock<Runtime> = std::sync::LazyLock::new(|| {
    Builder::new().workers(1).stall_period(None).force_migrate(false).build().unwrap()
});

/// When this returns, what was started or woken before on the one worker waits, or has ended.
fn all_wait() {
    WORKER.run(|| ());
}

/// Starts a fiber that waits in `f`; it does so by now.
#[track_caller]
fn waits<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let fiber = WORKER.go(f);
    all_wait();
    assert!(!fiber.is_finished(), "it does not wait");
    fiber
}

/// Starts a fiber that waits in `f`, cancels it there, and checks that it unwinds.
#[track_caller]
fn unwinds<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) {
    let fiber = waits(f);
    fiber.cancel();
    assert!(was_cancelled(fiber));
}

#[test]
fn locks_unwind_and_are_not_poisoned() {
    within(LONG, || {
        let (mutex, rwlock) = (Arc::new(Mutex::new(0)), Arc::new(RwLock::new(0)));
        let held = (mutex.lock().unwrap(), rwlock.write().unwrap());
        let theirs = Arc::clone(&mutex);
        unwinds(move || *theirs.lock().unwrap());
        let theirs = Arc::clone(&rwlock);
        unwinds(move || *theirs.read().unwrap());
        let theirs = Arc::clone(&rwlock);
        unwinds(move || *theirs.write().unwrap());
        drop(held);
        assert!(!mutex.is_poisoned() && !rwlock.is_poisoned());
        assert!(mutex.try_lock().is_ok() && rwlock.try_write().is_ok());
    });
}

#[test]
fn guards_that_a_cancel_drops_do_not_poison_but_a_panic_does() {
    within(LONG, || {
        let (mutex, rwlock) = (Arc::new(Mutex::new(0)), Arc::new(RwLock::new(0)));
        let theirs = (Arc::clone(&mutex), Arc::clone(&rwlock));
        unwinds(move || {
            let _held = (theirs.0.lock().unwrap(), theirs.1.write().unwrap());
            Event::new().wait();
        });
        assert!(!mutex.is_poisoned() && !rwlock.is_poisoned());
        let theirs = Arc::clone(&mutex);
        let fiber = volt::go(move || {
            let _held = theirs.lock().unwrap();
            sync_support::fail();
        });
        assert!(fiber.join().is_err());
        assert!(mutex.is_poisoned());
    });
}

#[test]
fn a_panic_after_a_caught_cancel_poisons() {
    within(LONG, || {
        let mutex = Arc::new(Mutex::new(0));
        let theirs = Arc::clone(&mutex);
        let fiber = waits(move || {
            let wait = || Event::new().wait();
            assert!(catch_unwind(wait).is_err());
            let _held = theirs.lock().unwrap();
            panic!("a panic of its own, printed");
        });
        fiber.cancel();
        assert!(!was_cancelled(fiber));
        assert!(mutex.is_poisoned());
    });
}

/// Whichever hook the program has: what a lock sees unwind began while it was held, and so after a cancel that
/// was caught before.
#[test]
fn a_payload_that_goes_on_after_a_caught_cancel_poisons() {
    within(LONG, || {
        let body = |mutex: &Mutex<i32>, wait: &dyn Fn()| {
            assert!(catch_unwind(AssertUnwindSafe(wait)).is_err());
            let _held = mutex.lock().unwrap();
            // As a panic whose hook is not volt's.
            std::panic::resume_unwind(Box::new("of its own"));
        };
        let mutex = Arc::new(Mutex::new(0));
        let theirs = Arc::clone(&mutex);
        let fiber = waits(move || body(&theirs, &|| Event::new().wait()));
        fiber.cancel();
        assert!(!was_cancelled(fiber));
        assert!(mutex.is_poisoned());
        // On a plain thread, under a token.
        let (mutex, token) = (Mutex::new(0), Token::new());
        token.cancel();
        let ended =
            catch_unwind(AssertUnwindSafe(|| token.run(|| body(&mutex, &|| volt::thread::park()))));
        assert!(ended.is_err_and(|payload| payload.is::<&str>()));
        assert!(mutex.is_poisoned());
    });
}

/// What a join hands out is a panic, though a cancel was caught under the same lock before.
#[test]
fn a_panic_of_another_that_goes_on_after_a_caught_cancel_poisons() {
    fn fails() {
        std::panic::resume_unwind(Box::new(7))
    }
    let from_a_join = || volt::go(fails).join();
    let from_a_scope = || volt::scope(|scope| scope.spawn(fails).join());
    let from_a_set = || {
        let mut set = JoinSet::<()>::new();
        set.go(fails);
        set.join_next().unwrap()
    };
    let ways: [fn() -> std::thread::Result<()>; 3] = [from_a_join, from_a_scope, from_a_set];
    within(LONG, move || {
        for (number, way) in ways.into_iter().enumerate() {
            let mutex = Mutex::new(0);
            let ended = catch_unwind(AssertUnwindSafe(|| {
                let _held = mutex.lock().unwrap();
                let beside = || std::panic::resume_unwind(Box::new(Cancelled));
                assert!(catch_unwind(|| volt::race(volt::thread::park, beside)).is_err());
                way().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
            }));
            assert!(ended.is_err_and(|payload| payload.is::<i32>()));
            assert!(mutex.is_poisoned(), "way {number}");
        }
    });
}

/// It was caught for some cleaning up, with locks of its own, and goes on.
#[test]
fn a_cancel_that_goes_on_after_it_was_caught_does_not_poison() {
    within(LONG, || {
        let locks = Arc::new((Mutex::new(0), Mutex::new(0)));
        let theirs = Arc::clone(&locks);
        let fiber = waits(move || {
            let _held = theirs.0.lock().unwrap();
            let ended = catch_unwind(|| Event::new().wait());
            *theirs.1.lock().unwrap() += 1;
            std::panic::resume_unwind(ended.unwrap_err());
        });
        fiber.cancel();
        assert!(was_cancelled(fiber));
        assert!(!locks.0.is_poisoned() && !locks.1.is_poisoned());
    });
}

/// A panic of what a plain thread runs is the thread's own, though it has caught a cancel before.
#[test]
fn a_panic_that_a_run_passes_on_poisons() {
    within(LONG, || {
        let (mutex, token) = (Mutex::new(0), Token::new());
        token.cancel();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            token.run(|| {
                let _held = mutex.lock().unwrap();
                assert!(catch_unwind(volt::thread::park).is_err());
                volt::cancel::shield(|| WORKER.run(|| std::panic::resume_unwind(Box::new(7))))
            })
        }));
        assert!(ended.is_err_and(|payload| payload.is::<i32>()));
        assert!(mutex.is_poisoned());
    });
}

/// Ends without a wait, when all fibers beside the caller have ended by a cancel.
fn compute() {
    while !volt::cancelled() || Handle::current().fibers(usize::MAX).len() > 1 {
        volt::yield_now();
    }
}

fn succeed(f: fn()) -> Result<(), ()> {
    f();
    Ok(())
}

/// Of a fiber beside it, by whom the caller learns of the cancel that it has not met itself.
#[test]
fn a_cancel_that_comes_from_beside_does_not_poison() {
    let ways: [fn(); 4] = [
        || _ = volt::join(compute, volt::thread::park),
        || _ = volt::scope::try_join(|| succeed(compute), || succeed(volt::thread::park)),
        || volt::race(compute, volt::thread::park),
        || _ = volt::join!(compute, volt::thread::park),
    ];
    within(LONG, move || {
        for (number, way) in ways.into_iter().enumerate() {
            let runtime = Builder::new().workers(2).build().unwrap();
            let mutex = Arc::new(Mutex::new(0));
            let theirs = Arc::clone(&mutex);
            let fiber = runtime.go(move || {
                let _held = theirs.lock().unwrap();
                way();
            });
            until("the wait beside it", || {
                let fibers = runtime.handle().fibers(usize::MAX);
                fibers.iter().any(|fiber| fiber.waits_for == Some("park"))
            });
            runtime.shutdown_now(LONG).unwrap();
            assert!(was_cancelled(fiber), "{number}");
            assert!(!mutex.is_poisoned(), "{number}");
        }
    });
}

#[test]
fn a_condvar_takes_the_lock_back_before_it_unwinds() {
    within(LONG, || {
        let pair = Arc::new((Mutex::new(0), Condvar::new()));
        let theirs = Arc::clone(&pair);
        let fiber = waits(move || {
            struct Looks<'a>(&'a Mutex<i32>);
            impl Drop for Looks<'_> {
                fn drop(&mut self) {
                    // The guard has been dropped by now, after it was taken back.
                    *self.0.lock().unwrap() += 1;
                }
            }
            let _looks = Looks(&theirs.0);
            let guard = theirs.0.lock().unwrap();
            let _guard = theirs.1.wait(guard);
        });
        let guard = pair.0.lock().unwrap();
        fiber.cancel();
        all_wait();
        assert!(!fiber.is_finished(), "it waits for the lock");
        drop(guard);
        assert!(was_cancelled(fiber));
        assert_eq!(*pair.0.lock().unwrap(), 1);
    });
}

#[test]
fn a_barrier_forgets_who_was_cancelled() {
    within(LONG, || {
        let barrier = Arc::new(Barrier::new(2));
        let theirs = Arc::clone(&barrier);
        unwinds(move || theirs.wait());
        let theirs = Arc::clone(&barrier);
        // The cancelled one does not count.
        let other = waits(move || theirs.wait().is_leader());
        assert_ne!(barrier.wait().is_leader(), other.join().unwrap());
    });
}

/// Of a wait that is cancelled just before the last one comes: it counts, so it goes on.
#[test]
fn who_has_arrived_at_a_barrier_goes_on() {
    within(LONG, || {
        // One worker: who was cancelled does not run before the last one has arrived.
        let runtime =
            volt::runtime::Builder::new().workers(1).force_migrate(false).build().unwrap();
        runtime.run(|| {
            let barrier = Arc::new(Barrier::new(2));
            let theirs = Arc::clone(&barrier);
            let other = volt::go(move || theirs.wait().is_leader());
            volt::yield_now();
            other.cancel();
            assert!(barrier.wait().is_leader());
            assert!(!other.join().expect("it has arrived"));
            let (theirs, token) = (Arc::clone(&barrier), Token::new());
            let inside = token.clone();
            let other = volt::go(move || inside.run(|| theirs.wait().is_leader()));
            volt::yield_now();
            token.cancel();
            assert!(barrier.wait().is_leader());
            assert_eq!(other.join().unwrap(), Ok(false), "the token has ended nothing");
        });
    });
}

#[test]
fn initialisers_are_shielded_and_those_who_wait_unwind() {
    within(LONG, || {
        let (once, go) = (Arc::new(Once::new()), Arc::new(Event::new()));
        let (theirs, their_go) = (Arc::clone(&once), Arc::clone(&go));
        let first = waits(move || {
            theirs.call_once(|| their_go.wait());
            "done"
        });
        let theirs = Arc::clone(&once);
        unwinds(move || theirs.call_once(|| unreachable!()));
        let theirs = Arc::clone(&once);
        unwinds(move || theirs.wait());
        first.cancel();
        all_wait();
        assert!(!first.is_finished(), "shielded");
        go.set();
        assert_eq!(first.join().unwrap(), "done");
        assert!(once.is_completed());

        static GO: Event = Event::new();
        static LAZY: LazyLock<u8> = LazyLock::new(|| {
            GO.wait();
            1
        });
        let first = waits(|| *LAZY);
        unwinds(|| *LAZY);
        first.cancel();
        all_wait();
        assert!(!first.is_finished(), "shielded");
        GO.set();
        assert_eq!(first.join().unwrap(), 1);
    });
}

#[test]
fn the_others_unwind() {
    within(LONG, || {
        unwinds(|| Semaphore::new(1).acquire_many(2).map(drop));
        unwinds(|| Notify::new().notified());
        unwinds(|| Event::new().wait());
        let group = WaitGroup::new();
        let theirs = group.clone();
        unwinds(move || theirs.wait());
        group.wait();
        let (_sender, receiver) = oneshot::channel::<u8>();
        unwinds(move || receiver.recv());
        let (_sender, mut receiver) = watch::channel(1);
        unwinds(move || receiver.changed());
        let (sender, _receiver) = watch::channel(1);
        unwinds(move || sender.closed());
        let (_sender, mut receiver) = broadcast::channel::<u8>(1);
        unwinds(move || receiver.recv());
        let (_sender, receiver) = mpsc::channel::<u8>();
        unwinds(move || receiver.recv());
        let (_sender, receiver) = mpsc::sync_channel::<u8>(0);
        unwinds(move || receiver.recv());
        let (sender, receiver) = mpsc::sync_channel(0);
        unwinds(move || sender.send(1));
        assert!(receiver.recv().is_err(), "what was not sent is not received");
    });
}

#[test]
fn shielded_waits_go_on() {
    within(LONG, || {
        let event = Arc::new(Event::new());
        let theirs = Arc::clone(&event);
        let fiber = waits(move || volt::cancel::shield(|| theirs.wait()));
        fiber.cancel();
        all_wait();
        assert!(!fiber.is_finished());
        event.set();
        fiber.join().unwrap();
    });
}

#[test]
fn a_notification_is_not_lost_with_the_cancelled() {
    within(LONG, || {
        for _ in 0..300 {
            let notify = Arc::new(Notify::new());
            let waiters = [(); 2].map(|()| {
                let notify = Arc::clone(&notify);
                volt::go(move || notify.notified())
            });
            let theirs = Arc::clone(&notify);
            let notifier = std::thread::spawn(move || theirs.notify_one());
            waiters[0].cancel();
            notifier.join().unwrap();
            let [first, second] = waiters;
            if was_cancelled(first) {
                second.join().unwrap();
            } else {
                notify.notify_one();
                second.join().unwrap();
            }
        }
    });
}

const FIBERS: usize = 24;

/// Runs `work` on many fibers until each has done its part or was cancelled, while others cancel them
/// at random; half of the workers are plain threads, which are not cancelled.
fn storm(seed: &Seed, work: impl Fn(&mut Rng) + Clone + Send + 'static) {
    let mut rng = seed.rng();
    let fibers: Vec<_> = (0..FIBERS)
        .map(|_| {
            let (work, mut rng) = (work.clone(), rng.fork());
            volt::go(move || (0..200).for_each(|_| work(&mut rng)))
        })
        .collect();
    let threads = [(); 2].map(|()| {
        let (work, mut rng) = (work.clone(), rng.fork());
        std::thread::spawn(move || (0..200).for_each(|_| work(&mut rng)))
    });
    for fiber in &fibers {
        if rng.below(2) == 0 {
            std::thread::sleep(Duration::from_micros(rng.below(500)));
            fiber.cancel();
        }
    }
    for fiber in fibers {
        if let Err(payload) = fiber.join() {
            assert!(payload.is::<volt::cancel::Cancelled>(), "{payload:?}");
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Counts who is inside, whatever way it leaves.
struct Inside<'a>(&'a AtomicUsize, usize);

impl<'a> Inside<'a> {
    fn enter(count: &'a AtomicUsize, share: usize, most: usize) -> Inside<'a> {
        assert!(count.fetch_add(share, Ordering::SeqCst) + share <= most);
        Inside(count, share)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::SeqCst);
    }
}

fn dawdle(rng: &mut Rng) {
    match rng.below(6) {
        0 => volt::yield_now(),
        1 => volt::sleep(Duration::from_micros(rng.below(100))),
        _ => {}
    }
}

#[test]
fn mutexes_in_a_storm() {
    within(LONG, || {
        let seed = Seed::new();
        let shared = Arc::new((Mutex::new(0u64), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        storm(&seed, move |rng| {
            let mut guard = theirs.0.lock().unwrap();
            let _inside = Inside::enter(&theirs.1, 1, 1);
            let before = *guard;
            dawdle(rng);
            *guard = before + 1;
        });
        assert!(shared.0.try_lock().is_ok() && !shared.0.is_poisoned());
    });
}

#[test]
fn rwlocks_in_a_storm() {
    const ALL: usize = 1_000;
    within(LONG, || {
        let seed = Seed::new();
        let shared = Arc::new((RwLock::new(()), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        storm(&seed, move |rng| {
            if rng.below(3) == 0 {
                let _guard = theirs.0.write().unwrap();
                let _inside = Inside::enter(&theirs.1, ALL, ALL);
                dawdle(rng);
            } else {
                let _guard = theirs.0.read().unwrap();
                let _inside = Inside::enter(&theirs.1, 1, ALL - 1);
                dawdle(rng);
            }
        });
        assert!(shared.0.try_write().is_ok() && !shared.0.is_poisoned());
    });
}

#[test]
fn semaphores_in_a_storm() {
    within(LONG, || {
        let seed = Seed::new();
        let shared = Arc::new((Semaphore::new(4), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        storm(&seed, move |rng| {
            let count = 1 + rng.below(4) as u32;
            if rng.below(3) == 0 {
                let timeout = Duration::from_micros(rng.below(100));
                if let Ok(_permit) = theirs.0.acquire_timeout(timeout) {
                    let _inside = Inside::enter(&theirs.1, 1, 4);
                    dawdle(rng);
                }
            } else {
                let _permits = theirs.0.acquire_many(count).unwrap();
                let _inside = Inside::enter(&theirs.1, count as usize, 4);
                dawdle(rng);
            }
        });
        assert_eq!(shared.0.available_permits(), 4);
        assert!(shared.0.try_acquire_many(4).is_ok());
    });
}

#[test]
fn condvars_in_a_storm() {
    within(LONG, || {
        let seed = Seed::new();
        let shared = Arc::new((Mutex::new(3u32), Condvar::new()));
        let theirs = Arc::clone(&shared);
        /// One of three tokens, put back whatever happens.
        struct Token(Arc<(Mutex<u32>, Condvar)>);
        impl Drop for Token {
            fn drop(&mut self) {
                // Dropped before its fiber unwinds, it must not be cancelled itself.
                volt::cancel::shield(|| *self.0.0.lock().unwrap() += 1);
                self.0.1.notify_one();
            }
        }
        storm(&seed, move |rng| {
            let mut tokens = theirs.0.lock().unwrap();
            if rng.below(2) == 0 {
                tokens = theirs.1.wait_while(tokens, |tokens| *tokens == 0).unwrap();
            } else {
                let timeout = Duration::from_micros(rng.below(100));
                let empty = |tokens: &mut u32| *tokens == 0;
                let result;
                (tokens, result) = theirs.1.wait_timeout_while(tokens, timeout, empty).unwrap();
                if result.timed_out() {
                    // A notification may have reached it all the same; it is for another then.
                    theirs.1.notify_one();
                    return;
                }
            }
            *tokens -= 1;
            let token = Token(Arc::clone(&theirs));
            drop(tokens);
            dawdle(rng);
            drop(token);
        });
        assert_eq!(*shared.0.lock().unwrap(), 3);
    });
}

/// Values are received once, or dropped by a sender that was cancelled, or left in the channel.
#[test]
fn bounded_channels_in_a_storm() {
    struct Value(Arc<AtomicUsize>);
    impl Drop for Value {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    for bound in [0, 1, 5] {
        within(LONG, move || {
            let seed = Seed::new();
            let alive = Arc::new(AtomicUsize::new(0));
            let (sender, receiver) = mpsc::sync_channel(bound);
            let mut pauses = seed.rng();
            let drain = volt::go(move || {
                let mut received = 0;
                loop {
                    match receiver.recv_timeout(Duration::from_micros(pauses.below(100))) {
                        Ok(value) => drop::<Value>(value),
                        Err(mpsc::RecvTimeoutError::Timeout) => continue,
                        Err(mpsc::RecvTimeoutError::Disconnected) => return received,
                    }
                    received += 1;
                }
            });
            let (counts, sent) = (Arc::clone(&alive), Arc::new(AtomicUsize::new(0)));
            let their_sent = Arc::clone(&sent);
            storm(&seed, move |rng| {
                counts.fetch_add(1, Ordering::SeqCst);
                sender.send(Value(Arc::clone(&counts))).unwrap();
                their_sent.fetch_add(1, Ordering::SeqCst);
                dawdle(rng);
            });
            assert_eq!(drain.join().unwrap(), sent.load(Ordering::SeqCst));
            assert_eq!(alive.load(Ordering::SeqCst), 0, "each value was dropped once");
        });
    }
}

/// A receiver that is cancelled leaves what it has not received in the channel.
#[test]
fn receivers_in_a_storm() {
    within(LONG, || {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new((receiver, 0u64)));
        let feeder =
            std::thread::spawn(move || (0..20_000u64).for_each(|n| sender.send(n).unwrap()));
        for round in 0..200 {
            let theirs = Arc::clone(&receiver);
            let fiber = volt::go(move || {
                let mut guard = theirs.lock().unwrap();
                while let Ok(value) = guard.0.recv() {
                    assert_eq!(value, guard.1, "none is lost or doubled");
                    guard.1 += 1;
                }
            });
            std::thread::sleep(Duration::from_micros(round % 50));
            fiber.cancel();
            let result = fiber.join();
            assert!(result.is_ok() || !receiver.is_poisoned());
        }
        feeder.join().unwrap();
        let (rest, next) = &mut *receiver.lock().unwrap();
        *next += rest.iter().count() as u64;
        assert_eq!(*next, 20_000);
    });
}
