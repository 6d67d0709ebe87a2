//! Under loom: a message that was sent is received or left in the channel, once, or it is its sender's again;
//! and nobody waits for a side that has gone.

use super::*;
use crate::cancel::caught;
use crate::park::{cancelled, timed_out};
use crate::primitives::models::check_up_to;
use crate::primitives::sync::Arc;
use loom::thread::{JoinHandle, spawn};

/// A deadline that has not passed when the wait begins.
const LATER: Moment = Moment::from_nanos(1000);

/// Loom tells if one of them is still there at the end; the count says how many are about.
type Message = Arc<()>;

/// A channel, and what its messages are clones of. Its two handles are dropped by hand.
#[derive(Clone)]
struct Channel {
    core: Arc<Core<Message>>,
    message: Message,
}

impl Channel {
    fn new(capacity: usize) -> Channel {
        Channel { core: Arc::new(Core::new(Some(capacity))), message: Arc::new(()) }
    }

    fn beside(&self, f: fn(&Channel) -> usize) -> JoinHandle<usize> {
        let channel = self.clone();
        spawn(move || f(&channel))
    }

    fn left(&self) -> usize {
        std::iter::from_fn(|| self.core.try_recv().ok()).count()
    }
}

fn send(channel: &Channel) -> usize {
    usize::from(channel.core.send(Arc::clone(&channel.message), None).is_ok())
}

fn recv(channel: &Channel) -> usize {
    usize::from(channel.core.recv(None).is_ok())
}

fn try_send(channel: &Channel) -> usize {
    usize::from(channel.core.try_send(Arc::clone(&channel.message)).is_ok())
}

fn try_recv(channel: &Channel) -> usize {
    usize::from(channel.core.try_recv().is_ok())
}

fn cancelled_send(channel: &Channel) -> usize {
    cancelled(|| caught(|| send(channel))).unwrap_or(0)
}

fn cancelled_recv(channel: &Channel) -> usize {
    cancelled(|| caught(|| recv(channel))).unwrap_or(0)
}

fn late_send(channel: &Channel) -> usize {
    let sent = timed_out(|| channel.core.send(Arc::clone(&channel.message), Some(LATER)));
    usize::from(sent.is_ok())
}

fn late_recv(channel: &Channel) -> usize {
    usize::from(timed_out(|| channel.core.recv(Some(LATER))).is_ok())
}

fn last_sender_goes(channel: &Channel) -> usize {
    channel.core.drop_sender();
    0
}

fn last_receiver_goes(channel: &Channel) -> usize {
    channel.core.drop_receiver();
    0
}

/// Runs all beside each other; what was sent was received or is left.
fn conserve(
    capacity: usize,
    senders: &'static [fn(&Channel) -> usize],
    receivers: &'static [fn(&Channel) -> usize],
) {
    conserve_some(capacity, senders, receivers, 0);
}

/// As [`conserve`]; at least `expected` are received.
fn conserve_some(
    capacity: usize,
    senders: &'static [fn(&Channel) -> usize],
    receivers: &'static [fn(&Channel) -> usize],
    expected: usize,
) {
    check_up_to(4, move || {
        let channel = Channel::new(capacity);
        let sending = senders.iter().map(|send| channel.beside(*send)).collect::<Vec<_>>();
        let (here, beside) = receivers.split_last().unwrap();
        let receiving = beside.iter().map(|recv| channel.beside(*recv)).collect::<Vec<_>>();
        let mut received = here(&channel);
        received += receiving.into_iter().map(|other| other.join().unwrap()).sum::<usize>();
        let sent = sending.into_iter().map(|other| other.join().unwrap()).sum::<usize>();
        assert!(received >= expected);
        assert_eq!(sent, received + channel.left());
        assert_eq!(Arc::strong_count(&channel.message), 1, "a message is still about");
    });
}

#[test]
fn a_rendezvous() {
    conserve_some(0, &[send], &[recv], 1);
}

#[test]
fn two_rendezvous() {
    conserve_some(0, &[send, send], &[|channel| recv(channel) + recv(channel)], 2);
}

#[test]
fn more_than_there_is_room_for() {
    conserve_some(
        1,
        &[|channel| send(channel) + send(channel)],
        &[|channel| recv(channel) + recv(channel)],
        2,
    );
}

#[test]
fn those_who_do_not_wait() {
    conserve(
        0,
        &[send],
        &[|channel| {
            let mut received = 0;
            while received == 0 {
                received = try_recv(channel);
                loom::thread::yield_now();
            }
            received
        }],
    );
    conserve(1, &[try_send, try_send], &[recv]);
}

#[test]
fn a_cancelled_receiver() {
    conserve(0, &[late_send], &[cancelled_recv]);
    conserve(1, &[send], &[cancelled_recv]);
}

#[test]
fn a_cancelled_sender() {
    conserve(0, &[cancelled_send], &[late_recv]);
    conserve(1, &[|channel| send(channel) + cancelled_send(channel)], &[recv]);
}

/// One who gives up, if it comes to that, and one who does not, on the same side; the other side comes as often
/// as it takes.
fn one_gives_up(
    capacity: usize,
    gives_up: fn(&Channel) -> usize,
    waits: fn(&Channel) -> usize,
    other_side: fn(&Channel) -> usize,
) {
    check_up_to(4, move || {
        let channel = Channel::new(capacity);
        let (gives_up, waits) = (channel.beside(gives_up), channel.beside(waits));
        assert_eq!(other_side(&channel), 1);
        if gives_up.join().unwrap() == 1 {
            assert_eq!(other_side(&channel), 1);
        }
        assert_eq!(waits.join().unwrap(), 1);
        assert_eq!(channel.left(), 0);
        assert_eq!(Arc::strong_count(&channel.message), 1, "a message is still about");
    });
}

#[test]
fn one_of_two_receivers_is_cancelled() {
    one_gives_up(0, cancelled_recv, recv, send);
    one_gives_up(1, cancelled_recv, recv, send);
}

#[test]
fn one_of_two_receivers_is_late() {
    one_gives_up(0, late_recv, recv, send);
    one_gives_up(1, late_recv, recv, send);
}

#[test]
fn one_of_two_senders_gives_up() {
    one_gives_up(0, cancelled_send, send, recv);
    one_gives_up(0, late_send, send, recv);
}

#[test]
fn the_senders_go() {
    conserve(0, &[last_sender_goes], &[recv, recv]);
    conserve_some(1, &[|channel| send(channel) + last_sender_goes(channel)], &[recv, recv], 1);
}

/// What is in the channel then is dropped.
#[test]
fn the_receivers_go() {
    for capacity in [0, 1] {
        check_up_to(4, move || {
            let channel = Channel::new(capacity);
            let others = [channel.beside(send), channel.beside(send)];
            last_receiver_goes(&channel);
            let sent = others.into_iter().map(|other| other.join().unwrap()).sum::<usize>();
            assert!(sent <= capacity);
            assert_eq!(Arc::strong_count(&channel.message), 1);
            assert!(channel.core.lock().len() == 0);
        });
    }
}
