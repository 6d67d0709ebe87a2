//! Fibers that are cancelled while they wait.

use crate::common::waits::until_waits;
use crate::common::{LONG, within};
use crate::harness::{ms, on_each};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use volt::cancel::{Cancelled, shield};
use volt::channel::{after, bounded, never, select, unbounded};
use volt::runtime::Builder;

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The wait unwinds, whether it is cancelled before it or in it.
fn ends_by_cancel(wait: impl Fn() + Send + Sync + 'static) {
    // What came before on the one worker waits once this returns.
    let worker = Builder::new().workers(1).stall_period(None).force_migrate(false).build().unwrap();
    let wait = Arc::new(wait);
    for waits in [false, true] {
        let wait = Arc::clone(&wait);
        let fiber = worker.go(move || wait());
        if waits {
            worker.go(|| ()).join().unwrap();
            assert!(!fiber.is_finished(), "it does not wait");
        }
        fiber.cancel();
        let payload = fiber.join().unwrap_err();
        assert!(payload.is::<Cancelled>());
    }
}

#[test]
fn every_wait_unwinds() {
    on_each(|| {
        let (s, r) = bounded::<u8>(0);
        let (s2, r2) = (s.clone(), r.clone());
        ends_by_cancel(move || _ = s2.send(1));
        ends_by_cancel(move || _ = r2.recv());
        let (s2, r2) = (s.clone(), r.clone());
        ends_by_cancel(move || _ = s2.send_timeout(1, Duration::MAX));
        ends_by_cancel(move || _ = r2.recv_timeout(Duration::from_secs(60)));
        let r2 = r.clone();
        ends_by_cancel(move || select! { recv(r2) -> _ => {} recv(never::<u8>()) -> _ => {} });
        let s2 = s.clone();
        ends_by_cancel(move || {
            select! { send(s2, 1) -> _ => {} default(Duration::from_secs(60)) => {} }
        });
        ends_by_cancel(|| _ = after(Duration::from_secs(60)).recv());
        ends_by_cancel(|| _ = never::<u8>().recv());
        // As good as before.
        assert!(s.try_send(1).is_err() && r.try_recv().is_err());
        let receiver = volt::go(move || r.recv());
        s.send(3).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(3));
    });
}

#[test]
fn what_need_not_wait_is_done() {
    on_each(|| {
        let (s, r) = bounded(1);
        let fiber = volt::go(move || {
            while !volt::cancel::cancelled() {
                volt::yield_now();
            }
            s.send(1).unwrap();
            let message = select! { recv(r) -> message => message };
            (message, shield(|| r.recv_timeout(ms(1))).is_err())
        });
        fiber.cancel();
        assert_eq!(fiber.join().unwrap(), (Ok(1), true));
    });
}

#[test]
fn the_message_of_a_cancelled_send_is_dropped_once() {
    on_each(|| {
        for capacity in [0, 1] {
            let (s, r) = bounded(capacity);
            let drops = Arc::new(AtomicUsize::new(0));
            (0..capacity).for_each(|_| assert!(s.try_send(Counted(Arc::clone(&drops))).is_ok()));
            let theirs = (s.clone(), Counted(Arc::clone(&drops)));
            let fiber = volt::go(move || drop(theirs.0.send(theirs.1)));
            until_waits("send to a channel", &fiber);
            fiber.cancel();
            assert!(fiber.join().is_err());
            assert_eq!(drops.load(Ordering::SeqCst), 1);
            assert_eq!(r.try_iter().count(), capacity);
            assert_eq!(drops.load(Ordering::SeqCst), 1 + capacity);
        }
    });
}

#[test]
fn a_message_that_is_being_made_is_given_up() {
    on_each(|| {
        for capacity in [0, 1] {
            let (s, r) = bounded::<u8>(capacity);
            let receiver = volt::go(move || r.recv());
            let (started, start) = bounded(1);
            let theirs = s.clone();
            let maker = volt::go(move || {
                let make = || {
                    started.send(()).unwrap();
                    never::<u8>().recv().unwrap()
                };
                select! { send(theirs, make()) -> _ => {} }
            });
            start.recv().unwrap();
            maker.cancel();
            assert!(maker.join().unwrap_err().is::<Cancelled>());
            s.send(4).unwrap();
            assert_eq!(receiver.join().unwrap(), Ok(4));
        }
    });
}

#[test]
fn a_paired_receiver_is_not_cancelled_before_it_has_its_message() {
    on_each(|| {
        let (s, r) = bounded::<u8>(0);
        let (got, result) = unbounded();
        let receiver = volt::go(move || {
            got.send(r.recv()).unwrap();
            let _ = r.recv();
        });
        let (paired, pairing) = (select! { wait(s) -> permit => permit }, receiver);
        pairing.cancel();
        paired.send(5).unwrap();
        assert_eq!(result.recv(), Ok(Ok(5)));
        assert!(pairing.join().unwrap_err().is::<Cancelled>());
    });
}

#[test]
fn a_runtime_of_many_cancelled_waits() {
    within(LONG, || {
        let (s, r) = bounded::<u8>(0);
        let waits = |i: u32| {
            let (s, r) = (s.clone(), r.clone());
            // Only receivers, or senders and receivers meet.
            volt::go(move || {
                if i % 2 == 0 {
                    _ = r.recv()
                } else {
                    select! { recv(r) -> _ => {} }
                }
                drop(s);
            })
        };
        let fibers: Vec<_> = (0..1000).map(waits).collect();
        fibers.iter().for_each(|fiber| fiber.cancel());
        fibers.into_iter().for_each(|fiber| assert!(fiber.join().is_err()));
        assert!(s.try_send(1).is_err(), "a receiver was left behind");
    });
}
