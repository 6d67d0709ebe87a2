//! Who lies down in the poller, where a socket has ended its last short sleep: for whom it does without a vigil, and
//! who ends it.

use super::{Bench, bench, config};
use crate::driver::Awake;
use crate::fiber;
use crate::primitives::clock::Moment;
use crate::scheduler::socket_vigil::{SocketVigil, SocketVigils};
use std::time::Duration;

const NAP: Duration = Duration::from_micros(30);
const LIMIT: Duration = Duration::from_secs(20);

/// A socket ends the sleep of worker 0, with its vigil if it kept one.
fn is_woken_by_a_socket(bench: &Bench<'_>, vigil: Option<SocketVigil<'_>>) {
    let start = Moment::now();
    let awake =
        Awake { at: start.saturating_add(NAP), by_timer: false, by_sockets: true, looked: true };
    bench.workers[0].ends_socket_vigil(vigil, Some(awake), start);
}

/// Worker 0 does so for its fibers.
fn does(bench: &Bench<'_>, what: impl FnOnce()) {
    let before = fiber::set_seat(&raw const bench.workers[0].seat);
    what();
    fiber::set_seat(before);
}

fn answers(bench: &Bench<'_>) {
    does(bench, || fiber::note_sent(1));
}

/// A socket has ended the last sleep of worker 0, and what has come is answered.
fn was_woken_by_a_socket(bench: &Bench<'_>) {
    is_woken_by_a_socket(bench, None);
    answers(bench);
}

/// Does worker 0, which is parked, keep a vigil?
fn keeps_one(bench: &Bench<'_>) -> bool {
    was_woken_by_a_socket(bench);
    let mut vigil = bench.workers[0].begins_socket_vigil();
    vigil.as_mut().is_some_and(|vigil| vigil.goes_on().is_some())
}

/// In one of a hundred tries: the system may take the processor for longer than a vigil takes.
fn may_keep_one(bench: &Bench<'_>) -> bool {
    (0..100).any(|_| keeps_one(bench))
}

/// One of worker 0 that ends since worker 1 takes the processor; did it go on before?
fn ended_by_another<'b>(bench: &Bench<'b>) -> (SocketVigil<'b>, bool) {
    was_woken_by_a_socket(bench);
    let mut vigil = bench.workers[0].begins_socket_vigil().unwrap();
    let went_on = vigil.goes_on().is_some();
    bench.workers[1].leave_bed(false);
    assert!(vigil.goes_on().is_none());
    bench.lies_down(1);
    (vigil, went_on)
}

#[test]
fn nobody_looks_on_who_leaves_no_processor_for_whom_it_waits_for() {
    for (workers, processors, busy, may) in
        [(1, 1, 0, false), (1, 2, 0, true), (2, 2, 0, true), (2, 2, 1, false), (2, 3, 1, true)]
    {
        let mut config = config(workers);
        config.processors = processors;
        bench(config, 0, |bench| {
            (0..workers - busy).for_each(|index| bench.lies_down(index));
            let what = format!("{workers} workers, {processors} processors, {busy} awake");
            assert_eq!(may_keep_one(bench), may, "{what}");
            (0..workers - busy).for_each(|index| bench.workers[index].leave_bed(false));
        });
    }
}

#[test]
fn who_sends_nothing_sleeps_at_once() {
    bench(config(1), 0, |bench| {
        bench.lies_down(0);
        let begins = |what: fn(usize)| {
            is_woken_by_a_socket(bench, None);
            does(bench, || what(1));
            bench.workers[0].begins_socket_vigil().is_some()
        };
        let fibers_do = [fiber::note_sent, fiber::note_received, |_| (), fiber::note_sent];
        assert_eq!(fibers_do.map(begins), [true, false, false, true]);
        bench.workers[0].leave_bed(false);
    });
}

/// What is sent is counted for a thread.
#[test]
fn whose_core_goes_to_another_thread_sleeps_at_once() {
    bench(config(1), 0, |bench| {
        bench.lies_down(0);
        was_woken_by_a_socket(bench);
        bench.workers[0].attach(0);
        assert!(bench.workers[0].begins_socket_vigil().is_none());
        bench.workers[0].leave_bed(false);
    });
}

#[test]
fn one_ends_when_another_worker_takes_the_processor_and_after_its_time() {
    let mut config = config(2);
    config.processors = 2;
    bench(config, 0, |bench| {
        (0..2).for_each(|index| bench.lies_down(index));
        assert!((0..100).any(|_| ended_by_another(bench).1));
        was_woken_by_a_socket(bench);
        let (start, limit) = (Moment::now(), Moment::now().saturating_add(LIMIT));
        let mut vigil = bench.workers[0].begins_socket_vigil().unwrap();
        while vigil.goes_on().is_some() {
            assert!(Moment::now() < limit, "it goes on for ever");
        }
        assert!(Moment::now().since(start) >= Duration::from_micros(2));
        (0..2).for_each(|index| bench.workers[index].leave_bed(false));
    });
}

#[test]
fn who_goes_to_bed_looks_on_first_and_learns_from_it() {
    let mut config = config(1);
    config.park_timeout = Some(Duration::from_millis(20));
    bench(config, 0, |bench| {
        let parks = || {
            let (polls, worker) = (bench.core(0).stats.polls.get(), &bench.workers[0]);
            worker.park(&|| false);
            worker.stop_searching();
            bench.core(0).stats.polls.get() - polls
        };
        assert_eq!(parks(), 1, "no socket has woken it");
        was_woken_by_a_socket(bench);
        assert!(parks() > 1);
        for _ in 0..2 {
            was_woken_by_a_socket(bench);
            assert_eq!(parks(), 1, "it was in vain");
        }
        was_woken_by_a_socket(bench);
        assert!(parks() > 1);
    });
}

#[test]
fn one_that_another_worker_has_ended_says_nothing() {
    let mut config = config(2);
    config.processors = 2;
    bench(config, 0, |bench| {
        (0..2).for_each(|index| bench.lies_down(index));
        let keeps_the_next = || {
            bench.workers[0].own().socket_vigils = SocketVigils::new();
            let (vigil, _) = ended_by_another(bench);
            is_woken_by_a_socket(bench, Some(vigil));
            answers(bench);
            bench.workers[0].begins_socket_vigil().is_some()
        };
        assert!((0..100).any(|_| keeps_the_next()));
        (0..2).for_each(|index| bench.workers[index].leave_bed(false));
    });
}

/// Else it would seem to cost as much as what it is there for.
#[test]
fn one_that_something_has_ended_is_no_sleep() {
    bench(config(1), 0, |bench| {
        bench.lies_down(0);
        let worker = &bench.workers[0];
        let sleeps = |goes_on: bool| {
            worker.own().socket_vigils = SocketVigils::new();
            let lay_down = Moment::now();
            // A window of its own, in which nothing has happened.
            was_woken_by_a_socket(bench);
            let before = worker.own().socket_vigils.sleeps();
            let mut vigil = worker.begins_socket_vigil();
            while !goes_on && vigil.as_mut().unwrap().goes_on().is_some() {}
            let at = Moment::now();
            let awake = Awake { at, by_timer: false, by_sockets: true, looked: true };
            worker.ends_socket_vigil(vigil, Some(awake), lay_down);
            worker.own().socket_vigils.sleeps() - before
        };
        // Where the system takes the processor for long a window ends in between.
        assert!((0..100).any(|_| [true, false].map(sleeps) == [0, 1]));
        worker.leave_bed(false);
    });
}

/// What a timer that is due soon has kept from looking on has slept, and learns nothing.
#[test]
fn one_that_is_refused_is_none() {
    bench(config(1), 0, |bench| {
        bench.lies_down(0);
        let worker = &bench.workers[0];
        was_woken_by_a_socket(bench);
        let vigil = worker.begins_socket_vigil();
        let (start, late) = (Moment::now(), Duration::from_micros(100));
        let at = start.saturating_add(late);
        let awake = Awake { at, by_timer: true, by_sockets: false, looked: false };
        worker.ends_socket_vigil(vigil, Some(awake), start);
        was_woken_by_a_socket(bench);
        assert!(worker.begins_socket_vigil().is_some(), "it was not in vain");
        worker.leave_bed(false);
    });
}

#[test]
fn what_gets_through_the_workers_sockets_is_what_vigils_are_measured_by() {
    bench(config(1), 0, |bench| {
        bench.lies_down(0);
        let worker = &bench.workers[0];
        let before = fiber::set_seat(&raw const worker.seat);
        let measures = |bytes: usize| {
            worker.own().socket_vigils = SocketVigils::new();
            let mut now = Moment::now();
            (0..200).any(|_| {
                let start = now;
                now = now.saturating_add(NAP);
                fiber::note_received(bytes);
                let awake = Awake { at: now, by_timer: false, by_sockets: true, looked: false };
                worker.ends_socket_vigil(None, Some(awake), start);
                worker.own().socket_vigils.are_measured()
            })
        };
        let measured = [0, 1].map(measures);
        fiber::set_seat(before);
        assert_eq!(measured, [false, true]);
        worker.leave_bed(false);
    });
}

#[test]
fn who_sleeps_on_its_thread_was_not_woken_by_a_socket() {
    bench(config(2), 0, |bench| {
        let (shared, worker) = (bench.shared, &bench.workers[0]);
        was_woken_by_a_socket(bench);
        assert_eq!(worker.own().socket_vigils.sleeps(), 0, "a window of its own");
        let role = shared.driver.try_role();
        shared.poller.sit(1);
        worker.park(&|| false);
        shared.poller.rise();
        drop(role);
        assert_eq!(worker.own().socket_vigils.sleeps(), 1);
        assert!(worker.begins_socket_vigil().is_none());
        worker.stop_searching();
    });
}

/// As where another one sits in the poller for days, and nothing comes there.
#[test]
fn any_number_of_sleeps_elsewhere_is_counted() {
    let mut vigils = SocketVigils::new();
    vigils.have_slept(u32::MAX);
    vigils.sleeps_elsewhere(NAP);
    assert_eq!(vigils.sleeps(), u32::MAX);
}
