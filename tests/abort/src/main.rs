//! With `panic = "abort"`, as `volt::cancel` says: operations that return an error do so when they are
//! cancelled, each time; all others go on. Ends well, or aborts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use volt::JoinHandle;
use volt::cancel::{Token, is_cancelled};
use volt::channel::{Sender, bounded, select};
use volt::net::TcpListener;
use volt::runtime::{Builder, Runtime};
use volt::sync::{Event, Mutex};

/// More errors than a program that unwinds gets to see.
const ERRORS: usize = 40;
const SHORT: Duration = Duration::from_millis(2);
const LONGER: Duration = Duration::from_millis(30);

/// One worker, which runs what comes in its order.
static WORKER: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new().workers(1).stall_period(None).force_migrate(false).build().unwrap()
});

/// When this returns, what came before it runs no more: it waits, or has ended.
fn all_wait() {
    WORKER.run(|| ());
}

/// A fiber that waits in `f` and is cancelled there: it goes on waiting until `then` ends that.
#[track_caller]
fn goes_on<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static, then: impl FnOnce()) -> T {
    let fiber = WORKER.go(f);
    all_wait();
    fiber.cancel();
    all_wait();
    assert!(!fiber.is_finished(), "ended by the cancel");
    then();
    result(fiber)
}

#[track_caller]
fn result<T>(fiber: JoinHandle<T>) -> T {
    fiber.join().unwrap_or_else(|_| panic!("has unwound"))
}

fn sleep() {
    let fiber = WORKER.go(|| {
        let start = Instant::now();
        volt::sleep(LONGER);
        start.elapsed()
    });
    all_wait();
    fiber.cancel();
    assert!(result(fiber) >= LONGER, "ended by the cancel");
}

fn lock() {
    let lock = Arc::new(Mutex::new(1));
    let guard = lock.lock().unwrap();
    let theirs = Arc::clone(&lock);
    let seen = goes_on(move || *theirs.lock().unwrap(), || drop(guard));
    assert!(seen == 1 && !lock.is_poisoned());
}

fn recv() {
    let (sender, receiver) = bounded(0);
    assert_eq!(goes_on(move || receiver.recv(), || sender.send(1).unwrap()), Ok(1));
    // And what is under a token.
    let (sender, receiver) = bounded(1);
    let token = Token::new();
    let theirs = token.clone();
    let fiber = WORKER.go(move || theirs.run(|| receiver.recv()));
    all_wait();
    token.cancel();
    all_wait();
    assert!(!fiber.is_finished());
    sender.send(2).unwrap();
    assert_eq!(result(fiber), Ok(Ok(2)));
}

fn accept() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let fiber = WORKER.go(move || {
        for _ in 0..ERRORS {
            assert!(is_cancelled(&listener.accept().unwrap_err()));
        }
        let in_time = volt::timeout(Duration::MAX, || listener.accept());
        assert!(is_cancelled(&in_time.unwrap().unwrap_err()));
    });
    all_wait();
    fiber.cancel();
    result(fiber);
}

fn timeout() {
    let later = |sender: Sender<i32>| {
        WORKER.go(move || {
            volt::sleep(LONGER);
            sender.send(1).unwrap();
        })
    };
    let (sender, receiver) = bounded(1);
    let fiber = WORKER.go(move || {
        let sends = later(sender);
        let received = volt::timeout(SHORT, || receiver.recv());
        sends.join().unwrap();
        received
    });
    assert_eq!(result(fiber), Ok(Ok(1)), "done whole, however late");
    // What has an error to return is cut off.
    let fiber = WORKER.go(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        volt::timeout(SHORT, || listener.accept()).is_err()
    });
    assert!(result(fiber));
}

fn select() {
    let ((s, r), (_s, other)) = (bounded(1), bounded::<u8>(1));
    let selects = move || {
        select! {
            recv(r) -> value => value,
            recv(other) -> _ => unreachable!(),
        }
    };
    assert_eq!(goes_on(selects, || s.send(1).unwrap()), Ok(1));
}

/// Neither its end nor its fibers are cut off.
fn scope() {
    let (event, whole) = (Arc::new(Event::new()), Arc::new(AtomicBool::new(false)));
    let (theirs, inside) = (Arc::clone(&event), Arc::clone(&whole));
    let scoped = move || {
        volt::scope(|scope| {
            scope.go(|| {
                theirs.wait();
                inside.store(true, Ordering::SeqCst);
            });
        });
    };
    goes_on(scoped, || event.set());
    assert!(whole.load(Ordering::SeqCst));
}

/// The loser goes on to its end.
fn race() {
    let (event, whole) = (Arc::new(Event::new()), Arc::new(AtomicBool::new(false)));
    let (theirs, inside) = (Arc::clone(&event), Arc::clone(&whole));
    let races = move || {
        let begun = Event::new();
        let loses = || {
            begun.set();
            theirs.wait();
            inside.store(true, Ordering::SeqCst);
            2
        };
        let wins = || {
            begun.wait();
            1
        };
        volt::race(wins, loses)
    };
    assert_eq!(goes_on(races, || event.set()), 1);
    assert!(whole.load(Ordering::SeqCst));
}

/// A plain thread runs the fibers, under a token.
fn run() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let token = Token::new();
    let sleeps = || {
        volt::sleep(SHORT);
        7
    };
    assert_eq!(token.run(|| runtime.run(sleeps)), Ok(7));
    token.cancel();
    let accepts = || TcpListener::bind("127.0.0.1:0").unwrap().accept().is_err();
    assert!(token.run(|| runtime.run(accepts)).is_err());
}

fn main() {
    assert!(cfg!(panic = "abort"), "what this shows needs a program that aborts");
    let cases: [(&str, fn()); 9] = [
        ("sleep", sleep),
        ("lock", lock),
        ("recv", recv),
        ("accept", accept),
        ("timeout", timeout),
        ("select", select),
        ("scope", scope),
        ("race", race),
        ("run", run),
    ];
    for (name, case) in cases {
        case();
        println!("{name}: as documented");
    }
}
