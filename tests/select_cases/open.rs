//! What a case of somebody's own may do: anything.

use crate::common::waits::until_waits;
use crate::common::{LONG, within};
use crate::helpers::{Numbers, Probe, everywhere};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use volt::JoinHandle;
use volt::channel::{Case, Receiver, Select, Waiter, bounded, select, unbounded};
use volt::sync::Event;

/// Calls `on` with what it is asked for.
struct Does<F>(F);

#[derive(Clone, Copy, PartialEq)]
enum Asked {
    Attempt,
    Register,
    Unregister,
    Complete,
    Withdraw,
}

impl<F: Fn(Asked, Option<&Waiter>) -> bool + Sync> Case for Does<F> {
    type Output<'a>
        = bool
    where
        F: 'a;

    fn attempt(&self) -> bool {
        (self.0)(Asked::Attempt, None)
    }

    fn is_ready(&self) -> bool {
        (self.0)(Asked::Attempt, None)
    }

    fn register(&self, waiter: &Waiter) -> bool {
        (self.0)(Asked::Register, Some(waiter))
    }

    fn unregister(&self, waiter: &Waiter) {
        (self.0)(Asked::Unregister, Some(waiter));
    }

    fn complete(&self) -> bool {
        (self.0)(Asked::Complete, None)
    }

    fn withdraw(&self) {
        (self.0)(Asked::Withdraw, None);
    }
}

#[test]
fn it_may_choose_while_it_is_registered() {
    everywhere(|_| {
        let probe = Probe::new();
        let at_once = Does(|asked, waiter: Option<&Waiter>| match asked {
            Asked::Attempt => false,
            Asked::Register => waiter.unwrap().choose(),
            _ => true,
        });
        for _ in 0..100 {
            select! {
                wait(*probe) -> () => {}
                wait(at_once) -> done => assert!(done),
            }
        }
        assert!(probe.is_idle());
    });
}

#[test]
fn of_two_that_choose_while_they_are_registered_one_does() {
    everywhere(|_| {
        let chosen = AtomicUsize::new(0);
        let one = |asked, waiter: Option<&Waiter>| match asked {
            Asked::Register => {
                chosen.fetch_add(usize::from(waiter.unwrap().choose()), Ordering::SeqCst);
                true
            }
            Asked::Complete => true,
            _ => false,
        };
        let (a, b) = (Does(one), Does(one));
        for n in 1..=100 {
            select! {
                wait(a) -> done => assert!(done),
                wait(b) -> done => assert!(done),
            }
            assert_eq!(chosen.load(Ordering::SeqCst), n);
        }
    });
}

#[test]
fn it_may_wait_itself() {
    everywhere(|_| {
        // With a lock of volt's that is contended, and with sleeps; while other cases come.
        let lock = Arc::new(volt::sync::Mutex::new(0));
        let (s, r) = unbounded();
        let notify = Arc::new(volt::sync::Notify::new());
        let noise = {
            let (lock, notify) = (Arc::clone(&lock), Arc::clone(&notify));
            volt::go(move || {
                for n in 0..200 {
                    let mut guard = lock.lock().unwrap();
                    volt::yield_now();
                    *guard += 1;
                    drop(guard);
                    notify.notify_one();
                    s.send(n).unwrap();
                    volt::yield_now();
                }
            })
        };
        let slow = Does(|asked, _: Option<&Waiter>| {
            *lock.lock().unwrap() += 1;
            volt::sleep(Duration::from_micros(1));
            asked == Asked::Register
        });
        let mut received = 0;
        while received < 200 {
            select! {
                wait(slow) -> _ => unreachable!(),
                recv(r) -> n => { assert_eq!(n, Ok(received)); received += 1; }
                wait(*notify) -> () => {}
            }
        }
        noise.join().unwrap();
    });
}

#[test]
fn what_it_waits_for_is_not_the_selects() {
    everywhere(|_| {
        // Its wait ends by a wake; the others must not be taken for what woke it.
        let joins = Does(|asked, _: Option<&Waiter>| {
            if matches!(asked, Asked::Register | Asked::Unregister) {
                volt::go(volt::yield_now).join().unwrap();
            }
            asked == Asked::Register
        });
        let (event, token) = (volt::sync::Event::new(), volt::cancel::Token::new());
        let (s, r) = unbounded();
        for n in 0..50 {
            let s = s.clone();
            volt::go(move || {
                volt::sleep(Duration::from_micros(200));
                s.send(n).unwrap();
            });
            select! {
                wait(event) -> () => panic!("nobody sets it"),
                wait(token) -> () => panic!("nobody cancels it"),
                wait(joins) -> _ => unreachable!(),
                recv(r) -> message => assert_eq!(message, Ok(n)),
            }
        }
    });
}

/// A place, or a receiver, was kept for the select before another case's code panicked.
#[test]
fn a_panic_gives_back_what_was_chosen() {
    everywhere(|_| {
        for capacity in [0, 1] {
            let registered = Arc::new(AtomicBool::new(false));
            let panics = Does(|asked, _: Option<&Waiter>| {
                assert!(asked != Asked::Unregister, "as it was told");
                if asked == Asked::Register {
                    registered.store(true, Ordering::SeqCst);
                }
                asked == Asked::Register
            });
            let (s, r) = bounded(capacity);
            if capacity == 1 {
                s.send(0).unwrap();
            }
            let theirs = Arc::clone(&registered);
            let receiver = volt::go(move || {
                // Not before: the send would be possible at once, and nothing be registered.
                while !theirs.load(Ordering::SeqCst) {
                    volt::yield_now();
                }
                volt::sleep(Duration::from_micros(500));
                r.iter().collect::<Vec<_>>()
            });
            let ended = catch_unwind(AssertUnwindSafe(|| {
                select! {
                    send(s, 1) -> _ => panic!("it was sent"),
                    wait(panics) -> _ => {}
                }
            }));
            assert!(ended.is_err());
            s.send(2).unwrap();
            drop(s);
            let expected = if capacity == 1 { vec![0, 2] } else { vec![2] };
            assert_eq!(receiver.join().unwrap(), expected);
        }
    });
}

/// A fiber that was given the message in a select, whose other case then panics when `lets_go` is set.
struct Fails {
    lets_go: Arc<Event>,
    fiber: JoinHandle<()>,
}

impl Fails {
    fn after<T: Send + 'static>(r: &Receiver<T>, send: impl FnOnce()) -> Fails {
        let (lets_go, r) = (Arc::new(Event::new()), r.clone());
        let theirs = Arc::clone(&lets_go);
        let fiber = volt::go(move || {
            let panics = Does(|asked, _: Option<&Waiter>| {
                if asked == Asked::Unregister {
                    theirs.wait();
                    panic!("as it was told");
                }
                asked == Asked::Register
            });
            select! {
                recv(r) -> _ => unreachable!("the other one panics"),
                wait(panics) -> _ => unreachable!(),
            }
        });
        until_waits("select", &fiber);
        send();
        Fails { lets_go, fiber }
    }

    fn fail(self) {
        self.lets_go.set();
        assert!(self.fiber.join().is_err());
    }
}

#[test]
fn a_message_goes_back_if_another_case_panics() {
    everywhere(|_| {
        for capacity in [None, Some(2), Some(1), Some(0)] {
            for makes_it_late in [false, true] {
                let (s, r) = capacity.map_or_else(unbounded, bounded);
                let one = Arc::new(());
                let fails = Fails::after(&r, || match makes_it_late {
                    false => s.send(Arc::clone(&one)).unwrap(),
                    true => select! { send(s, Arc::clone(&one)) -> sent => sent.unwrap() },
                });
                assert!(r.try_recv().is_err());
                fails.fail();
                assert_eq!(Arc::strong_count(&one), 2, "neither lost nor dropped");
                assert_eq!(r.try_recv(), Ok(Arc::clone(&one)));
                assert!(r.try_recv().is_err());
                // Nobody receives it.
                let fails = Fails::after(&r, || s.send(Arc::clone(&one)).unwrap());
                drop(r);
                fails.fail();
                assert_eq!(Arc::strong_count(&one), 1);
            }
        }
    });
}

#[test]
fn a_message_that_goes_back_is_the_next_one() {
    everywhere(|_| {
        for capacity in [None, Some(1)] {
            // The queue, and the place that is kept for a sender, are taken meanwhile.
            let (s, r) = capacity.map_or_else(unbounded, bounded);
            let fails = Fails::after(&r, || s.send(1).unwrap());
            s.send(2).unwrap();
            fails.fail();
            s.try_send(3).unwrap_or_else(|_| assert!(capacity.is_some()));
            assert_eq!((r.recv(), r.recv()), (Ok(1), Ok(2)));
            let (s, r) = capacity.map_or_else(unbounded, bounded);
            let fails = Fails::after(&r, || s.send(1).unwrap());
            let permit = select! { wait(s) -> permit => permit };
            fails.fail();
            permit.send(2).unwrap();
            assert_eq!((r.recv(), r.recv()), (Ok(1), Ok(2)));
        }
        for capacity in [None, Some(1), Some(0)] {
            let (s, r) = capacity.map_or_else(unbounded, bounded);
            let fails = Fails::after(&r, || s.send(1).unwrap());
            let waits = volt::go(move || r.recv());
            until_waits("receive from a channel", &waits);
            fails.fail();
            assert_eq!(waits.join().unwrap(), Ok(1));
            drop(s);
        }
    });
}

#[test]
fn its_panics_come_out_and_leave_nothing_behind() {
    everywhere(|_| {
        for at in [Asked::Attempt, Asked::Register, Asked::Unregister, Asked::Complete] {
            let (numbers, probe) = (Numbers::new(), Probe::new());
            let (_s, r) = unbounded::<u8>();
            let notify = volt::sync::Notify::new();
            let wakes = Mutex::new(None::<Waiter>);
            let panics = Does(|asked, waiter: Option<&Waiter>| {
                if asked == at {
                    panic!("as it was told");
                }
                if asked == Asked::Register {
                    *wakes.lock().unwrap() = waiter.cloned();
                    return waiter.unwrap().choose();
                }
                false
            });
            let ended = catch_unwind(AssertUnwindSafe(|| {
                select! {
                    wait(*numbers) -> _ => {}
                    wait(*probe) -> () => {}
                    recv(r) -> _ => {}
                    wait(notify) -> () => {}
                    wait(panics) -> _ => {}
                }
            }));
            assert!(ended.is_err());
            assert!(probe.is_idle());
            assert_eq!(numbers.waiting(), 0);
            if let Some(late) = wakes.into_inner().unwrap() {
                assert!(!late.choose());
                late.wake();
            }
            notify.notify_one();
            assert!(notify.notified_timeout(Duration::ZERO), "nobody is in line");
        }
    });
}

#[test]
fn what_was_chosen_is_withdrawn_if_another_case_panics() {
    everywhere(|_| {
        let withdrawn = AtomicUsize::new(0);
        let given = Does(|asked, waiter: Option<&Waiter>| match asked {
            Asked::Register => waiter.unwrap().choose(),
            Asked::Withdraw => withdrawn.fetch_add(1, Ordering::SeqCst) == 0,
            _ => false,
        });
        let panics = Does(|asked, _: Option<&Waiter>| match asked {
            Asked::Register => panic!("as it was told"),
            _ => false,
        });
        let mut select = Select::new_biased();
        select.case(&given);
        select.case(&panics);
        assert!(catch_unwind(AssertUnwindSafe(|| select.select().index())).is_err());
        assert_eq!(withdrawn.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn wakes_for_nothing_are_looked_into() {
    everywhere(|other| {
        let numbers = Numbers::new();
        let probe = Probe::new();
        let theirs = (Arc::clone(&numbers), Arc::clone(&probe));
        let disturb = move || {
            let (numbers, probe) = theirs;
            for n in 1..20 {
                crate::common::until("another look", || {
                    numbers.disturb();
                    probe.attempts.load(Ordering::SeqCst) > n
                });
            }
            numbers.put(1);
        };
        match other {
            crate::helpers::Place::Fiber => drop(volt::go(|| volt::blocking(disturb))),
            crate::helpers::Place::Thread => other.go(disturb),
        }
        select! {
            wait(*numbers) -> n => assert_eq!(n, 1),
            wait(*probe) -> () => {}
        }
        assert!(probe.is_idle());
    });
}

#[test]
fn waiters_that_are_kept_find_nobody() {
    within(LONG, || {
        let numbers = Numbers::that_keep();
        let fibers: Vec<_> = (0..200)
            .map(|n| {
                let numbers = Arc::clone(&numbers);
                volt::go(move || {
                    select! {
                        wait(*numbers) -> _ => panic!("there is none"),
                        default(Duration::from_micros(1_000 + n)) => {}
                    }
                })
            })
            .collect();
        // While they wait, as they leave, and when they are gone, stack and all.
        for fiber in fibers {
            numbers.kept().iter().for_each(Waiter::wake);
            fiber.join().unwrap();
        }
        let kept = numbers.kept();
        assert!(!kept.is_empty());
        assert!(kept.iter().all(|waiter| !waiter.choose()));
        std::thread::spawn(move || kept.iter().for_each(Waiter::wake)).join().unwrap();
    });
}

#[test]
fn while_a_promised_message_is_made_a_waiter_finds_nobody() {
    everywhere(|other| {
        let (numbers, probe) = (Numbers::new(), Probe::new());
        let (s, r) = volt::channel::bounded(0);
        let theirs = (Arc::clone(&numbers), Arc::clone(&probe));
        let send = move || {
            let (numbers, probe) = theirs;
            probe.await_wait();
            select! {
                send(s, {
                    // The receiver was chosen and waits for this.
                    volt::sleep(Duration::from_millis(1));
                    numbers.put(7);
                    5
                }) -> sent => sent.unwrap(),
            }
        };
        match other {
            crate::helpers::Place::Fiber => drop(volt::go(|| volt::blocking(send))),
            crate::helpers::Place::Thread => other.go(send),
        }
        select! {
            recv(r) -> message => assert_eq!(message, Ok(5)),
            wait(numbers) -> _ => panic!("there was none"),
            wait(probe) -> () => {}
        }
        assert_eq!(numbers.left(), [7]);
        assert!(probe.is_idle());
    });
}

#[test]
fn waiters_are_told_apart() {
    let seen = Mutex::new(Vec::<Waiter>::new());
    let keeps = |asked, waiter: Option<&Waiter>| {
        if asked == Asked::Register {
            seen.lock().unwrap().push(waiter.unwrap().clone());
        }
        true
    };
    let two = |asked, waiter: Option<&Waiter>| asked != Asked::Attempt && keeps(asked, waiter);
    let (a, b) = (Does(two), Does(two));
    while seen.lock().unwrap().len() < 4 {
        select! {
            wait(a) -> _ => {}
            wait(b) -> _ => {}
            default(Duration::from_micros(500)) => {}
        }
    }
    let seen = seen.lock().unwrap();
    for (n, one) in seen.iter().enumerate() {
        assert!(seen.iter().enumerate().all(|(m, other)| (one == other) == (n == m)));
    }
}

#[test]
fn many_of_them() {
    everywhere(|_| {
        let numbers: Vec<_> = (0..500).map(|_| Numbers::new()).collect();
        let theirs = Arc::clone(&numbers[321]);
        volt::go(move || theirs.put(7));
        let mut select = Select::new();
        numbers.iter().for_each(|one| _ = select.case(&**one));
        let operation = select.select();
        assert_eq!(operation.index(), 321);
        assert_eq!(operation.complete(&*numbers[321]), 7);
        assert!(numbers.iter().all(|one| one.waiting() == 0));
    });
}

/// Waits for a lock as it lets go of the waiter.
struct Locks(volt::sync::Mutex<()>);

impl Case for Locks {
    type Output<'a> = ();

    fn attempt(&self) -> bool {
        false
    }

    fn is_ready(&self) -> bool {
        false
    }

    fn register(&self, _: &Waiter) -> bool {
        true
    }

    fn unregister(&self, _: &Waiter) {
        drop(self.0.lock().unwrap());
    }

    fn complete(&self) {}
}

/// It has the message by then.
#[test]
fn a_cancel_while_a_case_lets_go_loses_no_message() {
    volt::runtime::Builder::new_current_thread().build().unwrap().run(|| {
        let locks = Arc::new(Locks(volt::sync::Mutex::new(())));
        let (sender, receiver) = bounded(1);
        let theirs = Arc::clone(&locks);
        let selects = volt::go(move || {
            select! {
                recv(receiver) -> message => message.unwrap(),
                wait(theirs) -> () => 0,
            }
        });
        volt::yield_now();
        let locked = locks.0.lock().unwrap();
        sender.send(7).unwrap();
        volt::yield_now();
        selects.cancel();
        volt::yield_now();
        drop(locked);
        assert_eq!(selects.join().unwrap(), 7);
    });
}
