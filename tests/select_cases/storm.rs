//! Random selects with time-outs and cancels: each effect happens once, nothing is lost or left behind.

use crate::common::{LONG, Rng, Seed, until, within};
use crate::helpers::{Numbers, Place};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use volt::cancel::Token;
use volt::channel::{Receiver, Select, never, select, unbounded};
use volt::sync::Notify;
use volt::time::after;

#[derive(Default)]
struct Shared {
    notify: [Notify; 2],
    /// Notifications that a select or a wait has taken.
    taken: [AtomicUsize; 2],
    numbers: Numbers,
    /// Sum of the numbers and of the messages that were taken.
    sum: AtomicU64,
    stopped: AtomicBool,
}

impl Shared {
    fn took(&self, which: usize) {
        self.taken[which].fetch_add(1, Ordering::SeqCst);
    }

    fn got(&self, number: u64) {
        self.sum.fetch_add(number, Ordering::SeqCst);
    }
}

/// One wait of one of them.
fn one(shared: &Shared, messages: &Receiver<u64>, token: &Token, rng: &mut Rng) {
    let short = Duration::from_micros(rng.below(80));
    match rng.below(6) {
        0 => select! {
            wait(shared.notify[0]) -> () => shared.took(0),
            wait(shared.notify[1]) -> () => shared.took(1),
            recv(messages) -> n => if let Ok(n) = n { shared.got(n) },
            wait(shared.numbers) -> n => shared.got(n),
            wait(after(short)) -> _ => {}
        },
        1 => select! {
            wait(shared.numbers) -> n => shared.got(n),
            wait(shared.notify[1]) -> () => shared.took(1),
            wait(token) -> () => {}
            default(short) => {}
        },
        2 => {
            let which = rng.below(2) as usize;
            if shared.notify[which].notified_timeout(short) {
                shared.took(which);
            }
        }
        3 => {
            let mut select = Select::new();
            let nothing = never::<()>();
            select.recv(&nothing);
            let first = select.case(&shared.notify[0]);
            let second = select.case(&shared.notify[1]);
            let third = select.case(&shared.numbers);
            if select.ready_timeout(short).is_err() {
                return;
            }
            if let Ok(operation) = select.select_timeout(short) {
                match operation.index() {
                    n if n == first => {
                        operation.complete(&shared.notify[0]);
                        shared.took(0);
                    }
                    n if n == second => {
                        operation.complete(&shared.notify[1]);
                        shared.took(1);
                    }
                    n => {
                        assert_eq!(n, third);
                        shared.got(operation.complete(&shared.numbers));
                    }
                }
            }
        }
        4 => {
            let _ = volt::timeout(short, || {
                select! {
                    wait(shared.notify[1]) -> () => shared.took(1),
                    wait(shared.notify[0]) -> () => shared.took(0),
                    wait(shared.numbers) -> n => shared.got(n),
                }
            });
        }
        _ => {
            let fiber = volt::go(volt::yield_now);
            select! {
                wait(fiber) -> () => fiber.join().unwrap(),
                recv(messages) -> n => if let Ok(n) = n { shared.got(n) },
                wait(shared.notify[0]) -> () => shared.took(0),
            }
        }
    }
}

fn storm(place: Place, notifications: usize) {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let shared = Arc::new(Shared::default());
    let token = Token::new();
    let (sender, messages) = unbounded::<u64>();
    let finished = Arc::new(AtomicUsize::new(0));
    let mut workers = 0;
    for _ in 0..6 {
        workers += 1;
        let (shared, messages, token) = (Arc::clone(&shared), messages.clone(), token.clone());
        let (finished, mut rng) = (Arc::clone(&finished), rng.fork());
        place.go(move || {
            while !shared.stopped.load(Ordering::SeqCst) {
                one(&shared, &messages, &token, &mut rng);
            }
            finished.fetch_add(1, Ordering::SeqCst);
        });
    }
    // Fibers that are cancelled at some moment, again and again.
    workers += 1;
    let canceller = {
        let (shared, messages, token) = (Arc::clone(&shared), messages.clone(), token.clone());
        let (finished, mut rng) = (Arc::clone(&finished), rng.fork());
        move || {
            while !shared.stopped.load(Ordering::SeqCst) {
                let fibers: Vec<_> = (0..4)
                    .map(|_| {
                        let (shared, messages) = (Arc::clone(&shared), messages.clone());
                        let (token, mut rng) = (token.clone(), rng.fork());
                        volt::go(move || {
                            for _ in 0..5 {
                                one(&shared, &messages, &token, &mut rng);
                            }
                        })
                    })
                    .collect();
                volt::sleep(Duration::from_micros(rng.below(60)));
                fibers.iter().for_each(volt::JoinHandle::cancel);
                fibers.into_iter().for_each(|fiber| drop(fiber.join()));
            }
            finished.fetch_add(1, Ordering::SeqCst);
        }
    };
    drop(volt::go(canceller));
    // The next notification comes when the last has been taken: a lost one is waited for in vain, a
    // doubled one counts twice.
    let mut sum = 0;
    for n in 1..=notifications {
        for which in 0..2 {
            shared.notify[which].notify_one();
        }
        let number = rng.below(1 << 30);
        sum += 2 * number;
        shared.numbers.put(number);
        sender.send(number).unwrap();
        if rng.below(4) == 0 {
            shared.numbers.disturb();
        }
        for which in 0..2 {
            until("a notification that is taken", || {
                let taken = shared.taken[which].load(Ordering::SeqCst);
                assert!(taken <= n, "one was taken twice");
                taken == n
            });
        }
    }
    until("all numbers", || shared.sum.load(Ordering::SeqCst) == sum);
    shared.stopped.store(true, Ordering::SeqCst);
    until("all who wait", || {
        // For those who wait without a time-out.
        (0..2).for_each(|which| shared.notify[which].notify_waiters());
        finished.load(Ordering::SeqCst) == workers
    });
    assert_eq!(shared.sum.load(Ordering::SeqCst), sum);
    assert_eq!(shared.numbers.left(), []);
    assert_eq!(shared.numbers.waiting(), 0);
    drop(seed);
}

#[test]
fn on_fibers() {
    within(2 * LONG, || storm(Place::Fiber, 600));
}

#[test]
fn on_threads() {
    within(2 * LONG, || storm(Place::Thread, 300));
}
