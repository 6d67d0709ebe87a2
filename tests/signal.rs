//! Real signals, received on fibers and threads.

mod net_support;

use net_support::common::waits::{until_waits, until_waits_on};
use net_support::common::{LONG, child, is_child};
use net_support::{Watchdog, current_thread, eventually, everywhere, workers};
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use volt::signal::{Signal, Signals};

/// Signals belong to the process; so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn send(signal: Signal) {
    // SAFETY: a handler is installed; the process signals itself.
    let sent = unsafe { libc::kill(libc::getpid(), signal.as_raw()) };
    assert_eq!(sent, 0);
}

/// Signals the calling thread. The handler has run when this returns, unlike after `send`, whose
/// signal any thread may take, in its own time.
fn raise(signal: Signal) {
    // SAFETY: a handler is installed.
    assert_eq!(unsafe { libc::raise(signal.as_raw()) }, 0);
}

#[test]
fn numbers() {
    for number in 1..=64 {
        assert_eq!(Signal::from_raw(number).as_raw(), number);
    }
    assert_eq!(Signal::from_raw(libc::SIGTERM), Signal::Terminate);
    assert_eq!(Signal::from_raw(libc::SIGUSR1), Signal::User1);
}

#[test]
fn forbidden() {
    for number in
        [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, 0, -1, 65]
    {
        let error = Signals::new([Signal::User1, Signal::from_raw(number)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{number}: {error}");
        assert!(error.to_string().contains(&number.to_string()));
    }
}

#[test]
fn a_program_that_a_fiber_starts_can_be_ended() {
    let start = |unblocked: bool| {
        let mut command = Command::new("sh");
        command.args(["-c", "kill -TERM $$; exit 7"]);
        if unblocked {
            volt::signal::unblock(&mut command);
        }
        let status = command.status().expect("a shell");
        (status.signal(), status.code())
    };
    everywhere(move |_| assert_eq!(start(true), (Some(libc::SIGTERM), None)));
    let inherited = volt::go(move || start(false)).join().unwrap();
    assert_eq!(inherited, (None, Some(7)), "nothing to unblock");
}

/// Runs the body of `test` in a process that a fiber starts as it is: main and all that it spawns block what the worker did.
fn started_by_a_fiber(test: &'static str, body: fn()) {
    let start = move || child(test, &[], body);
    let left = if is_child(test) { start() } else { volt::go(start).join().unwrap() };
    assert!(left.status.success(), "{left:?}");
}

/// Of the calling thread; what is pending, of the process too.
fn blocked_and_pending() -> [Vec<i32>; 2] {
    // SAFETY: both sets are filled before they are read.
    unsafe {
        let mut sets = [std::mem::zeroed::<libc::sigset_t>(); 2];
        let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut sets[0]);
        assert_eq!((blocked, libc::sigpending(&raw mut sets[1])), (0, 0));
        let members = |set: libc::sigset_t| {
            (1..=64).filter(move |&signal| libc::sigismember(&raw const set, signal) == 1).collect()
        };
        sets.map(members)
    }
}

fn received_though_blocked() {
    let at_first = blocked_and_pending();
    for signal in [Signal::Terminate, Signal::User1] {
        assert!(at_first[0].contains(&signal.as_raw()), "it was not started as it should be");
        let mut signals = Signals::new([signal]).unwrap();
        send(signal);
        assert_eq!(signals.recv_timeout(LONG / 2).unwrap(), signal);
    }
    // Nobody has asked for it; it would end the process.
    send(Signal::User2);
    assert_eq!(blocked_and_pending(), [at_first[0].clone(), vec![libc::SIGUSR2]]);
}

#[test]
fn a_program_that_a_fiber_starts_receives_on_a_thread() {
    started_by_a_fiber("a_program_that_a_fiber_starts_receives_on_a_thread", || {
        received_though_blocked();
    });
}

#[test]
fn a_program_that_a_fiber_starts_receives_on_a_fiber() {
    started_by_a_fiber("a_program_that_a_fiber_starts_receives_on_a_fiber", || {
        workers(1).run(received_though_blocked);
    });
}

#[test]
fn a_program_that_a_fiber_starts_receives_on_a_thread_with_fibers() {
    started_by_a_fiber("a_program_that_a_fiber_starts_receives_on_a_thread_with_fibers", || {
        current_thread().run(received_though_blocked);
    });
}

/// Whoever registers may end before anything comes.
#[test]
fn a_program_that_a_fiber_starts_receives_when_the_thread_is_gone() {
    started_by_a_fiber("a_program_that_a_fiber_starts_receives_when_the_thread_is_gone", || {
        let registers = || Signals::new([Signal::Hangup]).unwrap();
        let mut signals = std::thread::spawn(registers).join().unwrap();
        send(Signal::Hangup);
        assert_eq!(signals.recv_timeout(LONG / 2).unwrap(), Signal::Hangup);
    });
}

/// Faults of the running code, the profiler's, and what nobody can block; the C library keeps some for itself.
#[test]
fn what_a_worker_does_not_block() {
    let _turn = turn();
    let kept = [
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGPROF,
        libc::SIGSYS,
        libc::SIGKILL,
        libc::SIGSTOP,
    ];
    let reserved = |&signal: &i32| (32..libc::SIGRTMIN()).contains(&signal);
    workers(1).run(|| {
        for registers in [false, true] {
            let _signals = registers.then(|| Signals::new([Signal::User1]).unwrap());
            let [blocked, _] = blocked_and_pending();
            let open = (1..=64).filter(|signal| !blocked.contains(signal) && !reserved(signal));
            let mut kept = kept.to_vec();
            kept.sort_unstable();
            assert_eq!(open.collect::<Vec<_>>(), kept);
        }
    });
}

#[test]
fn received_everywhere() {
    let _turn = turn();
    everywhere(|world| {
        let mut signals = Signals::new([Signal::User1, Signal::Hangup]).unwrap();
        let receiver = world.spawn(move || {
            let first = signals.recv().unwrap();
            (first, signals)
        });
        send(Signal::User1);
        let (first, mut signals) = receiver.join();
        assert_eq!(first, Signal::User1);
        send(Signal::Hangup);
        assert_eq!(signals.recv().unwrap(), Signal::Hangup);
        assert_eq!(signals.try_recv(), None);
    });
}

#[test]
fn wakes_one_that_waits() {
    let _turn = turn();
    let _watch = Watchdog::new("signal");
    for runtime in [workers(1), workers(2)] {
        let mut signals = Signals::new([Signal::User2]).unwrap();
        let receiver = runtime.go(move || signals.recv().unwrap());
        until_waits_on(runtime.handle(), "signal", &receiver);
        send(Signal::User2);
        assert_eq!(receiver.join().unwrap(), Signal::User2);
    }
}

#[test]
fn several_of_a_kind_are_one() {
    let _turn = turn();
    let _watch = Watchdog::new("merge");
    let mut signals = Signals::new([Signal::User1, Signal::User2]).unwrap();
    [Signal::User2, Signal::User2, Signal::User2, Signal::User1].into_iter().for_each(raise);
    assert_eq!(signals.recv().unwrap(), Signal::User1);
    assert_eq!(signals.recv().unwrap(), Signal::User2);
    let error = signals.recv_timeout(Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[test]
fn one_that_is_named_twice_comes_once() {
    let _turn = turn();
    let twice = [Signal::User1, Signal::Other(libc::SIGUSR1), Signal::User1];
    let mut signals = Signals::new(twice).unwrap();
    // Two handlers would set the same mark, and it may be taken between them.
    assert!(format!("{signals:?}").contains("kinds: 1"), "{signals:?}");
    raise(Signal::User1);
    assert_eq!(signals.recv().unwrap(), Signal::User1);
    assert_eq!(signals.try_recv(), None);
}

#[test]
fn each_receiver_gets_it() {
    let _turn = turn();
    everywhere(|world| {
        let receivers: Vec<_> = (0..4)
            .map(|_| {
                let mut signals = Signals::new([Signal::Hangup]).unwrap();
                world.spawn(move || signals.recv().unwrap())
            })
            .collect();
        send(Signal::Hangup);
        for receiver in receivers {
            assert_eq!(receiver.join(), Signal::Hangup);
        }
    });
}

#[test]
fn a_dropped_receiver_gets_nothing() {
    let _turn = turn();
    let mut kept = Signals::new([Signal::User1]).unwrap();
    drop(Signals::new([Signal::User1]).unwrap());
    send(Signal::User1);
    assert_eq!(kept.recv().unwrap(), Signal::User1);
    drop(kept);
    // Handlers stay off the default action: this does not end the process.
    send(Signal::User1);
}

#[test]
fn times_out() {
    let _turn = turn();
    everywhere(|_| {
        let mut signals = Signals::new([Signal::Alarm]).unwrap();
        let start = Instant::now();
        let error = signals.recv_timeout(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(start.elapsed() >= Duration::from_millis(20));
    });
}

#[test]
fn cancelled() {
    let _turn = turn();
    let _watch = Watchdog::new("cancel");
    let mut signals = Signals::new([Signal::Alarm]).unwrap();
    let fiber = volt::go(move || signals.recv().map(drop));
    until_waits("signal", &fiber);
    fiber.cancel();
    assert!(volt::cancel::is_cancelled(&fiber.join().unwrap().unwrap_err()));
}

#[test]
fn ctrl_c() {
    let _turn = turn();
    let _watch = Watchdog::new("ctrl_c");
    // The handler that keeps SIGINT from ending this process until `ctrl_c` has its own.
    let guard = Signals::new([Signal::Interrupt]).unwrap();
    let fiber = volt::go(volt::signal::ctrl_c);
    eventually("the signal", || {
        send(Signal::Interrupt);
        fiber.is_finished()
    });
    fiber.join().unwrap().unwrap();
    drop(guard);
}

#[test]
fn a_storm_of_one_does_not_starve_another() {
    let _turn = turn();
    let _watch = Watchdog::new("storm");
    let mut signals = Signals::new([Signal::Hangup, Signal::Terminate]).unwrap();
    raise(Signal::Hangup);
    raise(Signal::Terminate);
    let mut got = Vec::new();
    while !got.contains(&Signal::Terminate) {
        got.push(signals.recv().unwrap());
        // The one with the lower number is always there again.
        raise(Signal::Hangup);
        assert!(got.len() < 4, "{got:?}");
    }
}

#[test]
fn none_is_lost_in_a_crowd() {
    let _turn = turn();
    let _watch = Watchdog::new("crowd");
    let runtime = workers(2);
    let mut signals = Signals::new([Signal::User1]).unwrap();
    // Ping-pong: each signal is sent after the one before has been received.
    let (received, turns) = std::sync::mpsc::channel();
    let receiver = runtime.go(move || {
        for _ in 0..2000 {
            assert_eq!(signals.recv().unwrap(), Signal::User1);
            received.send(()).unwrap();
        }
    });
    for _ in 0..2000 {
        send(Signal::User1);
        turns.recv().unwrap();
    }
    receiver.join().unwrap();
}
