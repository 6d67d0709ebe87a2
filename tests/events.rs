//! Events of the runtime, and a subscriber that does what the program's own code may.
#![cfg(feature = "tracing")]

mod common;

use common::waits::until_waits_on;
use common::{LONG, child, limit_address_space, until, within};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, subscriber};
use volt::JoinHandle;
use volt::runtime::{Builder, Runtime};

/// Events of fibers that wait for their turn to block, or have ended for want of a stack.
static EVENTS: AtomicUsize = AtomicUsize::new(0);
static GATE: volt::sync::Mutex<()> = volt::sync::Mutex::new(());

/// Waits, or panics, on behalf of whom the event comes from, as that one's name says.
struct Meddler;

impl Subscriber for Meddler {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ["volt::park::blocking", "volt::scheduler::starter", "volt::fiber::refused"]
            .contains(&metadata.target())
    }

    fn event(&self, _: &Event<'_>) {
        EVENTS.fetch_add(1, Ordering::SeqCst);
        match volt::thread::current().name() {
            Some("waits") => drop(GATE.lock().unwrap()),
            Some("panics") => panic!("the subscriber's"),
            _ => (),
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn subscribe() {
    static SET: Once = Once::new();
    SET.call_once(|| subscriber::set_global_default(Meddler).unwrap());
}

/// A runtime on which one fiber may block at a time, and that one, which does until the sender is used.
fn blocked() -> (Runtime, JoinHandle<()>, std::sync::mpsc::Sender<()>) {
    subscribe();
    let runtime = Builder::new().workers(2).max_blocking(1).stall_period(None).build().unwrap();
    let (begun, begins) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel();
    let first = runtime.go(move || {
        volt::blocking(|| {
            begun.send(()).unwrap();
            released.recv().unwrap();
        });
    });
    begins.recv().unwrap();
    (runtime, first, release)
}

fn named(name: &str) -> volt::thread::Builder {
    volt::thread::Builder::new().name(name.to_owned())
}

#[test]
fn a_subscriber_may_wait_while_its_fiber_waits_to_block() {
    within(LONG, || {
        let (runtime, first, release) = blocked();
        let inside = Arc::new(AtomicUsize::new(0));
        let gate = GATE.lock().unwrap();
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let inside = Arc::clone(&inside);
                let block = move || {
                    volt::blocking(|| {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two block at once");
                        std::thread::sleep(Duration::from_millis(1));
                        inside.fetch_sub(1, Ordering::SeqCst);
                    });
                };
                runtime.run(|| named("waits").spawn(block).unwrap())
            })
            .collect();
        waiting.iter().for_each(|fiber| until_waits_on(runtime.handle(), "mutex", fiber));
        assert!(EVENTS.load(Ordering::SeqCst) >= 4);
        drop(gate);
        release.send(()).unwrap();
        first.join().unwrap();
        waiting.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn a_subscriber_that_panics_leaves_nobody_in_line() {
    within(LONG, || {
        let (runtime, first, release) = blocked();
        let second = runtime.run(|| named("panics").spawn(|| volt::blocking(|| ())).unwrap());
        assert!(second.join().is_err());
        assert_eq!(runtime.stats().blocking.waiting, 0);
        release.send(()).unwrap();
        first.join().unwrap();
        runtime.run(|| volt::blocking(|| ()));
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_thread_that_is_refused_is_an_event() {
    let left = child("a_thread_that_is_refused_is_an_event", &[], || {
        subscribe();
        let runtime = Builder::new().workers(1).stall_period(None).build().unwrap();
        runtime.run(|| {
            limit_address_space(Some(512 << 10));
            volt::blocking(|| assert_eq!(EVENTS.load(Ordering::SeqCst), 1));
        });
    });
    assert!(left.status.success(), "{left:?}");
}

#[test]
fn a_fiber_that_ends_for_want_of_a_stack_is_an_event() {
    let left = child("a_fiber_that_ends_for_want_of_a_stack_is_an_event", &[], || {
        subscribe();
        let runtime = Builder::new().workers(1).build().unwrap();
        runtime.run(|| {
            limit_address_space(Some(512 << 20));
            drop(named("huge").stack_size(1 << 30).spawn(|| ()).unwrap());
        });
        until("the event has come", || EVENTS.load(Ordering::SeqCst) == 1);
        runtime.shutdown(LONG).unwrap();
    });
    assert!(left.status.success(), "{left:?}");
}
