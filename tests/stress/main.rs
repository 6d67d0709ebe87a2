//! Storms: fibers and plain threads that spawn, steal, park, unpark, cancel, block, panic and join at
//! random, on runtimes with random settings, one storm after the other.
//!
//! After each: every closure and every result was run and dropped once, the counters reconcile, and
//! no thread is left. It takes `VOLT_STRESS_SECONDS` (3 unless set). A failure prints the seed of its
//! storm; `VOLT_TEST_SEED` repeats the storm of one seed, though not its schedule. A storm that takes
//! longer than `VOLT_STRESS_LIMIT` seconds (60) is reported and aborted; `VOLT_STRESS_HOLD` keeps it
//! for so many seconds first, for a debugger.

#[path = "../common/mod.rs"]
mod common;
mod ledger;
mod plan;
mod world;

use common::{Rng, Seed};
use ledger::Ledger;
use plan::{Plan, Settings};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use volt::runtime::{Handle, Runtime, Stats};
use world::World;

fn seconds(variable: &str, default: u64) -> Duration {
    let given = std::env::var(variable).ok().map(|value| value.parse().unwrap());
    Duration::from_secs(given.unwrap_or(default))
}

#[test]
fn storms() {
    let seed = Seed::new();
    let (mut rng, repeats) = (seed.rng(), std::env::var_os("VOLT_TEST_SEED").is_some());
    let time = seconds("VOLT_STRESS_SECONDS", 3);
    let start = Instant::now();
    let ended = Arc::new(AtomicBool::new(false));
    let watchdog = watch(Arc::clone(&ended));
    note_panics();
    let (mut storms, mut fibers) = (0, 0);
    while start.elapsed() < time || storms == 0 {
        let one = if repeats { seed.0 } else { rng.next() };
        fibers += storm(one, storms);
        storms += 1;
    }
    println!("{storms} storms, {fibers} fibers, {:.0?}", start.elapsed());
    ended.store(true, Ordering::SeqCst);
    watchdog.join().unwrap();
}

/// The storm that goes on, for the watchdog and for whoever panics.
static NOW: Mutex<Option<Now>> = Mutex::new(None);

struct Now {
    seed: u64,
    plan: Plan,
    since: Instant,
    ledger: Arc<Ledger>,
    runtimes: Vec<Handle>,
}

/// Something other than a storm's own panics went wrong, maybe on a fiber that nobody joins.
static FAILED: AtomicBool = AtomicBool::new(false);

/// The panics that belong to a storm do not call the hook.
fn note_panics() {
    let earlier = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        earlier(info);
        FAILED.store(true, Ordering::SeqCst);
    }));
}

fn storm(seed: u64, number: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let plan = Plan::draw(&mut rng, number);
    let runtimes: Vec<Runtime> = plan.runtimes.iter().map(Settings::build).collect();
    let handles: Vec<_> = runtimes.iter().map(|runtime| runtime.handle().clone()).collect();
    let world = World::new(plan.clone(), handles.clone());
    *NOW.lock().unwrap_or_else(PoisonError::into_inner) = Some(Now {
        seed,
        plan: plan.clone(),
        since: Instant::now(),
        ledger: Arc::clone(&world.ledger),
        runtimes: handles.clone(),
    });
    let _report = ReportOnPanic;
    std::thread::scope(|s| {
        let driven = runtimes.iter().zip(0..).filter(|(_, n)| plan.runtimes[*n].current_thread);
        for (runtime, n) in driven {
            let (world, rng) = (&world, rng.fork());
            s.spawn(move || drive(world, runtime, n, rng));
        }
        let mut threads: Vec<_> = (0..plan.threads)
            .map(|_| {
                let (world, rng) = (&world, rng.fork());
                s.spawn(move || world.thread(rng))
            })
            .collect();
        for root in 0..plan.roots {
            let runtime = root as usize % handles.len();
            let fiber = world.spawn(runtime, false, &mut rng, plan.steps);
            drop(fiber);
        }
        match plan.cut {
            None => {
                threads.drain(..).for_each(|thread| thread.join().unwrap());
                settle(&world);
            }
            Some((after, _)) => std::thread::sleep(after),
        }
        world.over.store(true, Ordering::SeqCst);
    });
    match plan.cut {
        None => end_whole(&world, runtimes),
        Some((_, timeout)) => end_cut(&world, runtimes, timeout),
    }
    assert!(!FAILED.load(Ordering::SeqCst), "a fiber or a thread has panicked: see above");
    world.ledger.len() as u64
}

/// Runs a current-thread runtime until the storm is over.
fn drive(world: &Arc<World>, runtime: &Runtime, number: usize, mut rng: Rng) {
    while !world.over.load(Ordering::SeqCst) {
        let micros = rng.below(3_000);
        world.count(number);
        runtime.run(|| volt::sleep(Duration::from_micros(micros)));
        if rng.below(4) == 0 {
            std::thread::sleep(Duration::from_micros(rng.below(500)));
        }
    }
}

/// Waits for the end of everything, on the pile too.
fn settle(world: &World) {
    while !world.ledger.is_settled() {
        world.clear_pile();
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Tries for a while, since the last counters are written after the last result is there.
fn eventually<T>(mut check: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match check() {
            Ok(value) => return value,
            Err(message) if start.elapsed() > Duration::from_secs(20) => panic!("{message}"),
            Err(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

fn end_whole(world: &World, runtimes: Vec<Runtime>) {
    for (number, runtime) in runtimes.into_iter().enumerate() {
        let settings = &world.plan.runtimes[number];
        let handle = runtime.handle().clone();
        if !settings.current_thread {
            eventually(|| reconcile(world, number, &handle.stats(), true));
        }
        runtime.shutdown(Duration::from_secs(20)).unwrap();
        eventually(|| reconcile(world, number, &handle.stats(), false));
        no_thread_is_left(&settings.name);
    }
    world.ledger.check_whole();
}

fn end_cut(world: &World, runtimes: Vec<Runtime>, timeout: Duration) {
    for (number, runtime) in runtimes.into_iter().enumerate() {
        let handle = runtime.handle().clone();
        match timeout.is_zero() {
            true => drop(runtime),
            false => drop(runtime.shutdown(timeout)),
        }
        no_thread_is_left(&world.plan.runtimes[number].name);
        let stats = handle.stats();
        let left = world.ledger.check_cut();
        assert!(left as u64 <= stats.live, "{left} closures left: {stats:?}");
        assert_eq!(stats.queue.size, 0, "{stats:?}");
    }
    world.clear_pile();
}

/// The counters of a runtime that has nothing left to do; `runs` if it could do something.
fn reconcile(world: &World, number: usize, stats: &Stats, runs: bool) -> Result<(), String> {
    let (settings, total) = (&world.plan.runtimes[number], stats.total);
    let spawned = world.spawned[number].load(Ordering::SeqCst);
    let returned = total.rejoined + total.retired;
    let left = total.stalls
        + total.overdue_calls
        + if settings.before_start { total.hand_offs } else { 0 };
    let checks = [
        ("live = 0", stats.live == 0),
        ("spawned", total.spawned == spawned),
        ("finished", total.finished == spawned),
        ("dispatched >= finished", total.dispatched >= total.finished),
        ("dequeued = enqueued", stats.queue.enqueued == stats.queue.dequeued),
        ("queues are empty", stats.queue.size == 0),
        ("who stalled came back", !runs || left == returned),
        ("all workers may run", !runs || stats.queue.concurrency == stats.queue.workers),
        (
            "blocking entries",
            stats.blocking.entries == world.blocking[number].load(Ordering::SeqCst),
        ),
        ("nobody blocks", (stats.blocking.inside, stats.blocking.waiting) == (0, 0)),
        ("the bound of blocking", stats.blocking.most <= settings.max_blocking),
        ("LIFO hits", total.lifo_hits + total.run_next <= total.dispatched),
        ("steals", total.stolen == 0 || settings.stealing && total.steals_tried > 0),
        ("forced migrations", total.migrated == 0 || settings.force_migrate),
        ("no thread was refused", total.threads_refused == 0),
    ];
    match checks.iter().find(|(_, holds)| !holds) {
        None => Ok(()),
        Some((name, _)) => Err(format!("{name}: spawned {spawned}, {stats:?}")),
    }
}

/// Threads of this process by name.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|other| other.starts_with(&format!("{name}-"))).count()
}

fn no_thread_is_left(name: &str) {
    eventually(|| match threads(name) {
        0 => Ok(()),
        count => Err(format!("{count} threads of {name} are left")),
    });
}

struct ReportOnPanic;

impl Drop for ReportOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            report();
        }
    }
}

fn report() {
    let now = NOW.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(now) = &*now else { return };
    eprintln!("VOLT_TEST_SEED={} after {:?}: {:#?}", now.seed, now.since.elapsed(), now.plan);
    let left = now.ledger.left();
    eprintln!(
        "{} of {} not through: number, ran, closure and result dropped, last step",
        left.len(),
        now.ledger.len()
    );
    left.iter().take(40).for_each(|entry| eprintln!("    {entry:?}"));
    for runtime in &now.runtimes {
        eprintln!("{:?}\n{:?}", runtime.stats(), runtime.blocking_sites());
    }
}

/// Aborts a storm that hangs.
fn watch(ended: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let limit = seconds("VOLT_STRESS_LIMIT", 60);
    std::thread::spawn(move || {
        while !ended.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
            let since =
                NOW.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|now| now.since);
            if since.is_some_and(|since| since.elapsed() > limit) {
                eprintln!("process {}: a storm hangs", std::process::id());
                report();
                std::thread::sleep(seconds("VOLT_STRESS_HOLD", 0));
                std::process::abort();
            }
        }
    })
}
