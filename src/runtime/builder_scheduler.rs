//! Settings of a runtime's scheduler: where fibers run, who steals, and what becomes of those that block.

use super::builder::Builder;
use crate::scheduler::{Deadlock, DeadlockHook, Placement, Stall, StallHook};
use std::time::Duration;

impl Builder {
    /// Where fibers go that plain threads, or fibers of other runtimes, spawn or wake:
    /// [`Placement::Injector`] unless set.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use volt::runtime::{Builder, Placement};
    ///
    /// let runtime = Builder::new().workers(2).placement(Placement::TwoChoices).build()?;
    /// assert_eq!(runtime.go(|| 6 * 7).join().unwrap(), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn placement(mut self, placement: Placement) -> Builder {
        self.config.placement = placement;
        self
    }

    /// A worker looks at the shared queue every so many dispatches, whatever the clock says. Unless set it does
    /// so about once a millisecond, as the run time of its fibers tells, from every 8th to every 255th dispatch;
    /// and if somebody waits there, or for this worker alone, while few wait in its own queue, it takes one every
    /// 100 us besides. 0 is as 1.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(1).injector_every(16).build()?;
    /// assert_eq!(runtime.go(|| 6 * 7).join().unwrap(), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn injector_every(mut self, dispatches: u32) -> Builder {
        self.config.injector_every = Some(dispatches.max(1));
        self
    }

    /// Whether idle workers take fibers from busy ones; they do unless this says no.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(2).stealing(false).build()?;
    /// assert_eq!(runtime.run(|| volt::go(|| 6 * 7).join().unwrap()), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stealing(mut self, stealing: bool) -> Builder {
        self.config.stealing = stealing;
        self
    }

    /// How many times a worker without work looks at another worker's queue before it parks: 32 unless
    /// set, and every worker once at least.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(2).steal_attempts(8).build()?;
    /// assert_eq!(runtime.run(|| 6 * 7), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn steal_attempts(mut self, attempts: u32) -> Builder {
        self.config.steal_attempts = attempts;
        self
    }

    /// Parked workers wake by themselves after this long, and look for work. They never need to: a
    /// wake is not lost. For those who want to be sure.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    ///
    /// let sleep = Duration::from_secs(1);
    /// let runtime = volt::runtime::Builder::new().workers(1).park_timeout(sleep).build()?;
    /// assert_eq!(runtime.run(|| 6 * 7), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn park_timeout(mut self, timeout: Duration) -> Builder {
        self.config.park_timeout = Some(timeout);
        self
    }

    /// How many fibers may be in [`volt::blocking`](crate::blocking) at the same time, each with a thread: 512 unless
    /// set, at least 1. Those beyond wait for one to return. Threads that replace stalled workers do not count. As many
    /// threads again may run fibers in blocking mode that have not asked for it, as
    /// [`learn_blocking`](Builder::learn_blocking) says; those beyond start as any others.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(2).max_blocking(1).build()?;
    /// let fibers = [1, 2].map(|n| runtime.go(move || volt::blocking(|| n)));
    /// assert_eq!(fibers.map(|fiber| fiber.join().unwrap()), [1, 2]);
    /// assert_eq!(runtime.stats().blocking.most, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_blocking(mut self, fibers: usize) -> Builder {
        self.config.max_blocking = fibers;
        self
    }

    /// After how long in one fiber without a wait a worker counts as stalled, and is replaced by another thread: 100 ms
    /// unless set, at least 1 ms. It may be a quarter less, as the supervisor looks four times in that time. `None` for
    /// no supervision, as on a current-thread runtime unless set. The supervisor also sees to it that sockets and
    /// timers wait for no more than 8 ms, or a quarter of the period where that is less, while a worker is free and
    /// another has left them for a fiber that was expected to be short and computes; without it a worker is woken for
    /// that at each event. And it moves the fiber that is to run next, which the running one has woken or spawned, to
    /// another worker if the running one goes on for long without a wait: without it that fiber may wait for as long,
    /// unless another worker that is awake comes for it. At most 512 are replaced at a time. And it asks again for a
    /// thread that the system has refused: without it those who wait for that go on when another thread comes back.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    ///
    /// let often = Duration::from_millis(20);
    /// let runtime = volt::runtime::Builder::new().workers(1).stall_period(Some(often)).build()?;
    /// assert_eq!(runtime.run(|| 6 * 7), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stall_period(mut self, period: Option<Duration>) -> Builder {
        self.config.stall_period = period;
        self
    }

    /// Whether fibers from a place in the code whose fibers have stalled, their threads asleep in the system, start in
    /// blocking mode at once, as long as one of them is stuck so; and whether calls of [`blocking`](crate::blocking)
    /// from a place where they return soon keep their worker's core. Both are so unless this says no.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new().workers(1).learn_blocking(false).build()?;
    /// assert_eq!(runtime.run(|| 6 * 7), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn learn_blocking(mut self, learn: bool) -> Builder {
        self.config.learn_blocking = learn;
        self
    }

    /// Is told of every stall, of a fiber that blocks its thread and of one that computes, on the supervisor's thread,
    /// which looks after nothing else meanwhile: it should return soon. A panic in it is printed and ends there.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// let runtime = volt::runtime::Builder::new()
    ///     .stall_period(Some(Duration::from_millis(10)))
    ///     .on_stall(|stall| eprintln!("stalled: the fiber spawned at {}", stall.site))
    ///     .build()?;
    /// runtime.run(|| std::thread::sleep(Duration::from_millis(50)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_stall(mut self, hook: impl Fn(&Stall) + Send + Sync + 'static) -> Builder {
        self.config.hooks.on_stall = Some(StallHook::from(Box::new(hook) as Box<_>));
        self
    }

    /// Is told when every fiber waits for another one, so that none will ever run again; a panic in it
    /// is printed and ends there. Told once: again only if a fiber has run since, because the hook
    /// woke one say. Unless set, the first report goes to stderr, on current-thread runtimes and with
    /// debug assertions.
    ///
    /// It may wait for what it wakes. But where there is [no supervisor](Builder::stall_period) a worker calls it, in
    /// whose place another thread goes on; under [`Migrate::BeforeStart`](crate::runtime::Migrate::BeforeStart) that
    /// cannot run what has started here, so there it must not wait for fibers.
    ///
    /// The runtime looks when it has been quiet for some tenths of a second, and speaks only if it is
    /// certain: no fiber waits for a socket, a signal or a time, or selects over a
    /// [`Case`](crate::channel::Case) that the program has made; the process has no threads but
    /// this runtime's and those that wait for it in volt, without a deadline. For a thread that does something
    /// else it looks again, for a second and a half in all. So programs with other threads are not told, nor are
    /// those on systems without `/proc`. Nor is anybody told while a fiber
    /// keeps its thread, in [`volt::blocking`](crate::blocking), in
    /// [`thread::pinned`](crate::thread::pinned), or in a wait while it unwinds: what it waits for there the
    /// runtime does not look at, and code that blocks may still wake others.
    ///
    /// The report lists a hundred fibers at most; [`Deadlock::count`] says how many there are.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let runtime = volt::runtime::Builder::new()
    ///     .on_deadlock(|deadlock| {
    ///         for fiber in &deadlock.fibers {
    ///             eprintln!("{} waits for {:?}", fiber.site, fiber.waits_for);
    ///         }
    ///     })
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_deadlock(mut self, hook: impl Fn(&Deadlock) + Send + Sync + 'static) -> Builder {
        self.config.hooks.on_deadlock = Some(DeadlockHook::from(Box::new(hook) as Box<_>));
        self
    }
}
