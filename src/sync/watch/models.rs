//! Under loom: no change is missed, and nobody waits for a side that has gone.

use super::*;
use crate::sync::{cancelled, check};
use loom::thread;

fn beside<R: 'static>(f: impl FnOnce() -> R + 'static) -> thread::JoinHandle<R> {
    thread::spawn(f)
}

/// Looks at each change until the senders have gone: what it saw last, and how many changes.
fn follow(receiver: &mut Receiver<u32>) -> (u32, u32) {
    let mut seen = (0, 0);
    while receiver.changed().is_ok() {
        let value = *receiver.borrow_and_update();
        assert!(value >= seen.0);
        seen = (value, seen.1 + 1);
    }
    seen
}

#[test]
fn the_last_value_is_seen() {
    check(3, || {
        let (sender, mut receiver) = channel(0);
        let follows = beside(move || follow(&mut receiver));
        sender.send_replace(1);
        sender.send_replace(2);
        drop(sender);
        let (last, changes) = follows.join().unwrap();
        assert_eq!(last, 2);
        assert!(changes == 1 || changes == 2);
    });
}

#[test]
fn what_was_borrowed_is_known_and_what_comes_after_is_not() {
    check(3, || {
        let (sender, mut receiver) = channel(0);
        let looks = beside(move || {
            // Whichever it was, the version seen belongs to it.
            if *receiver.borrow_and_update() == 0 {
                receiver.changed().unwrap();
            }
            assert_eq!(*receiver.borrow(), 1);
            assert!(receiver.changed().is_err());
        });
        sender.send_replace(1);
        drop(sender);
        looks.join().unwrap();
    });
}

#[test]
fn two_are_told() {
    check(2, || {
        let (sender, mut receiver) = channel(0);
        let mut second = receiver.clone();
        let second = beside(move || *second.wait_for(|value| *value == 1).unwrap());
        let first = beside(move || receiver.changed().is_ok());
        sender.send_replace(1);
        assert!(first.join().unwrap());
        assert_eq!(second.join().unwrap(), 1);
    });
}

#[test]
fn who_was_cancelled_has_seen_nothing() {
    check(3, || {
        let (sender, mut receiver) = channel(0);
        let gives_up = beside(move || {
            if cancelled(|| receiver.changed().unwrap()).is_none() {
                receiver.changed().unwrap();
            }
            assert_eq!(*receiver.borrow(), 1);
        });
        sender.send_replace(1);
        gives_up.join().unwrap();
    });
}

#[test]
fn the_sender_waits_until_the_receivers_have_gone() {
    check(3, || {
        let (sender, receiver) = channel(0);
        let second = receiver.clone();
        let others = [receiver, second].map(|receiver| beside(move || drop(receiver)));
        sender.closed();
        assert_eq!(sender.send(1), Err(SendError(1)));
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}
