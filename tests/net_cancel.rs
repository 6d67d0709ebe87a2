//! A cancelled fiber's operations.

mod net_support;

use net_support::common::waits::{until_true, until_waits, wait_of};
use net_support::{
    Watchdog, current_thread, eventually, listen, listener_without_room, pair, workers,
};
use rustix::event::{PollFd, PollFlags};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use volt::cancel::{Token, cancelled, is_cancelled, shield};
use volt::net::TcpStream;
use volt::runtime::Handle;

/// When a fiber is cancelled.
#[derive(Clone, Copy, PartialEq)]
enum When {
    BeforeItBegins,
    AsItBegins,
    InItsWait,
}

/// Runs `wait` on a fiber that is cancelled before it, while it waits, or just as it begins.
fn ends_by_cancel(wait: impl Fn() -> io::Result<()> + Send + Sync + 'static) {
    let wait = Arc::new(wait);
    for when in [When::BeforeItBegins, When::AsItBegins, When::InItsWait] {
        let (begun, wait) = (Arc::new(AtomicBool::new(false)), Arc::clone(&wait));
        let fiber = volt::go({
            let begun = Arc::clone(&begun);
            move || {
                // A sleep would unwind.
                while when == When::BeforeItBegins && !cancelled() {
                    volt::yield_now();
                }
                begun.store(true, Ordering::SeqCst);
                wait()
            }
        });
        if when != When::BeforeItBegins {
            eventually("its start", || begun.load(Ordering::SeqCst));
        }
        if when == When::InItsWait {
            let id = fiber.thread().id();
            until_true("any", || wait_of(&Handle::current(), id).is_some());
        }
        fiber.cancel();
        let error = fiber.join().unwrap().unwrap_err();
        assert!(is_cancelled(&error), "{error:?}");
        assert_eq!(error.kind(), io::ErrorKind::Other);
    }
}

fn on_each_runtime(body: impl Fn() + Send + Sync) {
    let _watch = Watchdog::new("cancel");
    volt::run(&body);
    current_thread().run(&body);
    body();
}

#[test]
fn accept() {
    on_each_runtime(|| {
        let (listener, _) = listen();
        ends_by_cancel(move || listener.accept().map(drop));
    });
}

#[test]
fn read_and_peek() {
    on_each_runtime(|| {
        let (near, far) = pair();
        let clone = near.try_clone().unwrap();
        ends_by_cancel(move || (&clone).read(&mut [0]).map(drop));
        let clone = near.try_clone().unwrap();
        ends_by_cancel(move || clone.peek(&mut [0]).map(drop));
        // With a time-out that is far away.
        near.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
        let clone = near.try_clone().unwrap();
        ends_by_cancel(move || (&clone).read(&mut [0]).map(drop));
        // The socket is as good as before.
        (&far).write_all(&[1]).unwrap();
        assert_eq!((&near).read(&mut [0]).unwrap(), 1);
    });
}

#[test]
fn write() {
    on_each_runtime(|| {
        let (near, _far) = pair();
        ends_by_cancel(move || {
            loop {
                (&near).write_all(&[0; 65536])?;
            }
        });
    });
}

#[test]
fn connect() {
    on_each_runtime(|| {
        let (_full, address) = listener_without_room();
        let mut kept = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(50)) {
            kept.push(stream);
        }
        ends_by_cancel(move || TcpStream::connect(address).map(drop));
        // The other addresses are not tried any more.
        let closed = listen().1;
        ends_by_cancel(move || TcpStream::connect(&[address, closed][..]).map(drop));
    });
}

#[test]
fn what_is_there_is_served() {
    on_each_runtime(|| {
        let (near, mut far) = pair();
        far.write_all(&[7; 4]).unwrap();
        near.peek(&mut [0]).unwrap();
        let fiber = volt::go(move || {
            // Not asleep: a sleep would end the fiber.
            while !cancelled() {
                volt::yield_now();
            }
            let mut buf = [0; 4];
            (&near).read_exact(&mut buf)?;
            assert_eq!(buf, [7; 4]);
            (&near).write_all(b"ok")?;
            (&near).read(&mut buf)
        });
        fiber.cancel();
        assert!(is_cancelled(&fiber.join().unwrap().unwrap_err()));
        let mut buf = [0; 2];
        far.read_exact(&mut buf).unwrap();
        assert_eq!(&buf, b"ok");
    });
}

/// A byte is there, of which the driver has not told: it was told that there is none.
fn with_what_nobody_has_told_of() -> (TcpStream, TcpStream) {
    let (near, mut far) = pair();
    near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    (&near).read(&mut [0]).unwrap_err();
    near.set_read_timeout(None).unwrap();
    far.write_all(&[1]).unwrap();
    rustix::event::poll(&mut [PollFd::new(&near, PollFlags::IN)], None).unwrap();
    (near, far)
}

#[test]
fn what_the_driver_has_not_brought_yet_is_served() {
    on_each_runtime(|| {
        let (mut near, _far) = with_what_nobody_has_told_of();
        let read = volt::timeout(Duration::ZERO, || near.read(&mut [0; 2]));
        assert_eq!(read.expect("it need not wait").unwrap(), 1);
        let (mut near, _far) = with_what_nobody_has_told_of();
        let token = Token::new();
        token.cancel();
        let read = token.run(|| near.read(&mut [0; 2]));
        assert_eq!(read.expect("it need not wait").unwrap(), 1);
        let fiber = volt::go(|| {
            while !cancelled() {
                volt::yield_now();
            }
            // Its own wait is not to be ended.
            let (mut near, _far) = shield(with_what_nobody_has_told_of);
            assert_eq!(near.read(&mut [0; 2]).unwrap(), 1);
            near.read(&mut [0; 2])
        });
        fiber.cancel();
        assert!(is_cancelled(&fiber.join().unwrap().unwrap_err()));
    });
}

#[test]
fn a_shield_holds() {
    on_each_runtime(|| {
        let (near, mut far) = pair();
        let begun = Arc::new(AtomicBool::new(false));
        let fiber = volt::go({
            let begun = Arc::clone(&begun);
            move || {
                let shielded = shield(|| {
                    begun.store(true, Ordering::SeqCst);
                    (&near).read(&mut [0])
                });
                (shielded, (&near).read(&mut [0]))
            }
        });
        eventually("its start", || begun.load(Ordering::SeqCst));
        until_waits("read", &fiber);
        fiber.cancel();
        volt::sleep(Duration::from_millis(5));
        assert!(!fiber.is_finished());
        far.write_all(&[1]).unwrap();
        let (shielded, bare) = fiber.join().unwrap();
        assert_eq!(shielded.unwrap(), 1);
        assert!(is_cancelled(&bare.unwrap_err()));
    });
}

#[test]
fn no_connection_is_lost_among_cancelled_acceptors() {
    let _watch = Watchdog::new("acceptors");
    workers(2).run(|| {
        let (listener, address) = listen();
        let listener = Arc::new(listener);
        for _ in 0..100 {
            let acceptors: Vec<_> = (0..8)
                .map(|_| {
                    let listener = Arc::clone(&listener);
                    volt::go(move || listener.accept().map(|(_, from)| from))
                })
                .collect();
            let client = volt::go(move || TcpStream::connect(address).unwrap());
            for acceptor in &acceptors[..7] {
                acceptor.cancel();
            }
            let client = client.join().unwrap().local_addr().unwrap();
            let mut served = 0;
            let mut cancelled = acceptors;
            let last = cancelled.pop().unwrap();
            for fiber in cancelled {
                match fiber.join().unwrap() {
                    Ok(from) => {
                        assert_eq!(from, client);
                        served += 1;
                    }
                    Err(error) => assert!(is_cancelled(&error)),
                }
            }
            if served == 1 {
                last.cancel();
                assert!(is_cancelled(&last.join().unwrap().unwrap_err()));
            } else {
                // It was left to the one that nobody cancelled.
                assert_eq!(last.join().unwrap().unwrap(), client);
            }
        }
    });
}
