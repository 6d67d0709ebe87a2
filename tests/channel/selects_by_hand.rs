//! `Select`.

use crate::harness::{everywhere, ms, on_each};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use volt::channel::{Receiver, RecvError, Select, SendError, bounded, unbounded};

#[test]
fn operations_are_numbered_and_can_be_removed() {
    on_each(|| {
        let ((s1, r1), (s2, r2)) = (unbounded(), unbounded());
        s1.send(1).unwrap();
        let mut select = Select::new();
        assert_eq!((select.recv(&r1), select.recv(&r2), select.send(&s2)), (0, 1, 2));
        select.remove(2);
        assert_eq!(select.select().recv(&r1), Ok(1));
        select.remove(0);
        s1.send(1).unwrap();
        assert!(select.try_select().is_err());
        assert_eq!(select.send(&s2), 3);
        let operation = select.clone().select();
        assert_eq!(operation.index(), 3);
        assert_eq!(operation.send(&s2, 2), Ok(()));
        select.remove(3);
        assert_eq!(select.select().recv(&r2), Ok(2));
        let wrong = |index| catch_unwind(AssertUnwindSafe(|| select.clone().remove(index)));
        assert!(wrong(0).is_err() && wrong(4).is_err() && wrong(1).is_ok());
    });
}

#[test]
fn an_empty_list() {
    on_each(|| {
        let mut select = Select::new();
        assert!(select.try_select().is_err() && select.try_ready().is_err());
        let start = Instant::now();
        assert!(select.select_timeout(ms(2)).is_err() && select.ready_timeout(ms(2)).is_err());
        assert!(start.elapsed() >= ms(4));
        assert!(catch_unwind(AssertUnwindSafe(|| Select::new().select().index())).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| Select::new().ready())).is_err());
    });
}

#[test]
fn what_is_chosen_must_be_completed_with_its_handle() {
    on_each(|| {
        let ((s, r), (_s2, r2)) = (unbounded::<u8>(), unbounded::<u8>());
        s.send(1).unwrap();
        s.send(2).unwrap();
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            let mut select = Select::new();
            select.recv(&r);
            drop(select.select());
        }));
        assert!(dropped.is_err());
        let wrong = catch_unwind(AssertUnwindSafe(|| {
            let mut select = Select::new();
            select.recv(&r);
            let _ = select.select().recv(&r2);
        }));
        assert!(wrong.is_err());
        let (s, r) = bounded::<u8>(1);
        let given_up = catch_unwind(AssertUnwindSafe(|| {
            let mut select = Select::new();
            select.send(&s);
            drop(select.select());
        }));
        assert!(given_up.is_err());
        assert!(!s.is_full(), "the place was given back");
        drop(r);
    });
}

#[test]
fn disconnected_is_ready() {
    on_each(|| {
        let (s, r) = bounded::<u8>(0);
        drop(r);
        let mut select = Select::new();
        select.send(&s);
        assert_eq!(select.ready(), 0);
        assert_eq!(select.select().send(&s, 3), Err(SendError(3)));
        let (s, r) = bounded::<u8>(0);
        drop(s);
        let mut select = Select::new();
        select.recv(&r);
        assert_eq!(select.try_ready(), Ok(0));
        assert_eq!(select.try_select().unwrap().recv(&r), Err(RecvError));
    });
}

#[test]
fn the_end_of_a_channel_ends_the_wait() {
    everywhere(|one, two| {
        for ready in [false, true] {
            let ((s1, r1), (s2, r2)) = (bounded::<u8>(0), bounded::<u8>(0));
            let waiter = one.go(move || {
                let mut select = Select::new();
                select.recv(&r1);
                select.send(&s2);
                if ready {
                    return select.ready() == 0;
                }
                let operation = select.select();
                operation.index() == 0 && operation.recv(&r1).is_err()
            });
            two.go(move || drop(s1)).join();
            assert!(waiter.join());
            drop(r2);
        }
    });
}

#[test]
fn readiness_comes_by_a_message_room_or_a_partner() {
    everywhere(|one, two| {
        for capacity in [0, 1] {
            let (s, r) = bounded(capacity);
            let receiver = one.go(move || {
                for i in 0..100 {
                    let got = loop {
                        let mut select = Select::new();
                        select.recv(&r);
                        assert_eq!(select.ready(), 0);
                        if let Ok(got) = r.try_recv() {
                            break got;
                        }
                    };
                    assert_eq!(got, i);
                }
            });
            let sender = two.go(move || (0..100).for_each(|i| s.send(i).unwrap()));
            sender.join();
            receiver.join();

            let (s, r) = bounded(capacity);
            let sender = one.go(move || {
                for i in 0..100 {
                    let mut message = i;
                    loop {
                        let mut select = Select::new();
                        select.send(&s);
                        assert_eq!(select.ready_timeout(Duration::MAX), Ok(0));
                        match s.try_send(message) {
                            Ok(()) => break,
                            Err(error) => message = error.into_inner(),
                        }
                    }
                }
            });
            let receiver = two.go(move || (0..100).for_each(|i| assert_eq!(r.recv(), Ok(i))));
            sender.join();
            receiver.join();
        }
    });
}

#[test]
fn deadlines() {
    on_each(|| {
        let (_s, r) = unbounded::<u8>();
        let mut select = Select::new();
        select.recv(&r);
        let start = Instant::now();
        assert!(select.select_deadline(start + ms(2)).is_err());
        assert!(select.ready_deadline(start + ms(4)).is_err());
        assert!(start.elapsed() >= ms(4));
        let past = volt::time::Instant::now();
        assert!(select.select_deadline(past).is_err() && select.ready_deadline(past).is_err());
        assert!(select.select_timeout(Duration::ZERO).is_err());
    });
}

/// As if there was no deadline: it waits, and gets what comes.
#[test]
fn endless_timeouts() {
    everywhere(|one, two| {
        let (s, r) = bounded(0);
        let receiver = one.go(move || {
            let mut select = Select::new();
            select.recv(&r);
            let first = select.select_timeout(Duration::MAX).unwrap().recv(&r);
            let second = volt::channel::select! {
                recv(r) -> message => message,
                default(Duration::MAX) => unreachable!("it never comes to that"),
            };
            (first, second)
        });
        for i in 1..=2 {
            receiver.until_waits("select");
            let s = s.clone();
            two.go(move || s.send(i).unwrap()).join();
        }
        assert_eq!(receiver.join(), (Ok(1), Ok(2)));
    });
}

#[test]
fn a_pairing_while_the_message_is_made() {
    everywhere(|one, two| {
        let (s, r) = bounded(0);
        let sender = one.go(move || {
            let mut select = Select::new();
            select.send(&s);
            let operation = select.select();
            // The receiver is kept, whatever its time-out.
            volt::sleep(ms(20));
            operation.send(&s, 7)
        });
        let receiver = two.go(move || {
            loop {
                match r.recv_timeout(ms(5)) {
                    Ok(message) => return message,
                    Err(error) => assert!(error.is_timeout()),
                }
            }
        });
        assert_eq!(sender.join(), Ok(()));
        assert_eq!(receiver.join(), 7);
    });
}

#[test]
fn a_long_list() {
    everywhere(|one, two| {
        let (senders, receivers): (Vec<_>, Vec<Receiver<usize>>) =
            (0..50).map(|i| bounded(i % 3)).unzip();
        let sender = one.go(move || {
            for round in 0..4 {
                senders.iter().for_each(|s| s.send(round).unwrap());
            }
        });
        let receiver = two.go(move || {
            let mut select = Select::new();
            receivers.iter().for_each(|r| {
                select.recv(r);
            });
            let (mut open, mut got) = (receivers.len(), 0);
            while open > 0 {
                let operation = select.select();
                let index = operation.index();
                match operation.recv(&receivers[index]) {
                    Ok(_) => got += 1,
                    Err(RecvError) => {
                        select.remove(index);
                        open -= 1;
                    }
                }
            }
            got
        });
        sender.join();
        assert_eq!(receiver.join(), 200);
    });
}

#[test]
fn a_select_goes_to_another_thread() {
    let (s, r) = unbounded();
    let mut select = Select::new();
    select.recv(&r);
    std::thread::scope(|scope| {
        let r = &r;
        scope.spawn(move || assert_eq!(select.select().recv(r), Ok(1)));
        s.send(1).unwrap();
    });
}

/// A `Select` may be on another thread than a message may: what nobody completes is not dropped there.
#[test]
fn a_message_that_nobody_completes_is_forgotten() {
    let message = Arc::new(());
    let (s, r) = unbounded();
    s.send(Arc::clone(&message)).unwrap();
    let mut select = Select::new();
    select.recv(&r);
    catch_unwind(AssertUnwindSafe(|| drop(select.select()))).unwrap_err();
    drop(select);
    drop((r, s));
    assert_eq!(Arc::strong_count(&message), 2, "dropped by whoever had the operation");
    // SAFETY: the count that was forgotten, so that no leak is reported.
    unsafe { Arc::decrement_strong_count(Arc::as_ptr(&message)) };
}

/// More cases than are noted in one word, of both kinds, each chosen while the select waits.
#[test]
fn of_a_hundred_cases_each_has_its_own_effect() {
    everywhere(|one, two| {
        let channels: Vec<_> = (0..100).map(|_| bounded::<usize>(0)).collect();
        let ours = channels.clone();
        let asks = one.go(move || {
            for expected in 0..100 {
                let mut select = Select::new_biased();
                for (i, (s, r)) in ours.iter().enumerate() {
                    if i % 2 == 0 {
                        select.recv(r)
                    } else {
                        select.send(s)
                    };
                }
                let operation = select.select();
                assert_eq!(operation.index(), expected);
                let (s, r) = &ours[expected];
                match expected % 2 {
                    0 => assert_eq!(operation.recv(r), Ok(expected)),
                    _ => assert_eq!(operation.send(s, expected), Ok(())),
                }
            }
        });
        let answers = two.go(move || {
            for (i, (s, r)) in channels.iter().enumerate() {
                match i % 2 {
                    0 => s.send(i).unwrap(),
                    _ => assert_eq!(r.recv(), Ok(i)),
                }
            }
        });
        asks.join();
        answers.join();
    });
}
