//! Under loom: a value is received, given back or dropped, once, and nobody waits for a side that has gone.

use super::*;
use crate::park::timed_out;
use crate::sync::{cancelled, check};
use loom::thread;

/// Runs `send` beside `receive` with a value that loom finds if it leaks: all references are gone then.
fn beside(
    send: impl Fn(Sender<Arc<()>>, Arc<()>) + Clone + Send + Sync + 'static,
    receive: impl Fn(Receiver<Arc<()>>) + Send + Sync + 'static,
) {
    check(3, move || {
        let value = Arc::new(());
        let (sender, receiver) = channel();
        let sends = {
            let (send, value) = (send.clone(), Arc::clone(&value));
            thread::spawn(move || send(sender, value))
        };
        receive(receiver);
        sends.join().unwrap();
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

fn send(sender: Sender<Arc<()>>, value: Arc<()>) {
    let _ = sender.send(value);
}

fn send_surely(sender: Sender<Arc<()>>, value: Arc<()>) {
    assert!(sender.send(value).is_ok());
}

#[test]
fn it_is_received() {
    beside(send_surely, |receiver| drop(receiver.recv().unwrap()));
}

#[test]
fn the_sender_goes() {
    beside(|sender, _| drop(sender), |receiver| assert!(receiver.recv().is_err()));
}

#[test]
fn the_receiver_goes() {
    beside(send, drop);
}

#[test]
fn the_receiver_is_cancelled() {
    beside(send, |receiver| {
        cancelled(|| receiver.recv());
    });
}

#[test]
fn what_came_too_late_is_still_there() {
    beside(send_surely, |receiver| match timed_out(|| receiver.recv_timeout(Duration::MAX)) {
        Ok(value) => drop(value),
        Err(RecvTimeoutError::Timeout) => drop(receiver.recv_timeout(Duration::MAX).unwrap()),
        Err(RecvTimeoutError::Disconnected) => unreachable!("a value was sent"),
    });
}

#[test]
fn who_was_cancelled_finds_it_later() {
    beside(send_surely, |receiver| {
        let first = cancelled(|| receiver.recv_timeout(Duration::MAX).unwrap());
        drop(first.unwrap_or_else(|| receiver.recv().unwrap()));
    });
}

#[test]
fn what_is_sent_to_one_who_is_cancelled_is_received_or_comes_back() {
    check(3, || {
        let (sender, receiver) = channel();
        let sends = thread::spawn(move || sender.send(()).is_ok());
        let received = cancelled(|| receiver.recv());
        assert_eq!(sends.join().unwrap(), received == Some(Ok(())));
    });
}
