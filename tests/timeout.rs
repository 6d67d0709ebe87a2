//! Timeouts around whatever waits.

mod common;

use common::waits::{until_true, until_waits_on};
use common::{LONG, everywhere, within};
use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};
use volt::cancel::{Cancelled, Token, is_cancelled, shield};
use volt::net::{TcpListener, TcpStream};
use volt::runtime::{Builder, FiberReport, Runtime};
use volt::time::{deadline, timeout_at};
use volt::{thread, timeout};

const SHORT: Duration = Duration::from_millis(5);
const FAR: Duration = Duration::from_secs(1_000);

#[test]
fn waits_end_and_borrows_stay() {
    everywhere(|| {
        let rounds = Cell::new(0);
        let start = Instant::now();
        let result: Result<(), _> = timeout(SHORT, || {
            loop {
                rounds.set(rounds.get() + 1);
                volt::sleep(Duration::from_micros(10));
            }
        });
        assert!(result.is_err() && rounds.get() > 0);
        assert!(start.elapsed() >= SHORT, "early: {:?}", start.elapsed());
        assert!(timeout(SHORT, thread::park).is_err());
        assert!(timeout(SHORT, || volt::go(|| volt::sleep(FAR)).join().is_err()).is_err());
        assert!(timeout(SHORT, || volt::sleep(Duration::MAX)).is_err());
        assert!(timeout(SHORT, || volt::blocking(thread::park)).is_err());
        assert!(timeout(SHORT, || thread::pinned(|| volt::sleep(FAR))).is_err());
        // Nothing is left of it.
        volt::sleep(Duration::from_millis(1));
        assert_eq!(deadline(), None);
    });
}

/// What `deadline` may be later than asked for.
const LATE: Duration = Duration::from_micros(10);

/// Sets deadlines for a while, between waits that may move the caller.
fn set_deadlines() {
    let now = volt::time::Instant::now;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(100) {
        for (duration, late) in [(FAR, LATE), (LATE, Duration::ZERO)] {
            for _ in 0..50 {
                let before = now();
                let set = timeout(duration, deadline).unwrap().unwrap();
                let after = now();
                assert!(before + duration <= set, "early by {:?}", before + duration - set);
                assert!(set <= after + duration + late, "late by {:?}", set - after - duration);
            }
        }
        volt::yield_now();
    }
}

#[test]
fn a_deadline_is_not_early_and_little_late() {
    everywhere(|| {
        let fibers: Vec<_> = (0..8).map(|_| volt::go(set_deadlines)).collect();
        set_deadlines();
        volt::blocking(set_deadlines);
        thread::pinned(set_deadlines);
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn what_ends_in_time_is_returned() {
    everywhere(|| {
        assert_eq!(timeout(FAR, || volt::go(|| 7).join().unwrap()), Ok(7));
        assert_eq!(timeout(Duration::MAX, || volt::go(|| 7).join().unwrap()), Ok(7));
        assert_eq!(timeout(Duration::ZERO, || 7), Ok(7));
        // Late, but not cut off.
        let late = timeout(Duration::from_millis(1), || {
            std::thread::sleep(SHORT);
            7
        });
        assert_eq!(late, Ok(7));
        assert_eq!(timeout_at(Instant::now() + FAR, || 7), Ok(7));
    });
}

/// The call was to end, but nothing that the fiber waited for.
#[test]
fn what_a_run_inside_has_done_without_being_cut_off_is_returned() {
    let late = || {
        std::thread::sleep(2 * SHORT);
        volt::yield_now();
        7
    };
    let cut_off = || {
        let slept = catch_unwind(|| volt::sleep(FAR));
        assert!(slept.unwrap_err().is::<Cancelled>());
        7
    };
    everywhere(move || {
        assert_eq!(timeout(SHORT, || volt::run(late)), Ok(7));
        timeout(SHORT, || volt::run(cut_off)).unwrap_err();
    });
    within(LONG, move || {
        let runtime = Builder::new_current_thread().build().unwrap();
        assert_eq!(timeout(SHORT, || runtime.run(late)), Ok(7));
        timeout(SHORT, || runtime.run(cut_off)).unwrap_err();
    });
}

#[test]
fn a_zero_timeout_ends_the_first_wait_at_once() {
    everywhere(|| {
        let start = Instant::now();
        for _ in 0..1_000 {
            assert!(timeout(Duration::ZERO, thread::park).is_err());
        }
        assert!(start.elapsed() < FAR);
        volt::current().unpark();
        assert_eq!(timeout(Duration::ZERO, thread::park), Ok(()), "the permit is there");
    });
}

#[test]
fn the_nearer_deadline_wins() {
    everywhere(|| {
        // The inner one.
        let both = timeout(FAR, || {
            assert!(timeout(SHORT, thread::park).is_err());
            assert!(deadline().is_some());
            volt::sleep(Duration::from_millis(1));
            7
        });
        assert_eq!(both, Ok(7));
        // The outer one: the inner does not take it for its own.
        let both: Result<(), _> = timeout(SHORT, || {
            let _ = timeout(FAR, thread::park);
            unreachable!("the outer one is over");
        });
        assert!(both.is_err());
        // The outer one, which passes while the inner unwinds.
        let both: Result<(), _> = timeout(2 * SHORT, || {
            let inner = timeout(SHORT, thread::park);
            assert!(inner.is_err());
            thread::park();
            unreachable!("the outer one is over");
        });
        assert!(both.is_err());
        // Both at once: the outer one.
        let at = Instant::now() + SHORT;
        let both: Result<(), _> = timeout_at(at, || {
            let _ = timeout_at(at, thread::park);
            thread::park();
        });
        assert!(both.is_err());
        // A wait's own deadline, nearer still.
        assert_eq!(timeout(FAR, || thread::park_timeout(SHORT)), Ok(()));
    });
}

#[test]
fn a_panic_passes_through() {
    everywhere(|| {
        let payload = catch_unwind(|| timeout(FAR, || resume_unwind(Box::new(7)))).map(drop);
        assert_eq!(*payload.unwrap_err().downcast::<i32>().unwrap(), 7);
        assert_eq!(deadline(), None, "the scope is left");
    });
}

fn silent() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

#[test]
fn sockets_end_too_and_lose_nothing() {
    everywhere(|| {
        let (near, far) = silent();
        assert!(timeout(SHORT, || (&near).read(&mut [0])).is_err());
        assert!(timeout(Duration::ZERO, || (&near).read(&mut [0])).is_err());
        // Who sees the error may heed it; what is returned then was cut off all the same.
        let mut seen = None;
        let result = timeout(SHORT, || {
            let error = (&near).read(&mut [0]).unwrap_err();
            seen = Some(is_cancelled(&error) && error.kind() == ErrorKind::Other);
        });
        assert_eq!((result.is_err(), seen), (true, Some(true)));
        // Loops that ignore it end.
        let endless: Result<(), _> = timeout(SHORT, || {
            loop {
                let _ = (&near).read(&mut [0]);
            }
        });
        assert!(endless.is_err());
        (&far).write_all(&[42]).unwrap();
        let mut byte = [0];
        assert_eq!(timeout(FAR, || (&near).read(&mut byte)).unwrap().unwrap(), 1);
        assert_eq!(byte, [42]);
        // The socket's own timeout, nearer and farther.
        near.set_read_timeout(Some(SHORT)).unwrap();
        let own = timeout(FAR, || (&near).read(&mut [0])).unwrap();
        assert_eq!(own.unwrap_err().kind(), ErrorKind::WouldBlock);
        near.set_read_timeout(Some(FAR)).unwrap();
        assert!(timeout(SHORT, || (&near).read(&mut [0])).is_err());
    });
}

#[test]
fn a_cancel_passes_through() {
    within(LONG, || {
        let runtime = Builder::new().workers(2).build().unwrap();
        let fiber = runtime.go(|| {
            let _ = timeout(FAR, thread::park);
            unreachable!("cancelled");
        });
        until_waits_on(runtime.handle(), "park", &fiber);
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<volt::cancel::Cancelled>());
        // Also where the timeout has run out too.
        let fiber = runtime.go(|| {
            while !volt::cancelled() {
                volt::yield_now();
            }
            let _ = timeout(Duration::ZERO, thread::park);
            unreachable!("cancelled");
        });
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<volt::cancel::Cancelled>());
    });
}

#[test]
fn a_scope_and_a_run_inside_end_their_fibers() {
    everywhere(|| {
        let mut ended = false;
        let result = timeout(SHORT, || {
            volt::scope(|scope| {
                scope.go(|| {
                    let _ = catch_unwind(thread::park);
                    ended = true;
                });
            });
        });
        assert!(result.is_err() && ended);
        let mut ended = false;
        let result = timeout(SHORT, || {
            volt::run(|| {
                let _ = catch_unwind(thread::park);
                ended = true;
                thread::park();
            });
        });
        assert!(result.is_err() && ended);
    });
}

#[test]
fn a_current_thread_runtime_is_bounded_by_its_caller() {
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        assert!(timeout(SHORT, || runtime.run(thread::park)).is_err());
        assert_eq!(timeout(FAR, || runtime.run(|| 7)), Ok(7));
    });
}

/// The caller, a plain thread, runs the fibers. Its token is cancelled by one of them, from another thread
/// while all of them wait, and before.
#[test]
fn a_current_thread_runtime_is_ended_by_its_callers_token() {
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        let token = Token::new();
        let (by_a_fiber, from_outside) = (token.child(), token.child());
        let theirs = by_a_fiber.clone();
        let cancels = || {
            drop(volt::go(move || theirs.cancel()));
            thread::park();
        };
        assert_eq!(by_a_fiber.run(|| runtime.run(cancels)), Err(Cancelled));
        assert!(!token.is_cancelled());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let parks = |fiber: &FiberReport| fiber.waits_for == Some("park");
                until_true("park", || runtime.handle().fibers(9).iter().any(parks));
                from_outside.cancel();
            });
            // The token is not the nearest one, nor the last.
            let ended =
                token.run(|| from_outside.run(|| timeout(FAR, || runtime.run(thread::park))));
            assert_eq!(ended, Ok(Err(Cancelled)));
        });
        let outside = timeout(FAR, || from_outside.run(|| runtime.run(thread::park)));
        assert_eq!(outside, Ok(Err(Cancelled)), "the timeout is not over");
        assert_eq!(token.run(|| runtime.run(|| 7)), Ok(7));
        assert!(runtime.handle().fibers(9).is_empty(), "nothing is left of it");
        token.cancel();
        assert_eq!(token.run(|| runtime.run(thread::park)), Err(Cancelled));
        assert!(token.run(|| shield(|| assert_eq!(runtime.run(|| 7), 7))).is_ok());
    });
}

/// In a destructor, while a panic or a cancel unwinds: what it runs goes on, whatever is around it.
#[test]
fn a_run_in_a_destructor_is_ended_by_no_token() {
    struct Runs<'a>(&'a Runtime, &'a Cell<u32>);
    impl Drop for Runs<'_> {
        fn drop(&mut self) {
            self.1.set(self.0.run(|| {
                volt::sleep(SHORT);
                7
            }));
        }
    }
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        for is_cancelled in [false, true] {
            let (token, ran) = (Token::new(), Cell::new(0));
            let ended = catch_unwind(AssertUnwindSafe(|| {
                token.run(|| {
                    let _runs = Runs(&runtime, &ran);
                    if is_cancelled {
                        token.cancel();
                        thread::park();
                    }
                    resume_unwind(Box::new("a panic"));
                })
            }));
            assert_eq!((ended.is_ok(), ran.get()), (is_cancelled, 7));
        }
    });
}

#[test]
fn it_says_what_it_is() {
    let elapsed = timeout(Duration::ZERO, thread::park).unwrap_err();
    let error = std::io::Error::from(elapsed);
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(error.to_string(), elapsed.to_string());
}
