//! Random operations, time-outs and cancels: every message that was sent is received once or left.

use crate::common::{LONG, Rng, Seed, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use volt::channel::{Receiver, Select, Sender, bounded, select, unbounded};

/// A message that counts itself.
struct Message {
    id: u64,
    books: Arc<Books>,
}

#[derive(Default)]
struct Books {
    made: AtomicUsize,
    dropped: AtomicUsize,
    /// The sums tell which were doubled or lost, not only how many.
    sent: AtomicU64,
    received: AtomicU64,
}

impl Message {
    fn new(books: &Arc<Books>, id: u64) -> Message {
        books.made.fetch_add(1, Ordering::Relaxed);
        Message { id, books: Arc::clone(books) }
    }

    /// It was taken out of a channel.
    fn receive(self) {
        self.books.received.fetch_add(self.id, Ordering::Relaxed);
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.books.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Books a send as it happens: a cancelled one does not get so far.
fn sent(books: &Books, id: u64) {
    books.sent.fetch_add(id, Ordering::Relaxed);
}

type Ends = (Sender<Message>, Receiver<Message>);

fn wait(rng: &mut Rng) -> Duration {
    Duration::from_micros(rng.below(60))
}

fn one_send(books: &Arc<Books>, (one, two): (&Sender<Message>, &Sender<Message>), rng: &mut Rng) {
    let id = rng.next() >> 20;
    match rng.below(5) {
        0 => {
            if one.try_send(Message::new(books, id)).is_ok() {
                sent(books, id);
            }
        }
        1 => {
            if one.send_timeout(Message::new(books, id), wait(rng)).is_ok() {
                sent(books, id);
            }
        }
        2 => select! {
            send(one, Message::new(books, id)) -> done => if done.is_ok() { sent(books, id) },
            send(two, Message::new(books, id)) -> done => if done.is_ok() { sent(books, id) },
            default(wait(rng)) => {}
        },
        3 => {
            let mut select = Select::new();
            let (a, b) = (select.send(one), select.send(two));
            let chosen = select.select_timeout(wait(rng));
            if let Ok(operation) = chosen {
                let s = if operation.index() == a { one } else { two };
                assert!(operation.index() == a || operation.index() == b);
                if operation.send(s, Message::new(books, id)).is_ok() {
                    sent(books, id);
                }
            }
        }
        _ => {
            if one.send(Message::new(books, id)).is_ok() {
                sent(books, id);
            }
        }
    }
}

fn one_receive(one: &Receiver<Message>, two: &Receiver<Message>, rng: &mut Rng) -> bool {
    let got = match rng.below(4) {
        0 => one.try_recv().ok(),
        1 => one.recv_timeout(wait(rng)).ok(),
        2 => select! {
            recv(one) -> got => got.ok(),
            recv(two) -> got => got.ok(),
            default(wait(rng)) => None,
        },
        _ => select! {
            recv(two) -> got => got.ok(),
            recv(one) -> got => got.ok(),
        },
    };
    let any = got.is_some();
    got.into_iter().for_each(Message::receive);
    any
}

/// Senders and receivers on fibers and threads, without cancels: sums are exact.
fn storm(one: Ends, two: Ends, seed: &Seed, rounds: u64) {
    let books = Arc::new(Books::default());
    let mut rng = seed.rng();
    let mut senders: Vec<Box<dyn FnOnce()>> = Vec::new();
    let mut receivers: Vec<Box<dyn FnOnce()>> = Vec::new();
    for k in 0..6 {
        let ((s1, _), (s2, _)) = if k % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let (books, s1, s2, mut own) = (Arc::clone(&books), s1.clone(), s2.clone(), rng.fork());
        let send = move || (0..rounds).for_each(|_| one_send(&books, (&s1, &s2), &mut own));
        let ((_, r1), (_, r2)) = if k % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let (r1, r2, mut own) = (r1.clone(), r2.clone(), rng.fork());
        let receive = move || {
            // Ends when both are disconnected and empty.
            while one_receive(&r1, &r2, &mut own) || !over(&r1) || !over(&r2) {}
        };
        if k < 4 {
            let (a, b) = (volt::go(send), volt::go(receive));
            senders.push(Box::new(move || a.join().unwrap()));
            receivers.push(Box::new(move || b.join().unwrap()));
        } else {
            let (a, b) = (std::thread::spawn(send), std::thread::spawn(receive));
            senders.push(Box::new(move || a.join().unwrap()));
            receivers.push(Box::new(move || b.join().unwrap()));
        }
    }
    drop((one, two));
    senders.into_iter().for_each(|join| join());
    receivers.into_iter().for_each(|join| join());
    let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    assert_eq!(books.sent.load(Ordering::Relaxed), books.received.load(Ordering::Relaxed));
    assert_eq!(load(&books.made), load(&books.dropped));
}

/// Disconnected and empty; a message that it finds is received.
fn over(r: &Receiver<Message>) -> bool {
    match r.try_recv() {
        Ok(message) => {
            message.receive();
            false
        }
        Err(error) => error.is_disconnected(),
    }
}

#[test]
fn time_outs() {
    for (a, b) in [(0, 0), (0, 1), (1, 3)] {
        within(LONG, move || {
            let seed = Seed::new();
            storm(bounded(a), bounded(b), &seed, 1500);
        });
    }
    within(LONG, || storm(unbounded(), bounded(0), &Seed::new(), 1500));
}

/// Fibers that send and receive without an end and are cancelled: what was made is dropped once, what
/// was received was sent, and the channels are as good as before.
#[test]
fn cancels() {
    for (a, b) in [(0, 0), (1, 0), (2, 2)] {
        within(LONG, move || {
            let seed = Seed::new();
            let mut rng = seed.rng();
            let (one, two): (Ends, Ends) = (bounded(a), bounded(b));
            let books = Arc::new(Books::default());
            for _ in 0..40 {
                let spawn = |k: u64| {
                    let (one, two) = if k % 2 == 0 { (&one, &two) } else { (&two, &one) };
                    let ((s1, r1), (s2, r2)) = (one.clone(), two.clone());
                    let (books, mut own) = (Arc::clone(&books), Rng::new(seed.0 ^ (k << 40)));
                    volt::go(move || {
                        loop {
                            if k % 4 < 2 {
                                one_send(&books, (&s1, &s2), &mut own);
                            } else {
                                one_receive(&r1, &r2, &mut own);
                            }
                            volt::yield_now();
                            // On one worker those that are left may serve each other in turn, so that none
                            // ever waits in a channel.
                            if own.below(64) == 0 {
                                volt::sleep(Duration::from_micros(10));
                            }
                        }
                    })
                };
                let fibers: Vec<_> = (0..12).map(|k| spawn(k + rng.below(1000) * 12)).collect();
                std::thread::sleep(Duration::from_micros(rng.below(600)));
                fibers.iter().for_each(|fiber| fiber.cancel());
                let ended: Vec<_> = fibers.into_iter().map(|fiber| fiber.join()).collect();
                assert!(ended.iter().all(Result::is_err));
            }
            // What was left; then each channel works, and no waiter is left behind.
            for r in [&one.1, &two.1] {
                while let Ok(message) = r.try_recv() {
                    message.receive();
                }
            }
            assert_eq!(books.made.load(Ordering::Relaxed), books.dropped.load(Ordering::Relaxed));
            let received = books.received.load(Ordering::Relaxed);
            assert_eq!(books.sent.load(Ordering::Relaxed), received);
            for (s, r) in [one, two] {
                let capacity = s.capacity().unwrap();
                (0..capacity).for_each(|i| {
                    assert!(s.try_send(Message::new(&books, i as u64)).is_ok());
                });
                assert!(s.try_send(Message::new(&books, 0)).unwrap_err().is_full());
                assert_eq!(r.try_iter().count(), capacity);
            }
        });
    }
}
