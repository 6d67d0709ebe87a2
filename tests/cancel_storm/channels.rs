//! `volt::channel`, one by one and in selects.

use crate::ledger::{Ledger, Value};
use crate::weather::{Me, Round, dawdle, micros, storm};
use std::sync::Arc;
use std::time::{Duration, Instant};
use volt::channel::{
    Receiver, Select, Sender, after, at, bounded, never, select, select_biased, tick, unbounded,
};

type Ends = (Sender<Value>, Receiver<Value>);

fn send(books: &Arc<Ledger>, one: &Sender<Value>, two: &Sender<Value>, me: &mut Me) {
    let (wait, how) = (micros(&mut me.rng, 80), me.rng.below(7));
    me.gust("send", |rng| match how {
        0 => books.send(|value| one.try_send(value)),
        1 => books.send(|value| one.send_timeout(value, wait)),
        2 => books.send(|value| one.send_deadline(value, Instant::now() + wait)),
        3 => {
            let (first, second) = (books.value(), books.value());
            let (a, b) = (first.id, second.id);
            select! {
                send(one, first) -> sent => if sent.is_ok() { books.sent(a) },
                send(two, second) -> sent => if sent.is_ok() { books.sent(b) },
            }
        }
        4 => {
            let value = books.value();
            let id = value.id;
            select! {
                send(two, value) -> sent => if sent.is_ok() { books.sent(id) },
                default(wait) => {}
            }
        }
        5 => {
            let mut select = Select::new();
            let first = select.send(one);
            select.send(two);
            if let Ok(chosen) = select.select_timeout(wait) {
                let to = if chosen.index() == first { one } else { two };
                // Between the choice and the value it may be cut off too.
                if rng.below(4) == 0 {
                    volt::yield_now();
                }
                books.send(|value| chosen.send(to, value));
            }
        }
        _ => books.send(|value| one.send(value)),
    });
}

fn receive(one: &Receiver<Value>, two: &Receiver<Value>, me: &mut Me) {
    let (wait, how) = (micros(&mut me.rng, 80), me.rng.below(10));
    me.gust("recv", |rng| match how {
        0 => one.try_recv().into_iter().for_each(Value::got),
        1 => one.recv_timeout(wait).into_iter().for_each(Value::got),
        2 => one.recv_deadline(Instant::now() + wait).into_iter().for_each(Value::got),
        3 => one.iter().take(3).for_each(Value::got),
        4 => select! {
            recv(one) -> got => got.into_iter().for_each(Value::got),
            recv(two) -> got => got.into_iter().for_each(Value::got),
        },
        5 => select! {
            recv(two) -> got => got.into_iter().for_each(Value::got),
            recv(never::<()>()) -> _ => unreachable!(),
            default(wait) => {}
        },
        6 => {
            let mut select = Select::new();
            let first = select.recv(one);
            select.recv(two);
            let chosen = select.select();
            let from = if chosen.index() == first { one } else { two };
            chosen.recv(from).into_iter().for_each(Value::got);
        }
        7 => select_biased! {
            recv(one) -> got => got.into_iter().for_each(Value::got),
            recv(two) -> got => got.into_iter().for_each(Value::got),
        },
        8 => {
            let mut select = Select::new();
            let first = select.recv(one);
            select.recv(two);
            let ready = match rng.below(2) {
                0 => Some(select.ready()),
                _ => select.ready_deadline(Instant::now() + wait).ok(),
            };
            // Another may have taken it meanwhile.
            let from = ready.map(|index| if index == first { one } else { two });
            from.and_then(|from| from.try_recv().ok()).into_iter().for_each(Value::got);
        }
        _ => one.recv().into_iter().for_each(Value::got),
    });
}

/// Takes from both to the very end.
fn drain(round: &mut Round, one: &Receiver<Value>, two: &Receiver<Value>) {
    let (one, two) = (one.clone(), two.clone());
    round.steady(move |me| {
        let mut open = [true, true];
        while open != [false, false] {
            me.calm("drain", |_| {
                let never = never();
                let (a, b) = (if open[0] { &one } else { &never }, if open[1] { &two } else { &never });
                select! {
                    recv(a) -> got => match got { Ok(value) => value.got(), Err(_) => open[0] = false },
                    recv(b) -> got => match got { Ok(value) => value.got(), Err(_) => open[1] = false },
                }
            });
        }
    });
}

fn of(make: impl Fn() -> (Ends, Ends)) {
    storm(|round| {
        let ledger = Ledger::new();
        let ((s1, r1), (s2, r2)) = make();
        drain(round, &r1, &r2);
        for k in 0..4 {
            let (one, two) = if k % 2 == 0 { (&r1, &r2) } else { (&r2, &r1) };
            let (one, two) = (one.clone(), two.clone());
            round.fiber(move |me| receive(&one, &two, me));
        }
        let (one, two) = (r1.clone(), r2.clone());
        round.thread(move |me| receive(&one, &two, me));
        for k in 0..4 {
            let (one, two) = if k % 2 == 0 { (&s1, &s2) } else { (&s2, &s1) };
            let (one, two, books) = (one.clone(), two.clone(), Arc::clone(&ledger));
            round.fiber(move |me| {
                send(&books, &one, &two, me);
                dawdle(&mut me.rng);
            });
        }
        let books = Arc::clone(&ledger);
        round.thread(move |me| send(&books, &s1, &s2, me));
        round.blow();
        round.settle();
        ledger.check(false);
        assert_eq!((r1.len(), r2.len()), (0, 0));
    });
}

#[test]
fn rendezvous() {
    of(|| (bounded(0), bounded(0)));
}

#[test]
fn of_one_and_eight() {
    of(|| (bounded(1), bounded(8)));
}

#[test]
fn of_one_and_none() {
    of(|| (bounded(1), bounded(0)));
}

#[test]
fn without_bound() {
    of(|| (unbounded(), bounded(1)));
}

/// A message comes once, whoever looks for it and stops looking.
#[test]
fn clocks() {
    storm(|round| {
        let begin = Instant::now();
        let times = [after(Duration::from_micros(300)), at(begin + Duration::from_micros(700))];
        let ticks = tick(Duration::from_micros(100));
        let (sender, fired) = unbounded();
        let theirs = times.clone();
        round.crowd(6, move |me| {
            let which = me.rng.below(3) as usize;
            me.cut("recv of a clock", |rng| match which {
                2 => {
                    let _ = ticks.recv();
                }
                _ => {
                    let got = match rng.below(3) {
                        0 => theirs[which].recv().ok(),
                        1 => theirs[which].recv_timeout(micros(rng, 300)).ok(),
                        _ => select! {
                            recv(theirs[which]) -> got => got.ok(),
                            recv(ticks) -> _ => None,
                        },
                    };
                    got.into_iter().for_each(|_| sender.send(which).unwrap());
                }
            });
        });
        round.blow();
        let mut fired: Vec<usize> = fired.iter().collect();
        for (which, time) in times.iter().enumerate() {
            // Due by now, or soon.
            fired.extend(time.recv_timeout(Duration::from_millis(20)).map(|_| which));
        }
        fired.sort_unstable();
        assert_eq!(fired, [0, 1]);
    });
}
