//! Who blocks hands its core on, and is back before anybody has come for it.

use super::{Config, bench, config};
use crate::primitives::clock::Moment;
use crate::scheduler::crew::{Crew, Next};
use std::panic::Location;

#[test]
fn a_core_that_nobody_has_come_for_is_taken_back() {
    let crew = Crew::new(2, 2, None);
    assert_eq!(crew.hand_off(0), Some(Next::Start(0)), "nobody waits for it");
    assert_eq!(crew.take_back(), None, "a thread starts with it");
    crew.list_sleeper();
    for _ in 0..2 {
        assert_eq!(crew.hand_off(0), Some(Next::Taken), "the sleeper waits again");
        assert_eq!(crew.take_back(), Some(0));
        assert_eq!((crew.take_back(), crew.running()), (None, (2, 2)));
    }
    assert_eq!(crew.hand_off(0), Some(Next::Taken));
    crew.stop();
    assert_eq!(crew.take_back(), None, "it all stops");
}

/// Else no tick would ever be over where cores change hands every few fibers.
#[test]
fn who_gets_a_core_does_not_take_it_for_looked_after() {
    bench(config(2), 0, |bench| {
        let (worker, now) = (&bench.workers[0], Moment::now());
        worker.own().tick.begin(Moment::from_nanos(now.as_nanos() / 2), 0);
        let core = worker.detach().expect("it has one");
        worker.attach(core);
        worker.own().tick.injector_looked(now);
        assert!(worker.own().tick.is_long(), "sockets have waited for long");
    });
}

/// To wake takes long where a processor has to wake for it, and what is queued waits meanwhile.
#[test]
fn a_thread_that_needs_a_core_takes_it_from_one_that_has_not_woken() {
    let crew = Crew::new(2, 2, None);
    crew.list_sleeper();
    assert_eq!(crew.hand_off(0), Some(Next::Taken));
    assert_eq!(crew.wait_for_core(Moment::PAST), Some(0));
    assert_eq!(crew.wait_for_core(Moment::PAST), None, "none is on its way");
    assert_eq!(crew.hand_off(1), Some(Next::Taken), "the sleeper waits again");
    assert_eq!(crew.claim_core(2, Moment::PAST, || ()), None, "it waits for one that is given up");
    assert_eq!((crew.take_back(), crew.running()), (Some(1), (2, 2)));
}

/// Not if it comes to run what is queued, or to look at sockets and timers; nor for a fiber that should not
/// have a core, or not this thread.
#[test]
fn a_core_that_would_be_missed_is_not_taken_back() {
    let site = Location::caller();
    for force_migrate in [false, true] {
        bench(Config { force_migrate, ..config(3) }, 1, |bench| {
            let shared = bench.shared;
            shared.crew.list_sleeper();
            let again = || {
                assert_eq!(shared.crew.hand_off(0), Some(Next::Taken));
                let again = shared.core_again(site);
                assert!(again.is_some() || shared.crew.take_back() == Some(0));
                again
            };
            assert_eq!(again(), None, "nobody is in the poller");
            shared.poller.sit(1);
            assert_eq!(again(), (!force_migrate).then_some(0));
            bench.fill_ring(2, [0]);
            assert_eq!(again(), None, "it comes to steal that");
            bench.ring(2);
            bench.fill_injector([0]);
            assert_eq!(again(), None, "it comes to run that");
            assert_eq!(bench.find(1), Some(0));
            shared.sites.stalled(site, true);
            assert_eq!(again(), None, "it would get a thread of its own");
            shared.sites.returned(site);
            shared.poller.rise();
        });
    }
}
