//! Several fibers and threads that want one mutex all the time: how long the unluckiest waits.

use std::ops::DerefMut;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use volt::runtime::Runtime;

/// Nothing counts before: first touches of stacks and memory take tens of microseconds each.
const WARM_UP: Duration = Duration::from_millis(20);

/// So many hand-overs are kept, in memory that is there already.
const HAND_OVERS: usize = 1 << 19;

/// Some twenty turns: if the lock goes to nobody for longer, the system has taken the processor from its owner or
/// from the one to whom it was given.
const PAUSE: Duration = Duration::from_micros(20);

/// What the waits of one kind were like.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// From the unlock of one to the lock of another, in nanoseconds, in order of size.
    hand_overs: Vec<u64>,
    /// The longest wait, in nanoseconds.
    pub longest: u64,
    /// The longest wait while others got through: without what was more than `PAUSE` from one who took the
    /// lock to the next.
    pub longest_passed: u64,
    /// How often others took the lock during one wait, at most.
    pub overtaken: u64,
}

impl Waits {
    fn new() -> Waits {
        let mut hand_overs = vec![1; HAND_OVERS];
        hand_overs.clear();
        Waits { hand_overs, ..Waits::default() }
    }

    /// The median.
    pub fn hand_over(&self) -> u64 {
        self.hand_overs.get(self.hand_overs.len() / 2).copied().unwrap_or(0)
    }

    /// The longest wait while others got through, in hand-overs; infinite if there were too few to tell.
    pub fn ratio(&self) -> f64 {
        match self.hand_overs.len() {
            0..20 => f64::INFINITY,
            _ => self.longest_passed as f64 / self.hand_over() as f64,
        }
    }
}

/// What became of them all.
#[derive(Debug)]
pub struct Contention {
    /// Of fibers, and of threads: a thread takes much longer to come.
    pub waits: [Waits; 2],
    /// Nanoseconds from one who had the lock to the next.
    pub turn: u64,
}

/// A mutex, ours or another.
pub trait Mutex: Send + Sync + 'static {
    fn new(inside: Inside) -> Self;
    fn lock(&self) -> impl DerefMut<Target = Inside>;
}

macro_rules! mutex {
    ($mutex:ty, $guard:ident => $unwrapped:expr) => {
        impl Mutex for $mutex {
            fn new(inside: Inside) -> Self {
                <$mutex>::new(inside)
            }

            fn lock(&self) -> impl DerefMut<Target = Inside> {
                let $guard = <$mutex>::lock(self);
                $unwrapped
            }
        }
    };
}

mutex!(volt::sync::Mutex<Inside>, guard => guard.unwrap());
mutex!(std::sync::Mutex<Inside>, guard => guard.unwrap());
mutex!(parking_lot::Mutex<Inside>, guard => guard);

/// Under the lock.
#[derive(Debug)]
pub struct Inside {
    owner: usize,
    /// What ends before does not count.
    from: Instant,
    taken: Instant,
    freed: Instant,
    waits: [Waits; 3],
}

struct Contended<M> {
    lock: M,
    turns: AtomicU64,
    /// For so many nanoseconds somebody got through.
    passed: AtomicU64,
    begun: AtomicUsize,
    stop: AtomicBool,
}

impl<M: Mutex> Contended<M> {
    /// Takes the lock again and again, and lets go of it at once.
    fn contend(&self, who: usize, kind: usize) {
        self.begun.fetch_add(1, Relaxed);
        while !self.stop.load(Relaxed) {
            let (before, passed) = (self.turns.load(Relaxed), self.passed.load(Relaxed));
            let begin = Instant::now();
            let mut inside = self.lock.lock();
            let now = Instant::now();
            let turn = self.turns.fetch_add(1, Relaxed);
            let since = (now - inside.taken).min(PAUSE).as_nanos() as u64;
            let passed = self.passed.fetch_add(since, Relaxed) + since - passed;
            inside.taken = now;
            let changes = inside.owner != who;
            let hand_over = (now - inside.freed).min(PAUSE).as_nanos() as u64;
            let kind = if now < inside.from { 2 } else { kind };
            let waits = &mut inside.waits[kind];
            waits.overtaken = waits.overtaken.max(turn - before);
            let waited = (now - begin).as_nanos() as u64;
            waits.longest = waits.longest.max(waited);
            waits.longest_passed = waits.longest_passed.max(waited.min(passed));
            if changes && waits.hand_overs.len() < HAND_OVERS {
                waits.hand_overs.push(hand_over);
            }
            (0..20).for_each(|_| std::hint::spin_loop());
            inside.owner = who;
            inside.freed = Instant::now();
        }
    }
}

/// Lets so many contend for `time`; tells of them.
pub fn contend<M: Mutex>(
    runtime: &Runtime,
    fibers: usize,
    threads: usize,
    time: Duration,
) -> Contention {
    let now = Instant::now();
    let waits = [(); 3].map(|()| Waits::new());
    let inside = Inside { owner: usize::MAX, from: now, taken: now, freed: now, waits };
    let all = volt::sync::Arc::new(Contended {
        lock: M::new(inside),
        turns: AtomicU64::new(0),
        passed: AtomicU64::new(0),
        begun: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    });
    // All stand in the queue before the first goes on: a fiber that finds the lock free each time never waits,
    // so on the only worker none would begin beside it before the supervisor helps.
    let mut closed = all.lock.lock();
    let count = fibers + threads;
    let fibers: Vec<_> = (0..fibers)
        .map(|who| {
            let all = volt::sync::Arc::clone(&all);
            runtime.go(move || all.contend(who, 0))
        })
        .collect();
    let threads: Vec<_> = (0..threads)
        .map(|who| {
            let all = volt::sync::Arc::clone(&all);
            std::thread::spawn(move || all.contend(1_000 + who, 1))
        })
        .collect();
    while all.begun.load(Relaxed) < count {
        std::thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    (closed.from, closed.taken, closed.freed) = (start + WARM_UP, start, start);
    drop(closed);
    std::thread::sleep(WARM_UP + time);
    let turn = start.elapsed().as_nanos() as u64 / all.turns.load(Relaxed);
    all.stop.store(true, Relaxed);
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let [mut fibers, mut threads, _] = std::mem::take(&mut all.lock.lock().waits);
    [&mut fibers, &mut threads].into_iter().for_each(|waits| waits.hand_overs.sort_unstable());
    Contention { waits: [fibers, threads], turn }
}
