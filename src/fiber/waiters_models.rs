//! Under loom: whoever waits for an event among others goes on when it has come, whoever gives up is in
//! nobody's list, and what came before the event is seen. So a scope's end and a set's next result come to
//! those who wait for them.

use super::*;
use crate::fiber::{Ends, ThreadBlock};
use crate::primitives::models::check;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};
use crate::primitives::sync::{Arc, UnsafeCell};
use loom::thread::{JoinHandle, spawn};

/// Comes when the last of those who run is through.
struct Event {
    running: AtomicUsize,
    waiters: Waiters,
    /// What they have done.
    done: [UnsafeCell<bool>; 2],
}

// SAFETY: each writes its own before it is through, and it is read when all are; loom checks it.
unsafe impl Sync for Event {}
// SAFETY: as above.
unsafe impl Send for Event {}

impl Event {
    fn of(running: usize) -> Arc<Event> {
        let done = [UnsafeCell::new(false), UnsafeCell::new(false)];
        Arc::new(Event { running: AtomicUsize::new(running), waiters: Waiters::default(), done })
    }

    fn has_come(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    /// One of those who run is through.
    fn is_through(&self, who: usize) {
        // SAFETY: see above.
        self.done[who].with_mut(|done| unsafe { *done = true });
        if self.running.fetch_sub(1, Ordering::Release) == 1 {
            self.waiters.settle_all().into_iter().for_each(wake);
        }
    }

    fn check(&self, all: usize) {
        for done in &self.done[..all] {
            // SAFETY: see above.
            done.with(|done| assert!(unsafe { *done }));
        }
    }

    /// `park::wait_until`, by a plain thread: false if it gave up.
    fn wait(&self, thread: &Arc<ThreadBlock>) -> bool {
        loop {
            thread.state().begin_wait();
            let waiter = WaiterPtr::of_thread(thread);
            if !self.waiters.link(waiter, || self.has_come()) {
                return true;
            }
            let ends = Ends::CANCEL;
            let outcome = thread.wait(thread.state(), ends, None);
            self.waiters.unlink(waiter);
            // Whatever it waits for next, this event does not end.
            assert!(self.waiters.0.lock().iter().all(|(other, _)| *other != waiter));
            if outcome == Outcome::Cancelled {
                return false;
            }
        }
    }
}

fn wake(wake: Wake) {
    match wake {
        Wake::Thread(thread) => thread.wake(),
        Wake::Fiber(fiber) => panic!("{fiber:?} does not wait here"),
    }
}

fn beside(event: &Arc<Event>, f: impl FnOnce(&Event) + 'static) -> JoinHandle<()> {
    let event = Arc::clone(event);
    spawn(move || f(&event))
}

#[test]
fn one_waits_for_two() {
    check(3, || {
        let event = Event::of(2);
        let run = [0, 1].map(|who| beside(&event, move |event| event.is_through(who)));
        assert!(event.wait(&ThreadBlock::new()));
        event.check(2);
        run.into_iter().for_each(|one| one.join().unwrap());
        assert!(event.waiters.is_empty());
    });
}

#[test]
fn two_wait_and_one_gives_up() {
    check(2, || {
        let event = Event::of(1);
        let given_up = ThreadBlock::new();
        let runs = beside(&event, |event| event.is_through(0));
        let waits = {
            let thread = Arc::clone(&given_up);
            beside(&event, move |event| {
                if event.wait(&thread) {
                    event.check(1);
                }
            })
        };
        let settle = given_up.state().cancel();
        // SAFETY: from this state just now; this thread holds the block.
        unsafe { WaiterPtr::of_thread(&given_up).wake(settle) }.into_iter().for_each(wake);
        assert!(event.wait(&ThreadBlock::new()));
        event.check(1);
        [runs, waits].into_iter().for_each(|one| one.join().unwrap());
        assert!(event.waiters.is_empty());
    });
}

/// A select with two events for cases: one of them ends its wait, and says which.
#[test]
fn one_waits_for_either() {
    check(2, || {
        let events = [Event::of(1), Event::of(1)];
        let run = events.each_ref().map(|event| beside(event, |event| event.is_through(0)));
        let thread = ThreadBlock::new();
        thread.state().begin_wait();
        let waiter = WaiterPtr::of_thread(&thread);
        let linked = [0, 1].map(|case| {
            let event = &events[case as usize];
            event.waiters.link_as(waiter, case, || event.has_come())
        });
        if linked == [true, true] {
            let outcome = thread.wait(thread.state(), Ends::BY_SOURCES, None);
            let Outcome::Woken(case) = outcome else { panic!("{outcome:?}") };
            events[case as usize].check(1);
        }
        (0..2).for_each(|case| events[case as usize].waiters.unlink_as(waiter, case));
        run.into_iter().for_each(|one| one.join().unwrap());
        assert!(events.iter().all(|event| event.waiters.is_empty()));
    });
}
