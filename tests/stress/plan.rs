//! What one storm looks like, drawn from its seed.

use crate::common::Rng;
use std::time::Duration;
use volt::runtime::{Builder, Migrate, Placement, Runtime};

#[derive(Clone, Debug)]
pub struct Plan {
    pub runtimes: Vec<Settings>,
    /// Fibers that the storm begins with, and steps of each.
    pub roots: u64,
    pub steps: u64,
    /// Plain threads, and what each does.
    pub threads: u64,
    pub thread_steps: u64,
    /// The runtime is shut down while it storms, so long after the beginning, with this timeout.
    pub cut: Option<(Duration, Duration)>,
    /// How long a fiber may keep its thread without a word.
    pub longest_nap: Duration,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub name: String,
    pub workers: usize,
    pub current_thread: bool,
    pub before_start: bool,
    placement: Placement,
    stall_period: Option<Duration>,
    pub max_blocking: usize,
    pub stealing: bool,
    steal_attempts: u32,
    injector_every: Option<u32>,
    learn_blocking: bool,
    pub force_migrate: bool,
    park_timeout: Option<Duration>,
    stack_age: Duration,
}

fn one_in(rng: &mut Rng, n: u64) -> bool {
    rng.below(n) == 0
}

impl Plan {
    pub fn draw(rng: &mut Rng, storm: u64) -> Plan {
        let cut = one_in(rng, 6);
        let count = if cut || rng.below(3) != 0 { 1 } else { 2 };
        let name = |n| format!("s{}-{n}", storm % 10_000);
        let mut runtimes: Vec<_> = (0..count).map(|n| Settings::draw(rng, name(n))).collect();
        if cut {
            // Whoever drives a current-thread runtime would have to be told.
            runtimes[0].current_thread = false;
        }
        Plan {
            runtimes,
            roots: 1 + rng.below(if cut { 40 } else { 200 }),
            steps: 1 + rng.below(12),
            threads: 1 + rng.below(4),
            thread_steps: 20 + rng.below(300),
            cut: cut.then(|| (micros(rng, 20_000), micros(rng, 2) * 10_000)),
            longest_nap: if one_in(rng, 2) { Duration::from_millis(25) } else { micros(rng, 500) },
        }
    }
}

fn micros(rng: &mut Rng, below: u64) -> Duration {
    Duration::from_micros(rng.below(below))
}

impl Settings {
    fn draw(rng: &mut Rng, name: String) -> Settings {
        let workers = match rng.below(8) {
            0 => 1,
            1 => 3,
            2 => 4,
            3 => 8,
            4 => 1 + rng.below(64) as usize,
            _ => 2,
        };
        let placements = [Placement::Injector, Placement::TwoChoices, Placement::LeastLoaded];
        Settings {
            name,
            workers,
            current_thread: one_in(rng, 8),
            before_start: one_in(rng, 4),
            placement: placements[rng.below(3) as usize],
            stall_period: match rng.below(4) {
                0 => None,
                _ => Some(Duration::from_millis(1 + rng.below(20))),
            },
            max_blocking: if one_in(rng, 3) { 512 } else { 1 + rng.below(8) as usize },
            stealing: !one_in(rng, 5),
            steal_attempts: [0, 1, 32][rng.below(3) as usize],
            injector_every: match rng.below(3) {
                0 => Some(1 + rng.below(100) as u32),
                _ => None,
            },
            learn_blocking: !one_in(rng, 3),
            force_migrate: one_in(rng, 5),
            park_timeout: one_in(rng, 10).then_some(Duration::from_millis(1)),
            stack_age: [Duration::from_millis(1), Duration::from_secs(2)][rng.below(2) as usize],
        }
    }

    pub fn build(&self) -> Runtime {
        let builder = match self.current_thread {
            true => Builder::new_current_thread(),
            false => Builder::new().workers(self.workers),
        };
        let builder = builder
            .thread_name(&self.name)
            .migrate(if self.before_start { Migrate::BeforeStart } else { Migrate::Anytime })
            .placement(self.placement)
            .stall_period(self.stall_period)
            .max_blocking(self.max_blocking)
            .stealing(self.stealing)
            .steal_attempts(self.steal_attempts)
            .learn_blocking(self.learn_blocking)
            .force_migrate(self.force_migrate)
            .stack_age(self.stack_age);
        let builder = match self.injector_every {
            Some(dispatches) => builder.injector_every(dispatches),
            None => builder,
        };
        match self.park_timeout {
            Some(timeout) => builder.park_timeout(timeout),
            None => builder,
        }
        .build()
        .unwrap()
    }
}
