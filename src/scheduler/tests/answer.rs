//! A worker that has woken a plain thread, and finds nothing more: how it looks on.

use super::{Bench, bench, config};
use crate::fiber::{self, Wake};
use crate::scheduler::{answer::Answers, wake};
use std::time::{Duration, Instant};

const AWAKE: Duration = Duration::from_micros(50);

/// A fiber on worker `index` wakes a plain thread.
fn wakes_a_thread(bench: &Bench<'_>, index: usize) {
    let before = fiber::set_seat(&raw const bench.workers[index].seat);
    wake(Wake::Thread(fiber::thread_block()));
    fiber::set_seat(before);
}

fn never() -> bool {
    unreachable!("it does not look")
}

#[test]
fn who_has_woken_a_thread_looks_on_for_a_while_and_sees_to_the_sockets() {
    for workers in [1, 2] {
        bench(config(workers), 0, |bench| {
            let (worker, core) = (&bench.workers[0], bench.core(0));
            assert_eq!(bench.find(0), None);
            assert!(!worker.stays_awake(&never), "nobody was woken");
            wakes_a_thread(bench, 0);
            let begin = Instant::now();
            assert!(!worker.stays_awake(&|| false));
            assert!(begin.elapsed() >= AWAKE && core.stats.polls.get() > 0);
            assert!(worker.searching.get(), "others count on it until it lies down");
            // In vain: not the next time.
            wakes_a_thread(bench, 0);
            assert!(!worker.stays_awake(&never));
            worker.stop_searching();
        });
    }
}

#[test]
fn what_comes_ends_it_and_it_goes_on_like_that_until_the_worker_sleeps() {
    bench(config(1), 1, |bench| {
        let worker = &bench.workers[0];
        wakes_a_thread(bench, 0);
        bench.fill_injector([0]);
        assert!(worker.stays_awake(&|| false) && bench.find(0) == Some(0));
        assert!(!worker.searching.get());
        // Who was quick enough may have been taken for late, but not twice in a row.
        let pays = || {
            worker.own().answers = Answers::default();
            wakes_a_thread(bench, 0);
            worker.stays_awake(&|| true) && worker.stays_awake(&|| true)
        };
        assert!(pays());
        worker.ends_vigils(crate::primitives::clock::Moment::now());
        assert!(!worker.stays_awake(&never), "it has slept");
        worker.stop_searching();
    });
}

#[test]
fn none_begins_while_another_one_searches_or_for_who_is_no_worker() {
    bench(config(2), 0, |bench| {
        bench.shared.idle.begin_search_now();
        wakes_a_thread(bench, 0);
        assert!(!bench.workers[0].stays_awake(&never));
        assert!(bench.shared.idle.end_search());
        wake(Wake::Thread(fiber::thread_block()));
        assert!(!bench.workers[1].stays_awake(&never));
    });
}
