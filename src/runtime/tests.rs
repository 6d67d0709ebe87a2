//! How a shutdown learns that the last fiber has ended; who sleeps in the poller; what waits leave behind.

use super::Builder;
use super::runtime::{Runtime, wait_drained};
use crate::fiber::Waiters;
use crate::net::TcpListener;
use crate::park::{self, Wait};
use crate::primitives::clock::Moment;
use crate::scheduler::{PollerSeat, Shared};
use crate::thread;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "still waiting for: {what}");
        std::thread::yield_now();
    }
}

/// Drains with `drain` on a thread of its own, ends the last fiber once that waits and `before` has
/// been called, and says how long the drain went on after that.
fn drain_with(drain: fn(&Shared), before: fn(&Shared)) -> Duration {
    let runtime = Builder::new().workers(2).build().unwrap();
    let shared = Arc::clone(&runtime.handle().0);
    let fiber = runtime.go(thread::park);
    let theirs = Arc::clone(&shared);
    let drainer = std::thread::spawn(move || drain(&theirs));
    until("somebody waits for the end", || !shared.drained.is_empty());
    before(&shared);
    let start = Instant::now();
    fiber.thread().unpark();
    drainer.join().unwrap();
    fiber.join().unwrap();
    start.elapsed()
}

/// Without a second look: the end itself must tell.
#[test]
fn the_last_end_wakes_who_waits_for_it() {
    fn drain(shared: &Shared) {
        shared.begin_drain();
        let deadline = Some(Moment::now().saturating_add(LONG * 2));
        let wait = Wait { deadline, ..Wait::new("shutdown") };
        park::wait_until(&shared.drained, wait, || shared.live() == 0);
    }
    let took = drain_with(drain, |_| ());
    assert!(took < LONG, "the last end told nobody");
}

/// The fiber ends as one that has not seen yet that a drain has begun: it tells nobody.
#[test]
fn an_end_that_tells_nobody_is_seen_all_the_same() {
    fn drain(shared: &Shared) {
        wait_drained(shared, Moment::now().saturating_add(LONG * 2));
    }
    let took = drain_with(drain, |shared| shared.draining.store(false, Ordering::SeqCst));
    assert!(took < LONG, "nobody looked again");
}

/// Each fiber starts the next before it ends, so there is always one: no moment may look like the
/// end of all.
#[test]
fn a_chain_of_fibers_is_never_seen_dead() {
    fn link(stop: Arc<AtomicBool>) {
        if !stop.load(Ordering::Relaxed) {
            drop(crate::go(move || link(stop)));
        }
    }
    let runtime = Builder::new().workers(2).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    runtime.go(move || link(theirs));
    let shared = &runtime.handle().0;
    // Looks count only while the chain goes on.
    let mut dead = false;
    while !dead && runtime.stats().total.spawned < 1_000_000 {
        dead = (0..1000).any(|_| shared.live() == 0);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(!dead, "nobody lives, while one fiber starts the next");
    runtime.shutdown(LONG).unwrap();
}

/// A worker goes to bed just when somebody looks at the poller in passing: it takes the place there
/// all the same, or nobody would see its timer.
#[test]
fn who_looks_in_passing_does_not_keep_a_worker_from_the_poller() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let shared = &runtime.handle().0;
    let [running, looking] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let fiber = {
        let (running, looking) = (Arc::clone(&running), Arc::clone(&looking));
        runtime.go(move || {
            running.store(true, Ordering::Release);
            until("somebody looks", || looking.load(Ordering::Acquire));
            thread::sleep(Duration::from_millis(1));
        })
    };
    until("the worker is awake", || running.load(Ordering::Acquire));
    let look = shared.driver.try_role().expect("the only worker runs a fiber");
    let parked = runtime.stats().total.parked;
    looking.store(true, Ordering::Release);
    until("the worker goes to bed", || runtime.stats().total.parked > parked);
    // By the end of this look the worker has found that somebody is there.
    std::thread::sleep(Duration::from_millis(50));
    drop(look);
    until("the timer", || fiber.is_finished());
    runtime.shutdown(LONG).unwrap();
}

/// Two workers, and a connection: a byte from outside makes a fiber run, woken by
/// the worker in the poller.
struct Pair {
    runtime: Runtime,
    near: std::net::TcpStream,
    far: TcpListener,
}

impl Pair {
    fn new(period: Option<Duration>) -> Pair {
        let far = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(far.local_addr().unwrap()).unwrap();
        // Nobody is woken to give memory back either.
        let builder = Builder::new().workers(2).stall_period(period).stack_age(HOUR);
        let runtime = builder.force_migrate(false).build().unwrap();
        runtime.handle().0.all_are_short.store(true, Ordering::Relaxed);
        Pair { runtime, near, far }
    }

    fn poller(&self) -> &PollerSeat {
        &self.runtime.handle().0.poller
    }

    fn wakes(&self) -> u64 {
        self.runtime.stats().total.wakes
    }

    /// Waits until both workers are at rest; says how many wakes there were.
    fn rest(&self) -> u64 {
        let shared = &self.runtime.handle().0;
        until("both are at rest, one of them in the poller", || {
            // One that is about to lie down would still take a place that becomes free.
            shared.sleeping_workers() == 2 && shared.poller.taken_by().is_some()
        });
        self.wakes()
    }
}

/// Who rises from the poller for a single fiber wakes another worker for its place there, unless the poller
/// is watched.
#[test]
fn a_poller_that_is_watched_is_left_for_a_moment() {
    let pair = Pair::new(None);
    let bytes = Arc::new(AtomicUsize::new(0));
    let (far, counted) = (pair.far.try_clone().unwrap(), Arc::clone(&bytes));
    let reader = pair.runtime.go(move || {
        let (mut far, _) = far.accept().unwrap();
        while far.read(&mut [0; 1]).unwrap() == 1 {
            // As under load, where what takes microseconds may take a tick.
            let start = std::time::Instant::now();
            while start.elapsed() < Duration::from_micros(300) {}
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let wakes_by_a_byte = || {
        let (wakes, before) = (pair.rest(), bytes.load(Ordering::Relaxed));
        (&pair.near).write_all(&[1]).unwrap();
        until("the byte", || bytes.load(Ordering::Relaxed) > before);
        pair.rest() - wakes
    };
    // Also accepts.
    wakes_by_a_byte();
    let unwatched = [(); 3].map(|()| wakes_by_a_byte());
    assert!(unwatched.iter().all(|wakes| *wakes > 0), "{unwatched:?}");
    pair.poller().watch();
    let watched = [(); 3].map(|()| wakes_by_a_byte());
    assert_eq!(watched, [0; 3]);
    pair.near.shutdown(std::net::Shutdown::Both).unwrap();
    reader.join().unwrap();
    pair.runtime.shutdown(LONG).unwrap();
}

/// Two that sleep until the same time come from the poller together. What pays is measured anew after a lull, so it is
/// said before each, and may be forgotten before it is asked for.
#[test]
fn who_rises_for_few_wakes_another_where_that_pays() {
    let pair = Pair::new(None);
    let shared = &pair.runtime.handle().0;
    pair.poller().watch();
    until("another is woken for two", || {
        let wakes = pair.rest();
        let deadline = crate::time::Instant::now() + Duration::from_millis(2);
        let two = [(); 2].map(|()| pair.runtime.go(move || crate::time::sleep_until(deadline)));
        // Those who wake for them have lain down again.
        let by_spawns = pair.rest();
        shared.assists(Moment::now());
        two.into_iter().for_each(|one| one.join().unwrap());
        by_spawns > wakes && pair.rest() > by_spawns
    });
    pair.runtime.shutdown(LONG).unwrap();
}

/// A fiber that computes once it has read a byte, until it is told to stop.
struct Computing {
    fiber: thread::JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

impl Computing {
    /// Returns when it does, and that it does, for a byte.
    fn begin(pair: &Pair) -> (Computing, impl FnOnce()) {
        let [running, stop] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let far = pair.far.try_clone().unwrap();
        let (runs, stopped) = (Arc::clone(&running), Arc::clone(&stop));
        let fiber = pair.runtime.go(move || {
            let (mut far, _) = far.accept().unwrap();
            far.read_exact(&mut [0; 1]).unwrap();
            runs.store(true, Ordering::Relaxed);
            until("somebody stops it", || stopped.load(Ordering::Relaxed));
        });
        let near = pair.near.try_clone().unwrap();
        let compute = move || {
            (&near).write_all(&[1]).unwrap();
            until("the fiber computes", || running.load(Ordering::Relaxed));
        };
        (Computing { fiber, stop }, compute)
    }

    fn end(self, pair: Pair) {
        self.stop.store(true, Ordering::Relaxed);
        self.fiber.join().unwrap();
        pair.runtime.shutdown(LONG).unwrap();
    }
}

/// The fiber for which it was left does not stop: whoever watches wakes a worker for the place.
#[test]
fn a_poller_that_stays_empty_is_filled_by_who_watches_it() {
    let pair = Pair::new(None);
    pair.poller().watch();
    let (computing, compute) = Computing::begin(&pair);
    let wakes = pair.rest();
    compute();
    assert_eq!((pair.poller().taken_by(), pair.wakes()), (None, wakes));
    let look = || pair.runtime.handle().0.look_after_poller();
    look();
    until("somebody is there", || pair.poller().taken_by().is_some());
    look();
    assert_eq!(pair.wakes(), wakes + 1, "woken once, for the place");
    computing.end(pair);
}

/// The supervisor sleeps, and hears of it in time.
#[test]
fn a_poller_that_stays_empty_is_filled_by_the_supervisor() {
    let pair = Pair::new(Some(HOUR));
    let (computing, compute) = Computing::begin(&pair);
    until("the supervisor watches", || pair.poller().is_watched());
    pair.rest();
    let looks = || pair.runtime.handle().0.looks();
    let before = looks();
    compute();
    until("somebody is there", || pair.poller().taken_by().is_some());
    assert!(looks() > before, "somebody else has sent it there");
    computing.end(pair);
}

/// By how long the worker sleeps in the poller before it leaves it.
#[test]
fn the_poller_is_left_for_less_long_while_much_comes() {
    let pair = Pair::new(Some(HOUR));
    until("the supervisor watches", || pair.poller().is_watched());
    let shared = &pair.runtime.handle().0;
    let calm = shared.relief();
    let (far, near) = (pair.far.try_clone().unwrap(), pair.near.try_clone().unwrap());
    let echo = pair.runtime.go(move || {
        let (mut far, _) = far.accept().unwrap();
        let mut byte = [0];
        while far.read(&mut byte).unwrap() == 1 {
            far.write_all(&byte).unwrap();
        }
    });
    let mut near = crate::net::TcpStream::from(near);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let client = pair.runtime.go(move || {
        while !stopped.load(Ordering::Relaxed) {
            near.write_all(&[1]).unwrap();
            near.read_exact(&mut [0]).unwrap();
        }
        near.shutdown(std::net::Shutdown::Both).unwrap();
    });
    until("it is left for less long", || shared.relief() <= calm / 2);
    stop.store(true, Ordering::Relaxed);
    client.join().unwrap();
    echo.join().unwrap();
    let sleeper =
        pair.runtime.go(|| (0..100).for_each(|_| thread::sleep(Duration::from_millis(2))));
    sleeper.join().unwrap();
    assert_eq!(shared.relief(), calm);
    pair.runtime.shutdown(LONG).unwrap();
}

/// Or the supervisor would look while all sleep, for each message that comes alone.
#[test]
fn who_goes_to_sleep_puts_the_look_off_that_it_wanted_awake() {
    const MESSAGES: usize = 20;
    let pair = Pair::new(Some(HOUR));
    let far = pair.far.try_clone().unwrap();
    let reader = pair.runtime.go(move || {
        let (mut far, _) = far.accept().unwrap();
        far.read_exact(&mut [0; MESSAGES]).unwrap();
    });
    pair.rest();
    let looks = || pair.runtime.handle().0.looks();
    let before = looks();
    for _ in 0..MESSAGES {
        std::thread::sleep(Duration::from_millis(8));
        (&pair.near).write_all(&[1]).unwrap();
    }
    reader.join().unwrap();
    // One whose fiber was kept from running, by others on this machine, is looked after.
    let looks = looks() - before;
    assert!(looks < MESSAGES as u64 / 2, "{looks} looks");
    pair.runtime.shutdown(LONG).unwrap();
}

/// It is told when a timer that is far is due, whatever the one before it was.
#[test]
fn who_goes_to_sleep_for_a_timer_knows_for_how_long() {
    const TIMES: u64 = 20;
    let pair = Pair::new(Some(HOUR));
    pair.rest();
    let looks = || pair.runtime.handle().0.looks();
    let before = looks();
    let ticks = pair.runtime.go(|| {
        for _ in 0..TIMES {
            [1, 9].iter().for_each(|millis| thread::sleep(Duration::from_millis(*millis)));
        }
    });
    ticks.join().unwrap();
    // As above.
    let looks = looks() - before;
    assert!(looks < TIMES / 2, "{looks} looks");
    pair.runtime.shutdown(LONG).unwrap();
}

/// Whoever was woken before it slept runs on another thread, if there is one worker and the caller has it.
#[test]
fn who_has_not_gone_to_sleep_is_not_near() {
    use crate::park::{Destination, is_near};
    let runtime = Builder::new().workers(1).build().unwrap();
    assert!(!runtime.run(|| is_near(Destination::of(None))));
}

/// A burst of timers, and one that stays armed: the memory goes with that of the stacks.
#[test]
fn what_a_burst_of_timers_needed_is_given_back() {
    const MANY: usize = 4_000;
    const FAR: Duration = Duration::from_secs(3600);
    let runtime = Builder::new().workers(1).stack_age(Duration::from_millis(20)).build().unwrap();
    let timers = &runtime.handle().0.driver.timers;
    let sleep = || runtime.go(|| thread::sleep(FAR));
    let (one, burst) = (sleep(), (0..MANY).map(|_| sleep()).collect::<Vec<_>>());
    until("all sleep", || timers.len() == MANY + 1);
    assert!(timers.chunks() >= MANY / 32, "nothing to see");
    burst.iter().for_each(|fiber| fiber.cancel());
    burst.into_iter().for_each(|fiber| assert!(fiber.join().is_err()));
    until("the memory is given back", || timers.chunks() < 100);
    assert_eq!(timers.len(), 1);
    one.cancel();
    assert!(one.join().is_err());
    runtime.shutdown(LONG).unwrap();
}

/// On a fiber: the timer of `wait` is armed, and telling the poller fails.
fn unwinds<R: Send + 'static>(wait: impl FnOnce() -> R + Send + 'static) {
    const MOMENT: Duration = Duration::from_millis(1);
    let runtime = Builder::new().workers(1).force_migrate(false).build().unwrap();
    let shared = Arc::clone(&runtime.handle().0);
    let left = runtime.run(move || {
        let driver = &shared.driver;
        driver.fails.store(true, Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(wait)).is_err(), "nothing to see");
        let left = driver.timers.len();
        // The next wait ends as if nothing had been.
        thread::sleep(MOMENT);
        left
    });
    assert_eq!(left, 0, "a timer is armed, and its wait is over");
    runtime.shutdown(LONG).unwrap();
}

#[test]
fn a_sleep_that_unwinds_leaves_no_timer() {
    unwinds(|| thread::sleep(LONG));
}

#[test]
fn a_wait_that_unwinds_leaves_no_waiter() {
    let waiters = Arc::new(Waiters::default());
    let theirs = Arc::clone(&waiters);
    unwinds(move || {
        let deadline = Some(Moment::now().saturating_add(LONG));
        park::wait_until(&theirs, Wait { deadline, ..Wait::new("test") }, || false)
    });
    assert!(waiters.is_empty(), "a waiter is linked, and its wait is over");
}

/// Workers stand still while fibers are listed, so whoever asks again waits first.
#[test]
fn a_list_of_fibers_is_followed_by_a_rest() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let (handle, shared) = (runtime.handle(), &runtime.handle().0);
    let mut turn = Moment::default();
    until("a rest that is not over yet", || {
        handle.fibers(1);
        turn = shared.turn_to_list();
        turn > Moment::now()
    });
    handle.fibers(1);
    assert!(Moment::now() >= turn, "the workers had no rest");
}

/// Is a fiber urgent that has waited in `wait` until `end`? Before that it is not.
fn is_urgent(wait: impl FnOnce() + Send + 'static, end: impl FnOnce()) -> bool {
    let is_urgent = || crate::fiber::current().unwrap().traits().urgent();
    let fiber = crate::go(move || (is_urgent(), wait(), is_urgent()));
    crate::yield_now();
    end();
    matches!(fiber.join().unwrap(), (false, (), true))
}

#[test]
fn who_waits_for_a_lock_is_urgent() {
    static MUTEX: crate::sync::Mutex<()> = crate::sync::Mutex::new(());
    static RWLOCK: crate::sync::RwLock<()> = crate::sync::RwLock::new(());
    Builder::new().workers(1).build().unwrap().run(|| {
        let guard = MUTEX.lock().unwrap();
        assert!(is_urgent(|| drop(MUTEX.lock()), || drop(guard)));
        let guard = RWLOCK.write().unwrap();
        assert!(is_urgent(|| drop(RWLOCK.read()), || drop(guard)));
        let (sender, receiver) = crate::channel::bounded(1);
        assert!(!is_urgent(move || receiver.recv().unwrap(), || sender.send(()).unwrap()));
    });
}
