//! Under loom: a select has exactly one effect, whichever case it is, and none if it is late or cancelled:
//! what was sent is received or left, what others were told is what it says.

use super::core::Core;
use super::receiver::Flavor;
use super::*;
use crate::cancel::caught;
use crate::park::{cancelled, timed_out};
use crate::primitives::models::check;
use crate::primitives::sync::{Arc, Mutex};
use loom::thread::{JoinHandle, spawn};
use std::time::Duration;

/// Those who are cancelled unwind through nothing that loom sees, so there may be more.
const PREEMPTIONS: usize = 4;
const LATER: Duration = Duration::from_secs(1);

/// Loom tells if one of them is still there at the end; the count says how many are about.
type Message = Arc<()>;
type Channel = (Sender<Message>, Receiver<Message>);

fn channel(capacity: usize) -> Channel {
    let core = Arc::new(Core::new(Some(capacity)));
    (Sender { core: Arc::clone(&core) }, Receiver { flavor: Flavor::Channel(core) })
}

fn left(receiver: &Receiver<Message>) -> usize {
    std::iter::from_fn(|| receiver.try_recv().ok()).count()
}

/// Completes what was chosen of two receives: how many messages that is.
fn receive(chosen: SelectedOperation<'_>, receivers: [&Receiver<Message>; 2]) -> usize {
    let receiver = receivers[chosen.index()];
    usize::from(chosen.recv(receiver).is_ok())
}

fn select_recv(receivers: [&Receiver<Message>; 2]) -> usize {
    let mut select = Select::new();
    receivers.into_iter().for_each(|receiver| _ = select.recv(receiver));
    receive(select.select(), receivers)
}

fn late_select_recv(receivers: [&Receiver<Message>; 2]) -> usize {
    let mut select = Select::new();
    receivers.into_iter().for_each(|receiver| _ = select.recv(receiver));
    let chosen = timed_out(|| select.select_timeout(LATER));
    chosen.map_or(0, |chosen| receive(chosen, receivers))
}

fn cancelled_select_recv(receivers: [&Receiver<Message>; 2]) -> usize {
    cancelled(|| caught(|| select_recv(receivers))).unwrap_or(0)
}

/// Waits until one of them is ready, then takes what is there, which may be nothing.
fn ready_recv(receivers: [&Receiver<Message>; 2]) -> usize {
    let mut select = Select::new();
    receivers.into_iter().for_each(|receiver| _ = select.recv(receiver));
    let ready = select.ready();
    usize::from(receivers[ready].try_recv().is_ok())
}

/// Sends one message, to the channel that is ready first.
fn select_send(senders: [&Sender<Message>; 2], message: &Message) -> usize {
    let mut select = Select::new();
    senders.into_iter().for_each(|sender| _ = select.send(sender));
    let chosen = select.select();
    let sender = senders[chosen.index()];
    usize::from(chosen.send(sender, Arc::clone(message)).is_ok())
}

fn cancelled_select_send(senders: [&Sender<Message>; 2], message: &Message) -> usize {
    cancelled(|| caught(|| select_send(senders, message))).unwrap_or(0)
}

/// A select over two channels, beside one who sends to each without a wait. At least `expected` are received.
fn receives_from_two(
    capacity: usize,
    select: fn([&Receiver<Message>; 2]) -> usize,
    expected: usize,
) {
    check(PREEMPTIONS, move || {
        let message = Message::new(());
        let channels = [channel(capacity), channel(capacity)];
        let others = channels.each_ref().map(|(sender, _)| {
            let (sender, message) = (sender.clone(), Arc::clone(&message));
            spawn(move || usize::from(sender.try_send(message).is_ok()))
        });
        let received = select([&channels[0].1, &channels[1].1]);
        let sent = others.map(|other| other.join().unwrap()).into_iter().sum::<usize>();
        let left = channels.iter().map(|(_, receiver)| left(receiver)).sum::<usize>();
        assert!(received >= expected);
        assert_eq!(sent, received + left);
        assert_eq!(Arc::strong_count(&message), 1, "a message is still about");
    });
}

#[test]
fn it_receives_from_one_of_two() {
    receives_from_two(1, select_recv, 1);
}

#[test]
fn it_looks_at_two() {
    receives_from_two(1, ready_recv, 1);
}

/// Who sends by a rendezvous is linked by and by.
#[test]
fn it_looks_for_a_partner() {
    check(PREEMPTIONS, || {
        let message = Message::new(());
        let ((sender, receiver), (_idle, other)) = (channel(0), channel(0));
        let sending = {
            let message = Arc::clone(&message);
            spawn(move || send(&sender, &message))
        };
        assert_eq!(ready_recv([&other, &receiver]), 1);
        assert_eq!(sending.join().unwrap(), 1);
        assert_eq!(Arc::strong_count(&message), 1, "a message is still about");
    });
}

/// Places that were promised are free again when their messages are gone.
#[test]
fn it_sends_where_there_is_room() {
    check(PREEMPTIONS, || {
        let message = Message::new(());
        let (sender, receiver) = channel(1);
        let sending = {
            let message = Arc::clone(&message);
            spawn(move || (0..2).map(|_| select_send([&sender, &sender], &message)).sum::<usize>())
        };
        let received = [receiver.recv(), receiver.recv()].iter().flatten().count();
        assert_eq!((sending.join().unwrap(), received), (2, 2));
        assert_eq!(Arc::strong_count(&message), 1, "a message is still about");
    });
}

#[test]
fn it_is_late() {
    receives_from_two(1, late_select_recv, 0);
    receives_from_two(0, late_select_recv, 0);
}

#[test]
fn it_is_cancelled() {
    receives_from_two(1, cancelled_select_recv, 0);
    receives_from_two(0, cancelled_select_recv, 0);
}

/// One who selects to send and one who selects to receive, over the same two rendezvous, in the same order
/// and in opposite ones. At least `expected` messages change hands.
fn meet(
    send: fn([&Sender<Message>; 2], &Message) -> usize,
    recv: fn([&Receiver<Message>; 2]) -> usize,
    expected: usize,
) {
    for first in [0, 1] {
        meet_from(first, send, recv, expected);
    }
}

/// As [`meet`]: who receives looks at the channel `first` first.
fn meet_from(
    first: usize,
    send: fn([&Sender<Message>; 2], &Message) -> usize,
    recv: fn([&Receiver<Message>; 2]) -> usize,
    expected: usize,
) {
    check(PREEMPTIONS, move || {
        let message = Message::new(());
        let channels = Arc::new([channel(0), channel(0)]);
        let sending = {
            let (channels, message) = (Arc::clone(&channels), Arc::clone(&message));
            spawn(move || send([&channels[0].0, &channels[1].0], &message))
        };
        let received = recv([&channels[first].1, &channels[1 - first].1]);
        assert!(received >= expected);
        assert_eq!(sending.join().unwrap(), received);
        assert_eq!(Arc::strong_count(&message), 1, "a message is still about");
    });
}

#[test]
fn two_selects_meet() {
    meet(select_send, select_recv, 1);
}

#[test]
fn two_selects_meet_or_give_up() {
    meet(cancelled_select_send, late_select_recv, 0);
    meet(cancelled_select_send, cancelled_select_recv, 0);
}

/// A sender that was chosen changes its mind, and sends then: whoever was promised a message waits on for that,
/// or gives up.
fn promise_is_withdrawn(capacity: usize, recv: fn([&Receiver<Message>; 2]) -> usize) {
    check(PREEMPTIONS, move || {
        let message = Message::new(());
        let (sender, receiver) = channel(capacity);
        let sending = {
            let message = Arc::clone(&message);
            spawn(move || {
                let mut select = Select::new();
                select.case(&sender);
                if let Ok(chosen) = timed_out(|| select.select_timeout(LATER)) {
                    drop::<Permit<'_, Message>>(chosen.complete(&sender));
                }
                send(&sender, &message)
            })
        };
        let (_idle, other) = channel(0);
        if recv([&receiver, &other]) == 0 {
            drop(receiver.recv().unwrap());
        }
        assert_eq!(sending.join().unwrap(), 1);
        assert_eq!(left(&receiver), 0);
        assert_eq!(Arc::strong_count(&message), 1, "a message is still about");
    });
}

#[test]
fn a_promise_is_withdrawn() {
    promise_is_withdrawn(0, select_recv);
    promise_is_withdrawn(1, select_recv);
}

#[test]
fn a_promise_is_withdrawn_from_one_who_gives_up() {
    promise_is_withdrawn(0, late_select_recv);
    promise_is_withdrawn(0, cancelled_select_recv);
}

#[test]
fn a_promise_is_withdrawn_from_one_who_does_not_select() {
    promise_is_withdrawn(0, |[receiver, _]| usize::from(receiver.recv().is_ok()));
    promise_is_withdrawn(0, |[receiver, _]| usize::from(receiver.try_recv().is_ok()));
}

/// A place that was promised and is not used goes to the next who waits for one, and so to who receives.
#[test]
fn a_promise_of_a_place_is_withdrawn() {
    check(PREEMPTIONS, || {
        let message = Message::new(());
        let (sender, receiver) = channel(1);
        let mut select = Select::new();
        select.case(&sender);
        let permit = select.select().complete(&sender);
        let sending = {
            let (sender, message) = (sender.clone(), Arc::clone(&message));
            spawn(move || send(&sender, &message))
        };
        let receiving = spawn(move || usize::from(receiver.recv().is_ok()));
        drop(permit);
        assert_eq!((sending.join().unwrap(), receiving.join().unwrap()), (1, 1));
        assert_eq!(Arc::strong_count(&message), 1, "a message is still about");
    });
}

/// Two selects, each of which could send to the other and receive from it: exactly one message changes
/// hands, and nobody meets himself.
#[test]
fn two_selects_both_ways() {
    check(PREEMPTIONS, || {
        let message = Message::new(());
        let channel = Arc::new(channel(0));
        let either = |(sender, receiver): &Channel, message: &Message| {
            let mut select = Select::new();
            select.send(sender);
            select.recv(receiver);
            let chosen = select.select();
            match chosen.index() {
                0 => chosen.send(sender, Arc::clone(message)).map(|()| 1).unwrap(),
                _ => chosen.recv(receiver).map(|_| 0).unwrap(),
            }
        };
        let other = {
            let (channel, message) = (Arc::clone(&channel), Arc::clone(&message));
            spawn(move || either(&channel, &message))
        };
        assert_eq!(either(&channel, &message) + other.join().unwrap(), 1);
        assert_eq!(Arc::strong_count(&message), 1, "a message is still about");
    });
}

/// All senders of one of two channels go.
#[test]
fn it_hears_of_a_side_that_goes() {
    check(PREEMPTIONS, || {
        let message = Message::new(());
        let ((sender, receiver), (_idle, other)) = (channel(1), channel(1));
        let sending = {
            let message = Arc::clone(&message);
            spawn(move || sender.send(message).unwrap())
        };
        assert_eq!(select_recv([&receiver, &other]), 1);
        assert_eq!(select_recv([&other, &receiver]), 0);
        sending.join().unwrap();
        assert_eq!(Arc::strong_count(&message), 1);
    });
}

/// A case of one's own: tickets, each of which goes to one select.
#[derive(Clone, Default)]
struct Tickets(Arc<Mutex<Office>>);

#[derive(Default)]
struct Office {
    free: usize,
    waiters: Vec<Waiter>,
}

impl Tickets {
    fn bring(&self) {
        let mut office = self.0.lock();
        while let Some(waiter) = office.waiters.pop() {
            if waiter.choose() {
                return;
            }
        }
        office.free += 1;
    }

    fn brings(&self) -> JoinHandle<()> {
        let tickets = self.clone();
        spawn(move || tickets.bring())
    }
}

impl Case for Tickets {
    type Output<'a> = ();

    fn attempt(&self) -> bool {
        let mut office = self.0.lock();
        let taken = office.free > 0;
        office.free -= usize::from(taken);
        taken
    }

    fn is_ready(&self) -> bool {
        self.0.lock().free > 0
    }

    fn register(&self, waiter: &Waiter) -> bool {
        let mut office = self.0.lock();
        let waits = office.free == 0;
        if waits {
            office.waiters.push(waiter.clone());
        }
        waits
    }

    fn unregister(&self, waiter: &Waiter) {
        self.0.lock().waiters.retain(|other| other != waiter);
    }

    fn withdraw(&self) {
        self.bring();
    }

    fn complete(&self) {}
}

/// Of a ticket and a message one is taken, the other is still there; or both are.
fn a_ticket_or_a_message(
    capacity: usize,
    send: fn(&Sender<Message>, &Message) -> usize,
    select: fn(&Tickets, &Receiver<Message>) -> [usize; 2],
) {
    check(PREEMPTIONS, move || {
        let message = Message::new(());
        let (tickets, (sender, receiver)) = (Tickets::default(), channel(capacity));
        let bringing = tickets.brings();
        let sending = {
            let message = Arc::clone(&message);
            spawn(move || send(&sender, &message))
        };
        let [ticket, received] = select(&tickets, &receiver);
        assert!(tickets.0.lock().waiters.is_empty());
        assert!(ticket + received <= 1);
        bringing.join().unwrap();
        assert_eq!(tickets.0.lock().free + ticket, 1);
        if received == 0 {
            drop(receiver.recv().unwrap());
        }
        assert_eq!(sending.join().unwrap(), 1);
        assert_eq!(left(&receiver), 0);
        assert_eq!(Arc::strong_count(&message), 1, "a message is still about");
    });
}

fn send(sender: &Sender<Message>, message: &Message) -> usize {
    usize::from(sender.send(Arc::clone(message)).is_ok())
}

/// Promises a message first, and makes it then.
fn promise(sender: &Sender<Message>, message: &Message) -> usize {
    let mut select = Select::new();
    select.send(sender);
    usize::from(select.select().send(sender, Arc::clone(message)).is_ok())
}

fn take_either<'a>(
    chosen: SelectedOperation<'a>,
    tickets: &'a Tickets,
    receiver: &Receiver<Message>,
) -> [usize; 2] {
    match chosen.index() {
        0 => {
            chosen.complete(tickets);
            [1, 0]
        }
        _ => [0, usize::from(chosen.recv(receiver).is_ok())],
    }
}

fn select_either(tickets: &Tickets, receiver: &Receiver<Message>) -> [usize; 2] {
    let mut select = Select::new();
    select.case(tickets);
    select.recv(receiver);
    take_either(select.select(), tickets, receiver)
}

fn late_select_either(tickets: &Tickets, receiver: &Receiver<Message>) -> [usize; 2] {
    let mut select = Select::new();
    select.case(tickets);
    select.recv(receiver);
    match timed_out(|| select.select_timeout(LATER)) {
        Ok(chosen) => take_either(chosen, tickets, receiver),
        Err(_) => [0, 0],
    }
}

#[test]
fn a_case_of_ones_own() {
    a_ticket_or_a_message(1, send, select_either);
}

#[test]
fn a_case_of_ones_own_and_a_promise() {
    a_ticket_or_a_message(0, promise, select_either);
}

#[test]
fn a_case_of_ones_own_and_a_time_out() {
    a_ticket_or_a_message(1, send, late_select_either);
}
