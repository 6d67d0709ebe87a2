//! Who takes part in a round, and what befalls them.

use crate::common::{LONG, Rng, Seed};
use std::any::Any;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use volt::cancel::{Cancelled, Token};
use volt::runtime::{Builder, Handle, Migrate, Runtime};

/// Steps of each who takes part in a round.
const STEPS: u64 = 40;

/// Runs rounds for as long as a storm lasts, on a runtime that the seed draws.
pub fn storm(round: impl FnMut(&mut Round)) {
    storm_on(|builder| builder, round);
}

pub fn storm_on(build: fn(Builder) -> Builder, mut round: impl FnMut(&mut Round)) {
    let time = std::env::var("VOLT_STRESS_SECONDS").map_or(0.25, |time| time.parse().unwrap());
    let time = Duration::from_secs_f64(time);
    let (seed, start) = (Seed::new(), Instant::now());
    let mut rng = seed.rng();
    while start.elapsed() < time {
        let house = House::build(build, &mut rng);
        for _ in 0..1 + rng.below(8) {
            let mut one = Round::new(Arc::clone(&house), rng.fork());
            round(&mut one);
            one.settle();
        }
        let runtime = house.runtime.lock().unwrap().take().unwrap();
        runtime.shutdown(LONG).unwrap();
        let stats = house.handle.stats();
        assert_eq!((stats.live, stats.queue.size), (0, 0), "{stats:?}");
    }
}

struct House {
    handle: Handle,
    /// Taken by the end of the storm, or to say what hangs.
    runtime: Mutex<Option<Runtime>>,
}

impl House {
    fn build(build: fn(Builder) -> Builder, rng: &mut Rng) -> Arc<House> {
        let migrate = if rng.below(4) == 0 { Migrate::BeforeStart } else { Migrate::Anytime };
        let builder = Builder::new().workers(1 + rng.below(3) as usize).migrate(migrate);
        let runtime = build(builder.max_blocking(3)).build().unwrap();
        Arc::new(House { handle: runtime.handle().clone(), runtime: Mutex::new(Some(runtime)) })
    }
}

/// One who takes part.
pub struct Me {
    pub rng: Rng,
    air: Arc<Mutex<Token>>,
    at: Arc<Mutex<&'static str>>,
}

enum Task {
    Fiber(volt::JoinHandle<()>),
    Thread(std::thread::JoinHandle<()>),
}

struct Actor {
    task: Task,
    at: Arc<Mutex<&'static str>>,
    /// Is neither cancelled nor waited for before the others have left.
    steady: bool,
}

pub struct Round {
    pub rng: Rng,
    pub handle: Handle,
    house: Arc<House>,
    air: Arc<Mutex<Token>>,
    actors: Vec<Actor>,
}

impl Me {
    /// Does `what`, on which anything may fall; `None` if it was cut off.
    pub fn gust<T>(&mut self, what: &'static str, op: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        if self.rng.below(3) == 0 { Some(self.calm(what, op)) } else { self.cut(what, op) }
    }

    /// As `gust`, and sooner or later it does: for what may have to wait for ever.
    pub fn cut<T>(&mut self, what: &'static str, op: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        self.note(what);
        let micros = Duration::from_micros(self.rng.below(120));
        let how = self.rng.below(6);
        let token = self.air.lock().unwrap().clone();
        let rng = &mut self.rng;
        match how {
            0 | 1 => volt::timeout(micros, || op(rng)).ok(),
            2 => token.run(|| op(rng)).ok(),
            3 => token.run(|| volt::timeout(micros, || op(rng)).ok()).ok().flatten(),
            4 => volt::timeout(micros, || token.child().run(|| op(rng)).ok()).ok().flatten(),
            _ => volt::cancel::shield(|| volt::timeout(micros, || op(rng)).ok()),
        }
    }

    /// Does `what`; only a cancel of the fiber falls on it.
    pub fn calm<T>(&mut self, what: &'static str, op: impl FnOnce(&mut Rng) -> T) -> T {
        self.note(what);
        op(&mut self.rng)
    }

    pub fn note(&self, what: &'static str) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }
}

/// Spends a little time, in one way or another.
pub fn dawdle(rng: &mut Rng) {
    match rng.below(8) {
        0 | 1 => volt::yield_now(),
        2 => volt::sleep(Duration::from_micros(rng.below(60))),
        3 => std::thread::sleep(Duration::from_micros(rng.below(20))),
        _ => {}
    }
}

pub fn micros(rng: &mut Rng, below: u64) -> Duration {
    Duration::from_micros(rng.below(below))
}

impl Round {
    fn new(house: Arc<House>, rng: Rng) -> Round {
        let handle = house.handle.clone();
        Round { rng, handle, house, air: Arc::default(), actors: Vec::new() }
    }

    fn me(&mut self) -> Me {
        let at = Arc::new(Mutex::new("nothing yet"));
        Me { rng: self.rng.fork(), air: Arc::clone(&self.air), at }
    }

    fn add(&mut self, on_fiber: bool, steady: bool, f: impl FnOnce(&mut Me) + Send + 'static) {
        let mut me = self.me();
        let at = Arc::clone(&me.at);
        let run = move || {
            f(&mut me);
            me.note("the end");
        };
        let task = match on_fiber {
            true => Task::Fiber(self.handle.go(run)),
            false => Task::Thread(std::thread::spawn(run)),
        };
        self.actors.push(Actor { task, at, steady });
    }

    /// A fiber that does `step` again and again, unless it is cancelled.
    pub fn fiber(&mut self, mut step: impl FnMut(&mut Me) + Send + 'static) {
        self.add(true, false, move |me| (0..STEPS).for_each(|_| step(me)));
    }

    /// A thread that does so.
    pub fn thread(&mut self, mut step: impl FnMut(&mut Me) + Send + 'static) {
        self.add(false, false, move |me| (0..STEPS).for_each(|_| step(me)));
    }

    /// `fibers` fibers and a thread that do so.
    pub fn crowd(&mut self, fibers: usize, step: impl FnMut(&mut Me) + Clone + Send + 'static) {
        (0..fibers).for_each(|_| self.fiber(step.clone()));
        self.thread(step);
    }

    /// A fiber that is cancelled at random and ends by itself.
    pub fn once(&mut self, f: impl FnOnce(&mut Me) + Send + 'static) {
        self.add(true, false, f);
    }

    /// A fiber or a thread that nobody cancels, and that ends when the others have.
    pub fn steady(&mut self, f: impl FnOnce(&mut Me) + Send + 'static) {
        let on_fiber = self.rng.below(2) == 0;
        self.add(on_fiber, true, f);
    }

    /// Lets it rage until all have left but the steady ones.
    pub fn blow(&mut self) {
        let deadline = Instant::now() + LONG;
        while self.actors.iter().any(|actor| !actor.steady && !actor.is_finished()) {
            match self.rng.below(4) {
                0 => self.cancel_one(),
                1 | 2 => std::mem::take(&mut *self.air.lock().unwrap()).cancel(),
                _ => {}
            }
            std::thread::sleep(micros(&mut self.rng, 300));
            self.check(deadline);
        }
    }

    fn cancel_one(&mut self) {
        let chosen = self.rng.below(self.actors.len() as u64) as usize;
        if let Actor { task: Task::Fiber(fiber), steady: false, .. } = &self.actors[chosen] {
            fiber.cancel();
        }
    }

    /// Waits for all; the panic of one is the round's.
    pub fn settle(&mut self) {
        let deadline = Instant::now() + LONG;
        while !self.actors.iter().all(Actor::is_finished) {
            std::thread::sleep(Duration::from_micros(50));
            self.check(deadline);
        }
        for actor in self.actors.drain(..) {
            let result = match actor.task {
                Task::Fiber(fiber) => fiber.join(),
                Task::Thread(thread) => thread.join(),
            };
            result.unwrap_or_else(pass_on);
        }
    }

    /// Says who hangs, and where.
    fn check(&self, deadline: Instant) {
        if Instant::now() < deadline {
            return;
        }
        for actor in self.actors.iter().filter(|actor| !actor.is_finished()) {
            let at = actor.at.lock().unwrap_or_else(PoisonError::into_inner);
            eprintln!("{} hangs in: {at}", actor.kind());
        }
        let runtime = self.house.runtime.lock().unwrap().take().unwrap();
        panic!("still not through: {:?}", runtime.shutdown(Duration::from_millis(100)));
    }
}

fn pass_on(payload: Box<dyn Any + Send>) {
    if !payload.is::<Cancelled>() {
        resume_unwind(payload);
    }
}

impl Actor {
    fn is_finished(&self) -> bool {
        match &self.task {
            Task::Fiber(fiber) => fiber.is_finished(),
            Task::Thread(thread) => thread.is_finished(),
        }
    }

    fn kind(&self) -> &'static str {
        match (&self.task, self.steady) {
            (Task::Fiber(_), false) => "a fiber",
            (Task::Fiber(_), true) => "a steady fiber",
            (Task::Thread(_), false) => "a thread",
            (Task::Thread(_), true) => "a steady thread",
        }
    }
}

/// Counts who is inside, whatever way it leaves.
pub struct Inside<'a>(&'a AtomicUsize, usize);

impl<'a> Inside<'a> {
    #[track_caller]
    pub fn enter(count: &'a AtomicUsize, share: usize, most: usize) -> Inside<'a> {
        let inside = count.fetch_add(share, Ordering::SeqCst) + share;
        assert!(inside <= most, "{inside} of {most} inside");
        Inside(count, share)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::SeqCst);
    }
}
