//! Who blocks hands its core on, and is back before anybody has come for it.

use super::{bench, config};
use crate::scheduler::crew::{Crew, Next};

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

#[test]
fn the_last_core_that_runs_is_not_taken_back() {
    let crew = Crew::new(1, 1, None);
    crew.list_sleeper();
    assert_eq!(crew.hand_off(0), Some(Next::Taken));
    assert_eq!(crew.take_back(), None, "nobody would look at sockets and timers");
}

#[test]
fn a_core_comes_to_run_what_is_queued() {
    bench(config(2), 1, |bench| {
        let shared = bench.shared;
        shared.crew.list_sleeper();
        assert_eq!(shared.crew.hand_off(0), Some(Next::Taken));
        bench.fill_injector([0]);
        assert_eq!(shared.core_again(), None, "it runs that");
        assert_eq!(bench.find(1), Some(0));
        assert_eq!(shared.core_again(), Some(0));
    });
}
