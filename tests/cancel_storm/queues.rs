//! The channels of `volt::sync`.

use crate::common::Rng;
use crate::ledger::{Ledger, Value};
use crate::weather::{Me, Round, dawdle, micros, storm};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use volt::sync::mpsc::{self, Receiver, RecvTimeoutError};
use volt::sync::{Arc, Mutex, broadcast, oneshot, watch};

/// Takes a few, or till there are none any more; true then.
fn receive(receiver: &Mutex<Receiver<Value>>, me: &mut Me) {
    me.gust("lock and recv", |rng| {
        let receiver = receiver.lock().unwrap();
        for _ in 0..1 + rng.below(4) {
            match rng.below(4) {
                0 => receiver.try_recv().into_iter().for_each(Value::got),
                1 => receiver.recv_timeout(micros(rng, 100)).into_iter().for_each(Value::got),
                2 => receiver.iter().take(2).for_each(Value::got),
                _ => match receiver.recv() {
                    Ok(value) => value.got(),
                    Err(_) => return,
                },
            }
        }
    });
}

/// One who takes whatever is left, to the very end.
fn drain(round: &mut Round, receiver: &Arc<Mutex<Receiver<Value>>>) {
    let receiver = Arc::clone(receiver);
    round.steady(move |me| {
        loop {
            // Others take part, so it lets go now and then.
            let end = me.calm("drain", |rng| {
                let receiver = receiver.lock().unwrap();
                match receiver.recv_timeout(micros(rng, 200)) {
                    Ok(value) => value.got(),
                    Err(error) => return error == RecvTimeoutError::Disconnected,
                }
                false
            });
            if end {
                return;
            }
            volt::yield_now();
        }
    });
}

/// Some send by `send` while others take.
fn mpsc_under<S: Clone + Send + 'static>(
    channel: impl Fn() -> (S, Receiver<Value>),
    crowd: usize,
    send: fn(&S, &Arc<Ledger>, &mut Rng),
) {
    storm(|round| {
        let ledger = Ledger::new();
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        drain(round, &receiver);
        for _ in 0..3 {
            let receiver = Arc::clone(&receiver);
            round.fiber(move |me| receive(&receiver, me));
        }
        let books = Arc::clone(&ledger);
        round.crowd(crowd, move |me| {
            me.gust("send", |rng| {
                send(&sender, &books, rng);
                dawdle(rng);
            });
        });
        round.blow();
        round.settle();
        ledger.check(false);
        assert!(!receiver.is_poisoned());
    });
}

#[test]
fn unbounded_mpsc() {
    mpsc_under(mpsc::channel, 4, |sender, books, _| {
        books.send(|value| sender.send(value));
    });
}

fn bounded_mpsc(bound: usize) {
    mpsc_under(
        move || mpsc::sync_channel(bound),
        6,
        |sender, books, rng| match rng.below(4) {
            0 => books.send(|value| sender.try_send(value)),
            _ => books.send(|value| sender.send(value)),
        },
    );
}

#[test]
fn rendezvous_mpsc() {
    bounded_mpsc(0);
}

#[test]
fn mpsc_of_one() {
    bounded_mpsc(1);
}

#[test]
fn mpsc_of_five() {
    bounded_mpsc(5);
}

/// Who is cut off in `recv` has got the value, or the sender gets it back. After `recv_timeout` the value is still in the
/// channel, and goes with the receiver.
#[test]
fn oneshots() {
    storm(|round| {
        let ledgers = [(); 2].map(|()| Ledger::new());
        for n in 0..60 {
            let (sender, receiver) = oneshot::channel();
            let (patient, books) = (n % 2 == 0, Arc::clone(&ledgers[n % 2]));
            round.once(move |me| {
                dawdle(&mut me.rng);
                match me.rng.below(6) {
                    0 => drop(sender),
                    _ => books.send(|value| sender.send(value)),
                }
            });
            round.once(move |me| {
                let late = |rng: &mut _| receiver.recv_timeout(micros(rng, 60)).map(Value::got);
                if !patient && matches!(me.cut("recv_timeout", late), Some(Ok(()))) {
                    return;
                }
                // What comes out of the timeouts and tokens around it.
                let received = me.gust("recv", |_| receiver.recv());
                received.into_iter().flatten().for_each(Value::got);
            });
        }
        round.blow();
        round.settle();
        let [patient, others] = ledgers;
        patient.check(false);
        others.check(true);
    });
}

#[test]
fn watches() {
    storm(|round| {
        let newest = Arc::new(AtomicU64::new(0));
        let (sender, receiver) = watch::channel(0u64);
        let sender = Arc::new(sender);
        for _ in 0..6 {
            let (mut receiver, mut last) = (receiver.clone(), 0);
            round.fiber(move |me| {
                me.cut("changed", |rng| {
                    let next = match rng.below(3) {
                        0 => *receiver.wait_for(|value| *value > last).unwrap(),
                        1 => *receiver.borrow(),
                        _ => {
                            receiver.changed().unwrap();
                            *receiver.borrow_and_update()
                        }
                    };
                    assert!(next >= last, "back from {last} to {next}");
                    last = next;
                });
            });
        }
        for _ in 0..2 {
            let mut receiver = receiver.clone();
            round.steady(move |me| {
                me.calm("the last value", |_| {
                    let last = *receiver.wait_for(|value| *value == u64::MAX).unwrap();
                    assert_eq!(last, u64::MAX);
                    // And the end.
                    assert!(receiver.changed().is_err());
                });
            });
        }
        drop(receiver);
        let theirs = Arc::clone(&sender);
        round.crowd(2, move |me| {
            me.gust("send", |rng| {
                let next = |value: &mut u64| {
                    *value += 1;
                    newest.fetch_max(*value, SeqCst);
                };
                match rng.below(2) {
                    0 => theirs.send_modify(next),
                    _ => assert!(theirs.send_if_modified(|value| {
                        next(value);
                        true
                    })),
                }
                dawdle(rng);
            });
            me.cut("closed", |_| theirs.closed());
        });
        round.blow();
        assert_eq!(sender.receiver_count(), 2, "those who were cut off are gone");
        sender.send(u64::MAX).unwrap();
        drop(sender);
    });
}

struct Closed;

/// A value if one came, and how many were missed.
fn receive_one(
    receiver: &mut broadcast::Receiver<u64>,
    rng: &mut Rng,
) -> Result<(Option<u64>, u64), Closed> {
    use broadcast::{RecvError, RecvTimeoutError, TryRecvError};
    match rng.below(4) {
        0 => match receiver.recv_timeout(micros(rng, 100)) {
            Ok(value) => Ok((Some(value), 0)),
            Err(RecvTimeoutError::Timeout) => Ok((None, 0)),
            Err(RecvTimeoutError::Lagged(missed)) => Ok((None, missed)),
            Err(RecvTimeoutError::Closed) => Err(Closed),
        },
        1 => match receiver.try_recv() {
            Ok(value) => Ok((Some(value), 0)),
            Err(TryRecvError::Empty) => Ok((None, 0)),
            Err(TryRecvError::Lagged(missed)) => Ok((None, missed)),
            Err(TryRecvError::Closed) => Err(Closed),
        },
        _ => match receiver.recv() {
            Ok(value) => Ok((Some(value), 0)),
            Err(RecvError::Lagged(missed)) => Ok((None, missed)),
            Err(RecvError::Closed) => Err(Closed),
        },
    }
}

/// Each receiver gets a row without a hole that it is not told of.
#[test]
fn broadcasts() {
    storm(|round| {
        let (sender, receiver) = broadcast::channel(8);
        let follow = |mut receiver: broadcast::Receiver<u64>| {
            let mut next = 0;
            move |me: &mut Me, cut: bool| {
                let take = |rng: &mut Rng| {
                    let (got, missed) = match receive_one(&mut receiver, rng) {
                        Ok(got) => got,
                        Err(Closed) => return false,
                    };
                    assert!(got.is_none_or(|value| value == next), "one was lost or doubled");
                    next += missed + u64::from(got.is_some());
                    true
                };
                match cut {
                    true => me.cut("recv", take).unwrap_or(true),
                    false => me.calm("recv to the end", take),
                }
            }
        };
        for _ in 0..6 {
            let mut follow = follow(receiver.resubscribe());
            round.fiber(move |me| _ = follow(me, true));
        }
        for _ in 0..2 {
            let mut follow = follow(receiver.resubscribe());
            round.steady(move |me| while follow(me, false) {});
        }
        drop(receiver);
        let mut number = 0;
        round.thread(move |me| {
            sender.send(number).unwrap();
            number += 1;
            dawdle(&mut me.rng);
        });
        round.blow();
    });
}
