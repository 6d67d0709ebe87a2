//! Under loom: waits of channels end once, and each message has one owner, whoever comes when.
//!
//! The state machine and the settling are the real ones; a fiber is a loom thread with a real state
//! word, which sleeps where a fiber would leave its worker. What a waiter does around its wait is
//! spelled out here as `core.rs` and `engine.rs` do it.

use super::*;
use crate::fiber::{Ends, Outcome, Settle, State as Word};
use crate::primitives::sync::{Arc, Mutex};
use loom::sync::Notify;
use loom::thread;
use std::mem::MaybeUninit;

const CANCELLABLE: Ends = Ends { permit: false, cancel: true, blocks: false, outside: false };

struct Fiber {
    word: Word,
    bed: Notify,
}

/// Alive while its model runs: held by the model's main thread.
#[derive(Clone, Copy, PartialEq)]
struct FiberPtr(*const Fiber);

// SAFETY: as the type says; the fields are shared as atomics are.
unsafe impl Send for FiberPtr {}
// SAFETY: as above.
unsafe impl Sync for FiberPtr {}

impl FiberPtr {
    fn fiber(&self) -> &Fiber {
        // SAFETY: alive.
        unsafe { &*self.0 }
    }
}

impl Party for FiberPtr {
    type Wake = FiberPtr;

    unsafe fn settle(self, result: u32) -> Result<Option<FiberPtr>, Lost> {
        match self.fiber().word.settle(Outcome::Woken(result)) {
            Settle::Late => Err(Lost),
            Settle::Noted => Ok(None),
            Settle::Wake | Settle::WakeCounted | Settle::Unblock => Ok(Some(self)),
        }
    }
}

impl Fiber {
    fn new() -> Arc<Fiber> {
        let fiber = Fiber { word: Word::fresh(), bed: Notify::new() };
        assert!(fiber.word.start());
        Arc::new(fiber)
    }

    fn party(&self) -> FiberPtr {
        FiberPtr(self)
    }

    fn park(&self, ends: Ends) -> Outcome {
        if self.word.publish(ends).is_ok() {
            while self.word.load().is_parked() {
                self.bed.wait();
            }
        }
        self.word.load().outcome()
    }

    fn end(&self, outcome: Outcome) {
        self.woken(self.word.settle(outcome));
    }

    fn cancel(&self) {
        self.woken(self.word.cancel());
    }

    fn woken(&self, settle: Settle) {
        if settle == Settle::Wake {
            self.bed.notify();
        }
    }
}

/// A message that must not be lost or doubled: loom reports one that is never dropped.
type Message = Box<loom::alloc::Track<u32>>;

fn message(number: u32) -> Message {
    Box::new(loom::alloc::Track::new(number))
}

type Channel = Arc<Mutex<State<Message, FiberPtr>>>;

fn channel(capacity: usize) -> Channel {
    Arc::new(Mutex::new(State::new(Some(capacity))))
}

fn with<R>(
    channel: &Channel,
    step: impl FnOnce(&mut State<Message, FiberPtr>, &mut Wakes<FiberPtr>) -> R,
) -> R {
    let mut wakes = Wakes::new();
    let result = step(&mut channel.lock(), &mut wakes);
    wakes.each(|fiber| fiber.fiber().bed.notify());
    result
}

fn try_send(channel: &Channel, number: u32) -> Result<(), Message> {
    let mut slot = MaybeUninit::new(message(number));
    // SAFETY: it holds a message, and does so still if it was not sent.
    unsafe {
        match with(channel, |state, wakes| state.send(slot.as_mut_ptr(), wakes)) {
            Sent::Done => Ok(()),
            Sent::Full | Sent::Disconnected => Err(slot.assume_init()),
        }
    }
}

fn try_recv(channel: &Channel) -> Option<Message> {
    let mut slot = MaybeUninit::uninit();
    // SAFETY: room for a message.
    match with(channel, |state, wakes| unsafe { state.receive(slot.as_mut_ptr(), wakes) }) {
        // SAFETY: so says the answer.
        Received::Done => Some(unsafe { slot.assume_init() }),
        _ => None,
    }
}

/// One wait on several channels, on one side: which of them ended it, and how. It is open since the
/// fiber is there, so that a time-out may come at any point.
fn wait(
    fiber: &Arc<Fiber>,
    channels: &[&Channel],
    side: Side,
    slot: *mut (),
) -> Option<(usize, End)> {
    let node = |i| Node::new(fiber.party(), i as u32, slot);
    let nodes: Vec<_> = (0..channels.len()).map(node).collect();
    let mut linked = 0;
    for (channel, node) in channels.iter().zip(&nodes) {
        let possible = with(channel, |state, wakes| {
            let possible = state.is_possible(side, Some(fiber.party()));
            if !possible {
                // SAFETY: unlinked below.
                unsafe { state.link(NonNull::from(node), side, wakes) };
            }
            possible
        });
        if possible {
            break;
        }
        linked += 1;
    }
    let outcome = if linked == channels.len() {
        fiber.park(CANCELLABLE)
    } else {
        fiber.end(Outcome::Woken(u32::MAX));
        fiber.word.load().outcome()
    };
    for (channel, node) in channels.iter().zip(&nodes).take(linked) {
        if node.end() == End::Open {
            // SAFETY: linked there.
            with(channel, |state, _| unsafe { state.unlink(NonNull::from(node), side) });
        }
    }
    match outcome {
        Outcome::Woken(u32::MAX) | Outcome::TimedOut | Outcome::Cancelled => None,
        Outcome::Woken(i) => {
            nodes[i as usize].reclaim();
            Some((i as usize, nodes[i as usize].end()))
        }
    }
}

/// Receives from any of the channels; `None` if the wait was ended otherwise.
fn receive(fiber: &Arc<Fiber>, channels: &[&Channel]) -> Option<Message> {
    let mut slot = MaybeUninit::<Message>::uninit();
    let found = channels.iter().find_map(|channel| try_recv(channel));
    if found.is_some() {
        return found;
    }
    match wait(fiber, channels, Side::Receive, slot.as_mut_ptr().cast())? {
        // SAFETY: so says the end.
        (_, End::Done) => Some(unsafe { slot.assume_init() }),
        (i, End::Promised) => collect(fiber, channels[i]),
        (_, end) => panic!("{end:?}"),
    }
}

fn collect(fiber: &Arc<Fiber>, channel: &Channel) -> Option<Message> {
    let mut slot = MaybeUninit::<Message>::uninit();
    fiber.word.begin_wait();
    let node = Node::new(fiber.party(), 0, slot.as_mut_ptr().cast());
    // SAFETY: room for a message; what was promised is collected once; unlinked by its end.
    let collected = with(channel, |state, wakes| unsafe {
        let collected = state.collect(slot.as_mut_ptr());
        if collected == Collected::NotYet {
            state.link(NonNull::from(&node), Side::Collect, wakes);
        }
        collected
    });
    let done = match collected {
        Collected::Done => true,
        Collected::Withdrawn => false,
        Collected::NotYet => {
            assert_eq!(fiber.park(Ends::default()), Outcome::Woken(0));
            if node.end() == End::Open {
                drop(channel.lock());
            }
            node.reclaim();
            assert!(matches!(node.end(), End::Done | End::Look), "{:?}", node.end());
            node.end() == End::Done
        }
    };
    // SAFETY: so says the answer.
    done.then(|| unsafe { slot.assume_init() })
}

/// Sends to the channel, and waits for that; the message comes back if the wait was ended otherwise.
fn send(fiber: &Arc<Fiber>, channel: &Channel, number: u32) -> Result<(), Message> {
    let slot = message(number);
    let mut slot = MaybeUninit::new(slot);
    // SAFETY: it holds a message, and does so still if it was not sent.
    unsafe {
        let sent = with(channel, |state, wakes| state.send(slot.as_mut_ptr(), wakes));
        if sent == Sent::Done {
            return Ok(());
        }
        match wait(fiber, &[channel], Side::Send, slot.as_mut_ptr().cast()) {
            Some((0, End::Done)) => Ok(()),
            None => Err(slot.assume_init()),
            end => panic!("{end:?}"),
        }
    }
}

/// The send of a select whose message is made when it was chosen; false if the wait was ended
/// otherwise.
fn select_send(fiber: &Arc<Fiber>, channel: &Channel, make: Option<u32>) -> bool {
    let chosen = with(channel, |state, wakes| state.promise(wakes)) == Sent::Done
        || wait(fiber, &[channel], Side::Send, std::ptr::null_mut()) == Some((0, End::Promised));
    match make {
        _ if !chosen => return false,
        Some(number) => {
            let mut slot = MaybeUninit::new(message(number));
            // SAFETY: it holds a message, and a promise was made.
            let kept =
                with(channel, |state, wakes| unsafe { state.keep(slot.as_mut_ptr(), wakes) });
            assert_eq!(kept, Sent::Done);
        }
        None => with(channel, |state, wakes| state.withdraw(wakes)),
    }
    true
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(model);
}

/// How many messages the channel still has.
fn left(channel: &Channel) -> usize {
    std::iter::from_fn(|| try_recv(channel)).count()
}

/// A message that was sent is received or left, and nothing else is.
fn a_wait_for_a_message_and_a(capacity: usize, ending: fn(&Fiber)) {
    check(move || {
        let (fiber, channel) = (Fiber::new(), channel(capacity));
        let sender = thread::spawn({
            let channel = Arc::clone(&channel);
            move || try_send(&channel, 1).is_ok()
        });
        let end = thread::spawn({
            let fiber = Arc::clone(&fiber);
            move || ending(&fiber)
        });
        let received = receive(&fiber, &[&channel]).is_some();
        let sent = sender.join().unwrap();
        end.join().unwrap();
        assert_eq!(usize::from(sent), usize::from(received) + left(&channel));
    });
}

#[test]
fn a_receive_a_send_and_a_time_out() {
    a_wait_for_a_message_and_a(1, |fiber| fiber.end(Outcome::TimedOut));
}

#[test]
fn a_receive_a_send_and_a_cancel() {
    a_wait_for_a_message_and_a(1, Fiber::cancel);
}

#[test]
fn a_rendezvous_and_a_time_out() {
    a_wait_for_a_message_and_a(0, |fiber| fiber.end(Outcome::TimedOut));
}

#[test]
fn a_rendezvous_and_a_cancel() {
    a_wait_for_a_message_and_a(0, Fiber::cancel);
}

/// A full channel's waiting sender: its message is received, left, or its own again.
fn a_wait_for_room_and_a(capacity: usize, ending: fn(&Fiber)) {
    check(move || {
        let (fiber, channel) = (Fiber::new(), channel(capacity));
        let first = try_send(&channel, 1).is_ok();
        let receiver = thread::spawn({
            let channel = Arc::clone(&channel);
            move || try_recv(&channel).is_some()
        });
        let end = thread::spawn({
            let fiber = Arc::clone(&fiber);
            move || ending(&fiber)
        });
        let sent = usize::from(send(&fiber, &channel, 2).is_ok()) + usize::from(first);
        let received = usize::from(receiver.join().unwrap());
        end.join().unwrap();
        assert_eq!(sent, received + left(&channel));
    });
}

#[test]
fn a_send_a_receive_and_a_time_out() {
    a_wait_for_room_and_a(1, |fiber| fiber.end(Outcome::TimedOut));
}

#[test]
fn a_waiting_sender_a_rendezvous_and_a_cancel() {
    a_wait_for_room_and_a(0, Fiber::cancel);
}

/// A select over two channels receives from one of them, whatever comes to both.
fn a_select_over_two_and_a(capacity: usize, ending: Option<fn(&Fiber)>) {
    check(move || {
        let (fiber, one, two) = (Fiber::new(), channel(capacity), channel(capacity));
        let mut others: Vec<_> = [&one, &two]
            .map(|channel| {
                let channel = Arc::clone(channel);
                thread::spawn(move || try_send(&channel, 1).is_ok())
            })
            .into();
        others.extend(ending.map(|ending| {
            let fiber = Arc::clone(&fiber);
            thread::spawn(move || {
                ending(&fiber);
                false
            })
        }));
        let mut received = usize::from(receive(&fiber, &[&one, &two]).is_some());
        let sent =
            others.into_iter().filter_map(|other| other.join().unwrap().then_some(())).count();
        received += left(&one) + left(&two);
        assert_eq!(sent, received);
    });
}

/// Ends a wait that nobody else may end.
fn time_out(fiber: &Fiber) {
    fiber.end(Outcome::TimedOut);
}

#[test]
fn a_select_two_sends_and_a_time_out() {
    a_select_over_two_and_a(1, Some(time_out));
}

#[test]
fn a_select_two_rendezvous_and_a_cancel() {
    a_select_over_two_and_a(0, Some(Fiber::cancel));
}

#[test]
fn a_select_and_two_sends() {
    a_select_over_two_and_a(1, None);
}

/// A select's send and a receive of a rendezvous, either of which may come first, while the
/// receiver's wait may be ended.
fn a_promise(make: Option<u32>) {
    check(move || {
        let (fiber, theirs, channel) = (Fiber::new(), Fiber::new(), channel(0));
        let sender = thread::spawn({
            let (theirs, channel) = (Arc::clone(&theirs), Arc::clone(&channel));
            move || select_send(&theirs, &channel, make)
        });
        let end = thread::spawn({
            let (fiber, theirs) = (Arc::clone(&fiber), Arc::clone(&theirs));
            move || {
                // The receiver gives up, and then nobody comes to the sender.
                fiber.cancel();
                theirs.cancel();
            }
        });
        let mut slot = MaybeUninit::<Message>::uninit();
        // SAFETY: room for a message.
        let received =
            with(&channel, |state, wakes| unsafe { state.receive(slot.as_mut_ptr(), wakes) });
        let received = match received {
            Received::Promised => collect(&fiber, &channel),
            Received::Empty => {
                let slot = slot.as_mut_ptr().cast();
                match wait(&fiber, &[&channel], Side::Receive, slot) {
                    Some((0, End::Promised)) => collect(&fiber, &channel),
                    None => None,
                    end => panic!("{end:?}"),
                }
            }
            other => panic!("{other:?}"),
        };
        let chosen = sender.join().unwrap();
        end.join().unwrap();
        assert_eq!(received.is_some(), chosen && make.is_some());
        assert_eq!(left(&channel), 0);
    });
}

#[test]
fn a_promise_that_is_kept() {
    a_promise(Some(1));
}

#[test]
fn a_promise_that_is_withdrawn() {
    a_promise(None);
}
