//! What must be refused, because it could only hang or corrupt; and what a busy fiber owes others.

mod common;

use common::{LONG, child, within};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use volt::net::{TcpListener, TcpStream};
use volt::runtime::Builder;

extern "C" fn waits(_signal: libc::c_int) {
    volt::sleep(Duration::from_millis(1));
}

/// Handles SIGPROF, which workers do not block, on the alternate stack.
fn handle_sigprof() {
    // SAFETY: an all-zero action is valid; the fields that matter are set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = waits as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGPROF, &raw const action, std::ptr::null_mut()), 0);
    }
}

#[test]
fn a_wait_in_a_signal_handler_is_refused() {
    let left = child("a_wait_in_a_signal_handler_is_refused", &[], || {
        volt::run(|| {
            handle_sigprof();
            // SAFETY: delivered to this thread before the call returns.
            unsafe { libc::raise(libc::SIGPROF) };
        });
    });
    assert!(left.text.contains("a wait (sleep) inside a signal handler"), "{left:?}");
    assert_eq!(left.signal(), Some(libc::SIGABRT), "a panic cannot leave a handler: {left:?}");
}

#[test]
fn a_wait_in_a_forked_child_is_refused() {
    let left = child("a_wait_in_a_forked_child_is_refused", &[], || {
        assert_eq!(volt::run(|| 1), 1);
        // SAFETY: the child only panics, catches that and leaves.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let refused = std::panic::catch_unwind(|| volt::run(|| 2)).is_err();
            // SAFETY: leaves without running what belongs to the parent.
            unsafe { libc::_exit(if refused { 7 } else { 8 }) };
        }
        let mut status = 0;
        // SAFETY: our child, waited for once.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(libc::WEXITSTATUS(status), 7, "the child was not refused");
        assert_eq!(volt::run(|| 3), 3, "the parent goes on");
    });
    assert!(left.status.success(), "{left:?}");
    assert!(left.text.contains("a wait in a forked child"), "{left:?}");
}

/// A fiber whose reads never have to wait yields all the same, before its budget of operations is
/// overdrawn: on one worker, another fiber gets its turn.
#[test]
fn a_fiber_that_never_has_to_wait_yields() {
    within(LONG, || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let reads = runtime.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            near.write_all(&[1; 4096]).unwrap();
            let turn = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&turn);
            let other = volt::go(move || theirs.store(true, Ordering::SeqCst));
            let mut reads = 0;
            while !turn.load(Ordering::SeqCst) {
                far.read_exact(&mut [0; 1]).unwrap();
                reads += 1;
                assert!(reads < 4096, "the other fiber never got its turn");
            }
            other.join().unwrap();
            reads
        });
        assert!(reads <= 129, "{reads} operations without a yield");
        assert!(runtime.stats().total.budget_yields >= 1);
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_run_after_the_shutdown_says_so() {
    let left = child("a_run_after_the_shutdown_says_so", &[], || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let handle = runtime.handle().clone();
        let inside = handle.go(move || {
            // Dropped by its own fiber: from now on it only winds down.
            drop(runtime);
            std::panic::catch_unwind(|| volt::run(|| 1)).is_err()
        });
        assert!(inside.join().unwrap(), "it ran");
    });
    assert!(left.status.success(), "{left:?}");
    assert!(left.text.contains("the runtime has been shut down"), "{left:?}");
}

/// The worker that waits for sockets and timers takes up a fiber that computes: another worker takes
/// its place there, so that timers go on.
#[test]
fn a_computing_fiber_does_not_keep_timers_waiting() {
    within(LONG, || {
        let runtime = Builder::new().workers(2).build().unwrap();
        for round in 0..20 {
            let ticks = Arc::new(AtomicUsize::new(0));
            let stop = Arc::new(AtomicBool::new(false));
            let (theirs, stopped) = (Arc::clone(&ticks), Arc::clone(&stop));
            let ticker = runtime.go(move || {
                while !stopped.load(Ordering::Relaxed) {
                    volt::sleep(Duration::from_micros(500));
                    theirs.fetch_add(1, Ordering::Relaxed);
                }
            });
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let computing = runtime.go(move || {
                let (mut far, _) = listener.accept().unwrap();
                // Woken by a socket, so by the worker in the poller, and alone.
                far.read_exact(&mut [0; 1]).unwrap();
                let (start, from) = (Instant::now(), ticks.load(Ordering::Relaxed));
                while ticks.load(Ordering::Relaxed) < from + 5 {
                    assert!(
                        start.elapsed() < LONG / 4,
                        "round {round}: nobody looked at the timers"
                    );
                    std::hint::spin_loop();
                }
            });
            // Any moment between two ticks.
            std::thread::sleep(Duration::from_micros(3000 + round * 173));
            near.write_all(&[1]).unwrap();
            let result = computing.join();
            stop.store(true, Ordering::Relaxed);
            ticker.join().unwrap();
            result.unwrap();
        }
        runtime.shutdown(LONG).unwrap();
    });
}
