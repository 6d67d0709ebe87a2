//! The shortest and the longest times: no time at all means "what is there", the longest means "no limit".

mod common;

use common::everywhere;
use common::task::Task;
use common::waits::until_waits;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use volt::cancel::Cancelled;
use volt::channel::{Select, after, bounded, never, select};
use volt::runtime::{Builder, Runtime};
use volt::signal::{Signal, Signals};
use volt::sync::{Condvar, Event, Mutex};
use volt::{thread, timeout};

#[test]
fn a_park_for_no_time_takes_what_is_there() {
    everywhere(|| {
        let has_permit = || timeout(Duration::ZERO, thread::park).is_ok();
        (0..100).for_each(|_| thread::park_timeout(Duration::ZERO));
        assert!(!has_permit());
        thread::current().unpark();
        thread::park_timeout(Duration::ZERO);
        assert!(!has_permit(), "it was there to be taken");
    });
}

/// It leaves the worker to others as often as any operation that need not wait: once in 128 times, where 64 take ten
/// microseconds.
#[test]
fn a_wait_for_no_time_charges_the_budget_and_does_not_sleep() {
    const TIMES: u64 = 12_800;
    let runtime = Builder::new().workers(1).build().unwrap();
    let waits: [fn(); 3] = [
        || thread::park_timeout(Duration::ZERO),
        || assert!(!Event::new().wait_timeout(Duration::ZERO)),
        || assert!(timeout(Duration::ZERO, thread::park).is_err()),
    ];
    for wait in waits {
        let before = runtime.stats().total;
        runtime.run(move || {
            for _ in 0..TIMES {
                wait();
                let start = std::time::Instant::now();
                while start.elapsed() < Duration::from_nanos(160) {}
            }
        });
        let after = runtime.stats().total;
        let dispatched = after.dispatched - before.dispatched;
        assert!((TIMES / 130..TIMES / 10).contains(&dispatched), "{dispatched} times dispatched");
    }
}

/// However short the waits of a loop are, it ends when it is asked to.
#[test]
fn a_loop_of_waits_for_no_time_ends() {
    everywhere(|| {
        let (s, r) = bounded::<u8>(1);
        let mutex = Mutex::new(());
        let start = volt::time::Instant::now();
        let ended = volt::cancel::Token::new();
        ended.cancel();
        let waits: [&dyn Fn(); 12] = [
            &|| volt::sleep(Duration::ZERO),
            &|| volt::time::sleep_until(start),
            &|| assert!(timeout(Duration::ZERO, thread::park).is_err()),
            &|| assert!(volt::time::timeout_at(start, thread::park).is_err()),
            &|| assert!(ended.run(thread::park).is_err()),
            &|| {
                let waits = |_: &mut ()| true;
                let guard = mutex.lock().unwrap();
                drop(Condvar::new().wait_timeout_while(guard, Duration::ZERO, waits));
            },
            &|| thread::park_timeout(Duration::ZERO),
            &|| assert!(!Event::new().wait_timeout(Duration::ZERO)),
            &|| drop(Condvar::new().wait_timeout(mutex.lock().unwrap(), Duration::ZERO)),
            &|| assert!(r.recv_timeout(Duration::ZERO).is_err()),
            &|| select! { recv(r) -> _ => unreachable!("{s:?}"), default(Duration::ZERO) => () },
            &|| {
                let mut select = Select::new();
                select.recv(&r);
                select.ready_timeout(Duration::ZERO).unwrap_err();
            },
        ];
        for wait in waits {
            let ends: Result<(), _> = timeout(Duration::from_millis(2), || {
                loop {
                    wait();
                }
            });
            assert!(ends.is_err());
        }
    });
}

/// Who sees that a timeout further out has passed, as a wait further in ends, may still return what it has.
#[test]
fn what_was_not_cut_off_is_returned_however_late() {
    everywhere(|| {
        let listener = volt::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let result = timeout(Duration::from_millis(1), || {
            spend(Duration::from_millis(2));
            let elapsed = timeout(Duration::ZERO, || listener.accept().map(drop)).is_err();
            (elapsed, 7)
        });
        assert_eq!(result.ok(), Some((true, 7)));
    });
}

/// A deadline, and another so much later that the system does not keep one from beginning to wait until then.
const OWN: Duration = Duration::from_millis(1);
const OUTER: Duration = Duration::from_millis(200);
const UNTIL_BOTH_HAVE_PASSED: Duration = Duration::from_millis(250);

/// Two deadlines that have both passed when somebody looks: it is the nearer one that has ended the wait.
#[test]
fn a_timeout_that_is_noticed_late_is_no_end_of_the_one_around_it() {
    everywhere(|| {
        let listener = volt::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let waits: [&dyn Fn(); 2] = [&|| thread::park(), &|| drop(listener.accept())];
        for wait in waits {
            let result = timeout(OUTER, || {
                let inner = timeout(OWN, || {
                    spend(UNTIL_BOTH_HAVE_PASSED);
                    wait();
                });
                (inner.is_err(), 7)
            });
            assert_eq!(result.ok(), Some((true, 7)));
        }
    });
}

/// So it is with a wait's own time. The only worker is kept until both have passed.
#[test]
fn a_wait_whose_own_time_is_noticed_late_says_so() {
    let waits: [fn(); 5] = [
        || assert!(bounded::<u8>(1).1.recv_timeout(OWN).is_err()),
        || assert!(never::<u8>().recv_timeout(OWN).is_err()),
        || assert!(after(Duration::from_secs(60)).recv_timeout(OWN).is_err()),
        || select! { recv(never::<u8>()) -> _ => unreachable!(), default(OWN) => () },
        || {
            let (mutex, condvar) = (Mutex::new(()), Condvar::new());
            let guard = mutex.lock().unwrap();
            assert!(condvar.wait_timeout_while(guard, OWN, |()| true).unwrap().1.timed_out());
        },
    ];
    let runtime = Builder::new().workers(1).stall_period(None).build().unwrap();
    for wait in waits {
        let fiber = runtime.go(move || {
            drop(volt::go(|| spend(UNTIL_BOTH_HAVE_PASSED)));
            timeout(OUTER, || {
                wait();
                7
            })
        });
        assert_eq!(fiber.join().unwrap().ok(), Some(7));
    }
}

fn spend(time: Duration) {
    let start = volt::time::Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_loop_of_waits_for_no_time_ends_when_it_is_cancelled() {
    let waits: [fn(); 4] = [
        || thread::park_timeout(Duration::ZERO),
        || volt::sleep(Duration::ZERO),
        || assert!(bounded::<u8>(1).1.recv_timeout(Duration::ZERO).is_err()),
        || select! { recv(volt::channel::never::<u8>()) -> _ => (), default(Duration::ZERO) => () },
    ];
    let runtime = Builder::new().workers(1).build().unwrap();
    for wait in waits {
        let begun = Arc::new(Event::new());
        let theirs = Arc::clone(&begun);
        let fiber = runtime.go(move || {
            theirs.set();
            loop {
                wait();
            }
        });
        begun.wait();
        fiber.cancel();
        assert!(fiber.join().unwrap_err().downcast_ref::<Cancelled>().is_some());
    }
}

#[test]
fn a_select_in_no_time_sees_what_is_there() {
    everywhere(|| {
        let ((s, r), (full, _r)) = (bounded::<u8>(1), bounded::<u8>(0));
        let event = Event::new();
        let mut select = Select::new();
        let message = select.recv(&r);
        select.send(&full);
        let happened = select.case(&event);
        assert!(select.ready_timeout(Duration::ZERO).is_err());
        for _ in 0..10 {
            s.send(1).unwrap();
            assert_eq!(select.ready_timeout(Duration::ZERO), Ok(message));
            assert_eq!(r.try_recv(), Ok(1), "to be ready takes nothing");
            assert!(select.ready_timeout(Duration::ZERO).is_err());
        }
        event.set();
        assert_eq!(select.ready_timeout(Duration::ZERO), Ok(happened));
    });
}

/// Signals the process.
fn send(signal: Signal) {
    // SAFETY: a handler is installed.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal.as_raw()) }, 0);
}

#[test]
fn signals_in_no_time() {
    everywhere(|| {
        // Handlers run in the order in which they were installed: what the witness has, both have.
        let mut signals = Signals::new([Signal::User1]).unwrap();
        let mut witness = Signals::new([Signal::User1]).unwrap();
        for _ in 0..10 {
            let error = signals.recv_timeout(Duration::ZERO).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            send(Signal::User1);
            witness.recv().unwrap();
            assert_eq!(signals.recv_timeout(Duration::ZERO).unwrap(), Signal::User1);
        }
    });
}

#[test]
fn signals_without_limit() {
    everywhere(|| {
        for place in [Task::fiber, Task::thread] {
            let mut signals = Signals::new([Signal::User2]).unwrap();
            let receiver = place(move || signals.recv_timeout(Duration::MAX));
            receiver.until_waits("signal");
            send(Signal::User2);
            assert_eq!(receiver.join().unwrap(), Signal::User2);
        }
    });
}

#[test]
fn an_interval_without_end_ticks_once() {
    everywhere(|| {
        let (ticked, ticks) = bounded(0);
        let fiber = volt::go(move || {
            let mut interval = volt::time::interval(Duration::MAX);
            assert_eq!(interval.period(), Duration::MAX);
            interval.tick();
            ticked.send(()).unwrap();
            interval.tick();
        });
        ticks.recv().unwrap();
        until_waits("sleep", &fiber);
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
    });
}

/// Shuts a runtime down, which has a fiber that ends when the shutdown waits for it.
fn shut_down(runtime: Runtime, place: fn(Shutdown) -> Task<Ended>) {
    let (begun, go_on) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let (theirs, until) = (Arc::clone(&begun), Arc::clone(&go_on));
    let fiber = runtime.go(move || {
        theirs.set();
        until.wait();
    });
    let driven = runtime.handle().stats().queue.workers == 0;
    let shutdown = place(Box::new(move || runtime.shutdown(Duration::MAX)));
    begun.wait();
    // Nobody else has run the fiber of one that is driven.
    if !driven {
        shutdown.until_waits("shutdown");
    }
    assert!(!shutdown.is_finished());
    go_on.set();
    shutdown.join().unwrap();
    fiber.join().unwrap();
}

type Ended = Result<(), volt::runtime::ShutdownError>;
type Shutdown = Box<dyn FnOnce() -> Ended + Send>;

#[test]
fn a_shutdown_without_limit_waits_for_the_last_fiber() {
    everywhere(|| {
        for workers in [1, 2] {
            let build = || Builder::new().workers(workers).build().unwrap();
            shut_down(build(), Task::fiber);
            shut_down(build(), Task::thread);
        }
        shut_down(Builder::new_current_thread().build().unwrap(), Task::thread);
    });
}
