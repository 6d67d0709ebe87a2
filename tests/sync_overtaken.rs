//! Past whom a `Mutex` or an `RwLock` may be taken, and how often: the rules at the head of `sync/raw_mutex.rs`
//! and `sync/raw_rwlock.rs`, each on workers of which the test says what they run, so that every turn is counted.
//!
//! | rule | test | seen failing with |
//! |---|---|---|
//! | a far token is passed over after 64 turns that take long | `who_does_not_come_is_passed_over` | no count; 63; every token near; near wherever there is one worker |
//! | a near one is made way for when some have taken long | `one_makes_way_for_who_is_near` | no count; no clock; 63; every token far; a look missed |
//! | after 8 that do | `one_makes_way_earlier_after_long_turns`, `who_is_on_the_same_worker_is_near` | no clock; 9; every token far |
//! | but not if others had those turns, and nobody waits since it found the lock taken | `a_queue_at_a_lock_that_is_always_free_does_not_last`, `nor_does_a_queue_of_writers`, `who_comes_first_has_turns_of_its_own` | the turns are everybody's; after 64 of them |
//! | near no longer once the worker was robbed | `who_may_have_been_stolen_is_not_near` | robberies not counted; every token near |
//! | past the budget one who is beside the workers waits, and does not yield | `past_its_budget_a_fiber_beside_the_workers_waits` | a yield; every token near |
//! | a read-write lock, far: the same, then in the queue's order | `a_writer_that_does_not_come_is_passed_over` | never served past the limit; every token near |
//! | near: the same | `one_makes_way_for_a_writer_that_is_near` | every token far |
//! | who reads after a writer came waits behind it | `a_reader_stands_behind_a_writer` | readers let in past waiting writers |
//! | readers in a row go together | `readers_in_a_row_go_together` | those behind the first left in the queue |
//! | one after the other where turns are short | `readers_in_a_row_go_one_after_the_other_after_short_turns` | all invited; none |
//! | those who stand behind are invited | `who_is_invited_does_not_own_the_lock` | they are handed the lock; no turns are counted past them |
//! | also behind one who gives up | `who_stood_behind_one_who_gave_up_is_invited` | invited by the same call only |
//! | near to others, it is in nobody's way | `who_is_near_to_others_keeps_nobody_out` | only taken past a queue's end; every token near |
//! | after two long turns a fiber has the lock handed | `after_long_turns_the_lock_is_handed` | never handed; handed after one |
//! | no thread has | `to_a_thread_it_is_not_handed` | handed to threads |
//! | past a writer's token readers come together | `readers_come_past_a_token_together` | only to a free lock; no bound |
//! | else it is charged, and yields | `a_greedy_fiber_is_charged` (`sync_fair.rs`) | no charge |

mod sync_support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use sync_support::{LONG, until, within};
use volt::runtime::{Builder, Handle, JoinHandle, Runtime};
use volt::sync::{Arc, Mutex, RwLock};

/// Who took a lock, one after the other.
type Order = Arc<Mutex<Vec<&'static str>>>;

/// So many turns one has past a woken waiter that is far, and as many again if they do not take long.
const OVERTAKEN: u64 = 64;

/// So many past one that is near, if they take long.
const SOME: u64 = 8;
const LONG_FOR_SOME: Duration = Duration::from_micros(4);

/// So many past anybody, whatever the clock says.
const MOST: u64 = 18 * OVERTAKEN;

/// A critical section of which eight take longer.
const LONG_TURN: Duration = Duration::from_micros(1);

/// One worker, whose fibers run in turn: none of them is interrupted.
fn one_worker() -> Runtime {
    Builder::new().workers(1).stall_period(None).force_migrate(false).build().unwrap()
}

/// Has a fiber say that it begins, and then waits, on the only worker that may run it: so it runs `f`
/// until that waits.
fn go_and_see_it_wait<T: Send + 'static>(
    runtime: &Runtime,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let begun = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&begun);
    let fiber = runtime.go(move || {
        theirs.store(true, Ordering::SeqCst);
        f()
    });
    runtime.run(move || {
        while !begun.load(Ordering::SeqCst) {
            volt::yield_now();
        }
    });
    fiber
}

/// A fiber that keeps its worker.
struct Keeps {
    begun: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Keeps {
    fn go(go: impl FnOnce(Box<dyn FnOnce() + Send>)) -> Keeps {
        let keeps = Keeps { begun: Arc::default(), stop: Arc::default() };
        let (begun, stop) = (Arc::clone(&keeps.begun), Arc::clone(&keeps.stop));
        go(Box::new(move || {
            begun.store(true, Ordering::SeqCst);
            while !stop.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }));
        keeps
    }

    /// The caller keeps its own worker meanwhile.
    fn wait_for_it(&self) {
        while !self.begun.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}

impl Drop for Keeps {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// The first waiter was woken on a worker that does not come to it: after so many turns of a third the
/// second is handed the lock, whether the third is a thread or a fiber of the second's worker.
#[test]
fn who_does_not_come_is_passed_over() {
    fn turns_past(order: &Order) -> u64 {
        // At a free lock nobody is in the way of `try_lock`.
        let try_turn = |_: &u32| order.try_lock().is_ok_and(|_guard| spend(LONG_TURN));
        (0..1_000).take_while(try_turn).count() as u64
    }
    within(LONG, || {
        for on_a_fiber in [false, true] {
            let (far, here) = (one_worker(), one_worker());
            let order = Order::default();
            let go_on = Arc::new(AtomicBool::new(false));
            let guard = order.lock().unwrap();
            let waiters = [(&far, "first"), (&here, "second")].map(|(runtime, name)| {
                let (order, go_on) = (Arc::clone(&order), Arc::clone(&go_on));
                go_and_see_it_wait(runtime, move || {
                    let mut order = order.lock().unwrap();
                    order.push(name);
                    while !go_on.load(Ordering::SeqCst) {
                        volt::yield_now();
                    }
                })
            });
            let kept = Keeps::go(|f| drop(far.go(f)));
            kept.wait_for_it();
            drop(guard);
            let theirs = Arc::clone(&order);
            let turns = match on_a_fiber {
                true => here.run(move || turns_past(&theirs)),
                false => turns_past(&theirs),
            };
            assert_eq!(turns, OVERTAKEN, "on a fiber: {on_a_fiber}");
            drop(kept);
            go_on.store(true, Ordering::SeqCst);
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            assert_eq!(*order.lock().unwrap(), ["second", "first"], "on a fiber: {on_a_fiber}");
        }
    });
}

/// True, when so much time has passed.
fn spend(time: Duration) -> bool {
    let begin = Instant::now();
    while !time.is_zero() && begin.elapsed() < time {
        std::hint::spin_loop();
    }
    true
}

/// Takes the lock until somebody else had it, for as long as `turn` each time; returns how often that was.
fn turns_until_others(order: &Order, turn: Duration) -> u64 {
    let is_own_turn = |_: &u32| {
        let order = order.lock().unwrap();
        spend(turn);
        order.is_empty()
    };
    (0..10_000).take_while(is_own_turn).count() as u64
}

/// Two who wait for the lock that the calling fiber owns, and have no other worker to wait on.
fn two_wait(order: &Order) -> [JoinHandle<()>; 2] {
    ["first", "second"].map(|name| {
        let (order, begun) = (Arc::clone(order), Arc::new(AtomicBool::new(false)));
        let theirs = Arc::clone(&begun);
        let waiter = volt::go(move || {
            theirs.store(true, Ordering::SeqCst);
            order.lock().unwrap().push(name);
        });
        while !begun.load(Ordering::SeqCst) {
            volt::yield_now();
        }
        waiter
    })
}

/// The first waiter runs as soon as the one that overtakes it makes way: it does after so many turns `of`
/// some length, which are returned with how long they took together, and they come in their order.
fn turns_past_who_is_near(of: Duration) -> (u64, Duration) {
    let order = Order::default();
    let guard = order.lock().unwrap();
    let waiters = two_wait(&order);
    let begin = Instant::now();
    drop(guard);
    let turns = turns_until_others(&order, of);
    let took = begin.elapsed();
    assert_eq!(*order.lock().unwrap(), ["first", "second"]);
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    (turns, took)
}

/// So many turns past one that is near, however short they are: twice as many each time, and 64 more in the end.
fn assert_are_enough(turns: u64, took: Duration) {
    let looks = [SOME, 2 * SOME, 4 * SOME].contains(&turns) || turns % OVERTAKEN == 0;
    assert!(looks && turns <= MOST && took >= LONG_FOR_SOME, "{turns} turns in {took:?}");
}

#[test]
fn one_makes_way_for_who_is_near() {
    within(LONG, || {
        one_worker().run(|| {
            for _ in 0..100 {
                let (turns, took) = turns_past_who_is_near(Duration::ZERO);
                assert_are_enough(turns, took);
            }
        });
    });
}

#[test]
fn one_makes_way_earlier_after_long_turns() {
    within(LONG, || {
        let (turns, _) = one_worker().run(|| turns_past_who_is_near(LONG_TURN));
        assert_eq!(turns, SOME);
    });
}

/// A fiber that runs before the one with the token, whatever it does, need not make way for what others have had.
#[test]
fn who_comes_first_has_turns_of_its_own() {
    within(LONG, || {
        let order = one_worker().run(|| {
            let order = Order::default();
            let fiber = |name| {
                let order = Arc::clone(&order);
                volt::go(move || order.lock().unwrap().push(name))
            };
            let guard = order.lock().unwrap();
            let waiter = fiber("waiter");
            volt::yield_now();
            drop(guard);
            // At a free lock nobody is in the way of `try_lock`.
            (0..OVERTAKEN).for_each(|_| drop(order.try_lock().unwrap()));
            spend(10 * LONG_FOR_SOME);
            // It is the next, before the waiter.
            fiber("next").join().unwrap();
            waiter.join().unwrap();
            Arc::try_unwrap(order).unwrap().into_inner().unwrap()
        });
        assert_eq!(order, ["next", "waiter"]);
    });
}

/// Fibers that take the lock for a moment, compute, and yield, from when all of them have waited for it. To wait for the lock
/// takes a dispatch more.
macro_rules! a_queue_does_not_last {
    ($Lock:ident, $lock:ident) => {{
        const FIBERS: u64 = 20;
        const TURNS: u64 = 200;
        within(LONG, || {
            let dispatched = one_worker().run(|| {
                let dispatched = || Handle::current().stats().total.dispatched;
                let lock = Arc::new($Lock::new(()));
                let guard = lock.$lock().unwrap();
                let fibers: Vec<_> = (0..FIBERS)
                    .map(|_| {
                        let lock = Arc::clone(&lock);
                        volt::go(move || {
                            for _ in 0..TURNS {
                                drop(lock.$lock().unwrap());
                                spend(LONG_TURN / 2);
                                volt::yield_now();
                            }
                        })
                    })
                    .collect();
                volt::yield_now();
                let before = dispatched();
                drop(guard);
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
                dispatched() - before
            });
            let yields = FIBERS * TURNS;
            let more = dispatched - yields;
            assert!(more < yields / 20, "{more} dispatches beside {yields} after a yield");
        });
    }};
}

#[test]
fn a_queue_at_a_lock_that_is_always_free_does_not_last() {
    a_queue_does_not_last!(Mutex, lock);
}

#[test]
fn nor_does_a_queue_of_writers() {
    a_queue_does_not_last!(RwLock, write);
}

/// With two workers, the other of which is kept until it `robs` the one on which all this happens: then
/// the first waiter may have gone with what was taken, so the lock is handed to the second.
fn near_unless_robbed(robs: bool) {
    let runtime =
        Builder::new().workers(2).stall_period(None).force_migrate(false).build().unwrap();
    runtime.run(move || {
        // What is spawned next puts what was spawned before where others may take it.
        let go = |f| {
            drop(volt::go(f));
            drop(volt::go(|| ()));
        };
        let kept = Keeps::go(go);
        kept.wait_for_it();
        let order = Order::default();
        let guard = order.lock().unwrap();
        let waiters = two_wait(&order);
        let taken = Keeps::go(go);
        // Its wake goes to the LIFO slot, from which nobody steals.
        drop(guard);
        if robs {
            drop(kept);
            taken.wait_for_it();
        }
        let (turns, who) = match robs {
            true => (OVERTAKEN, ["second", "first"]),
            false => (SOME, ["first", "second"]),
        };
        assert_eq!(turns_until_others(&order, LONG_TURN), turns);
        assert_eq!(*order.lock().unwrap(), who);
        drop(taken);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn who_is_on_the_same_worker_is_near() {
    within(LONG, || near_unless_robbed(false));
}

#[test]
fn who_may_have_been_stolen_is_not_near() {
    within(LONG, || near_unless_robbed(true));
}

/// So many operations that could have waited are left to a fiber that has just been dispatched.
const BUDGET: usize = 128;

/// Uses up what the calling fiber has, which nobody has charged yet.
fn use_up_the_budget() {
    let (sender, receiver) = volt::sync::mpsc::channel();
    (0..BUDGET).for_each(|n| sender.send(n).unwrap());
    (0..BUDGET).for_each(|n| assert_eq!(receiver.recv(), Ok(n)));
}

/// Past its budget, and past one who is far and was overtaken often enough, a fiber yields
/// (`a_greedy_fiber_is_charged`). One on a thread that was replaced runs beside the workers: it waits in the
/// queue.
#[test]
fn past_its_budget_a_fiber_beside_the_workers_waits() {
    within(LONG, || {
        let far = one_worker();
        let replaced = Builder::new()
            .workers(1)
            .stall_period(Some(Duration::from_millis(10)))
            .force_migrate(false)
            .build()
            .unwrap();
        let order = Order::default();
        let guard = order.lock().unwrap();
        let theirs = Arc::clone(&order);
        let first = go_and_see_it_wait(&far, move || theirs.lock().unwrap().push("first"));
        let kept = Keeps::go(|f| drop(far.go(f)));
        kept.wait_for_it();
        let theirs = Arc::clone(&order);
        let stalled = Keeps::go(|stall| {
            drop(replaced.go(move || {
                // Whoever runs meanwhile does so on another thread.
                use_up_the_budget();
                stall();
                theirs.lock().unwrap().push("past its budget");
            }));
        });
        stalled.wait_for_it();
        replaced.run(|| ());
        drop(guard);
        for _ in 0..OVERTAKEN {
            let _guard = order.try_lock().unwrap();
            spend(LONG_TURN);
        }
        drop(stalled);
        // Each turn counts, and those beyond hand the lock to whoever waits. This thread must not wait: where
        // the fiber has the lock just then, it would do so behind the one that does not come.
        let has_had_it = |order: &Order| order.try_lock().is_ok_and(|order| !order.is_empty());
        until("it to be handed the lock", || has_had_it(&order));
        assert_eq!(replaced.stats().total.budget_yields, 0);
        drop(kept);
        first.join().unwrap();
        assert_eq!(*order.lock().unwrap(), ["past its budget", "first"]);
    });
}

type Writers = Arc<RwLock<Vec<&'static str>>>;

/// Takes the lock as long as it is free, each time for long.
fn writes_until_others(order: &Writers) -> u64 {
    let try_turn = |_: &u32| order.try_write().is_ok_and(|_guard| spend(LONG_TURN));
    (0..1_000).take_while(try_turn).count() as u64
}

#[test]
fn one_makes_way_for_a_writer_that_is_near() {
    within(LONG, || {
        one_worker().run(|| {
            let order = Writers::default();
            let guard = order.write().unwrap();
            let waiters = ["first", "second"].map(|name| {
                let order = Arc::clone(&order);
                let waiter = volt::go(move || order.write().unwrap().push(name));
                // It runs until it waits.
                volt::yield_now();
                waiter
            });
            drop(guard);
            let begin = Instant::now();
            let reads = (0..10_000).take_while(|_| order.read().unwrap().is_empty()).count();
            assert_are_enough(reads as u64, begin.elapsed());
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            assert_eq!(*order.read().unwrap(), ["first", "second"]);
        });
    });
}

/// Who wants to read while a writer waits stands behind it, and reads what it has written.
#[test]
fn a_reader_stands_behind_a_writer() {
    within(LONG, || {
        one_worker().run(|| {
            let lock = Arc::new(RwLock::new("before"));
            let guard = lock.read().unwrap();
            let theirs = Arc::clone(&lock);
            let writer = volt::go(move || *theirs.write().unwrap() = "after");
            // Each runs until it waits.
            volt::yield_now();
            let theirs = Arc::clone(&lock);
            let reader = volt::go(move || *theirs.read().unwrap());
            volt::yield_now();
            assert!(!reader.is_finished() && lock.try_read().is_err());
            drop(guard);
            assert_eq!(reader.join().unwrap(), "after");
            writer.join().unwrap();
        });
    });
}

/// A writer has the token and does not come; another stands behind it. Readers that come past it do not keep each other
/// out, but only for so many turns.
#[test]
fn readers_come_past_a_token_together() {
    within(LONG, || {
        let (far, here) = (one_worker(), one_worker());
        let lock = Arc::new(RwLock::new(0));
        let guard = lock.write().unwrap();
        let writes = |runtime: &Runtime| {
            let lock = Arc::clone(&lock);
            go_and_see_it_wait(runtime, move || *lock.write().unwrap() += 1)
        };
        let writers = [writes(&far), writes(&here)];
        let kept = Keeps::go(|f| drop(far.go(f)));
        kept.wait_for_it();
        drop(guard);
        // Each pair at once, and as often as may be without a look.
        let together = (0..SOME / 2).map(|_| (lock.read().unwrap(), lock.read().unwrap()));
        assert!(together.into_iter().all(|(one, other)| (*one, *other) == (0, 0)));
        // Whoever ends the last of so many long turns hands the lock to the second writer.
        let reads = |_: &u64| {
            let guard = lock.read().unwrap();
            spend(LONG_TURN);
            *guard == 0
        };
        assert!((0..MOST).take_while(reads).count() as u64 <= OVERTAKEN);
        assert_eq!(*lock.read().unwrap(), 1);
        drop(kept);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

/// Readers that stand behind one another: the first to get the lock takes the other along.
#[test]
fn readers_in_a_row_go_together() {
    within(LONG, || {
        one_worker().run(|| {
            let (lock, both) = (Arc::new(RwLock::new(())), Arc::new(volt::sync::Barrier::new(2)));
            let guard = lock.write().unwrap();
            let readers = [(); 2].map(|()| {
                let (lock, both) = (Arc::clone(&lock), Arc::clone(&both));
                let reader = volt::go(move || {
                    let _guard = lock.read().unwrap();
                    both.wait();
                });
                volt::yield_now();
                reader
            });
            drop(guard);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    });
}

/// As above, after turns that were short: the first takes only the next along, which takes the last.
#[test]
fn readers_in_a_row_go_one_after_the_other_after_short_turns() {
    const NOBODY: usize = usize::MAX;
    within(LONG, || {
        one_worker().run(|| {
            let all = Arc::new(volt::sync::Barrier::new(3));
            let one_after_the_other = (0..100).any(|_| {
                // A new one: after a long turn and another the lock is handed.
                let lock = Arc::new(RwLock::new(()));
                let guard = lock.write().unwrap();
                let along = Arc::new(AtomicUsize::new(NOBODY));
                let readers = [(); 3].map(|()| {
                    let (lock, all) = (Arc::clone(&lock), Arc::clone(&all));
                    let (along, begun) = (Arc::clone(&along), Arc::new(AtomicBool::new(false)));
                    let theirs = Arc::clone(&begun);
                    let reader = volt::go(move || {
                        theirs.store(true, Ordering::SeqCst);
                        let _guard = lock.read().unwrap();
                        let runnable = volt::runtime::Handle::current().stats().queue.size;
                        let (first, only) = (Ordering::SeqCst, Ordering::SeqCst);
                        let _ = along.compare_exchange(NOBODY, runnable, first, only);
                        // None of them leaves before all are there.
                        all.wait();
                    });
                    while !begun.load(Ordering::SeqCst) {
                        volt::yield_now();
                    }
                    reader
                });
                drop(guard);
                // So many that what the first needs to come does not count, without optimisation either.
                (0..OVERTAKEN / 2).for_each(|_| drop(lock.try_write().unwrap()));
                readers.into_iter().for_each(|reader| reader.join().unwrap());
                along.load(Ordering::SeqCst) == 1
            });
            // Unless the system took the processor away each time, which makes any turn long.
            assert!(one_after_the_other);
        });
    });
}

/// Has a fiber queue up while another, the caller, has the lock for long: can that one take it again, as soon as it has
/// freed it?
fn can_be_taken_past(lock: &Arc<RwLock<()>>) -> bool {
    let guard = lock.write().unwrap();
    let theirs = Arc::clone(lock);
    let waiter = volt::go(move || drop(theirs.read().unwrap()));
    // It runs until it waits.
    volt::yield_now();
    spend(LONG_FOR_SOME);
    drop(guard);
    let taken = lock.try_write().is_ok();
    waiter.join().unwrap();
    taken
}

#[test]
fn after_long_turns_the_lock_is_handed() {
    within(LONG, || {
        one_worker().run(|| {
            let lock = Arc::new(RwLock::new(()));
            let taken = [(); 10].map(|()| can_be_taken_past(&lock));
            assert_eq!(taken.iter().position(|taken| !taken), Some(1), "one may be the system's");
            assert!(taken[1..].iter().all(|taken| !taken), "{taken:?}");
        });
    });
}

/// While it is woken, many turns may pass.
#[test]
fn to_a_thread_it_is_not_handed() {
    within(LONG, || {
        let lock = Arc::new(RwLock::new(()));
        let taken_past = |_| {
            let guard = lock.write().unwrap();
            let theirs = Arc::clone(&lock);
            let waiter = std::thread::spawn(move || drop(theirs.read().unwrap()));
            // It does not spin any more.
            std::thread::sleep(Duration::from_millis(2));
            drop(guard);
            let taken = lock.try_write().is_ok();
            waiter.join().unwrap();
            taken
        };
        // It may be there at once. Were it handed, that would be never.
        assert!((0..200).map(taken_past).skip(4).any(|taken| taken));
    });
}

/// The first reader invites two others, of which one is on a worker that does not come to it. That one is not
/// in anybody's way, but for turns past it: after so many the lock goes to the writer behind.
#[test]
fn who_is_invited_does_not_own_the_lock() {
    within(LONG, || {
        for away in [1, 2] {
            let (far, here) = (one_worker(), one_worker());
            let order = Writers::default();
            let guard = order.write().unwrap();
            let mut readers = Vec::from([0, 1, 2].map(|number| {
                let order = Arc::clone(&order);
                let runtime = if number == away { &far } else { &here };
                go_and_see_it_wait(runtime, move || order.read().unwrap().len())
            }));
            let theirs = Arc::clone(&order);
            let writer = go_and_see_it_wait(&here, move || theirs.write().unwrap().push("writer"));
            let kept = Keeps::go(|f| drop(far.go(f)));
            kept.wait_for_it();
            drop(guard);
            let away = readers.remove(away);
            readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), 0));
            let theirs = Arc::clone(&order);
            assert_eq!(here.run(move || writes_until_others(&theirs)), OVERTAKEN);
            writer.join().unwrap();
            drop(kept);
            assert_eq!(away.join().unwrap(), 1);
        }
    });
}

/// Readers hold the lock, and one that was invited has not come: who stands behind a writer that gives up is
/// invited too.
#[test]
fn who_stood_behind_one_who_gave_up_is_invited() {
    within(LONG, || {
        let (far, here) = (one_worker(), one_worker());
        let lock = Arc::new(RwLock::new(()));
        let [holds, leave] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let guard = lock.write().unwrap();
        let (theirs, has, may) = (Arc::clone(&lock), Arc::clone(&holds), Arc::clone(&leave));
        let first = go_and_see_it_wait(&here, move || {
            let _guard = theirs.read().unwrap();
            has.store(true, Ordering::SeqCst);
            while !may.load(Ordering::SeqCst) {
                volt::yield_now();
            }
        });
        let reads = |runtime: &Runtime| {
            let lock = Arc::clone(&lock);
            go_and_see_it_wait(runtime, move || drop(lock.read().unwrap()))
        };
        let away = reads(&far);
        let theirs = Arc::clone(&lock);
        let writer = go_and_see_it_wait(&here, move || drop(theirs.write().unwrap()));
        let last = reads(&here);
        let kept = Keeps::go(|f| drop(far.go(f)));
        kept.wait_for_it();
        drop(guard);
        until("the first reads", || holds.load(Ordering::SeqCst));
        writer.cancel();
        last.join().unwrap();
        leave.store(true, Ordering::SeqCst);
        drop(kept);
        [first, away].into_iter().for_each(|reader| reader.join().unwrap());
        writer.join().unwrap_err();
    });
}

/// The one on whose worker the token is has had its turns, and does not leave. Others neither wait for it nor are
/// kept from those who waited.
#[test]
fn who_is_near_to_others_keeps_nobody_out() {
    within(LONG, || {
        let (there, here) = (one_worker(), one_worker());
        let order = Writers::default();
        let (locked, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (theirs, has, may) = (Arc::clone(&order), Arc::clone(&locked), Arc::clone(&go_on));
        let kept = Keeps::go(|keep| {
            drop(there.go(move || {
                let guard = theirs.write().unwrap();
                has.store(true, Ordering::SeqCst);
                while !may.load(Ordering::SeqCst) {
                    volt::yield_now();
                }
                // The first is woken from here, to the slot of this worker.
                drop(guard);
                for _ in 0..OVERTAKEN {
                    let _guard = theirs.try_write().unwrap();
                    spend(LONG_TURN);
                }
                keep();
            }));
        });
        until("it has the lock", || locked.load(Ordering::SeqCst));
        let [first, second] = [(&there, "first"), (&here, "second")].map(|(runtime, name)| {
            let order = Arc::clone(&order);
            go_and_see_it_wait(runtime, move || order.write().unwrap().push(name))
        });
        go_on.store(true, Ordering::SeqCst);
        kept.wait_for_it();
        order.write().unwrap().push("a thread");
        second.join().unwrap();
        assert_eq!(*order.read().unwrap(), ["a thread", "second"]);
        drop(kept);
        first.join().unwrap();
    });
}

/// The first is woken on a worker that does not come to it: after so many turns of a third the second is
/// handed the lock.
#[test]
fn a_writer_that_does_not_come_is_passed_over() {
    within(LONG, || {
        let (far, here) = (one_worker(), one_worker());
        let order = Writers::default();
        let guard = order.write().unwrap();
        let waiters = [(&far, "first"), (&here, "second")].map(|(runtime, name)| {
            let order = Arc::clone(&order);
            go_and_see_it_wait(runtime, move || order.write().unwrap().push(name))
        });
        let kept = Keeps::go(|f| drop(far.go(f)));
        kept.wait_for_it();
        drop(guard);
        let theirs = Arc::clone(&order);
        assert_eq!(here.run(move || writes_until_others(&theirs)), OVERTAKEN);
        drop(kept);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*order.read().unwrap(), ["second", "first"]);
    });
}
