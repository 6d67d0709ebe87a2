//! Each kind of case alone: not yet, already, and while the select waits; for its effect and for news.

use crate::common::LONG;
use crate::helpers::{Numbers, Place, Probe, everywhere};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use volt::cancel::Token;
use volt::channel::{Select, Selectable, never, select, unbounded};
use volt::scope::JoinSet;
use volt::sync::{Event, Notify};

/// `bring` is called by somebody else when a select waits for `case`, which is then chosen.
fn while_it_waits<C: Selectable>(case: &C, other: Place, bring: impl FnOnce() + Send + 'static) {
    select! {
        wait(*case) -> _ => panic!("not yet"),
        default => {}
    }
    let mut select = Select::new();
    select.case(case);
    assert!(select.try_ready().is_err());
    assert!(select.ready_timeout(Duration::from_micros(50)).is_err());
    assert!(select.select_timeout(Duration::from_micros(50)).is_err());
    let probe = Probe::new();
    let theirs = Arc::clone(&probe);
    let bring = move || {
        theirs.await_wait();
        bring();
    };
    // One that looks for the probe would keep a lone worker.
    match other {
        Place::Fiber => drop(volt::go(|| volt::blocking(bring))),
        Place::Thread => other.go(bring),
    }
    select! {
        wait(*probe) -> () => unreachable!(),
        wait(*case) -> _ => {}
        wait(volt::time::after(LONG)) -> _ => panic!("nobody came"),
    }
    assert!(probe.is_idle());
}

/// It is ready, for any kind of select.
fn already<C: Selectable>(case: &C) {
    let mut select = Select::new();
    let nothing = never::<()>();
    select.recv(&nothing);
    let number = select.case(case);
    assert_eq!(select.try_ready(), Ok(number));
    assert_eq!(select.ready(), number);
    let operation = select.try_select().unwrap();
    assert_eq!(operation.index(), number);
    operation.complete(case);
}

#[test]
fn the_end_of_a_fiber() {
    everywhere(|other| {
        let (go_on, stays) = unbounded::<()>();
        let fiber = volt::go(move || stays.recv().is_err());
        while_it_waits(&fiber, other, move || drop(go_on));
        already(&fiber);
        already(&fiber);
        assert!(fiber.join().unwrap(), "the result is still there");
        let panicked = volt::go(|| std::panic::panic_any(7));
        select! { wait(panicked) -> () => assert!(panicked.join().unwrap_err().is::<i32>()) }
    });
}

#[test]
fn the_end_of_a_scoped_fiber() {
    everywhere(|other| {
        let (go_on, stays) = unbounded::<()>();
        volt::scope(|scope| {
            let fiber = scope.spawn(|| stays.recv().is_err());
            while_it_waits(&fiber, other, move || drop(go_on));
            already(&fiber);
            assert!(fiber.join().unwrap());
        });
    });
}

#[test]
fn one_of_a_set() {
    everywhere(|other| {
        let mut set = JoinSet::new();
        already_not(&set);
        let (go_on, stays) = unbounded::<()>();
        set.go(move || stays.recv().is_err());
        while_it_waits(&set, other, move || drop(go_on));
        already(&set);
        assert!(set.join_next().unwrap().unwrap());
        already_not(&set);
    });
}

fn already_not<C: Selectable>(case: &C) {
    let mut select = Select::new();
    select.case(case);
    assert!(select.try_select().is_err());
}

#[test]
fn a_cancel() {
    everywhere(|other| {
        let token = Token::new();
        let child = token.child();
        while_it_waits(&child, other, move || token.cancel());
        already(&child);
        already(&child);
    });
}

#[test]
fn an_event() {
    everywhere(|other| {
        let event = Arc::new(Event::new());
        let theirs = Arc::clone(&event);
        while_it_waits(&*event, other, move || theirs.set());
        already(&*event);
        event.reset();
        already_not(&*event);
    });
}

#[test]
fn a_notification() {
    everywhere(|other| {
        let notify = Arc::new(Notify::new());
        let theirs = Arc::clone(&notify);
        while_it_waits(&*notify, other, move || theirs.notify_one());
        already_not(&*notify);
        notify.notify_one();
        already(&*notify);
        already_not(&*notify);
    });
}

#[test]
fn what_only_those_see_who_wait() {
    everywhere(|other| {
        let (notify, event) = (Arc::new(Notify::new()), Arc::new(Event::new()));
        let chosen = Arc::new(AtomicBool::new(false));
        let theirs = (Arc::clone(&notify), Arc::clone(&event), Arc::clone(&chosen));
        let bring = move || {
            // Whoever waits at one of these moments is told.
            while !theirs.2.load(Ordering::SeqCst) {
                theirs.0.notify_waiters();
                theirs.1.set();
                theirs.1.reset();
                std::thread::sleep(Duration::from_micros(50));
            }
        };
        match other {
            Place::Fiber => drop(volt::go(|| volt::blocking(bring))),
            Place::Thread => other.go(bring),
        }
        for _ in 0..20 {
            select! {
                wait(notify) -> () => {}
                wait(volt::time::after(LONG)) -> _ => panic!("not told"),
            }
            select! {
                wait(event) -> () => {}
                wait(volt::time::after(LONG)) -> _ => panic!("not told"),
            }
        }
        chosen.store(true, Ordering::SeqCst);
    });
}

#[test]
fn one_who_looks_for_a_notification_takes_none() {
    everywhere(|other| {
        let notify = Arc::new(Notify::new());
        let probe = Probe::new();
        let theirs = (Arc::clone(&notify), Arc::clone(&probe));
        let bring = move || {
            theirs.1.await_wait();
            theirs.0.notify_one();
        };
        match other {
            Place::Fiber => drop(volt::go(|| volt::blocking(bring))),
            Place::Thread => other.go(bring),
        }
        let mut select = Select::new();
        select.case(&*probe);
        let number = select.case(&*notify);
        assert_eq!(select.ready_timeout(LONG), Ok(number));
        assert_eq!(select.try_ready(), Ok(number));
        assert!(notify.notified_timeout(Duration::ZERO), "it is still there");
    });
}

#[test]
fn a_case_of_ones_own() {
    everywhere(|other| {
        let numbers = Numbers::new();
        let theirs = Arc::clone(&numbers);
        while_it_waits(&*numbers, other, move || theirs.put(1));
        assert_eq!(numbers.left(), []);
        numbers.put(2);
        already(&*numbers);
        already_not(&*numbers);
        assert_eq!(numbers.waiting(), 0);
    });
}

#[test]
fn a_case_of_ones_own_only_watched() {
    everywhere(|other| {
        let numbers = Numbers::new();
        let probe = Probe::new();
        let theirs = (Arc::clone(&numbers), Arc::clone(&probe));
        let bring = move || {
            theirs.1.await_wait();
            theirs.0.put(5);
        };
        match other {
            Place::Fiber => drop(volt::go(|| volt::blocking(bring))),
            Place::Thread => other.go(bring),
        }
        let mut select = Select::new();
        select.case(&*probe);
        let number = select.case(&*numbers);
        assert_eq!(select.ready_timeout(LONG), Ok(number));
        assert_eq!(numbers.left(), [5]);
        assert!(probe.is_idle());
    });
}

#[test]
fn a_time_that_never_comes() {
    everywhere(|_| {
        let s = select! {
            wait(volt::time::after(Duration::MAX)) -> _ => 0,
            wait(volt::time::after(Duration::ZERO)) -> _ => 1,
        };
        assert_eq!(s, 1);
        let s = select! {
            wait(volt::time::after(Duration::MAX)) -> _ => 0,
            default(Duration::from_millis(1)) => 1,
        };
        assert_eq!(s, 1);
    });
}
