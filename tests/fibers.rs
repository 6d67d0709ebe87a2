//! The list of a runtime's fibers: who is on it, what it says of them, and that nobody on it is gone.

mod common;

use common::{LONG, Rng, Seed, child, until, within};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use volt::runtime::{Builder, FiberReport, Handle, JoinHandle, Runtime};
use volt::sync::{Condvar, Event, Mutex, mpsc};
use volt::thread;

fn all(handle: &Handle) -> Vec<FiberReport> {
    handle.fibers(usize::MAX)
}

fn report_of<T>(handle: &Handle, fiber: &JoinHandle<T>) -> Option<FiberReport> {
    all(handle).into_iter().find(|report| report.id == fiber.thread().id())
}

/// What is said of `fiber` once it waits, and has for some time: it may have begun after the list was.
#[track_caller]
fn waiting<T>(runtime: &Runtime, fiber: &JoinHandle<T>) -> FiberReport {
    let mut report = None;
    until("it waits", || {
        report = report_of(runtime.handle(), fiber).filter(|report| !report.waiting.is_zero());
        report.is_some()
    });
    report.unwrap()
}

fn workers(count: usize) -> Runtime {
    Builder::new().workers(count).build().unwrap()
}

#[test]
fn each_says_what_it_waits_for() {
    within(LONG, || {
        let runtime = workers(2);
        let (mutex, condvar) = (Arc::new(Mutex::new(())), Arc::new(Condvar::new()));
        let (sender, receiver) = mpsc::channel::<()>();
        let held = mutex.lock().unwrap();
        let parked = runtime.go(thread::park);
        let thread = parked.thread().clone();
        let fibers = [
            ("join", runtime.go(move || parked.join().unwrap())),
            ("channel", runtime.go(move || assert!(receiver.recv().is_err()))),
            ("mutex", {
                let mutex = Arc::clone(&mutex);
                runtime.go(move || drop(mutex.lock()))
            }),
            ("condvar", {
                let condvar = Arc::clone(&condvar);
                runtime.go(move || {
                    let mutex = Mutex::new(());
                    drop(condvar.wait(mutex.lock().unwrap()));
                })
            }),
        ];
        let asleep = runtime.go(|| volt::sleep(Duration::MAX));
        assert_eq!(waiting(&runtime, &asleep).waits_for, Some("sleep"));
        for (what, fiber) in &fibers {
            let report = waiting(&runtime, fiber);
            assert_eq!(report.waits_for, Some(*what));
            assert!(report.waiting < LONG && report.site.file() == file!(), "{report}");
        }
        assert_eq!(all(runtime.handle()).len(), 6, "and the one that is parked");
        // Who waits for the same is told by its address.
        let theirs = Arc::clone(&mutex);
        let second = runtime.go(move || drop(theirs.lock()));
        let places = [&fibers[2].1, &second].map(|fiber| waiting(&runtime, fiber).object);
        assert!(places[0] != 0 && places[0] == places[1]);
        asleep.cancel();
        assert!(asleep.join().is_err());
        drop(held);
        drop(sender);
        thread.unpark();
        until("the condvar's waiter ends", || {
            condvar.notify_one();
            fibers[3].1.is_finished()
        });
        fibers.into_iter().for_each(|(_, fiber)| fiber.join().unwrap());
        second.join().unwrap();
        until("none is left", || runtime.handle().stats().live == 0);
        assert!(all(runtime.handle()).is_empty());
    });
}

#[test]
fn who_it_is() {
    within(LONG, || {
        let runtime = workers(1);
        let (fiber, line) = runtime.run(|| {
            let spawn = thread::Builder::new().name("indexer".to_owned());
            let line = line!();
            (spawn.spawn(thread::park).unwrap(), line + 1)
        });
        let report = waiting(&runtime, &fiber);
        assert_eq!((report.name.as_deref(), report.site.line()), (Some("indexer"), line));
        let text = report.to_string();
        let expected = format!("fiber 'indexer' spawned at tests/fibers.rs:{line}:");
        assert!(text.starts_with(&expected) && text.contains(" waits for park since "), "{text}");
        fiber.thread().unpark();
        fiber.join().unwrap();
    });
}

/// A fiber that computes, one that blocks its thread, and the one that asks.
#[test]
fn who_runs_waits_for_nothing() {
    within(LONG, || {
        let runtime = workers(2);
        let (stop, event) = (Arc::new(AtomicBool::new(false)), Arc::new(Event::new()));
        let (theirs, started) = (Arc::clone(&stop), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&started);
        let computes = runtime.go(move || {
            count.fetch_add(1, Ordering::Release);
            while !theirs.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let (theirs, count) = (Arc::clone(&event), Arc::clone(&started));
        let blocks = runtime.go(move || {
            volt::blocking(|| {
                count.fetch_add(1, Ordering::Release);
                theirs.wait();
            });
        });
        until("both have started", || started.load(Ordering::Acquire) == 2);
        for fiber in [&computes, &blocks] {
            let report = report_of(runtime.handle(), fiber).expect("it has started");
            assert_eq!((report.waits_for, report.object), (None, 0));
            assert!(report.to_string().ends_with(" runs"));
        }
        stop.store(true, Ordering::Relaxed);
        event.set();
        computes.join().unwrap();
        blocks.join().unwrap();
        let me = runtime.run(|| {
            let me = volt::current().id();
            all(&Handle::current()).into_iter().find(|report| report.id == me)
        });
        assert_eq!(me.expect("who asks has started").waits_for, None);
    });
}

#[test]
fn only_its_own_only_started_and_no_more_than_asked_for() {
    within(LONG, || {
        let (one, other) = (workers(1), Builder::new_current_thread().build().unwrap());
        let fibers: Vec<_> = (0..10).map(|_| one.go(thread::park)).collect();
        fibers.iter().for_each(|fiber| drop(waiting(&one, fiber)));
        // Nobody runs it.
        let unstarted = other.go(thread::park);
        assert!(all(other.handle()).is_empty() && other.handle().stats().live == 1);
        for most in [0, 1, 9, 10, 11] {
            let some = one.handle().fibers(most);
            assert_eq!(some.len(), most.min(10));
            let ids: HashSet<_> = some.iter().map(|report| report.id).collect();
            assert_eq!(ids.len(), some.len(), "each once");
            assert!(ids.iter().all(|id| fibers.iter().any(|fiber| fiber.thread().id() == *id)));
        }
        let theirs = other.run(|| {
            volt::yield_now();
            all(&Handle::current())
        });
        let parked: Vec<_> = theirs.iter().filter(|report| report.waits_for.is_some()).collect();
        assert_eq!((theirs.len(), parked.len()), (2, 1));
        assert_eq!(parked[0].id, unstarted.thread().id());
        let handle = one.handle().clone();
        fibers.iter().for_each(|fiber| fiber.thread().unpark());
        one.shutdown(LONG).unwrap();
        assert!(all(&handle).is_empty());
    });
}

/// A fiber with a name that tells whether it is whole.
fn spawn_some(rng: &mut Rng, mutex: &Arc<Mutex<()>>) -> JoinHandle<()> {
    let (number, mutex) = (rng.next().to_string(), Arc::clone(mutex));
    let name = format!("{number} {}", number.repeat(20));
    let (kind, micros) = (rng.below(6), rng.below(300));
    let body = move || match kind {
        0 => volt::sleep(Duration::from_micros(micros)),
        1 => drop(mutex.lock().map(|_guard| volt::yield_now())),
        2 => volt::blocking(std::thread::yield_now),
        3 => volt::go(volt::yield_now).join().unwrap(),
        _ => {}
    };
    thread::Builder::new().name(name).spawn(body).unwrap()
}

/// Fibers start, wait and end, at a few places, while several list them: each is whole when it is seen.
#[test]
fn lists_while_fibers_come_and_go() {
    within(LONG, || {
        let seed = Seed::new();
        let mut rng = seed.rng();
        let runtime = workers(3);
        let stop = Arc::new(AtomicBool::new(false));
        let look = |handle: Handle, stop: Arc<AtomicBool>| {
            let mut waited = 0;
            while !stop.load(Ordering::Relaxed) {
                let fibers = all(&handle);
                let ids: HashSet<_> = fibers.iter().map(|report| report.id).collect();
                assert_eq!(ids.len(), fibers.len(), "each once");
                for report in &fibers {
                    assert_eq!(report.site.file(), file!());
                    let Some(name) = &report.name else { continue };
                    let (number, again) = name.split_once(' ').unwrap();
                    assert_eq!(number.repeat(20), again, "a name that is whole");
                    assert!(matches!(report.waits_for, None | Some("sleep" | "join" | "mutex")));
                    waited += usize::from(report.waits_for.is_some());
                }
                volt::yield_now();
            }
            waited
        };
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (handle, stop) = (runtime.handle().clone(), Arc::clone(&stop));
                std::thread::spawn(move || look(handle, stop))
            })
            .collect();
        let (handle, theirs) = (runtime.handle().clone(), Arc::clone(&stop));
        let fiber = runtime.go(move || look(handle, theirs));
        let mutex = Arc::new(Mutex::new(()));
        let spawners: Vec<_> = (0..4)
            .map(|_| {
                let (mut rng, mutex) = (rng.fork(), Arc::clone(&mutex));
                runtime.go(move || {
                    for _ in 0..600 {
                        let fibers: Vec<_> =
                            (0..20).map(|_| spawn_some(&mut rng, &mutex)).collect();
                        // Some are joined, some end unseen.
                        fibers.into_iter().step_by(2).for_each(|fiber| fiber.join().unwrap());
                    }
                })
            })
            .collect();
        spawners.into_iter().for_each(|fiber| fiber.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| assert!(thread.join().unwrap() > 0));
        fiber.join().unwrap();
    });
}

#[test]
fn a_forked_child_is_told() {
    let left = child("a_forked_child_is_told", &[], || {
        volt::run(|| ());
        // SAFETY: the child only panics, catches that and leaves.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let told = std::panic::catch_unwind(|| Handle::current().fibers(1)).is_err();
            // SAFETY: leaves without running what belongs to the parent.
            unsafe { libc::_exit(if told { 7 } else { 8 }) };
        }
        let mut status = 0;
        // SAFETY: our child, waited for once.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(libc::WEXITSTATUS(status), 7, "the child was not refused");
    });
    assert!(left.status.success(), "{left:?}");
}
