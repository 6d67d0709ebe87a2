//! A set of fibers as a case: it is chosen when there is a result, and for nothing else.

use crate::common::{LONG, within};
use std::time::{Duration, Instant};
use volt::channel::select;
use volt::runtime::Builder;
use volt::scope::JoinSet;

/// Takes all results of a set by selects, while its fibers end one close after another.
fn take_all(fibers: u32) {
    let mut set = JoinSet::new();
    (0..fibers).for_each(|n| set.go(move || n));
    let mut sum = 0;
    for _ in 0..fibers {
        select! { wait(set) -> () => {} }
        let ended = volt::timeout(Duration::ZERO, || set.join_next());
        sum += ended.expect("chosen, so there is a result").expect("one is left").unwrap();
    }
    assert_eq!(sum, (0..fibers).sum());
    select! {
        wait(set) -> () => panic!("chosen, and none is left"),
        default(Duration::from_micros(20)) => {}
    }
}

/// The fibers' threads are more than the processors, so that one is held up between any two steps.
#[test]
fn a_set_is_chosen_only_for_a_result_that_is_there() {
    within(LONG, || {
        let runtime = Builder::new().workers(4).build().unwrap();
        let take = |_| {
            runtime.go(|| {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(500) {
                    (1..8).for_each(take_all);
                }
            })
        };
        let takers: Vec<_> = (0..8).map(take).collect();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
    });
}
