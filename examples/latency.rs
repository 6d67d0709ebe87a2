//! What the scheduler promises when fibers compute, block without a word, or come in crowds.
//!
//! ```text
//! $ cargo run --release --example latency              # half a minute; --quick for a few seconds
//! what                                             99%      worst   bar
//! a plain thread's sleep of 1 ms               1.1 ms     1.3 ms   (the machine itself)
//! 1 ms sleepers beside one that computes       1.3 ms     1.9 ms   99% <= 5 ms                  met
//! ...
//! ```
//!
//! Each line is a small program below, on a runtime of its own with two workers unless it says
//! otherwise. Times are from when something was due to when it happened. The first line shows how
//! much of that is the machine's: where it is far above 1 ms, somebody else is using the processors,
//! and the lines after it mean little.
//!
//! How to read it: `main` is the list; a `Crowd` collects how late its fibers were; what a line needs
//! besides is in its own function.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use volt::runtime::{Builder, JoinHandle, Runtime};
use volt::thread;
use volt::time::{Duration, Instant};

/// The supervisor's period, as it is unless set.
const PERIOD: Duration = Duration::from_millis(100);

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let time = Duration::from_millis(if quick { 400 } else { 4_000 });
    println!("{:<44} {:>9} {:>9}   bar", "what", "99%", "worst");
    let late = plain_sleeps(time / 4);
    late.print("a plain thread's sleep of 1 ms", None, "(the machine itself)");
    for computing in [1, 2] {
        let late = sleepers_beside_computing(computing, time);
        match computing {
            1 => late.within("1 ms sleepers beside one that computes", ms(5)),
            _ => late.within("1 ms sleepers beside two, on every worker", PERIOD + ms(10)),
        }
    }
    let late = ticks_beside_blocking(time);
    late.within("10 ms ticks of 1,000 beside 64 that block", PERIOD + ms(10));
    let (worst, bar) = (late.worst(), 2 * PERIOD + ms(50));
    late.print("    and none of them later than", Some(worst <= bar), "worst <= 250 ms");
    starts_behind_full_rings(time / 2).within("a fiber from outside behind full rings", ms(2));
    third_beside_a_pair(time / 8);
    burst(8, 10_000);
    speed_up(if quick { 3 } else { 15 });
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn runtime(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().expect("a runtime")
}

/// Keeps the processor for `time`.
fn compute_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// How late things were, in order.
struct Late(Vec<Duration>);

impl Late {
    fn new(mut times: Vec<Duration>) -> Late {
        times.sort();
        Late(times)
    }

    fn share(&self, percent: usize) -> Duration {
        self.0[(self.0.len() - 1) * percent / 100]
    }

    fn worst(&self) -> Duration {
        self.share(100)
    }

    /// The line of a case whose bar is on 99 of 100.
    fn within(&self, what: &str, bar: Duration) {
        let text = format!("99% <= {} ms", bar.as_millis());
        self.print(what, Some(self.share(99) <= bar), &text);
    }

    fn print(&self, what: &str, met: Option<bool>, bar: &str) {
        let [most, worst] = [99, 100].map(|percent| self.share(percent).as_secs_f64() * 1e3);
        println!("{what:<44} {most:>6.1} ms {worst:>6.1} ms   {bar:<28}{}", verdict(met));
    }
}

/// The line of a case that counts something.
fn print_count(what: &str, count: &str, met: bool, bar: &str) {
    println!("{what:<44} {count:>19}   {bar:<28}{}", verdict(Some(met)));
}

fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => " met",
        Some(false) => " MISSED",
        None => "",
    }
}

/// Fibers that do something again and again until they are told to stop, and note how late it was.
struct Crowd {
    over: Arc<AtomicBool>,
    times: Arc<Mutex<Vec<Duration>>>,
    fibers: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn new() -> Crowd {
        Crowd { over: Arc::default(), times: Arc::default(), fibers: Vec::new() }
    }

    /// One more fiber, which calls `once` until the end.
    fn add(&mut self, runtime: &Runtime, once: impl Fn() + Send + 'static) {
        let over = Arc::clone(&self.over);
        self.fibers.push(runtime.go(move || {
            while !over.load(Ordering::Relaxed) {
                once();
            }
        }));
    }

    /// One more that notes what `once` returns.
    fn add_timed(&mut self, runtime: &Runtime, once: impl Fn() -> Duration + Send + 'static) {
        let (over, times) = (Arc::clone(&self.over), Arc::clone(&self.times));
        self.fibers.push(runtime.go(move || {
            let mut mine = Vec::new();
            while !over.load(Ordering::Relaxed) {
                mine.push(once());
            }
            times.lock().expect("no panic there").append(&mut mine);
        }));
    }

    /// Lets it go on for `time`, and says how late they were.
    fn watch(self, time: Duration) -> Late {
        std::thread::sleep(time);
        self.over.store(true, Ordering::Relaxed);
        self.fibers.into_iter().for_each(|fiber| fiber.join().expect("no panic there"));
        Late::new(std::mem::take(&mut self.times.lock().expect("no panic there")))
    }
}

/// A sleep of `time`, and how late its end was.
fn sleep_lateness(time: Duration) -> Duration {
    let due = Instant::now() + time;
    volt::thread::sleep_until(due);
    due.elapsed()
}

/// The whole of a sleep of 1 ms, as a plain thread does it.
fn plain_sleeps(time: Duration) -> Late {
    let end = Instant::now() + time;
    let mut times = Vec::new();
    while Instant::now() < end {
        let start = Instant::now();
        std::thread::sleep(ms(1));
        times.push(start.elapsed());
    }
    Late::new(times)
}

/// The whole of the sleeps of 1 ms of 100 fibers, while others compute for 300 ms at a time.
fn sleepers_beside_computing(computing: usize, time: Duration) -> Late {
    let runtime = runtime(2);
    let mut crowd = Crowd::new();
    for _ in 0..100 {
        crowd.add_timed(&runtime, || ms(1) + sleep_lateness(ms(1)));
    }
    for _ in 0..computing {
        crowd.add(&runtime, || {
            compute_for(ms(300));
            volt::yield_now();
        });
    }
    crowd.watch(time)
}

/// A thousand tickers, while 64 fibers keep their threads for a second at a time, unannounced.
fn ticks_beside_blocking(time: Duration) -> Late {
    let runtime = runtime(2);
    let mut crowd = Crowd::new();
    for _ in 0..1_000 {
        crowd.add_timed(&runtime, || sleep_lateness(ms(10)));
    }
    std::thread::sleep(ms(50));
    for _ in 0..64 {
        crowd.add(&runtime, || {
            std::thread::sleep(ms(1_000));
            volt::yield_now();
        });
    }
    crowd.watch(time)
}

/// A plain thread spawns one after the other, while as many fibers as the two rings hold run for 20 us
/// at a time.
fn starts_behind_full_rings(time: Duration) -> Late {
    let runtime = runtime(2);
    let mut crowd = Crowd::new();
    for _ in 0..480 {
        crowd.add(&runtime, || {
            compute_for(Duration::from_micros(20));
            volt::yield_now();
        });
    }
    std::thread::sleep(ms(50));
    let (end, mut waits) = (Instant::now() + time, Vec::new());
    while Instant::now() < end {
        let spawned = Instant::now();
        let started = runtime.go(move || spawned.elapsed());
        waits.push(started.join().expect("no panic there"));
    }
    crowd.watch(Duration::ZERO);
    Late::new(waits)
}

/// Two fibers wake each other without end on one worker: always the one in the LIFO slot runs next,
/// but for the third, which only yields.
fn third_beside_a_pair(time: Duration) {
    let runtime = runtime(1);
    let (hand_overs, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let player = |partner: Option<thread::Thread>| {
        let (hand_overs, over) = (Arc::clone(&hand_overs), Arc::clone(&over));
        move || {
            let mut partner = partner;
            while !over.load(Ordering::Relaxed) {
                if let Some(partner) = &partner {
                    partner.unpark();
                }
                thread::park();
                hand_overs.fetch_add(1, Ordering::Relaxed);
                partner = partner.or_else(|| PARTNER.lock().expect("no panic there").clone());
            }
            partner.inspect(thread::Thread::unpark);
        }
    };
    let ping = runtime.go(player(None));
    let pong = runtime.go(player(Some(ping.thread().clone())));
    *PARTNER.lock().expect("no panic there") = Some(pong.thread().clone());
    let turns = runtime.run(|| {
        let (end, mut turns) = (Instant::now() + time, 0);
        while Instant::now() < end {
            volt::yield_now();
            turns += 1;
        }
        over.store(true, Ordering::Relaxed);
        turns
    });
    ping.thread().unpark();
    for player in [ping, pong] {
        player.join().expect("no panic there");
    }
    let per_turn = hand_overs.load(Ordering::Relaxed) as f64 / f64::from(turns);
    let count = format!("{per_turn:.1} hand-overs");
    print_count("a pair, for each turn of a third fiber", &count, per_turn < 4.05, "<= 4.0");
}

/// Who `ping` plays with: it is there first.
static PARTNER: Mutex<Option<thread::Thread>> = Mutex::new(None);

/// Sleeping workers wake one after the other, each woken by the last that found something.
fn burst(workers: usize, fibers: usize) {
    let runtime = runtime(workers);
    let stats = || runtime.stats().total;
    while stats().parked < workers as u64 {
        std::thread::sleep(ms(1));
    }
    let before = stats();
    runtime.run(|| {
        let work = || compute_for(Duration::from_micros(5));
        let burst: Vec<_> = (0..fibers).map(|_| volt::go(work)).collect();
        burst.into_iter().for_each(|fiber| fiber.join().expect("no panic there"));
    });
    let now = stats();
    // One to begin with, one each until all are awake, and again one for each that went to sleep.
    let most = workers as u64 + now.parked - before.parked;
    let wakes = now.wakes - before.wakes;
    let count = format!("{wakes} wakes");
    let bar = format!("<= {most}, sleeps of {workers} workers");
    print_count("a burst of 10,000 fibers", &count, wakes <= most, &bar);
}

/// A piece of work that is always the same.
fn piece() -> u64 {
    (0..100_000).fold(1, |n: u64, i| black_box(n.rotate_left(5) ^ i))
}

const PIECES: usize = 800;

fn time(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_secs_f64()
}

/// The same work by a fan-out of fibers and by plain threads, with two and with one.
fn speed_up(rounds: usize) {
    let runtimes = [runtime(1), runtime(2)];
    let by_fibers = |workers: usize| {
        time(|| {
            runtimes[workers - 1].run(|| {
                let fibers: Vec<_> = (0..PIECES).map(|_| volt::go(piece)).collect();
                fibers.into_iter().for_each(|fiber| drop(fiber.join()));
            });
        })
    };
    let by_threads = |threads: usize| {
        time(|| {
            let work = || (0..PIECES / threads).map(|_| piece()).max();
            std::thread::scope(|s| (0..threads).for_each(|_| drop(s.spawn(work))));
        })
    };
    let mut ratios: Vec<_> = (0..rounds)
        .map(|_| {
            let (fibers, threads) = (by_fibers(1) / by_fibers(2), by_threads(1) / by_threads(2));
            (fibers / threads, fibers, threads)
        })
        .collect();
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (ratio, fibers, threads) = ratios[rounds / 2];
    let what = format!("two workers against one: {fibers:.2} (threads {threads:.2})");
    print_count(&what, &format!("{ratio:.2} of it"), ratio >= 0.95, ">= 0.95");
}
