//! Under loom: nothing is lost, doubled or out of order, and nobody waits for ever (loom reports a
//! deadlock), whoever gives up or goes meanwhile.

use super::bounded::Bounded;
use super::unbounded::Unbounded;
use super::{NotReceived, NotSent};
use crate::park::cancelled;
use crate::sync::check;
use loom::sync::Arc;
use loom::thread;

const PREEMPTIONS: usize = 2;

fn received<T>(result: Result<T, NotReceived>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(NotReceived::Disconnected) => None,
        Err(other) => panic!("{other:?}"),
    }
}

/// Receives until the end; checks the order of each sender, whose values are its tens.
fn all(mut recv: impl FnMut() -> Option<u32>) -> Vec<u32> {
    let values: Vec<_> = std::iter::from_fn(&mut recv).collect();
    for who in 0..4 {
        let theirs: Vec<_> = values.iter().filter(|value| **value / 10 == who).collect();
        assert!(theirs.is_sorted(), "{values:?}");
    }
    values
}

/// One sends three, past the end of a block; the receiver waits where it catches up.
#[test]
fn unbounded_one_to_one() {
    check(PREEMPTIONS, || {
        let channel = Arc::new(Unbounded::new());
        let theirs = Arc::clone(&channel);
        let sender = thread::spawn(move || {
            (0..3).for_each(|n| theirs.send(n).unwrap());
            theirs.close();
        });
        // SAFETY: this is the receiver.
        let values = all(|| received(unsafe { channel.recv(None) }));
        assert_eq!(values, [0, 1, 2]);
        sender.join().unwrap();
    });
}

#[test]
fn unbounded_two_to_one() {
    check(PREEMPTIONS, || {
        let channel = Arc::new(Unbounded::new());
        let senders = [0, 10].map(|n| {
            let theirs = Arc::clone(&channel);
            thread::spawn(move || theirs.send(n).unwrap())
        });
        // SAFETY: this is the receiver.
        let sum = (0..2).map(|_| received(unsafe { channel.recv(None) }).unwrap()).sum::<u32>();
        assert_eq!(sum, 10);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// A value of which it is counted that it goes once.
struct Counted(Arc<loom::sync::atomic::AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, loom::sync::atomic::Ordering::Relaxed);
    }
}

/// What the models below use of both channels; the results are told apart only where it matters.
trait Channel<T>: Sized + Send + Sync + 'static {
    fn send_one(&self, value: T) -> bool;

    /// # Safety
    ///
    /// Called by the receiver.
    unsafe fn receive(&self) -> Result<T, NotReceived>;

    /// Takes what is there, and goes.
    ///
    /// # Safety
    ///
    /// Called by the receiver.
    unsafe fn take_and_go(&self);
}

macro_rules! channel {
    ($($name:ident)*) => {
        $(impl<T: Send + 'static> Channel<T> for $name<T> {
            fn send_one(&self, value: T) -> bool {
                self.send(value).is_ok()
            }

            unsafe fn receive(&self) -> Result<T, NotReceived> {
                // SAFETY: passed on.
                unsafe { self.recv(None) }
            }

            unsafe fn take_and_go(&self) {
                // SAFETY: passed on.
                unsafe {
                    drop(self.try_recv());
                    self.abandon();
                }
            }
        })*
    };
}

channel! { Unbounded Bounded }

/// A receiver that gives up loses nothing.
fn receiver_gives_up<C: Channel<u32>>(
    preemptions: usize,
    new: impl Fn() -> C + Sync + Send + 'static,
) {
    check(preemptions, move || {
        let channel = Arc::new(new());
        let theirs = Arc::clone(&channel);
        let sender = thread::spawn(move || assert!(theirs.send_one(1)));
        // SAFETY: this is the receiver.
        let first = cancelled(|| unsafe { channel.receive() });
        if first != Ok(1) {
            assert_eq!(first, Err(NotReceived::Cancelled));
            // SAFETY: as above.
            assert_eq!(unsafe { channel.receive() }, Ok(1));
        }
        sender.join().unwrap();
    });
}

#[test]
fn unbounded_receiver_gives_up() {
    receiver_gives_up(3, Unbounded::new);
}

#[test]
fn bounded_receiver_gives_up() {
    [0, 1]
        .into_iter()
        .for_each(|bound| receiver_gives_up(PREEMPTIONS, move || Bounded::new(bound)));
}

/// Whoever waits for room, or comes, when the receiver goes has its value back, or it goes with it. The
/// receiver's thread sends so many itself `before`.
fn receiver_goes<C: Channel<Counted>>(before: usize, new: impl Fn() -> C + Sync + Send + 'static) {
    check(PREEMPTIONS, move || {
        let drops = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
        let value = || Counted(Arc::clone(&drops));
        let channel = Arc::new(new());
        let (theirs, counts) = (Arc::clone(&channel), Arc::clone(&drops));
        let sender = thread::spawn(move || {
            (0..2).for_each(|_| _ = theirs.send_one(Counted(Arc::clone(&counts))));
        });
        (0..before).for_each(|_| assert!(channel.send_one(value())));
        // SAFETY: this is the receiver.
        unsafe { channel.take_and_go() };
        assert!(!channel.send_one(value()));
        sender.join().unwrap();
        assert_eq!(drops.load(loom::sync::atomic::Ordering::Relaxed), before + 3);
    });
}

#[test]
fn unbounded_receiver_goes() {
    receiver_goes(1, Unbounded::new);
}

#[test]
fn bounded_receiver_goes() {
    [0, 1].into_iter().for_each(|bound| receiver_goes(0, move || Bounded::new(bound)));
}

fn bounded_one_to_one(bound: usize, count: u32) {
    check(PREEMPTIONS, move || {
        let channel = Arc::new(Bounded::new(bound));
        let theirs = Arc::clone(&channel);
        let sender = thread::spawn(move || {
            (0..count).for_each(|n| theirs.send(n).unwrap());
            theirs.close();
        });
        // SAFETY: this is the receiver.
        let values = all(|| received(unsafe { channel.recv(None) }));
        assert_eq!(values, (0..count).collect::<Vec<_>>());
        sender.join().unwrap();
    });
}

#[test]
fn rendezvous_one_to_one() {
    bounded_one_to_one(0, 2);
}

#[test]
fn bound_of_one_one_to_one() {
    bounded_one_to_one(1, 3);
}

#[test]
fn bound_of_two_one_to_one() {
    bounded_one_to_one(2, 3);
}

fn bounded_two_to_one(bound: usize, counts: [u32; 2]) {
    check(PREEMPTIONS, move || {
        let channel = Arc::new(Bounded::new(bound));
        let theirs = Arc::clone(&channel);
        let sender = thread::spawn(move || (0..counts[0]).for_each(|n| theirs.send(n).unwrap()));
        let theirs = Arc::clone(&channel);
        let receiver = thread::spawn(move || {
            let one = |_| {
                // SAFETY: this is the receiver.
                received(unsafe { theirs.recv(None) }).unwrap()
            };
            (0..counts[0] + counts[1]).map(one).collect::<Vec<_>>()
        });
        (10..10 + counts[1]).for_each(|n| channel.send(n).unwrap());
        let mut values = receiver.join().unwrap().into_iter();
        let values = all(|| values.next());
        assert_eq!(values.iter().sum::<u32>(), (0..counts[0]).chain(10..10 + counts[1]).sum());
        sender.join().unwrap();
    });
}

#[test]
fn rendezvous_two_to_one() {
    bounded_two_to_one(0, [1, 1]);
}

#[test]
fn bound_of_one_two_to_one() {
    bounded_two_to_one(1, [1, 1]);
}

/// The receiver takes one value and no more: the room is its sender's all the same.
#[test]
fn room_is_told_once() {
    check(3, || {
        let channel = Arc::new(Bounded::new(1));
        channel.send(0).unwrap();
        let theirs = Arc::clone(&channel);
        let sender = thread::spawn(move || theirs.send(1).unwrap());
        // SAFETY: this is the receiver.
        assert_eq!(unsafe { channel.recv(None) }, Ok(0));
        sender.join().unwrap();
    });
}

fn room_is_told_to_each(bound: usize) {
    check(PREEMPTIONS, move || {
        let channel = Arc::new(Bounded::new(bound));
        (0..bound).for_each(|_| channel.send(0).unwrap());
        let senders = [10, 20].map(|n| {
            let theirs = Arc::clone(&channel);
            thread::spawn(move || theirs.send(n).unwrap())
        });
        // SAFETY: this is the receiver.
        (0..2).for_each(|_| assert!(unsafe { channel.recv(None) }.is_ok()));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// As above, for two that wait.
#[test]
fn room_is_told_to_both_one_by_one() {
    room_is_told_to_each(1);
}

/// The receiver takes a second value while one that was told of room has not come yet.
#[test]
fn room_is_told_to_both_at_once() {
    room_is_told_to_each(2);
}

/// One sender gives up while it waits; its value is its own still, or was received.
#[test]
fn bounded_sender_gives_up() {
    check(PREEMPTIONS, || {
        let channel = Arc::new(Bounded::new(1));
        channel.send(0).unwrap();
        let theirs = Arc::clone(&channel);
        let quitter = thread::spawn(move || match cancelled(|| theirs.send(10)) {
            Ok(()) => 1,
            Err(NotSent::Cancelled(10)) => 0,
            Err(other) => panic!("{other:?}"),
        });
        let theirs = Arc::clone(&channel);
        let sender = thread::spawn(move || theirs.send(20).unwrap());
        // SAFETY: this is the receiver.
        let mut values = all({
            let mut left = 2;
            let channel = &channel;
            move || {
                left -= 1;
                // SAFETY: as above.
                (left >= 0).then(|| unsafe { channel.recv(None) }.unwrap())
            }
        });
        let sent = quitter.join().unwrap();
        sender.join().unwrap();
        // SAFETY: as above.
        values.extend(unsafe { channel.try_recv() });
        values.sort();
        assert_eq!(values, if sent == 1 { vec![0, 10, 20] } else { vec![0, 20] });
    });
}
