//! The policy of `Mutex` and `RwLock`: whoever runs may overtake those who wait, but not for long. `sync_overtaken.rs`
//! has its rules one by one.

mod sync_support;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use sync_support::{LONG, within};
use volt::runtime::{Builder, Runtime};
use volt::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// So often is the lock taken past a woken waiter of the same worker, if that takes more than four microseconds, at most.
const OVERTAKEN: u64 = 64;

/// So often if the first few do already.
const SOME: u64 = 8;

/// So many operations that could have waited are left to a fiber that has just been dispatched.
const BUDGET: u64 = 128;

/// How often the lock was taken, and how often since others began to wait, at most.
#[derive(Default)]
struct Taken<L> {
    lock: L,
    times: AtomicU64,
    most: AtomicU64,
}

/// A lock that is taken in one of its ways, or as whoever waits for it does.
trait Lock: Default + Send + Sync + 'static {
    fn hold(&self) -> impl Drop;

    fn hold_waited_for(&self) -> impl Drop {
        self.hold()
    }
}

impl Lock for Mutex<()> {
    fn hold(&self) -> impl Drop {
        self.lock().unwrap()
    }
}

/// A read-write lock that is read past a writer, or written.
#[derive(Default)]
struct Shared<const READ: bool>(RwLock<()>);

impl<const READ: bool> Lock for Shared<READ> {
    fn hold(&self) -> impl Drop {
        if READ { Held::Read(self.0.read().unwrap()) } else { Held::Write(self.0.write().unwrap()) }
    }

    fn hold_waited_for(&self) -> impl Drop {
        self.0.write().unwrap()
    }
}

#[allow(dead_code, reason = "held for its end")]
enum Held<'a> {
    Read(RwLockReadGuard<'a, ()>),
    Write(RwLockWriteGuard<'a, ()>),
}

impl Drop for Held<'_> {
    fn drop(&mut self) {}
}

impl<L: Lock> Taken<L> {
    fn lock(&self, inside: impl FnOnce()) {
        self.taken(L::hold, inside);
    }

    fn taken<'a, G: Drop>(&'a self, hold: impl Fn(&'a L) -> G, inside: impl FnOnce())
    where
        L: 'a,
    {
        let before = self.times.load(Ordering::SeqCst);
        let _guard = hold(&self.lock);
        let now = self.times.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(now - before, Ordering::SeqCst);
        inside();
    }
}

/// Of which half of `OVERTAKEN` take more than four microseconds, and a fourth takes less if the system lets them. And 64 take ten
/// microseconds, so that a fiber has no more than its budget.
fn short_turn() {
    spend(Duration::from_nanos(170));
}

fn long_turn() {
    spend(Duration::from_micros(1));
}

fn spend(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// One worker, to which no other is added whatever the system does to its thread.
fn one_worker() -> Builder {
    Builder::new().workers(1).stall_period(None)
}

/// A fiber that never waits, on the only worker, gives way to the one that it overtakes.
#[test]
fn a_greedy_fiber_yields() {
    within(LONG, || {
        one_worker().build().unwrap().run(|| {
            let (taken, stop) =
                (Arc::new(Taken::<Mutex<()>>::default()), Arc::new(AtomicBool::new(false)));
            let (theirs, their_stop) = (Arc::clone(&taken), Arc::clone(&stop));
            let guard = taken.lock.lock().unwrap();
            let waiter = volt::go(move || {
                theirs.lock(|| ());
                their_stop.store(true, Ordering::SeqCst);
            });
            volt::yield_now();
            drop(guard);
            while !stop.load(Ordering::SeqCst) {
                taken.lock(short_turn);
            }
            waiter.join().unwrap();
            let most = taken.most.load(Ordering::SeqCst);
            assert!(most <= OVERTAKEN, "{most} turns");
        });
    });
}

/// Fibers that wait while they hold the lock, and take it again at once: who was woken and finds it taken
/// is the next to have it, so each of those before one in the queue is overtaken once. With several
/// workers the system may keep one from running while the other goes on: there is no bound.
#[test]
fn nobody_waits_for_many_turns() {
    const FIBERS: u64 = 16;
    within(LONG, || {
        one_worker().build().unwrap().run(|| {
            let taken = Arc::new(Taken::<Mutex<()>>::default());
            let fibers: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let taken = Arc::clone(&taken);
                    volt::go(move || (0..500).for_each(|_| taken.lock(volt::yield_now)))
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            let most = taken.most.load(Ordering::SeqCst);
            assert!(most <= 2 * (FIBERS - 1), "{most} turns");
        });
    });
}

/// So many fibers that never leave a lock alone, from when all of them wait for it. Each holds it as `inside`
/// says.
fn all_contend(taken: &Arc<Taken<Mutex<()>>>, fibers: u64, turns: u64, inside: fn()) {
    let guard = taken.lock.lock().unwrap();
    let fibers: Vec<_> = (0..fibers)
        .map(|_| {
            let taken = Arc::clone(taken);
            volt::go(move || (0..turns).for_each(|_| taken.lock(inside)))
        })
        .collect();
    volt::yield_now();
    drop(guard);
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

/// On one worker nothing is left to chance: everybody before one in the queue overtakes it so often, and
/// has its turn.
fn everybody_has_some_turns(most: u64, inside: fn()) {
    within(LONG, move || {
        let runtime = one_worker().build().unwrap();
        for fibers in [2, 8, 50] {
            let taken = runtime.run(move || {
                let taken = Arc::new(Taken::<Mutex<()>>::default());
                all_contend(&taken, fibers, 1_000, inside);
                taken
            });
            assert_eq!(taken.times.load(Ordering::SeqCst), fibers * 1_000);
            let turns = taken.most.load(Ordering::SeqCst);
            assert!(turns <= (fibers - 1) * (most + 1), "{fibers} fibers: {turns} turns");
        }
    });
}

#[test]
fn among_fibers_of_one_worker_everybody_has_some_turns() {
    everybody_has_some_turns(OVERTAKEN / 2, short_turn);
}

#[test]
fn and_fewer_where_a_turn_is_long() {
    everybody_has_some_turns(SOME, long_turn);
}

/// How often a fiber that never leaves the lock alone overtakes another, on the worker of both, which a
/// thread has woken: it stands in the injector, at which a busy worker looks every 10 to 100 us.
fn overtaken_when_woken_from_outside<L: Lock>(runtime: &Runtime) -> u64 {
    let (taken, stop) = (Arc::new(Taken::<L>::default()), Arc::new(AtomicBool::new(false)));
    let guard = taken.lock.hold_waited_for();
    let queued = Arc::new(AtomicBool::new(false));
    let (theirs, their_stop, begun) = (Arc::clone(&taken), Arc::clone(&stop), Arc::clone(&queued));
    let waiter = runtime.go(move || {
        begun.store(true, Ordering::SeqCst);
        theirs.taken(L::hold_waited_for, || their_stop.store(true, Ordering::SeqCst));
    });
    let (greedy, freed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (theirs, begun, go_on) = (Arc::clone(&taken), Arc::clone(&greedy), Arc::clone(&freed));
    let busy = runtime.go(move || {
        // The other was spawned first, so it waits by now or will not before this one leaves.
        begun.store(queued.load(Ordering::SeqCst), Ordering::SeqCst);
        // Not as soon as the lock is free: the thread that frees it has still to wake the other.
        while !go_on.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
        while !stop.load(Ordering::SeqCst) {
            theirs.lock(short_turn);
        }
    });
    while !greedy.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    drop(guard);
    freed.store(true, Ordering::SeqCst);
    waiter.join().unwrap();
    busy.join().unwrap();
    taken.most.load(Ordering::SeqCst)
}

#[test]
fn a_greedy_fiber_makes_way_for_one_that_a_thread_has_woken() {
    within(LONG, || {
        let runtime = one_worker().build().unwrap();
        for _ in 0..20 {
            let most = overtaken_when_woken_from_outside::<Mutex<()>>(&runtime);
            assert!(most <= OVERTAKEN, "{most} turns");
        }
    });
}

/// Where fibers stay with their workers, those that were woken come by mail, which a worker does not see
/// before it looks; so whoever barges past the limit is charged, and yields once its budget is used up. Here the worker
/// looks after one dispatch, so that the first yield may be one of a fiber alone.
#[test]
fn a_greedy_fiber_is_charged() {
    is_charged::<Mutex<()>>();
}

#[test]
fn a_greedy_writer_is_charged() {
    is_charged::<Shared<false>>();
}

#[test]
fn a_greedy_reader_is_charged() {
    is_charged::<Shared<true>>();
}

fn is_charged<L: Lock>() {
    within(LONG, || {
        let migrate = volt::runtime::Migrate::BeforeStart;
        let runtime = one_worker().migrate(migrate).injector_every(1).build().unwrap();
        for _ in 0..20 {
            let most = overtaken_when_woken_from_outside::<L>(&runtime);
            assert!(most <= OVERTAKEN + 2 * BUDGET + 1, "{most} turns");
        }
    });
}

/// Has fibers call `hold`, which waits while it holds a guard, until one of them went on upon another
/// thread meanwhile.
fn until_one_moves(hold: impl Fn(&dyn Fn()) + Send + Sync + 'static) {
    let (hold, moved) = (Arc::new(hold), Arc::new(AtomicBool::new(false)));
    Builder::new().workers(2).build().unwrap().run(move || {
        let fibers = [(); 8].map(|()| {
            let (hold, moved) = (Arc::clone(&hold), Arc::clone(&moved));
            volt::go(move || {
                let wait = || {
                    let before = std::thread::current().id();
                    volt::sleep(Duration::from_micros(50));
                    let stays = std::thread::current().id() == before;
                    moved.fetch_or(!stays, Ordering::Relaxed);
                };
                while !moved.load(Ordering::Relaxed) {
                    hold(&wait);
                }
            })
        });
        // Others that compute, so that fibers are taken from one worker by the other.
        let burn = volt::go(move || {
            while !moved.load(Ordering::Relaxed) {
                (0..1_000).for_each(|_| std::hint::spin_loop());
                volt::yield_now();
            }
        });
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        burn.join().unwrap();
    });
}

/// A guard belongs to its fiber: locked on one thread, it is dropped on whichever runs the fiber then.
#[test]
fn guards_migrate() {
    within(LONG, || {
        let lock = Arc::new(Mutex::new(0u64));
        let theirs = Arc::clone(&lock);
        until_one_moves(move |wait| {
            let mut guard = theirs.lock().unwrap();
            wait();
            *guard += 1;
        });
        assert!(lock.try_lock().is_ok() && !lock.is_poisoned());
    });
}

#[test]
fn write_guards_migrate() {
    within(LONG, || {
        let lock = Arc::new((RwLock::new(()), AtomicUsize::new(0)));
        let theirs = Arc::clone(&lock);
        until_one_moves(move |wait| {
            let _guard = theirs.0.write().unwrap();
            assert_eq!(theirs.1.fetch_add(1, Ordering::SeqCst), 0, "alone");
            wait();
            assert_eq!(theirs.1.fetch_sub(1, Ordering::SeqCst), 1, "alone");
        });
        assert!(lock.0.try_write().is_ok() && !lock.0.is_poisoned());
    });
}

#[test]
fn read_guards_migrate() {
    within(LONG, || {
        let lock = Arc::new(RwLock::new(()));
        let theirs = Arc::clone(&lock);
        until_one_moves(move |wait| {
            let _guard = theirs.read().unwrap();
            wait();
            assert!(theirs.try_write().is_err(), "the guard is held");
        });
        assert!(lock.try_write().is_ok() && !lock.is_poisoned());
    });
}

/// What it takes never runs out.
fn takes_until_another_has_run(take: impl Fn() + Send) {
    let runtime = Builder::new_current_thread().stall_period(None).build().unwrap();
    runtime.run(move || {
        let done = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&done);
        let other = volt::go(move || theirs.store(true, Ordering::SeqCst));
        while !done.load(Ordering::SeqCst) {
            take();
        }
        other.join().unwrap();
    });
}

#[test]
fn who_receives_what_is_there_is_charged() {
    within(LONG, || {
        let (sender, receiver) = volt::sync::mpsc::channel();
        takes_until_another_has_run(move || {
            sender.send(1).unwrap();
            assert_eq!(receiver.recv_timeout(LONG), Ok(1));
        });
        let (sender, receiver) = volt::sync::mpsc::sync_channel(1);
        takes_until_another_has_run(move || {
            sender.try_send(1).unwrap();
            assert_eq!(receiver.recv_timeout(LONG), Ok(1));
        });
    });
}

#[test]
fn who_waits_for_what_is_so_is_charged() {
    within(LONG, || {
        let (_sender, receiver) = volt::sync::watch::channel(1);
        takes_until_another_has_run(move || {
            assert_eq!(*receiver.clone().wait_for(|value| *value == 1).unwrap(), 1);
        });
    });
}
