//! Cases against each other: one effect, the others untouched; order, fairness, cancel, misuse.

use crate::common::waits::{until_true, until_waits};
use crate::common::{LONG, until, within};
use crate::helpers::{Numbers, Probe, everywhere};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use volt::cancel::{Cancelled, Token};
use volt::channel::{Case, Receiver, Select, Waiter, bounded, select, unbounded};
use volt::runtime::{Builder, Handle, JoinHandle};
use volt::sync::{Event, Notify};

#[test]
fn of_many_ready_cases_one_has_its_effect_and_each_at_times() {
    everywhere(|_| {
        let (notify, other) = (Notify::new(), Notify::new());
        let numbers = Numbers::new();
        let (s, r) = bounded(1);
        let event = Event::new();
        event.set();
        let token = Token::new();
        token.cancel();
        let ended = volt::go(|| ());
        while !ended.is_finished() {
            volt::yield_now();
        }
        let mut chosen = HashMap::<_, u32>::new();
        for _ in 0..1_000 {
            notify.notify_one();
            other.notify_one();
            let _ = s.try_send(1);
            if numbers.left().is_empty() {
                numbers.put(1);
            }
            let which = select! {
                wait(notify) -> () => "notify",
                wait(other) -> () => "other",
                wait(*numbers) -> n => { assert_eq!(n, 1); "numbers" }
                recv(r) -> message => { assert_eq!(message, Ok(1)); "channel" }
                wait(event) -> () => "event",
                wait(token) -> () => "token",
                wait(ended) -> () => "ended",
                wait(volt::time::after(Duration::ZERO)) -> _ => "time",
            };
            // The others are as they were.
            let left = [
                ("notify", notify.notified_timeout(Duration::ZERO)),
                ("other", other.notified_timeout(Duration::ZERO)),
                ("numbers", !numbers.left().is_empty()),
                ("channel", r.try_recv().is_ok()),
            ];
            for (name, left) in left {
                assert_eq!(left, name != which, "{name} after {which}");
            }
            *chosen.entry(which).or_default() += 1;
        }
        assert_eq!(chosen.len(), 8, "{chosen:?}");
        // 125 each if all are equal; 8 standard deviations.
        assert!(chosen.values().all(|n| (40..=210).contains(n)), "{chosen:?}");
        ended.join().unwrap();
    });
}

#[test]
fn a_biased_select_keeps_its_order() {
    everywhere(|_| {
        let (notify, token) = (Notify::new(), Token::new());
        notify.notify_one();
        token.cancel();
        volt::channel::select_biased! {
            wait(token) -> () => {}
            wait(notify) -> () => panic!("the second"),
        }
        volt::channel::select_biased! {
            wait(notify) -> () => {}
            wait(token) -> () => panic!("the second"),
        }
    });
}

#[test]
fn those_who_wait_for_a_notification_are_served_in_order() {
    within(LONG, || {
        // With one worker a fiber that has its turn gets as far as its wait.
        volt::runtime::Builder::new().workers(1).build().unwrap().run(|| {
            let (notify, probe) = (Arc::new(Notify::new()), Probe::new());
            let (s, order) = unbounded();
            for n in 0..6 {
                let begun = Arc::new(AtomicUsize::new(0));
                let theirs = (Arc::clone(&notify), Arc::clone(&probe), Arc::clone(&begun));
                let s = s.clone();
                volt::go(move || {
                    let (notify, probe, begun) = theirs;
                    begun.store(1, Ordering::SeqCst);
                    // Alternately a select and a plain wait.
                    if n % 2 == 0 {
                        select! {
                            wait(*notify) -> () => {}
                            wait(*probe) -> () => {}
                        }
                    } else {
                        notify.notified();
                    }
                    s.send(n).unwrap();
                });
                while begun.load(Ordering::SeqCst) == 0 {
                    volt::yield_now();
                }
                volt::yield_now();
            }
            for n in 0..6 {
                notify.notify_one();
                assert_eq!(order.recv_timeout(LONG), Ok(n));
            }
        });
    });
}

#[test]
fn the_same_case_twice_and_in_two_selects_at_once() {
    everywhere(|other| {
        let notify = Arc::new(Notify::new());
        let (go_on, stays) = unbounded::<()>();
        let fiber = Arc::new(volt::go(move || stays.recv().is_err()));
        let selected = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let (fiber, selected) = (Arc::clone(&fiber), Arc::clone(&selected));
            let never = Probe::new();
            other.go(move || {
                select! {
                    wait(*fiber) -> () => {}
                    wait(*fiber) -> () => {}
                    wait(*never) -> () => {}
                }
                drop(fiber);
                selected.fetch_add(1, Ordering::SeqCst);
            });
        }
        let theirs = Arc::clone(&notify);
        let twice = volt::go(move || {
            select! {
                wait(*theirs) -> () => {}
                wait(*theirs) -> () => {}
            }
            // One of two was taken.
            theirs.notified_timeout(Duration::ZERO)
        });
        notify.notify_one();
        assert!(!twice.join().unwrap());
        drop(go_on);
        volt::blocking(|| until("three selects", || selected.load(Ordering::SeqCst) == 3));
        assert!(Arc::into_inner(fiber).unwrap().join().unwrap());
    });
}

/// Some of them have been at something else meanwhile, and stand behind the others then.
#[test]
fn those_who_wait_for_the_same_fiber_go_on_in_the_order_of_their_coming() {
    const SELECTS: usize = 8;
    within(LONG, || {
        // From outside they are woken one behind the other; a worker's own last wake would run first. And whoever
        // comes while others run is behind them: no look at the injector in between.
        let outside = Builder::new().workers(1).build().unwrap();
        let runtime = Builder::new_current_thread().injector_every(1_000).build().unwrap();
        runtime.run(|| {
            let (go_on, stays) = unbounded::<()>();
            let fiber = Arc::new(outside.go(move || stays.recv().is_err()));
            let (told, order) = unbounded();
            let (waiting, is_waiting) = unbounded();
            let others = [(); SELECTS].map(|()| unbounded::<()>());
            let selects = |n: usize| {
                let (fiber, hears) = (Arc::clone(&fiber), others[n].1.clone());
                let (told, waiting) = (told.clone(), waiting.clone());
                volt::go(move || {
                    let mut waits = true;
                    while waits {
                        waiting.send(n).unwrap();
                        select! {
                            wait(*fiber) -> () => waits = false,
                            recv(hears) -> _ => {}
                        }
                    }
                    told.send(n).unwrap();
                })
            };
            let until_it_waits = |n, fiber: &JoinHandle<()>| {
                assert_eq!(is_waiting.recv(), Ok(n));
                until_waits("select", fiber);
            };
            let fibers = std::array::from_fn::<_, SELECTS, _>(|n| {
                let fiber = selects(n);
                until_it_waits(n, &fiber);
                fiber
            });
            for n in [3, 6] {
                others[n].0.send(()).unwrap();
                until_it_waits(n, &fibers[n]);
            }
            drop(go_on);
            assert_eq!(order.iter().take(SELECTS).collect::<Vec<_>>(), [0, 1, 2, 4, 5, 7, 3, 6]);
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
}

#[test]
fn a_handle_is_joined_in_the_body_and_by_nobody_else() {
    everywhere(|_| {
        let mut fibers: Vec<_> = (0..20).map(|n| volt::go(move || n)).collect();
        let mut sum = 0;
        while !fibers.is_empty() {
            let mut select = Select::new();
            fibers.iter().for_each(|fiber| _ = select.case(fiber));
            let operation = select.select();
            let number = operation.index();
            operation.complete(&fibers[number]);
            sum += fibers.swap_remove(number).join().unwrap();
        }
        assert_eq!(sum, 190);
    });
}

#[test]
fn a_cancel_takes_nothing() {
    everywhere(|_| {
        let (notify, numbers, probe) = (Arc::new(Notify::new()), Numbers::new(), Probe::new());
        let theirs = (Arc::clone(&notify), Arc::clone(&numbers), Arc::clone(&probe));
        let fiber = volt::go(move || {
            let (notify, numbers, probe) = theirs;
            select! {
                wait(*notify) -> () => {}
                wait(*numbers) -> _ => {}
                wait(*probe) -> () => {}
            }
        });
        let theirs = Arc::clone(&probe);
        volt::blocking(move || theirs.await_wait());
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        assert!(probe.is_idle());
        assert_eq!(numbers.waiting(), 0);
        notify.notify_one();
        assert!(notify.notified_timeout(Duration::ZERO), "nobody stands in line");
        numbers.put(3);
        assert_eq!(numbers.left(), [3]);
    });
}

#[test]
fn a_timeout_and_a_token_around_it_end_it() {
    everywhere(|_| {
        let (notify, probe) = (Notify::new(), Probe::new());
        let ended = volt::timeout(Duration::from_millis(1), || {
            select! {
                wait(notify) -> () => {}
                wait(*probe) -> () => {}
            }
        });
        assert!(ended.is_err() && probe.is_idle());
        let token = Token::new();
        let theirs = (token.clone(), Arc::clone(&probe));
        volt::go(move || {
            volt::blocking(|| theirs.1.await_wait());
            theirs.0.cancel();
        });
        assert!(
            token.run(|| select! { wait(notify) -> () => {}, wait(*probe) -> () => {} }).is_err()
        );
        notify.notify_one();
        assert!(notify.notified_timeout(Duration::ZERO));
    });
}

#[test]
fn an_operation_that_is_thrown_away_is_withdrawn() {
    everywhere(|_| {
        let (notify, numbers) = (Notify::new(), Numbers::new());
        notify.notify_one();
        let mut select = Select::new();
        select.case(&notify);
        let thrown = catch_unwind(AssertUnwindSafe(|| drop(select.select())));
        assert!(thrown.is_err(), "says so");
        assert!(notify.notified_timeout(Duration::ZERO), "given back");
        numbers.put(9);
        let mut select = Select::new();
        select.case(&*numbers);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(select.select()))).is_err());
        assert_eq!((numbers.left(), numbers.withdrawn()), (vec![9], 1));
    });
}

#[test]
fn what_went_to_all_who_waited_is_not_given_back() {
    everywhere(|other| {
        let (notify, over) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let theirs = (Arc::clone(&notify), Arc::clone(&over));
        let (ends, ended) = bounded::<()>(0);
        // Not kept: only a select that waits is chosen by it.
        other.go(move || {
            let _ends = ends;
            while !theirs.1.load(Ordering::SeqCst) {
                theirs.0.notify_waiters();
                volt::yield_now();
            }
        });
        let mut select = Select::new();
        select.case(&*notify);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(select.select()))).is_err());
        over.store(true, Ordering::SeqCst);
        assert!(ended.recv().is_err());
        assert!(!notify.notified_timeout(Duration::ZERO), "nothing was taken");
    });
}

#[test]
fn losers_leave_the_waiter_alone() {
    everywhere(|_| {
        for _ in 0..5 {
            let (token, event) = (Token::new(), Arc::new(Event::new()));
            let notify = Arc::new(Notify::new());
            let (go_on, stays) = unbounded::<()>();
            let mut set = volt::scope::JoinSet::new();
            let waits = stays.clone();
            set.go(move || waits.recv().is_err());
            let fiber = volt::go(move || stays.recv().is_err());
            let listener = volt::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let mut client = volt::net::TcpStream::connect(address).unwrap();
            let (server, _) = listener.accept().unwrap();
            let (s, r) = bounded(0);
            volt::go(move || s.send(()).unwrap());
            select! {
                recv(r) -> message => message.unwrap(),
                wait(token) -> () => unreachable!(),
                wait(event) -> () => unreachable!(),
                wait(notify) -> () => unreachable!(),
                wait(fiber) -> () => unreachable!(),
                wait(set) -> () => unreachable!(),
                wait(server.readable()) -> _ => unreachable!(),
            }
            // They come while the same fiber or thread waits for something else.
            let theirs = (token.clone(), Arc::clone(&event), Arc::clone(&notify));
            let brings = std::thread::spawn(move || {
                theirs.0.cancel();
                theirs.1.set();
                theirs.2.notify_one();
                drop(go_on);
                std::io::Write::write_all(&mut client, b"x").unwrap();
                client
            });
            loop {
                let start = Instant::now();
                volt::sleep(Duration::from_millis(4));
                assert!(start.elapsed() >= Duration::from_millis(4), "woken by one that had lost");
                if brings.is_finished() {
                    break;
                }
            }
            brings.join().unwrap();
            select! { wait(server.readable()) -> ready => ready.unwrap() }
            assert!(fiber.join().unwrap() && set.join_next().unwrap().unwrap());
            assert!(notify.notified_timeout(Duration::ZERO));
        }
    });
}

/// The time of one exchange with a fiber that waits for messages and for a cancel, beside those who do too.
fn exchange(stop: &Token) -> Duration {
    const ROUNDS: u32 = 100;
    let (asks, asked) = unbounded::<()>();
    let (answers, answered) = unbounded();
    let fiber = volt::go(serve(stop.clone(), asked, move || answers.send(()).unwrap()));
    // The shortest of some: what else the machine does is not in it.
    let shortest = (0..20).map(|_| {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            asks.send(()).unwrap();
            answered.recv().unwrap();
        }
        start.elapsed() / ROUNDS
    });
    let shortest = shortest.min().unwrap();
    drop(asks);
    fiber.join().unwrap();
    shortest
}

/// Serves until nobody asks any more, or there is a cancel.
fn serve(stop: Token, asked: Receiver<()>, mut answer: impl FnMut()) -> impl FnOnce() {
    move || loop {
        select! {
            recv(asked) -> ask => if ask.is_ok() { answer() } else { return },
            wait(stop) -> () => return,
        }
    }
}

#[test]
fn who_waits_for_a_cancel_costs_the_others_nothing() {
    within(LONG, || {
        Builder::new_current_thread().build().unwrap().run(|| {
            let stop = Token::new();
            let (nobody, never) = unbounded();
            let mut idle = Vec::new();
            let mut among = |all: usize| {
                idle.resize_with(all, || {
                    volt::go(serve(stop.clone(), never.clone(), || unreachable!()))
                });
                until_true("all", || {
                    let fibers = Handle::current().fibers(usize::MAX);
                    fibers.iter().filter(|fiber| fiber.waits_for.is_some()).count() >= all
                });
                exchange(&stop)
            };
            let (among_few, among_many) = (among(200), among(20_000));
            stop.cancel();
            idle.into_iter().for_each(|fiber| fiber.join().unwrap());
            drop(nobody);
            assert!(among_many < 8 * among_few, "{among_few:?} -> {among_many:?}");
        });
    });
}

/// Has a case of volt's for its first field, and so its address.
struct Wrapper(volt::channel::Sender<u8>);

impl Case for Wrapper {
    type Output<'a> = ();

    fn attempt(&self) -> bool {
        true
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn register(&self, _: &Waiter) -> bool {
        false
    }

    fn unregister(&self, _: &Waiter) {}

    fn complete(&self) {}
}

#[test]
fn a_case_is_not_its_first_field() {
    let (s, r) = bounded(1);
    let wrapper = Wrapper(s);
    assert_eq!((&raw const wrapper).addr(), (&raw const wrapper.0).addr());
    let mut select = Select::new();
    select.case(&wrapper);
    let operation = select.select();
    let confused = catch_unwind(AssertUnwindSafe(|| operation.send(&wrapper.0, 1)));
    assert!(confused.is_err());
    let mut select = Select::new();
    select.send(&wrapper.0);
    let operation = select.select();
    assert!(catch_unwind(AssertUnwindSafe(|| operation.complete(&wrapper))).is_err());
    assert!(r.try_recv().is_err() && !wrapper.0.is_full());
}
