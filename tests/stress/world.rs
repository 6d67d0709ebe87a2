//! What the fibers and the plain threads of a storm share, and do.
//!
//! So that no storm can lock itself up: a fiber joins only what was made later than itself, and in
//! blocking mode it waits only for what ends by itself.

use crate::common::Rng;
use crate::ledger::{Ledger, Parcel};
use crate::plan::Plan;
use std::hint;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use volt::net::TcpListener;
use volt::runtime::{Builder, Handle, JoinHandle};
use volt::thread::{self, Thread};

pub struct World {
    pub plan: Plan,
    pub ledger: Arc<Ledger>,
    pub runtimes: Vec<Handle>,
    /// Of each runtime: fibers spawned, and calls of `blocking` that count.
    pub spawned: Vec<AtomicU64>,
    pub blocking: Vec<AtomicU64>,
    /// Handles of fibers that live, or once did.
    board: Mutex<Vec<Thread>>,
    /// Fibers that anyone may join.
    pile: Mutex<Vec<(usize, JoinHandle<Parcel>)>>,
    /// For accepts that are cancelled.
    listener: Option<TcpListener>,
    pub over: AtomicBool,
}

/// One fiber, as its own code sees it.
struct Me {
    id: usize,
    runtime: usize,
    rng: Rng,
    /// Steps that are left.
    left: u64,
    /// It has its thread to itself.
    pinned: bool,
    /// It may wait for other fibers.
    joins: bool,
}

const PILE: usize = 300;
const BOARD: u64 = 200;

impl World {
    pub fn new(plan: Plan, runtimes: Vec<Handle>) -> Arc<World> {
        let counters = || plan.runtimes.iter().map(|_| AtomicU64::new(0)).collect();
        Arc::new(World {
            ledger: Ledger::new(),
            runtimes,
            spawned: counters(),
            blocking: counters(),
            board: Mutex::default(),
            pile: Mutex::default(),
            listener: plan.cut.is_none().then(|| TcpListener::bind("127.0.0.1:0").unwrap()),
            over: AtomicBool::new(false),
            plan,
        })
    }

    pub fn count(&self, runtime: usize) {
        self.spawned[runtime].fetch_add(1, Ordering::SeqCst);
    }

    /// A fiber of `steps` random steps on `runtime`; from inside it if `here`.
    pub fn spawn(
        self: &Arc<World>,
        runtime: usize,
        here: bool,
        rng: &mut Rng,
        steps: u64,
    ) -> Option<(usize, JoinHandle<Parcel>)> {
        let ticket = self.ledger.ticket()?;
        let id = ticket.id;
        let (world, rng) = (Arc::clone(self), rng.fork());
        let body = move || {
            let parcel = ticket.run();
            let mut me = Me { id, runtime, rng, left: steps, pinned: false, joins: true };
            // Cancels come at any time; the ledger wants every fiber to run to its end all the same.
            volt::cancel::shield(|| {
                while me.left > 0 {
                    me.left -= 1;
                    world.step(&mut me);
                }
            });
            world.ledger.note(id, 100);
            if me.rng.below(16) == 0 {
                let _late = (me.rng.below(2) == 0).then(|| WaitsWhenDropped(&world, runtime));
                resume_unwind(Box::new(parcel));
            }
            parcel
        };
        self.count(runtime);
        Some((id, if here { volt::go(body) } else { self.runtimes[runtime].go(body) }))
    }

    fn child(self: &Arc<World>, me: &mut Me) -> Option<(usize, JoinHandle<Parcel>)> {
        let steps = me.left.min(3);
        if me.rng.below(8) == 0 {
            let runtime = me.rng.below(self.runtimes.len() as u64) as usize;
            return self.spawn(runtime, false, &mut me.rng, steps);
        }
        self.spawn(me.runtime, true, &mut me.rng, steps)
    }

    /// A child that does next to nothing, and ends by itself.
    fn small_child<T: Send + 'static>(
        &self,
        runtime: usize,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.count(runtime);
        volt::go(f)
    }

    fn step(self: &Arc<World>, me: &mut Me) {
        let kind = me.rng.below(32);
        self.ledger.note(me.id, kind);
        match kind {
            0..4 => volt::yield_now(),
            4 | 5 => volt::sleep(Duration::from_micros(me.rng.below(300))),
            6..9 => {
                if let Some((id, child)) = self.child(me).filter(|_| me.joins) {
                    join(id, child);
                }
            }
            9 => drop(self.child(me)),
            10 | 11 => self.post_and_park(me),
            12 | 13 => self.unpark_somebody(&mut me.rng),
            14 | 15 => {
                let child = self.child(me);
                child.into_iter().for_each(|child| self.to_pile(child));
            }
            16..19 => self.join_somebody(me),
            19 => self.cancel_somebody(&mut me.rng),
            20 => self.block(me),
            21 => self.pin(me),
            22 => self.nap(&mut me.rng),
            23 => compute(Duration::from_micros(me.rng.below(100))),
            24 => self.panic_inside(me),
            25 | 26 => self.burst(me),
            27 => self.scope(me),
            28 | 29 => self.wait_for_unpark(me),
            30 => self.cancel_an_accept(me),
            _ => {
                if let Some((id, child)) = self.child(me).filter(|_| me.joins) {
                    child.thread().unpark();
                    while !child.is_finished() {
                        volt::yield_now();
                    }
                    join(id, child);
                }
            }
        }
    }

    fn post_and_park(&self, me: &mut Me) {
        let mut board = self.board.lock().unwrap();
        let at = me.rng.below(BOARD) as usize;
        match board.get_mut(at) {
            Some(place) => *place = volt::current(),
            None => board.push(volt::current()),
        }
        drop(board);
        thread::park_timeout(Duration::from_micros(me.rng.below(400)));
    }

    fn unpark_somebody(&self, rng: &mut Rng) {
        let at = rng.below(BOARD) as usize;
        let one = self.board.lock().unwrap().get(at).cloned();
        one.inspect(Thread::unpark);
    }

    fn to_pile(&self, child: (usize, JoinHandle<Parcel>)) {
        let mut pile = self.pile.lock().unwrap();
        if pile.len() < PILE {
            pile.push(child);
        }
    }

    /// Somebody from the pile that was made later than `id`.
    fn take_from_pile(&self, rng: &mut Rng, id: usize) -> Option<(usize, JoinHandle<Parcel>)> {
        let mut pile = self.pile.lock().unwrap();
        let at = rng.below(pile.len().max(1) as u64) as usize;
        (pile.get(at)?.0 > id).then(|| pile.swap_remove(at))
    }

    fn join_somebody(&self, me: &mut Me) {
        if me.joins {
            let somebody = self.take_from_pile(&mut me.rng, me.id);
            somebody.into_iter().for_each(|(id, fiber)| join(id, fiber));
        }
    }

    fn cancel_somebody(&self, rng: &mut Rng) {
        let pile = self.pile.lock().unwrap();
        let at = rng.below(pile.len().max(1) as u64) as usize;
        if let Some((_, fiber)) = pile.get(at) {
            fiber.cancel();
        }
    }

    fn block(self: &Arc<World>, me: &mut Me) {
        if me.rng.below(2) == 0 {
            return self.block_briefly(me);
        }
        self.in_blocking(me, |me| volt::blocking(|| self.a_few_steps(me)));
    }

    /// Nearly all calls from here return at once, so that the runtime learns to keep the core for them.
    fn block_briefly(self: &Arc<World>, me: &mut Me) {
        for _ in 0..32 {
            let how = me.rng.below(512);
            let call = |me: &mut Me| {
                volt::blocking(|| match how {
                    0 => std::thread::sleep(Duration::from_millis(3)),
                    1..4 => self.a_few_steps(me),
                    _ => (),
                });
            };
            self.in_blocking(me, call);
        }
    }

    fn in_blocking(&self, me: &mut Me, call: impl FnOnce(&mut Me)) {
        if !me.pinned {
            self.blocking[me.runtime].fetch_add(1, Ordering::SeqCst);
        }
        let before = (me.pinned, me.joins);
        (me.pinned, me.joins) = (true, false);
        call(me);
        (me.pinned, me.joins) = before;
    }

    fn pin(self: &Arc<World>, me: &mut Me) {
        let before = (me.pinned, me.joins);
        me.pinned = true;
        // Fibers that cannot leave this thread would not run meanwhile; and in a storm that is cut
        // the thread would wait for ever for those that do not run again.
        me.joins &=
            self.plan.cut.is_none() && !self.plan.runtimes.iter().any(|other| other.before_start);
        volt::thread::pinned(|| self.a_few_steps(me));
        (me.pinned, me.joins) = before;
    }

    fn a_few_steps(self: &Arc<World>, me: &mut Me) {
        let id = std::thread::current().id();
        if me.rng.below(3) == 0 {
            std::thread::sleep(Duration::from_micros(me.rng.below(500)));
        }
        for _ in 0..me.rng.below(3) {
            // A step may be one that takes steps of its own.
            if let Some(left) = me.left.checked_sub(1) {
                me.left = left;
                self.step(me);
            }
        }
        assert_eq!(std::thread::current().id(), id, "the thread is the fiber's own");
    }

    /// Keeps the thread without a word.
    fn nap(&self, rng: &mut Rng) {
        let longest = match rng.below(10) {
            0 => self.plan.longest_nap.as_micros() as u64,
            _ => 200,
        };
        std::thread::sleep(Duration::from_micros(rng.below(longest.max(1))));
    }

    fn panic_inside(self: &Arc<World>, me: &mut Me) {
        let waits = me.rng.below(2) == 0;
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _late = waits.then(|| WaitsWhenDropped(self, me.runtime));
            resume_unwind(Box::new(me.id));
        }));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&me.id));
        assert!(!thread::panicking());
    }

    fn burst(self: &Arc<World>, me: &mut Me) {
        let count = me.rng.below(20) * me.rng.below(20);
        let left = std::mem::take(&mut me.left);
        let mut children: Vec<_> = (0..count).map_while(|_| self.child(me)).collect();
        me.left = left;
        if me.rng.below(2) == 0 {
            children.reverse();
        }
        for (id, child) in children.into_iter().filter(|_| me.joins) {
            join(id, child);
        }
    }

    fn scope(&self, me: &mut Me) {
        if !me.joins || self.plan.cut.is_some() {
            return;
        }
        let total = AtomicU64::new(0);
        let count = me.rng.below(4);
        thread::scope(|s| {
            for n in 0..count {
                self.count(me.runtime);
                let total = &total;
                s.spawn(move || {
                    if n % 2 == 0 {
                        volt::yield_now();
                    }
                    total.fetch_add(1, Ordering::Relaxed)
                });
            }
        });
        assert_eq!(total.into_inner(), count);
    }

    /// Ended by a child, which nothing keeps from running.
    fn wait_for_unpark(&self, me: &mut Me) {
        let cut = self.plan.cut.is_some() && me.pinned;
        let this = volt::current();
        let waker = self.small_child(me.runtime, move || this.unpark());
        match cut {
            true => thread::park_timeout(Duration::from_millis(1)),
            false => thread::park(),
        }
        drop(waker);
    }

    fn cancel_an_accept(&self, me: &mut Me) {
        let Some(listener) = self.listener.as_ref().filter(|_| me.joins) else { return };
        let listener = listener.try_clone().unwrap();
        let child = self.small_child(me.runtime, move || listener.accept().map(drop));
        compute(Duration::from_micros(me.rng.below(50)));
        if me.rng.below(2) == 0 {
            volt::yield_now();
        }
        child.cancel();
        let error = child.join().unwrap().unwrap_err();
        assert!(volt::cancel::is_cancelled(&error), "{error}");
    }

    /// What a plain thread does.
    pub fn thread(self: &Arc<World>, mut rng: Rng) {
        let joins = self.plan.cut.is_none();
        for _ in 0..self.plan.thread_steps {
            let runtime = rng.below(self.runtimes.len() as u64) as usize;
            match rng.below(12) {
                0..3 => {
                    let child = self.spawn(runtime, false, &mut rng, self.plan.steps);
                    child.into_iter().for_each(|child| self.to_pile(child));
                }
                3 => drop(self.spawn(runtime, false, &mut rng, self.plan.steps)),
                4 | 5 if joins => {
                    let somebody = self.take_from_pile(&mut rng, 0);
                    somebody.into_iter().for_each(|(id, fiber)| join(id, fiber));
                }
                6 | 7 => self.unpark_somebody(&mut rng),
                8 => self.cancel_somebody(&mut rng),
                9 => std::thread::sleep(Duration::from_micros(rng.below(1_000))),
                10 if rng.below(20) == 0 => visit(&mut rng),
                _ => {
                    let stats = self.runtimes[runtime].stats();
                    assert!(stats.blocking.most <= self.plan.runtimes[runtime].max_blocking);
                }
            }
        }
    }

    /// Joins whatever is on the pile; in a storm that was cut, what has ended.
    pub fn clear_pile(&self) {
        let pile = std::mem::take(&mut *self.pile.lock().unwrap());
        for (id, fiber) in pile {
            if self.plan.cut.is_none() {
                join(id, fiber);
            } else if fiber.is_finished() {
                assert_eq!(
                    fiber.join().is_err_and(|e| !e.is::<Parcel>()),
                    !self.ledger.has_run(id)
                );
            } else {
                assert!(self.ledger.has_run(id), "{id} has not run, and its join does not say so");
            }
        }
    }
}

fn join(id: usize, fiber: JoinHandle<Parcel>) {
    let parcel = match fiber.join() {
        Ok(parcel) => parcel,
        Err(payload) => match payload.downcast::<Parcel>() {
            Ok(parcel) => *parcel,
            // Only in a storm that was cut.
            Err(other) if other.is::<&'static str>() => return,
            Err(other) => resume_unwind(other),
        },
    };
    assert_eq!(parcel.id, id, "somebody else's result");
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

/// A runtime that comes and goes.
fn visit(rng: &mut Rng) {
    let workers = 1 + rng.below(4) as usize;
    let runtime = Builder::new().workers(workers).thread_name("visit").build().unwrap();
    let count = rng.below(100);
    let fibers: Vec<_> = (0..count)
        .map(|n| {
            runtime.go(move || {
                match n % 4 {
                    0 => volt::yield_now(),
                    1 => volt::blocking(|| ()),
                    2 => volt::sleep(Duration::from_micros(n)),
                    _ => (),
                }
                n
            })
        })
        .collect();
    if rng.below(2) == 0 {
        runtime.shutdown(Duration::from_secs(60)).unwrap();
        let results = fibers.into_iter().map(|fiber| fiber.join().unwrap());
        assert_eq!(results.sum::<u64>(), count * count.saturating_sub(1) / 2);
    }
}

/// Waits while its fiber unwinds.
struct WaitsWhenDropped<'a>(&'a World, usize);

impl Drop for WaitsWhenDropped<'_> {
    fn drop(&mut self) {
        let id = std::thread::current().id();
        let child = self.0.small_child(self.1, || ());
        if self.0.plan.cut.is_none() {
            child.join().unwrap();
        }
        volt::sleep(Duration::from_micros(50));
        assert_eq!(std::thread::current().id(), id);
    }
}
