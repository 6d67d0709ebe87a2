//! `select!`: its syntax, and what it chooses.

use crate::harness::{everywhere, ms, on_each};
use std::time::{Duration, Instant};
use volt::channel::{
    Receiver, RecvError, SendError, Sender, TryRecvError, after, bounded, never, select,
    select_biased, tick, unbounded,
};

#[test]
fn the_one_that_is_ready() {
    on_each(|| {
        let ((s1, r1), (s2, r2)) = (unbounded::<i32>(), unbounded::<String>());
        s1.send(1).unwrap();
        select! {
            recv(r1) -> message => assert_eq!(message, Ok(1)),
            recv(r2) -> _ => panic!(),
        }
        s2.send("two".into()).unwrap();
        select! {
            recv(r1) -> _ => panic!(),
            recv(r2) -> message => assert_eq!(message.as_deref(), Ok("two")),
        }
        drop(s1);
        select! {
            recv(r1) -> message => assert_eq!(message, Err(RecvError)),
            recv(r2) -> _ => panic!(),
        }
    });
}

#[test]
fn it_waits_for_messages() {
    everywhere(|one, two| {
        for capacity in [0, 1, 10] {
            let ((s1, r1), (s2, r2)) = (bounded(capacity), bounded(capacity));
            let sender = one.go(move || {
                for i in 0..500 {
                    if i % 3 == 0 { s1.send(i).unwrap() } else { s2.send(i).unwrap() }
                }
                (s1, s2)
            });
            let receiver = two.go(move || {
                let mut sum = 0;
                for _ in 0..500 {
                    select! {
                        recv(r1) -> i => sum += i.unwrap(),
                        recv(r2) -> i => sum += i.unwrap(),
                    }
                }
                sum
            });
            let senders = sender.join();
            assert_eq!(receiver.join(), 500 * 499 / 2);
            drop(senders);
        }
    });
}

#[test]
fn it_waits_for_room() {
    everywhere(|one, two| {
        for capacity in [0, 1, 10] {
            let ((s1, r1), (s2, r2)) = (bounded(capacity), bounded(capacity));
            let sender = one.go(move || {
                let mut counts = [0, 0];
                for i in 0..500 {
                    select! {
                        send(s1, i) -> sent => { sent.unwrap(); counts[0] += 1 }
                        send(s2, i) -> sent => { sent.unwrap(); counts[1] += 1 }
                    }
                }
                counts
            });
            let receivers = [r1, r2].map(|r| two.go(move || r.iter().count()));
            assert_eq!(sender.join(), receivers.map(|receiver| receiver.join()));
        }
    });
}

#[test]
fn select_meets_select() {
    everywhere(|one, two| {
        let (s, r) = bounded::<u64>(0);
        let (quiet_s, quiet_r) = bounded::<u64>(0);
        let idle = (quiet_s.clone(), quiet_r.clone());
        let sender = one.go(move || {
            for i in 0..500 {
                select! {
                    send(s, i) -> sent => sent.unwrap(),
                    recv(quiet_r) -> _ => panic!("nobody sends"),
                }
            }
        });
        let receiver = two.go(move || {
            let mut sum = 0;
            for _ in 0..500 {
                select! {
                    recv(r) -> i => sum += i.unwrap(),
                    recv(never::<u64>()) -> _ => panic!(),
                }
            }
            sum
        });
        sender.join();
        assert_eq!(receiver.join(), 500 * 499 / 2);
        drop((idle, quiet_s));
    });
}

#[test]
fn both_sides_of_one_channel() {
    // Two partners that each offer to send and to receive: they meet, and nobody meets himself.
    everywhere(|one, two| {
        let (s, r) = bounded::<usize>(0);
        let partner = |s: Sender<usize>, r: Receiver<usize>, me: usize| {
            move || {
                for _ in 0..300 {
                    select! {
                        send(s, me) -> sent => sent.unwrap(),
                        recv(r) -> other => assert_ne!(other, Ok(me)),
                    }
                }
            }
        };
        let a = one.go(partner(s.clone(), r.clone(), 1));
        let b = two.go(partner(s.clone(), r.clone(), 2));
        a.join();
        b.join();
        select! {
            send(s, 0) -> _ => panic!("met himself"),
            recv(r) -> _ => panic!("met himself"),
            default(ms(2)) => {}
        }
    });
}

#[test]
fn defaults() {
    on_each(|| {
        let (s, r) = bounded::<i32>(0);
        let mut ran = 0;
        select! { recv(r) -> _ => panic!(), default => ran += 1 }
        let unchosen = || -> i32 { panic!("made for nobody") };
        select! { send(s, unchosen()) -> _ => panic!(), default => ran += 1, }
        select! { default => ran += 1 }
        select! { default() => ran += 1 }
        let start = Instant::now();
        select! { recv(r) -> _ => panic!(), default(ms(3)) => ran += 1 }
        select! { default(ms(3)) => { ran += 1; } }
        assert!(start.elapsed() >= ms(6));
        select! { default(ms(0),) => ran += 1, recv(&r,) -> _ => panic!() }
        assert_eq!(ran, 7);
        let (s2, r2) = unbounded();
        s2.send(1).unwrap();
        select! { default => panic!(), recv(r2) -> one => assert_eq!(one, Ok(1)) }
        drop(s);
        select! { recv(r) -> gone => assert!(gone.is_err()), default => panic!() }
    });
}

fn sender_of<T>(s: &Sender<T>) -> &Sender<T> {
    s
}

#[test]
fn syntax() {
    let (s, r) = unbounded::<(i32, &str)>();
    let boxed = Box::new(r.clone());
    let maybe: Option<&Receiver<(i32, &str)>> = [].first();
    // A value, patterns, temporaries, references, blocks as handles, and commas or not.
    let value = select! {
        recv(maybe.unwrap_or(&never())) -> _ => unreachable!(),
        recv({ let b = &boxed; b.as_ref() }) -> _ => unreachable!(),
        send(sender_of(&s), (1, "one"),) -> (Ok(()) | Err(_)) => { "sent" }
        recv(after(Duration::from_secs(60)),) -> _ => "late",
        recv(tick(Duration::from_secs(60))) -> _ => { "tick" },
        default(Duration::from_secs(60)) => "never"
    };
    assert_eq!(value, "sent");
    let number = select! {
        recv(r) -> message => {
            let (number, text) = message.unwrap();
            assert_eq!(text, "one");
            number
        }
    };
    assert_eq!(number, 1);
}

#[test]
fn control_flow_leaves_the_bodies() {
    fn first(r: &Receiver<u32>) -> Result<u32, RecvError> {
        loop {
            select! {
                recv(r) -> number => match number? {
                    0 => continue,
                    1 => break,
                    number => return Ok(number),
                },
            }
        }
        Ok(1)
    }
    let (s, r) = unbounded();
    [0, 0, 5, 0, 1].into_iter().for_each(|number| s.send(number).unwrap());
    assert_eq!((first(&r), first(&r)), (Ok(5), Ok(1)));
    drop(s);
    assert_eq!(first(&r), Err(RecvError));
}

#[test]
fn handles_can_be_moved_in_the_bodies() {
    let (s, r) = unbounded();
    s.send(Box::new(1)).unwrap();
    select! {
        recv(r) -> message => { drop(message); drop(r); drop(s); }
        default => { drop(r); drop(s); }
    }
    let (s, r) = unbounded::<Vec<u8>>();
    let text = vec![1, 2];
    select! { send(s, text) -> sent => { sent.unwrap(); drop(s) } }
    assert_eq!(r.recv(), Ok(vec![1, 2]));
}

#[test]
fn types_are_inferred() {
    let (s, r) = unbounded();
    select! { recv(r) -> _ => {} default => {} }
    select! { send(s, 7u16) -> _ => {} }
    let (s2, r2) = bounded(1);
    select! { send(s2, None) -> _ => {} }
    assert_eq!((r.recv(), r2.recv()), (Ok(7), Ok(None::<String>)));
}

#[test]
fn many_cases() {
    let channels: Vec<_> = (0..7).map(|_| unbounded::<usize>()).collect();
    for (i, (s, _)) in channels.iter().enumerate() {
        s.send(i).unwrap();
        let chosen = select! {
            recv(channels[0].1) -> m => (0, m),
            recv(channels[1].1) -> m => (1, m),
            recv(channels[2].1) -> m => (2, m),
            recv(channels[3].1) -> m => (3, m),
            recv(channels[4].1) -> m => (4, m),
            recv(channels[5].1) -> m => (5, m),
            recv(channels[6].1) -> m => (6, m),
        };
        assert_eq!(chosen, (i, Ok(i)));
    }
    let late = select! {
        recv(channels[0].1) -> _ => false,
        recv(channels[1].1) -> _ => false,
        recv(channels[2].1) -> _ => false,
        recv(channels[3].1) -> _ => false,
        recv(channels[4].1) -> _ => false,
        recv(channels[5].1) -> _ => false,
        default(ms(2)) => true,
    };
    assert!(late);
}

#[test]
fn it_is_fair() {
    on_each(|| {
        const COUNT: usize = 6_000;
        let ((s1, r1), (s2, r2), (_s, empty)) = (bounded(COUNT), unbounded(), bounded::<()>(1));
        (0..COUNT).for_each(|_| {
            s1.send(()).unwrap();
            s2.send(()).unwrap();
        });
        let (s3, r3) = bounded::<()>(COUNT);
        let mut hits = [0; 4];
        for _ in 0..COUNT {
            select! {
                recv(r1) -> _ => hits[0] += 1,
                recv(r2) -> _ => hits[1] += 1,
                recv(empty) -> _ => unreachable!(),
                send(s3, ()) -> _ => hits[2] += 1,
                recv(after(ms(0))) -> _ => hits[3] += 1,
            }
        }
        assert!(hits.iter().all(|hits| *hits > COUNT / 4 * 8 / 10), "{hits:?}");
        drop(r3);
    });
}

/// Two cases at one channel: found ready, and waited for.
#[test]
fn so_is_one_of_two() {
    on_each(|| {
        const COUNT: usize = 400;
        let (ask, asked) = unbounded();
        let (s, r) = unbounded();
        let sender = volt::go(move || asked.iter().for_each(|()| s.send(()).unwrap()));
        for waits in [false, true] {
            let mut hits = [0; 2];
            (0..COUNT).filter(|_| !waits).for_each(|_| ask.send(()).unwrap());
            while !waits && r.len() < COUNT {
                volt::yield_now();
            }
            for _ in 0..COUNT {
                if waits {
                    // With one worker the other fiber answers when this one waits.
                    ask.send(()).unwrap();
                }
                select! {
                    recv(r) -> _ => hits[0] += 1,
                    recv(r) -> _ => hits[1] += 1,
                }
            }
            assert!(hits.iter().all(|hits| *hits > COUNT / 4), "{hits:?}, waits: {waits}");
        }
        drop(ask);
        sender.join().unwrap();
    });
}

#[test]
fn the_biased_one_is_not() {
    on_each(|| {
        let ((s1, r1), (s2, r2)) = (unbounded(), unbounded());
        for i in 0..100 {
            s1.send(i).unwrap();
            s2.send(i).unwrap();
        }
        for i in 0..200 {
            let first = select_biased! {
                recv(r1) -> message => { assert_eq!(message, Ok(i)); true }
                recv(r2) -> message => { assert_eq!(message, Ok(i - 100)); false }
            };
            assert_eq!(first, i < 100);
        }
    });
}

#[test]
fn a_value_that_panics_gives_the_place_back() {
    on_each(|| {
        for capacity in [0, 1] {
            let (s, r) = bounded::<u8>(capacity);
            let receiver = (capacity == 0).then(|| {
                let r = r.clone();
                volt::go(move || r.recv())
            });
            let theirs = s.clone();
            let failed = volt::go(move || {
                let make = || -> u8 { std::panic::resume_unwind(Box::new("made none")) };
                select! { send(theirs, make()) -> _ => {} }
            });
            assert_eq!(failed.join().unwrap_err().downcast_ref(), Some(&"made none"));
            s.send(5).unwrap();
            match receiver {
                Some(receiver) => assert_eq!(receiver.join().unwrap(), Ok(5)),
                None => assert_eq!(r.try_recv(), Ok(5)),
            }
        }
    });
}

#[test]
fn a_send_to_nobody_gives_the_value_back() {
    on_each(|| {
        let (s, r) = bounded(0);
        drop(r);
        select! { send(s, "back") -> sent => assert_eq!(sent, Err(SendError("back"))) }
    });
}

#[test]
fn large_and_small_messages_in_one_wait() {
    everywhere(|one, two| {
        let ((s1, r1), (s2, r2)) = (bounded::<[u64; 40]>(0), bounded::<u8>(0));
        let (s3, r3) = bounded::<String>(0);
        let sender = one.go(move || {
            for i in 0..200u8 {
                s1.send([u64::from(i); 40]).unwrap();
                s2.send(i).unwrap();
                s3.send(i.to_string()).unwrap();
            }
        });
        let receiver = two.go(move || {
            for i in 0..600 {
                let expected = (i / 3) as u8;
                select! {
                    recv(r1) -> m => assert_eq!(m, Ok([u64::from(expected); 40])),
                    recv(r2) -> m => assert_eq!(m, Ok(expected)),
                    recv(r3) -> m => assert_eq!(m, Ok(expected.to_string())),
                }
            }
        });
        sender.join();
        receiver.join();
    });
}

/// However often what a receive was promised is withdrawn, it takes no more of its stack.
#[test]
fn a_promise_may_be_withdrawn_again_and_again() {
    let runtime = volt::runtime::Builder::new().workers(1).build().unwrap();
    runtime.run(|| {
        let (s, r) = bounded::<[u64; 32]>(0);
        let sender = volt::go(move || {
            (0..20_000).for_each(|_| select! { wait(s) -> permit => drop(permit) });
        });
        while r.try_recv() != Err(TryRecvError::Disconnected) {
            volt::yield_now();
        }
        sender.join().unwrap();
    });
}
