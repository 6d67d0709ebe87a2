//! Workers that do not come back: noticed, replaced, named, and back in the end.

mod common;

use common::{LONG, until, within};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use volt::net::TcpListener;
use volt::runtime::{Builder, Migrate, Runtime, Stall};

const PERIOD: Duration = Duration::from_millis(20);

fn supervised(workers: usize) -> Builder {
    Builder::new().workers(workers).stall_period(Some(PERIOD)).force_migrate(false)
}

fn runtime(workers: usize) -> Runtime {
    supervised(workers).build().unwrap()
}

/// Keeps its thread until `flag` is set; volt is not told.
fn hog(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Keeps threads asleep until it is opened; volt is not told.
#[derive(Default)]
struct Latch {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Latch {
    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

#[test]
fn a_stalled_worker_is_replaced_and_everything_it_had_runs() {
    within(LONG, || {
        let runtime = runtime(1);
        let done = Arc::new(AtomicUsize::new(0));
        let release = Arc::new(AtomicBool::new(false));
        let (counter, held) = (Arc::clone(&done), Arc::clone(&release));
        let hogging = runtime.go(move || {
            // More than ring and slot hold: some stand in the injector.
            for _ in 0..400 {
                let done = Arc::clone(&counter);
                drop(volt::go(move || done.fetch_add(1, Ordering::SeqCst)));
            }
            hog(&held);
        });
        until("the others to run", || done.load(Ordering::SeqCst) == 400);
        assert!(!hogging.is_finished());
        release.store(true, Ordering::SeqCst);
        hogging.join().unwrap();
        let stats = runtime.handle().stats();
        assert_eq!((stats.total.stalls, stats.queue.size), (1, 0), "{stats:?}");
        runtime.shutdown(LONG).unwrap();
    });
}

/// Where nobody steals only the supervisor can bring it elsewhere, slot and ring.
#[test]
fn what_stands_behind_a_stalled_fiber_is_taken_by_the_supervisor() {
    within(LONG, || {
        let runtime = supervised(1).stealing(false).build().unwrap();
        runtime.run(|| {
            let done = Arc::new(AtomicUsize::new(0));
            for _ in 0..100 {
                let done = Arc::clone(&done);
                drop(volt::go(move || done.fetch_add(1, Ordering::SeqCst)));
            }
            until("the others to run", || done.load(Ordering::SeqCst) == 100);
        });
        assert_eq!(runtime.handle().stats().total.stalls, 1);
        runtime.shutdown(LONG).unwrap();
    });
}

/// The stalled fiber goes on spawning: the supervisor is no more than a thief.
#[test]
fn a_stalled_fiber_may_spawn_and_wake_at_any_time() {
    within(LONG, || {
        let runtime = runtime(2);
        let hogs: Vec<_> = (0..2)
            .map(|_| {
                runtime.go(|| {
                    let begin = Instant::now();
                    let mut spawned = 0_u64;
                    let sum = Arc::new(AtomicUsize::new(0));
                    while begin.elapsed() < 8 * PERIOD {
                        let sum = Arc::clone(&sum);
                        drop(volt::go(move || sum.fetch_add(1, Ordering::SeqCst)));
                        spawned += 1;
                        if spawned % 64 == 0 {
                            std::thread::sleep(Duration::from_micros(50));
                        }
                    }
                    (sum, spawned)
                })
            })
            .collect();
        for hog in hogs {
            let (sum, spawned) = hog.join().unwrap();
            until("each to run once", || sum.load(Ordering::SeqCst) as u64 == spawned);
        }
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn the_hook_is_told_who_it_is() {
    within(LONG, || {
        let told = Arc::new(Mutex::new(Vec::<Stall>::new()));
        let telling = Arc::clone(&told);
        let release = Arc::new(AtomicBool::new(false));
        let held = Arc::clone(&release);
        let hook = move |stall: &Stall| {
            telling.lock().unwrap().push(stall.clone());
            release.store(true, Ordering::SeqCst);
        };
        let runtime = supervised(1).on_stall(hook).build().unwrap();
        let line = line!() + 2;
        runtime.run(move || {
            let builder = volt::thread::Builder::new().name("the culprit".into());
            let fiber = builder.spawn(move || hog(&held)).unwrap();
            fiber.join().unwrap();
        });
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].fiber.as_deref(), Some("the culprit"));
        assert_eq!((told[0].site.file(), told[0].site.line()), (file!(), line + 1));
        assert!(told[0].for_at_least >= 3 * PERIOD / 4 && told[0].replaced, "{told:?}");
    });
}

#[test]
fn a_hook_that_panics_does_no_harm() {
    within(LONG, || {
        let builder = supervised(1).learn_blocking(false);
        let runtime = builder.on_stall(|_| panic!("in the hook")).build().unwrap();
        for stalls in 1..=2 {
            let release = Arc::new(AtomicBool::new(false));
            let held = Arc::clone(&release);
            let fiber = runtime.go(move || hog(&held));
            // The supervisor prints the panic meanwhile, which takes its time.
            until("the stall", || runtime.handle().stats().total.stalls == stalls);
            release.store(true, Ordering::SeqCst);
            fiber.join().unwrap();
        }
    });
}

#[test]
fn who_comes_back_rejoins_or_retires_and_no_more_run_than_should() {
    within(LONG, || {
        let runtime = runtime(2);
        for _ in 0..3 {
            let hogs: Vec<_> =
                (0..6).map(|_| runtime.go(|| std::thread::sleep(3 * PERIOD))).collect();
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
        }
        // The last ones come to their scheduling points after their joins.
        until("all stalled workers to be back", || {
            let stats = runtime.handle().stats();
            stats.total.rejoined + stats.total.retired == stats.total.stalls
        });
        let stats = runtime.handle().stats();
        assert_eq!((stats.queue.concurrency, stats.queue.workers), (2, 2), "{stats:?}");
        assert!(stats.total.stalls >= 2 && stats.total.retired > 0, "{stats:?}");
        // It all works as before.
        assert_eq!(runtime.run(|| volt::go(|| 5).join().unwrap()), 5);
        runtime.shutdown(LONG).unwrap();
    });
}

/// One fiber in the slot behind one that computes: no other worker is woken for it, nor steals it, and it is not
/// yet a stall.
#[test]
fn an_aged_slot_is_freed_before_its_worker_counts_as_stalled() {
    within(LONG, || {
        let period = Duration::from_secs(2);
        let builder = Builder::new().workers(2).stall_period(Some(period)).stealing(false);
        let runtime = builder.force_migrate(false).build().unwrap();
        let (waited, held) = runtime.run(move || {
            let flag = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&flag);
            let begin = Instant::now();
            drop(volt::go(move || theirs.store(true, Ordering::SeqCst)));
            hog(&flag);
            (begin.elapsed(), volt::runtime::Handle::current().stats().total)
        });
        assert!(waited < period, "{waited:?}");
        assert_eq!((held.slots_freed, held.stalls), (1, 0), "{held:?}");
    });
}

#[test]
fn fibers_of_a_site_that_stalls_get_threads_at_once() {
    within(LONG, || {
        const FIBERS: usize = 24;
        let runtime = runtime(2);
        let begin = Instant::now();
        let site = || runtime.go(|| std::thread::sleep(10 * PERIOD));
        let fibers: Vec<_> = (0..FIBERS).map(|_| site()).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        let took = begin.elapsed();
        let sites = runtime.handle().blocking_sites();
        // One after the other they would take 12 x 200 ms, replaced two at a time 12 x 20 ms more.
        assert!(took < PERIOD * 10 * FIBERS as u32 / 4, "{took:?}");
        assert_eq!(sites.len(), 1, "{sites:?}");
        assert!(sites[0].stalls >= 2, "{sites:?}");
        until("the site to be trusted again", || {
            runtime.go(|| ()).join().unwrap();
            !runtime.handle().blocking_sites()[0].suspect
        });
        let before = runtime.handle().stats().total.stalls;
        assert!(before < FIBERS as u64, "most were never a stall: {before}");
    });
}

/// While one fiber of a site is stuck, those that started before go on in blocking mode too.
#[test]
fn fibers_of_a_suspect_site_resume_in_blocking_mode() {
    within(LONG, || {
        let runtime = runtime(1);
        let release = Arc::new(Latch::default());
        let stuck = Arc::new(AtomicUsize::new(0));
        // Of one site: one that is stuck at once, and others that wait before they are.
        let site = |n: u64| {
            let (release, stuck) = (Arc::clone(&release), Arc::clone(&stuck));
            runtime.go(move || {
                if n > 0 {
                    volt::thread::park();
                }
                stuck.fetch_add(1, Ordering::SeqCst);
                release.wait();
            })
        };
        let fibers: Vec<_> = (0..5).rev().map(site).collect();
        let total = || runtime.handle().stats().total;
        until_suspect(&runtime);
        assert_eq!((total().stalls, total().hand_offs), (1, 0));
        fibers.iter().for_each(|fiber| fiber.thread().unpark());
        until("all to be stuck", || stuck.load(Ordering::SeqCst) == 5);
        let seen = total();
        assert_eq!((seen.stalls, seen.hand_offs), (1, 4), "{seen:?}");
        release.open();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

/// Its thread may have had no processor at the first look that finds it stalled.
fn until_suspect(runtime: &volt::runtime::Runtime) {
    let is_suspect = || runtime.handle().blocking_sites().iter().any(|site| site.suspect);
    until("the first to be found asleep", is_suspect);
}

/// Threads of the process whose names begin so.
#[cfg(target_os = "linux")]
fn threads_named(start: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(|task| name(task.unwrap())).filter(|name| name.starts_with(start)).count()
}

/// Threads do not make them faster: each slows all others down, until every one of them lasts for a period.
#[test]
#[cfg(target_os = "linux")]
fn fibers_that_compute_get_no_threads_of_their_own() {
    const FIBERS: usize = 300;
    const PERIOD: Duration = Duration::from_millis(50);
    within(2 * LONG, || {
        let runtime = supervised(2).stall_period(Some(PERIOD)).thread_name("computes").build();
        let runtime = runtime.unwrap();
        let release = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicUsize::new(0));
        let site = |first: bool| {
            let (release, done) = (Arc::clone(&release), Arc::clone(&done));
            runtime.go(move || {
                let begin = Instant::now();
                while begin.elapsed() < PERIOD / 10 || first && !release.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                done.fetch_add(1, Ordering::SeqCst);
            })
        };
        let mut fibers = vec![site(true)];
        until("the first to count as stalled", || runtime.stats().total.stalls > 0);
        fibers.extend((1..FIBERS).map(|_| site(false)));
        until("the others to have run", || done.load(Ordering::SeqCst) == FIBERS - 1);
        // A thread that is done stays for seconds.
        let threads = threads_named("computes-");
        let (total, sites) = (runtime.stats().total, runtime.handle().blocking_sites());
        release.store(true, Ordering::SeqCst);
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        assert_eq!(total.hand_offs, 0, "{total:?}");
        // Two workers, a supervisor, a replacement; and some for those that get no processor, which are replaced too.
        assert!(threads <= 16, "{threads} threads");
        assert!(sites[0].stalls > 0 && !sites[0].suspect && !sites[0].flagged, "{sites:?}");
        runtime.shutdown(LONG).unwrap();
    });
}

/// Beyond that they run like any others: they do not wait for a place, and their workers are replaced.
#[test]
fn fibers_of_a_suspect_site_take_no_more_threads_than_blocking_may() {
    within(LONG, || {
        const BOUND: u64 = 3;
        const FIBERS: u64 = 12;
        let runtime = supervised(1).max_blocking(BOUND as usize).build().unwrap();
        let release = Arc::new(Latch::default());
        let stuck = Arc::new(AtomicUsize::new(0));
        let site = || {
            let (release, stuck) = (Arc::clone(&release), Arc::clone(&stuck));
            runtime.go(move || {
                stuck.fetch_add(1, Ordering::SeqCst);
                release.wait();
            })
        };
        let total = || runtime.stats().total;
        let mut fibers = vec![site()];
        until_suspect(&runtime);
        fibers.extend((1..FIBERS).map(|_| site()));
        until("all to be stuck", || stuck.load(Ordering::SeqCst) as u64 == FIBERS);
        assert_eq!(total().hand_offs, BOUND);
        until("those beyond the bound to count as stalled", || total().stalls == FIBERS - BOUND);
        // Who is in `blocking` has a place of its own.
        assert_eq!(runtime.go(|| volt::blocking(|| 7)).join().unwrap(), 7);
        release.open();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        runtime.shutdown(LONG).unwrap();
    });
}

/// Such a fiber has no core to run another on: what it joins runs elsewhere.
#[test]
fn a_fiber_in_blocking_mode_joins_one_that_has_not_started() {
    within(LONG, || {
        let runtime = runtime(1);
        let release = Arc::new(Latch::default());
        let site = |sticks: bool| {
            let release = Arc::clone(&release);
            runtime.go(move || {
                if sticks {
                    release.wait();
                }
                let fibers: Vec<_> = (0..3).map(|n| volt::go(move || n)).collect();
                fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>()
            })
        };
        let stuck = site(true);
        until_suspect(&runtime);
        assert_eq!(site(false).join().unwrap(), 3);
        let seen = runtime.handle().stats().total;
        assert!(seen.hand_offs >= 1, "{seen:?}");
        release.open();
        stuck.join().unwrap();
    });
}

#[test]
fn where_learning_is_off_every_one_of_them_stalls_a_worker() {
    within(LONG, || {
        let runtime = supervised(1).learn_blocking(false).build().unwrap();
        let release = Arc::new(Latch::default());
        let site = |held: Arc<Latch>| runtime.go(move || held.wait());
        let fibers: Vec<_> = (0..4).map(|_| site(Arc::clone(&release))).collect();
        until("all to count as stalled", || runtime.handle().stats().total.stalls == 4);
        release.open();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        assert_eq!(runtime.handle().stats().total.hand_offs, 0);
        assert!(runtime.handle().blocking_sites().iter().all(|site| !site.suspect));
    });
}

#[test]
fn without_a_supervisor_nothing_is_replaced() {
    within(LONG, || {
        let runtime =
            Builder::new().workers(1).stall_period(None).force_migrate(false).build().unwrap();
        runtime.run(|| std::thread::sleep(3 * PERIOD));
        assert_eq!(runtime.handle().stats().total.stalls, 0);
    });
}

#[test]
fn a_period_may_be_as_long_as_time() {
    within(LONG, || {
        let runtime = Builder::new().workers(2).stall_period(Some(Duration::MAX)).build().unwrap();
        // Its workers sleep and wake.
        runtime.run(|| (0..3).for_each(|_| volt::sleep(Duration::from_millis(1))));
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_period_too_short_is_refused() {
    let error = Builder::new().stall_period(Some(Duration::from_micros(10))).build().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("at least 1ms"), "{error}");
}

/// Under `BeforeStart` fibers that have started stay with their stalled thread, all others go on.
#[test]
fn fibers_that_may_not_move_wait_for_their_worker() {
    within(LONG, || {
        let runtime = supervised(2).migrate(Migrate::BeforeStart).build().unwrap();
        let fibers: Vec<_> = (0..40)
            .map(|n| {
                runtime.go(move || {
                    let home = std::thread::current().id();
                    for round in 0..4 {
                        if (n + round) % 10 == 0 {
                            std::thread::sleep(2 * PERIOD);
                        }
                        volt::sleep(Duration::from_millis(1));
                        assert_eq!(std::thread::current().id(), home);
                    }
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        let stats = runtime.handle().stats();
        assert!(stats.total.stalls > 0, "{stats:?}");
        runtime.shutdown(LONG).unwrap();
    });
}

/// A busy worker whose idle stacks are due for trimming must not keep the one in the poller awake.
#[test]
fn a_computing_worker_does_not_keep_the_poller_turning() {
    within(LONG, || {
        let runtime =
            supervised(2).stall_period(None).stack_age(Duration::from_millis(1)).build().unwrap();
        runtime.run(|| {
            for _ in 0..20 {
                volt::go(|| volt::sleep(Duration::from_millis(1))).join().unwrap();
            }
        });
        let polls = || runtime.handle().stats().total.polls;
        let spun = runtime.run(|| {
            let before = polls();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(100) {
                std::hint::spin_loop();
            }
            polls() - before
        });
        assert!(spun < 20, "{spun} turns of the driver in 100 ms of computing");
    });
}

/// Where events come one by one and often, nobody is woken for the poller each time. If then a fiber
/// computes, somebody looks after it all the same, long before that fiber counts as stalled.
#[test]
fn a_fiber_that_computes_after_many_events_keeps_no_socket_waiting() {
    const PERIOD: Duration = Duration::from_secs(4);
    within(LONG, || {
        let runtime =
            Builder::new().workers(2).stall_period(Some(PERIOD)).force_migrate(false).build();
        let runtime = runtime.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let [mut busy, mut other] =
            [(); 2].map(|()| std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let computes = Arc::new(AtomicBool::new(false));
        let running = Arc::clone(&computes);
        let serve = runtime.go(move || {
            let [(mut busy, _), (mut other, _)] = [(); 2].map(|()| listener.accept().unwrap());
            let served = Arc::new(AtomicBool::new(false));
            let serves = Arc::clone(&served);
            let other = volt::go(move || {
                other.read_exact(&mut [0; 1]).unwrap();
                serves.store(true, Ordering::Relaxed);
            });
            let mut byte = [0; 1];
            while byte != [b'c'] {
                busy.read_exact(&mut byte).unwrap();
                busy.write_all(&byte).unwrap();
            }
            running.store(true, Ordering::Relaxed);
            while !served.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            other.join().unwrap();
        });
        let mut ask = |byte: u8| {
            busy.write_all(&[byte]).unwrap();
            busy.read_exact(&mut [0; 1]).unwrap();
        };
        // So many that nobody expects the fiber to compute.
        for _ in 0..10_000 {
            ask(b'e');
        }
        ask(b'c');
        until("the fiber to compute", || computes.load(Ordering::Relaxed));
        let start = Instant::now();
        other.write_all(&[1]).unwrap();
        serve.join().unwrap();
        let waited = start.elapsed();
        assert!(waited < PERIOD / 4, "nobody looked after the poller for {waited:?}");
        runtime.shutdown(LONG).unwrap();
    });
}

/// The fiber that ends the run is the one that has stalled: nothing comes after it on that thread.
#[test]
fn a_current_thread_runtime_that_is_not_run_has_no_core() {
    within(LONG, || {
        let period = Some(Duration::from_millis(2));
        let runtime = Builder::new_current_thread().stall_period(period).build().unwrap();
        for _ in 0..5 {
            runtime.run(|| std::thread::sleep(Duration::from_millis(20)));
            until("the replacement lets go", || runtime.stats().queue.concurrency == 0);
            let total = runtime.stats().total;
            assert_eq!(total.stalls, total.rejoined + total.retired, "{total:?}");
        }
        assert!(runtime.stats().total.stalls > 0);
    });
}
