//! The scheduler's parts, without threads: workers that do what the test tells them, one step at a
//! time.

mod aged;
mod ends;
mod follow_up;
mod hand_off;
mod hold_off;
mod idle;
mod invite;
mod left;
mod lock_spin;
mod look;
mod overflow;
mod placement;
mod queues;
mod ring;
mod search;
mod share;
#[cfg(target_os = "linux")]
mod sleepers;
mod socket_vigil;
mod spin;
mod supervisor;
mod tick;
mod unwinds;
mod vigil;
mod wakes;
mod watch;
mod worth;

use super::config::{Config, Migrate, Placement};
use super::core::Core;
use super::hooks::Hooks;
use super::shared::Shared;
use super::tick::Queues;
use super::worker::Worker;
use crate::fiber::{self, FiberPtr, Kind, Spec, Unfilled};
use crate::primitives::clock::{Moment, stamp};
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::stack::StackSize;
use std::collections::HashMap;
use std::panic::Location;
use std::time::Duration;

/// Fresh fibers that never run; ended when this goes.
pub(super) struct Fibers(pub(super) Vec<FiberPtr>);

impl Fibers {
    pub(super) fn new(count: usize) -> Fibers {
        Fibers::of(std::ptr::null(), count)
    }

    fn of(scheduler: *const (), count: usize) -> Fibers {
        Fibers((0..count).map(|_| fresh(scheduler, || ())).collect())
    }

    /// Which fiber of these has which number.
    fn numbers(&self) -> HashMap<usize, usize> {
        self.0.iter().enumerate().map(|(i, fiber)| (fiber.as_ptr() as usize, i)).collect()
    }
}

impl Drop for Fibers {
    fn drop(&mut self) {
        for fiber in self.0.drain(..) {
            assert!(fiber.state().start());
            // SAFETY: just started, never run, and in no queue any more.
            assert!(unsafe { matches!(fiber::fail(fiber, Box::new(())), fiber::Woken::Nobody) });
        }
    }
}

unsafe fn fresh_of<F: FnOnce() + Send + 'static>(spec: Spec, closure: F) -> FiberPtr {
    // SAFETY: passed on.
    unsafe { Unfilled::new(spec, Kind::of::<F, ()>()).fill(closure) }
}

/// A fresh fiber of `scheduler`, which nobody joins.
fn fresh(scheduler: *const (), closure: impl FnOnce() + Send + 'static) -> FiberPtr {
    let spec = Spec {
        scheduler,
        site: Location::caller(),
        name: None,
        size: StackSize::DEFAULT,
        sampled: false,
    };
    // SAFETY: nothing is borrowed, and the test ends its fibers before the scheduler.
    let fiber = unsafe { fresh_of(spec, closure) };
    fiber.state().detach().expect("a fresh fiber is not done");
    fiber
}

fn config(workers: usize) -> Config {
    Config {
        workers,
        processors: 64,
        stack_size: StackSize::DEFAULT,
        migrate: Migrate::Anytime,
        placement: Placement::Injector,
        // By the clock somebody would be taken early, if a test takes long.
        injector_every: Some(64),
        stealing: true,
        steal_attempts: 32,
        // Who goes to sleep comes back, so that a test that is wrong fails.
        park_timeout: Some(Duration::from_millis(1)),
        max_blocking: 512,
        stall_period: None,
        learn_blocking: true,
        force_migrate: false,
        thread_name: "bench".to_owned(),
        hooks: Hooks::default(),
        stack_age: Duration::from_secs(2),
    }
}

/// A scheduler and its workers, all of them in the hands of the test.
struct Bench<'a> {
    shared: &'a Shared,
    workers: &'a [Worker<'a>],
    fibers: &'a [FiberPtr],
}

impl Bench<'_> {
    fn core(&self, index: usize) -> &Core {
        self.shared.cores.get(index)
    }

    /// The number of `fiber` among those of the bench.
    fn number(&self, fiber: FiberPtr) -> usize {
        self.fibers.iter().position(|other| *other == fiber).expect("a fiber of the bench")
    }

    /// What worker `index` runs next, by number.
    fn find(&self, index: usize) -> Option<usize> {
        self.workers[index].find().map(|fiber| self.number(fiber))
    }

    /// The ring of worker `index`, emptied.
    fn ring(&self, index: usize) -> Vec<usize> {
        let core = self.core(index);
        std::iter::from_fn(|| core.ring.pop()).map(|fiber| self.number(fiber)).collect()
    }

    fn fill_ring(&self, index: usize, fibers: impl IntoIterator<Item = usize>) {
        for fiber in fibers {
            assert!(self.core(index).ring.push(self.fibers[fiber]).is_ok());
        }
    }

    fn fill_injector(&self, fibers: impl IntoIterator<Item = usize>) {
        for fiber in fibers {
            assert!(self.shared.injector.push(self.fibers[fiber]).is_ok());
        }
    }

    /// Fibers have run for so long on worker `index`, as far as its estimate tells.
    fn fibers_ran_for(&self, index: usize, each: Duration) {
        let tick = &mut self.workers[index].own().tick;
        let mut now = Moment::now();
        for _ in 0..40 {
            tick.injector_looked(now);
            tick.begin(now, stamp());
            let quiet = || Queues { waiting: false, short: true };
            (0..8).for_each(|_| assert!(tick.dispatch() || tick.glance(quiet, stamp, || now)));
            now = now.saturating_add(8 * each);
            tick.finish(now);
        }
        tick.begin(Moment::now(), stamp());
    }

    /// Worker `index` goes to bed as far as others can tell.
    fn lies_down(&self, index: usize) {
        self.shared.idle.park(index, false);
    }

    fn wakes(&self) -> u64 {
        self.shared.outside.wakes.get()
    }
}

/// Does `f` while the worker of `core` seems to go on and on. Where the thread that does so has no processor, it seems
/// to stand still.
fn beside_one_that_goes_on<R>(core: &Core, f: impl FnOnce() -> R) -> R {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                core.stats.operations.add(1);
            }
        });
        let _stop = Stop(&stop);
        f()
    })
}

/// Runs `test` on a bench with as many workers as `config` says and `count` fresh fibers.
fn bench(config: Config, count: usize, test: impl FnOnce(&Bench<'_>)) {
    let held = config.workers;
    bench_of(config, held, count, test);
}

/// The same on the scheduler of a current-thread runtime: the first worker is its thread, the others help.
fn driven_bench(config: Config, count: usize, test: impl FnOnce(&Bench<'_>)) {
    bench_of(config, 0, count, test);
}

fn bench_of(config: Config, held: usize, count: usize, test: impl FnOnce(&Bench<'_>)) {
    let shared = Shared::new(config.clone(), held).unwrap();
    let fibers = Fibers::of((&raw const *shared).cast(), count);
    let workers: Vec<_> =
        (0..config.workers).map(|_| Worker::new(&shared, Moment::NEVER)).collect();
    workers.iter().enumerate().for_each(|(index, worker)| worker.attach(index));
    test(&Bench { shared: &shared, workers: &workers, fibers: &fibers.0 });
    for worker in &workers {
        worker.detach();
    }
}
