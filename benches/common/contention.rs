//! Several fibers and threads that want one mutex all the time: how long the unluckiest waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use volt::runtime::Runtime;
use volt::sync::Mutex;

/// What the waits of one kind were like.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// From the unlock of one to the lock of another, in nanoseconds, in order of size.
    hand_overs: Vec<u64>,
    /// The longest wait, in nanoseconds.
    pub longest: u64,
    /// How often others took the lock during one wait, at most.
    pub overtaken: u64,
}

impl Waits {
    /// The median.
    pub fn hand_over(&self) -> u64 {
        self.hand_overs.get(self.hand_overs.len() / 2).copied().unwrap_or(0)
    }

    /// The longest wait in hand-overs; infinite if there were too few to tell.
    pub fn ratio(&self) -> f64 {
        match self.hand_overs.len() {
            0..20 => f64::INFINITY,
            _ => self.longest as f64 / self.hand_over() as f64,
        }
    }
}

/// Under the lock.
struct Inside {
    owner: usize,
    freed: Instant,
    /// Of fibers, and of threads: a thread takes much longer to come.
    waits: [Waits; 2],
}

struct Contended {
    lock: Mutex<Inside>,
    turns: AtomicU64,
    stop: AtomicBool,
}

impl Contended {
    /// Takes the lock again and again, and lets go of it at once.
    fn contend(&self, who: usize, kind: usize) {
        while !self.stop.load(Relaxed) {
            let (before, begin) = (self.turns.load(Relaxed), Instant::now());
            let mut inside = self.lock.lock().unwrap();
            let now = Instant::now();
            let turn = self.turns.fetch_add(1, Relaxed);
            let changes = inside.owner != who;
            let hand_over = (now - inside.freed).as_nanos() as u64;
            let waits = &mut inside.waits[kind];
            waits.overtaken = waits.overtaken.max(turn - before);
            waits.longest = waits.longest.max((now - begin).as_nanos() as u64);
            if changes {
                waits.hand_overs.push(hand_over);
            }
            (0..20).for_each(|_| std::hint::spin_loop());
            inside.owner = who;
            inside.freed = Instant::now();
        }
    }
}

/// Lets so many contend for `time`; returns the waits of the fibers, and those of the threads.
pub fn contend(runtime: &Runtime, fibers: usize, threads: usize, time: Duration) -> [Waits; 2] {
    let inside = Inside { owner: usize::MAX, freed: Instant::now(), waits: Default::default() };
    let all = volt::sync::Arc::new(Contended {
        lock: Mutex::new(inside),
        turns: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
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
    std::thread::sleep(time);
    all.stop.store(true, Relaxed);
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut waits = std::mem::take(&mut all.lock.lock().unwrap().waits);
    waits.iter_mut().for_each(|waits| waits.hand_overs.sort_unstable());
    waits
}
