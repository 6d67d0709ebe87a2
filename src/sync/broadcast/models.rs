//! Under loom: each value comes once and in order to each receiver, or is counted as missed; it is cloned
//! only while it is there, and dropped once; and nobody waits for what has come, or for a side that has gone.

use super::*;
use crate::sync::{cancelled, check};
use loom::thread;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc as Count;

/// A value that knows its number, and of which there is a count. loom sees whoever clones or drops it
/// while another moves it.
#[derive(Clone)]
struct Value(u64, Count<()>);

fn beside<R: 'static>(f: impl FnOnce() -> R + 'static) -> thread::JoinHandle<R> {
    thread::spawn(f)
}

/// Receives until the senders have gone: how many it got, and how many it missed.
fn follow(receiver: &mut Receiver<Value>) -> (u64, u64) {
    let (mut got, mut missed) = (0, 0);
    loop {
        match receiver.recv() {
            Ok(value) => {
                assert_eq!(value.0, got + missed, "not the next one");
                got += 1;
            }
            Err(RecvError::Lagged(count)) => {
                assert!(count > 0);
                missed += count;
            }
            Err(RecvError::Closed) => return (got, missed),
        }
    }
}

/// A sender of `values`, and so many receivers that follow it; nothing of the values is left in the end.
fn model(preemptions: usize, capacity: usize, values: u64, receivers: usize) {
    check(preemptions, move || {
        let count = Count::new(());
        let (sender, receiver) = channel(capacity);
        let following: Vec<_> = (0..receivers)
            .map(|_| {
                let mut receiver = receiver.resubscribe();
                beside(move || follow(&mut receiver))
            })
            .collect();
        drop(receiver);
        for number in 0..values {
            assert!(sender.send(Value(number, Count::clone(&count))).is_ok());
        }
        drop(sender);
        for follows in following {
            let (got, missed) = follows.join().unwrap();
            assert_eq!(got + missed, values);
            assert!(missed <= values - values.min(capacity as u64));
        }
        assert_eq!(Count::strong_count(&count), 1, "leaked");
    });
}

#[test]
fn all_come_in_order() {
    model(3, 2, 2, 1);
}

#[test]
fn the_table_grows_beside_a_receiver() {
    model(2, 4, 3, 1);
}

#[test]
fn one_is_overtaken() {
    model(3, 1, 2, 1);
}

#[test]
fn one_is_overtaken_twice() {
    model(2, 1, 3, 1);
}

#[test]
fn two_get_the_same() {
    model(3, 1, 1, 2);
}

#[test]
fn two_are_overtaken() {
    model(2, 1, 2, 2);
}

#[test]
fn two_are_overtaken_in_a_ring_of_two() {
    model(1, 2, 3, 2);
}

#[test]
fn what_waits_for_a_receiver_goes_with_it() {
    check(3, || {
        let count = Count::new(());
        let (sender, mut receiver) = channel(2);
        let leaves = sender.subscribe();
        let leaving = beside(move || drop(leaves));
        for number in 0..2 {
            assert!(sender.send(Value(number, Count::clone(&count))).is_ok());
        }
        assert_eq!(receiver.recv().unwrap().0, 0);
        leaving.join().unwrap();
        assert_eq!((sender.len(), Count::strong_count(&count)), (1, 2));
        drop(receiver);
        assert_eq!((sender.len(), Count::strong_count(&count)), (0, 1));
    });
}

#[test]
fn a_receiver_goes_while_its_values_are_overwritten() {
    check(3, || {
        let count = Count::new(());
        let (sender, receiver) = channel(1);
        assert!(sender.send(Value(0, Count::clone(&count))).is_ok());
        let leaving = beside(move || drop(receiver));
        // Perhaps there is nobody any more.
        drop(sender.send(Value(1, Count::clone(&count))));
        leaving.join().unwrap();
        assert_eq!((sender.len(), Count::strong_count(&count)), (0, 1));
    });
}

loom::thread_local! {
    static GOES: Cell<bool> = Cell::new(false);
    static SENDS: Cell<Option<Sender<Bomb>>> = Cell::new(None);
}

/// The first one's destructor panics where its receiver goes; one that is cloned sends another.
struct Bomb(u64);

impl Clone for Bomb {
    fn clone(&self) -> Bomb {
        if let Some(sender) = SENDS.with(Cell::take) {
            assert!(sender.send(Bomb(2)).is_ok());
        }
        Bomb(self.0)
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 == 0 && GOES.with(Cell::get) {
            resume_unwind(Box::new("as it was told"));
        }
    }
}

/// The first value is overwritten while somebody clones it: who goes may be the last one to look at it.
#[test]
fn who_goes_leaves_all_whatever_a_drop_does() {
    check(4, || {
        let (sender, mut receiver) = channel(2);
        let leaves = sender.subscribe();
        (0..2).for_each(|number| assert!(sender.send(Bomb(number)).is_ok()));
        let leaving = beside(move || {
            GOES.with(|goes| goes.set(true));
            _ = catch_unwind(AssertUnwindSafe(|| drop(leaves)));
        });
        SENDS.with(|sends| sends.set(Some(sender.clone())));
        // Nobody clones it who is the last to get it.
        _ = receiver.try_recv();
        SENDS.with(Cell::take);
        leaving.join().unwrap();
        let left = receiver.len();
        assert_eq!(sender.len(), left);
        while receiver.len() > 1 {
            _ = receiver.try_recv();
        }
        assert_eq!(sender.len(), left.min(1));
    });
}

#[test]
fn one_who_was_cancelled_has_lost_nothing() {
    check(3, || {
        let count = Count::new(());
        let (sender, mut receiver) = channel::<Value>(2);
        let gives_up = beside(move || {
            let first = cancelled(|| receiver.recv().unwrap().0);
            let first = first.unwrap_or_else(|| receiver.recv().unwrap().0);
            assert_eq!((first, receiver.recv().unwrap().0), (0, 1));
        });
        for number in 0..2 {
            assert!(sender.send(Value(number, Count::clone(&count))).is_ok());
        }
        gives_up.join().unwrap();
        assert_eq!(Count::strong_count(&count), 1);
    });
}

/// Both senders' values come, one after the other.
#[test]
fn two_send() {
    check(2, || {
        let (sender, mut receiver) = channel(2);
        let other = sender.clone();
        let sends = beside(move || assert!(other.send(1).is_ok()));
        let follows = beside(move || receiver.iter().sum::<u32>());
        assert!(sender.send(2).is_ok());
        drop(sender);
        sends.join().unwrap();
        assert_eq!(follows.join().unwrap(), 3);
    });
}
