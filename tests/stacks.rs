//! What a runtime does with stacks over time: memory goes back, and their use is measured.

mod common;

use common::{LONG, child, limit_address_space, until, within};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use volt::runtime::{Builder, Runtime};

/// Uses about `bytes` of stack.
#[inline(never)]
fn deep(bytes: usize) -> u8 {
    let frame = black_box([1u8; 1024]);
    if bytes <= 1024 { frame[0] } else { deep(bytes - 1024).wrapping_add(frame[7]) }
}

/// What of this process is resident, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Waits until at least `count` stacks have been in use and none of them has memory any more.
#[track_caller]
fn until_none_has_memory(count: usize) {
    let mut stacks = volt::metrics::stacks();
    let start = Instant::now();
    while stacks.handed_out < count || stacks.trimmed < stacks.handed_out {
        assert!(start.elapsed() < LONG, "not {count} stacks, or some with memory: {stacks:?}");
        std::thread::sleep(Duration::from_micros(200));
        stacks = volt::metrics::stacks();
    }
}

/// Runs `test`, which is called `name`, in a process of its own: the figures are the process's.
fn alone(name: &str, test: impl FnOnce()) {
    let left = child(name, &[], test);
    assert!(left.status.success(), "{left:?}");
}

#[test]
fn idle_stacks_give_their_memory_back_by_themselves() {
    const FIBERS: usize = 400;
    let before = resident();
    for workers in [1, 3] {
        within(LONG, move || {
            let age = Duration::from_millis(50);
            let runtime = Builder::new().workers(workers).stack_age(age).build().unwrap();
            let arrived = Arc::new(AtomicUsize::new(0));
            let fibers: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let arrived = Arc::clone(&arrived);
                    runtime.go(move || {
                        black_box(deep(100 << 10));
                        arrived.fetch_add(1, Ordering::Relaxed);
                        volt::thread::park();
                    })
                })
                .collect();
            // Each has a stack of its own, and keeps its memory as long as it lives.
            until("all are parked", || arrived.load(Ordering::Relaxed) == FIBERS);
            let (full, seen) = (before + FIBERS as u64 * 100, resident());
            assert!(seen >= full, "{seen} KiB, {full} expected: nothing was used");
            fibers.iter().for_each(|fiber| fiber.thread().unpark());
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            // Nobody uses the runtime any more; it does this on its own.
            until("the memory went back", || resident() < before + (FIBERS as u64 * 100) / 4);
            runtime.shutdown(LONG).unwrap();
        });
    }
}

#[test]
fn the_use_of_stacks_is_told_by_spawn_site() {
    const USED: usize = 60 << 10;
    within(LONG, || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let line = runtime.run(|| {
            let (fiber, line) = (volt::go(|| deep(USED)), line!());
            fiber.join().unwrap();
            line
        });
        let usage = volt::metrics::stack_usage();
        let site = usage
            .iter()
            .find(|usage| usage.site.file().ends_with("stacks.rs") && usage.site.line() == line)
            .expect("the first fiber of a site is measured");
        assert!(site.samples >= 1);
        assert!(site.max_bytes >= USED, "{site:?}");
        assert!(site.max_bytes < USED * 4, "{site:?}");
        runtime.shutdown(LONG).unwrap();
    });
}

/// Fibers that stall are replaced, and end on threads that have no core any more, or one too many: what
/// these leave behind has no memory either, though nobody comes by to look at it again.
#[test]
fn stalled_fibers_leave_no_memory_behind() {
    const FIBERS: usize = 8;
    alone("stalled_fibers_leave_no_memory_behind", || {
        let period = Duration::from_millis(10);
        let builder = Builder::new().workers(2).stall_period(Some(period)).stack_age(period);
        let runtime = builder.force_migrate(false).build().unwrap();
        // Each has a stack of its own, however late the threads come that run them: none ends before all block.
        let all = Arc::new(Barrier::new(FIBERS));
        let fibers: Vec<_> = (0..FIBERS)
            .map(|_| {
                let all = Arc::clone(&all);
                runtime.go(move || {
                    all.wait();
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        assert!(runtime.handle().stats().total.stalls > 0, "none was replaced");
        until_none_has_memory(FIBERS);
        runtime.shutdown(LONG).unwrap();
    });
}

/// A worker that stalls, and lets go of its core, had in mind that many stacks became idle a moment ago.
#[test]
fn a_stalled_worker_leaves_its_duty_to_others() {
    const FIBERS: usize = 200;
    alone("a_stalled_worker_leaves_its_duty_to_others", || {
        let period = Duration::from_millis(10);
        let builder = Builder::new().workers(1).stall_period(Some(period)).stack_age(period * 20);
        let runtime = builder.force_migrate(false).build().unwrap();
        runtime.run(move || {
            // All at once, so that each has a stack of its own: more than a worker keeps.
            let fibers: Vec<_> = (0..FIBERS).map(|_| volt::go(volt::thread::park)).collect();
            volt::yield_now();
            fibers.iter().for_each(|fiber| fiber.thread().unpark());
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            std::thread::sleep(period * 5);
        });
        until("it is back, and one too many", || runtime.handle().stats().total.retired > 0);
        until_none_has_memory(FIBERS);
        runtime.shutdown(LONG).unwrap();
    });
}

/// Each worker keeps stacks of its own; one that sleeps is woken when they are old, and no memory
/// stays. Again and again, since later times begin with nothing due and, for a single fiber, with a
/// worker that sleeps in the poller already and has to be told.
#[test]
fn sleeping_workers_give_the_memory_of_their_own_stacks_back() {
    const WORKERS: usize = 3;
    alone("sleeping_workers_give_the_memory_of_their_own_stacks_back", || {
        let age = Duration::from_millis(20);
        let runtime = Builder::new().workers(WORKERS).stack_age(age).build().unwrap();
        for together in [WORKERS, WORKERS, 1, 1, 1, 1, 1, 1] {
            // None ends before all run, so each ends on a worker of its own.
            let running = Arc::new(AtomicUsize::new(0));
            let fibers: Vec<_> = (0..together)
                .map(|_| {
                    let running = Arc::clone(&running);
                    runtime.go(move || {
                        running.fetch_add(1, Ordering::SeqCst);
                        while running.load(Ordering::SeqCst) < together {
                            std::thread::yield_now();
                        }
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            // Nobody uses the runtime any more.
            until_none_has_memory(WORKERS);
        }
        runtime.shutdown(LONG).unwrap();
    });
}

/// Runs so many fibers until all of them are parked, and ends them: each has a stack of its own. The control
/// blocks are too large to be kept, so there is no news of those.
fn all_park_and_end(runtime: &Runtime, fibers: usize) {
    let arrived = Arc::new(AtomicUsize::new(0));
    let parked: Vec<_> = (0..fibers)
        .map(|_| {
            let (arrived, large) = (Arc::clone(&arrived), [0u8; 1024]);
            runtime.go(move || {
                black_box(&large);
                arrived.fetch_add(1, Ordering::Relaxed);
                volt::thread::park();
            })
        })
        .collect();
    until("all are parked", || arrived.load(Ordering::Relaxed) == fibers);
    parked.iter().for_each(|fiber| fiber.thread().unpark());
    parked.into_iter().for_each(|fiber| fiber.join().unwrap());
}

/// A worker that gives back what a burst has left can be woken for work all that time, and may be the only
/// one that looks at sockets: it does so after a few stacks.
#[test]
fn who_gives_memory_back_looks_around_in_between() {
    const FIBERS: usize = 2000;
    alone("who_gives_memory_back_looks_around_in_between", || {
        let age = Duration::from_millis(500);
        let runtime = Builder::new().workers(1).stack_age(age).build().unwrap();
        let handle = runtime.handle();
        all_park_and_end(&runtime, FIBERS);
        let polls = handle.stats().total.polls;
        let warm = FIBERS - volt::metrics::stacks().trimmed;
        until_none_has_memory(FIBERS);
        let polls = handle.stats().total.polls - polls;
        assert!(polls as usize >= warm / 50, "{polls} looks for {warm} stacks");
        runtime.shutdown(LONG).unwrap();
    });
}

/// A worker that always has something to run gives back what a burst has left, too.
#[test]
fn a_worker_that_never_sleeps_gives_memory_back() {
    const FIBERS: usize = 2000;
    alone("a_worker_that_never_sleeps_gives_memory_back", || {
        let age = Duration::from_millis(500);
        let runtime = Builder::new().workers(1).stack_age(age).build().unwrap();
        all_park_and_end(&runtime, FIBERS);
        let left = runtime.run(|| {
            let start = Instant::now();
            loop {
                // But for the one that runs here.
                let stacks = volt::metrics::stacks();
                let left = stacks.handed_out - stacks.trimmed - 1;
                if left == 0 || start.elapsed() > LONG {
                    return left;
                }
                volt::yield_now();
            }
        });
        assert_eq!(left, 0, "of {FIBERS} stacks some have memory");
        runtime.shutdown(LONG).unwrap();
    });
}

/// Builds a runtime, uses many stacks at once, and ends it before any of them is old. A handle stays.
fn use_and_end(fibers: usize) -> volt::runtime::Handle {
    let runtime = Builder::new().workers(2).build().unwrap();
    all_park_and_end(&runtime, fibers);
    let handle = runtime.handle().clone();
    assert!(volt::metrics::stacks().pooled > fibers / 2, "nothing is left to give back");
    runtime.shutdown(LONG).unwrap();
    handle
}

/// There is nobody left who could look after them when they are old.
#[test]
fn the_last_runtime_leaves_no_memory_behind() {
    const FIBERS: usize = 2000;
    alone("the_last_runtime_leaves_no_memory_behind", || {
        let _handle = use_and_end(FIBERS);
        until_none_has_memory(FIBERS);
    });
}

/// One that has never had a stack to look after, and sleeps.
#[test]
fn an_idle_runtime_looks_after_what_another_leaves_behind() {
    const FIBERS: usize = 2000;
    alone("an_idle_runtime_looks_after_what_another_leaves_behind", || {
        let age = Duration::from_millis(100);
        let other = Builder::new().workers(2).stack_age(age).build().unwrap();
        until("it sleeps", || other.handle().stats().total.parked >= 2);
        let _handle = use_and_end(FIBERS);
        until_none_has_memory(FIBERS);
        other.shutdown(LONG).unwrap();
    });
}

/// A thread that is stuck in a fiber's code at the end of its runtime leaves when that code returns.
#[test]
fn a_thread_that_leaves_late_leaves_no_memory_behind() {
    alone("a_thread_that_leaves_late_leaves_no_memory_behind", || {
        let runtime = Builder::new().workers(1).stall_period(None).build().unwrap();
        let [inside, returns] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let (arrives, may_return) = (Arc::clone(&inside), Arc::clone(&returns));
        let stuck = move || {
            arrives.store(1, Ordering::Release);
            while may_return.load(Ordering::Acquire) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        // Of a size that no worker keeps: it goes to the pool when the fiber ends.
        let own_size = || volt::thread::Builder::new().stack_size(128 << 10);
        drop(runtime.go(move || own_size().spawn(stuck).map(drop)));
        until("it is there", || inside.load(Ordering::Acquire) == 1);
        let error = runtime.shutdown(Duration::ZERO).unwrap_err();
        assert_eq!(error.threads.len(), 1);
        assert_eq!(volt::metrics::stacks().pooled, 0);
        returns.store(1, Ordering::Release);
        until_none_has_memory(2);
    });
}

/// A fiber of `name` that is too large for the limit, if there is one.
fn huge(name: &str) -> volt::JoinHandle<()> {
    let builder = volt::thread::Builder::new().name(name.to_owned()).stack_size(1 << 30);
    builder.spawn(volt::thread::park).unwrap()
}

/// Nobody would ever know. Nor is there a storm of lines: one a second, with the number of the others.
#[test]
fn who_ends_for_want_of_a_stack_and_has_no_joiner_is_told_of() {
    const NAME: &str = "who_ends_for_want_of_a_stack_and_has_no_joiner_is_told_of";
    const MANY: usize = 2000;
    let start = Instant::now();
    let left = child(NAME, &[], || {
        let runtime = Builder::new().workers(2).build().unwrap();
        limit_address_space(Some(512 << 20));
        let refused = || volt::metrics::stacks().refused;
        assert!(runtime.run(|| huge("joined").join().unwrap_err().is::<volt::StackError>()));
        assert_eq!(refused(), 1);
        runtime.run(|| (0..MANY).for_each(|_| drop(huge("many"))));
        until("all have ended", || {
            let stats = runtime.stats().total;
            refused() == 1 + MANY && stats.spawned == stats.finished
        });
        // The next may be told of at once.
        std::thread::sleep(Duration::from_millis(1200));
        let late = runtime.run(|| huge("late"));
        until("it has ended", || late.is_finished());
        drop(late);
    });
    assert!(left.status.success(), "{left:?}");
    let lines: Vec<_> = left.text.lines().filter(|line| line.starts_with("volt: fiber")).collect();
    let more = |line: &str| line.rsplit_once('(')?.1.split_once(" more")?.0.parse::<usize>().ok();
    let others: usize = lines.iter().filter_map(|line| more(line)).sum();
    assert_eq!(lines.len() + others, MANY + 1, "{left:?}");
    assert!(lines.len() as u64 <= start.elapsed().as_secs() + 2, "{left:?}");
    for (line, name) in [(lines[0], "many"), (lines[lines.len() - 1], "late")] {
        for part in [name, "stacks.rs:", "1 GiB", "RLIMIT_AS"] {
            assert!(line.contains(part), "{part} is not in: {line}");
        }
    }
}

/// Fibers that come until there is no stack are refused; those that live have something left to live on.
#[test]
fn who_takes_all_stacks_leaves_room_for_the_rest_of_the_process() {
    const NAME: &str = "who_takes_all_stacks_leaves_room_for_the_rest_of_the_process";
    let left = child(NAME, &[], || {
        within(LONG, || {
            let runtime = Builder::new().workers(2).stack_size(256 << 10).build().unwrap();
            limit_address_space(Some(300 << 20));
            runtime.run(|| {
                while volt::metrics::stacks().refused == 0 {
                    drop(volt::go(|| volt::sleep(LONG)));
                    volt::yield_now();
                }
                let allocate = || Vec::<u8>::new().try_reserve_exact(200 << 10);
                let thread = std::thread::Builder::new().spawn(allocate).unwrap();
                assert!(thread.join().unwrap().is_ok());
                assert_eq!(volt::blocking(|| 1), 1);
                let mut kept = [const { Vec::<u8>::new() }; 16];
                kept.iter_mut().for_each(|bytes| bytes.try_reserve_exact(200 << 10).unwrap());
            });
        });
    });
    assert!(left.status.success(), "{left:?}");
}

#[test]
fn a_run_for_which_there_is_no_stack_says_so() {
    let left = child("a_run_for_which_there_is_no_stack_says_so", &[], || {
        let runtime = Builder::new().workers(1).stack_size(1 << 30).build().unwrap();
        limit_address_space(Some(512 << 20));
        runtime.run(|| ());
    });
    assert!(!left.status.success(), "{left:?}");
    for part in ["panicked", "no stack of 1 GiB", "RLIMIT_AS"] {
        assert!(left.text.contains(part), "{part}: {left:?}");
    }
}

/// Guards that are mappings of their own stay for good: they must not be all that the process may have.
#[test]
fn guards_leave_mappings_to_the_rest_of_the_process() {
    const NAME: &str = "guards_leave_mappings_to_the_rest_of_the_process";
    let setting = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let Ok(most @ ..=100_000) = setting.trim().parse::<usize>() else {
        return eprintln!("skipped: vm.max_map_count is '{setting}'");
    };
    let left = child(NAME, &[("VOLT_STACK_GUARD", "mprotect")], || {
        within(LONG, move || {
            let runtime = Builder::new().workers(2).stack_size(64 << 10).build().unwrap();
            let asleep = Arc::new(AtomicUsize::new(0));
            runtime.run(|| {
                while volt::metrics::stacks().refused == 0 {
                    let asleep = Arc::clone(&asleep);
                    drop(volt::go(move || {
                        asleep.fetch_add(1, Ordering::Relaxed);
                        volt::thread::park();
                    }));
                    volt::yield_now();
                }
                assert!(asleep.load(Ordering::Relaxed) > most / 3);
                let all = Arc::new(Barrier::new(20));
                let wait = |all: Arc<Barrier>| move || _ = all.wait();
                let threads: Vec<_> = (1..20)
                    .map(|_| std::thread::Builder::new().spawn(wait(Arc::clone(&all))).unwrap())
                    .collect();
                volt::blocking(wait(all));
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                let maps = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
                assert!(maps + most / 20 < most, "{maps} mappings, of {most}");
            });
        });
    });
    assert!(left.status.success(), "{left:?}");
    for part in ["vm.max_map_count", &format!("which is {most}"), "stacks.rs:"] {
        assert!(left.text.contains(part), "{part} is not in: {left:?}");
    }
}

/// A worker that ends many fibers for want of stacks does not hand its core on for each: only where they hold what may
/// wait as it is dropped, or one is told of.
#[test]
fn refusals_hand_no_core_on() {
    const MANY: usize = 1000;
    alone("refusals_hand_no_core_on", || {
        let runtime = Builder::new().workers(2).stall_period(None).build().unwrap();
        runtime.run(|| {
            limit_address_space(Some(512 << 20));
            let fibers: Vec<_> = (0..MANY).map(|_| huge("joined")).collect();
            fibers.into_iter().for_each(|fiber| assert!(fiber.join().is_err()));
            assert_eq!(runtime.stats().total.hand_offs, 0);
            (0..MANY).for_each(|_| drop(huge("detached")));
            while volt::metrics::stacks().refused < MANY * 2 {
                volt::yield_now();
            }
        });
        let hand_offs = runtime.stats().total.hand_offs;
        assert!(hand_offs < MANY as u64 / 2, "{hand_offs}");
    });
}
