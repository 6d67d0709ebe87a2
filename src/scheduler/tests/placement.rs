//! The load of a worker, and who gets a fiber from outside.

use super::super::config::{Migrate, Placement};
use super::super::switch::Post;
use super::{Bench, Config, bench, config};
use crate::primitives::sync::atomic::Ordering;

fn loads(bench: &Bench<'_>) -> Vec<Option<usize>> {
    bench.shared.cores.iter().map(|core| bench.shared.load(core)).collect()
}

#[test]
fn the_load_is_what_is_queued_and_what_runs() {
    bench(config(3), 40, |bench| {
        assert_eq!(loads(bench), [Some(1); 3], "awake, so it may run something");
        bench.fill_ring(0, 0..20);
        bench.workers[0].push_woken(bench.fibers[20]);
        bench.core(0).mailbox.push(bench.fibers[21]).unwrap();
        bench.fill_ring(1, 22..25);
        bench.lies_down(2);
        assert_eq!(loads(bench), [Some(23), Some(4), Some(0)]);
        bench.fill_injector(25..30);
        let (queued, shared) = bench.shared.queued();
        assert_eq!((queued, shared), (vec![22, 3, 0], 5), "all 30 of them");
    });
}

#[test]
fn who_blocks_has_no_load_and_gets_nothing() {
    let mut config = config(2);
    config.placement = Placement::LeastLoaded;
    bench(config, 12, |bench| {
        bench.fill_ring(0, 0..5);
        bench.workers[0].push_woken(bench.fibers[5]);
        bench.fill_ring(1, 6..10);
        bench.workers[0].vacate();
        assert_eq!(loads(bench), [None, Some(5)]);
        assert_eq!(bench.core(0).stats.hand_offs.get(), 1);
        // The slot's goes first, then the ring's, in order.
        let flushed = bench.shared.injector.take_all().map(|fiber| bench.number(fiber));
        assert_eq!(flushed.collect::<Vec<_>>(), [5, 0, 1, 2, 3, 4]);
        bench.shared.push_from_outside(bench.fibers[10]);
        assert_eq!((bench.core(0).mailbox.len(), bench.core(1).mailbox.len()), (0, 1));
        bench.shared.notify();
        assert_eq!(bench.wakes(), 0, "nobody sleeps; who blocks is not woken");
    });
}

#[test]
fn a_stalled_worker_gets_nothing_but_is_robbed() {
    let mut config = config(2);
    config.placement = Placement::LeastLoaded;
    bench(config, 12, |bench| {
        bench.fill_ring(0, 0..3);
        bench.fill_ring(1, 4..12);
        bench.core(0).gate.visit(|| bench.core(0).gate.mark_stalled()).unwrap();
        assert_eq!(loads(bench), [None, Some(9)]);
        bench.shared.push_from_outside(bench.fibers[3]);
        assert_eq!((bench.core(0).mailbox.len(), bench.core(1).mailbox.len()), (0, 1));
        bench.ring(1);
        assert_eq!(bench.number(bench.workers[1].steal().unwrap()), 0);
    });
}

#[test]
fn the_least_loaded_is_the_lowest_of_those_with_the_least() {
    let mut config = config(4);
    config.placement = Placement::LeastLoaded;
    bench(config, 20, |bench| {
        assert_eq!(bench.shared.place(), Some(0));
        bench.fill_ring(0, 0..3);
        bench.fill_ring(1, 3..5);
        bench.fill_ring(3, 5..7);
        bench.fill_ring(2, 7..12);
        assert_eq!(bench.shared.place(), Some(1), "a tie with worker 3");
        bench.core(1).mailbox.push(bench.fibers[12]).unwrap();
        assert_eq!(bench.shared.place(), Some(3));
        bench.fill_ring(3, [13]);
        bench.lies_down(2);
        bench.ring(2);
        assert_eq!(bench.shared.place(), Some(2), "it does nothing at all");
    });
}

#[test]
fn of_two_choices_the_less_loaded() {
    let mut config = config(2);
    config.placement = Placement::TwoChoices;
    bench(config, 10, |bench| {
        let places = || (0..1000).filter(|_| bench.shared.place() == Some(0)).count();
        bench.fill_ring(0, 0..10);
        // Only where both choices fall on it: a quarter.
        let chosen = places();
        assert!((150..350).contains(&chosen), "{chosen}");
        bench.ring(0);
        // A tie goes to the lower one, so the higher gets a quarter.
        let chosen = places();
        assert!((650..850).contains(&chosen), "{chosen}");
    });
}

#[test]
fn by_default_all_may_take_it() {
    bench(config(2), 1, |bench| {
        bench.lies_down(1);
        bench.shared.push_from_outside(bench.fibers[0]);
        assert_eq!((bench.shared.injector.len(), bench.wakes()), (1, 1));
    });
}

/// A mailbox is no prison: who searches takes half of one.
#[test]
fn mail_is_taken_from_a_worker_that_does_not_come_to_it() {
    bench(config(2), 5, |bench| {
        for fiber in bench.fibers {
            bench.shared.push_mail(0, *fiber);
        }
        assert_eq!(bench.find(1), Some(0));
        assert_eq!((bench.ring(1), bench.core(0).mailbox.len()), (vec![1, 2], 2));
        assert_eq!(bench.core(1).stats.stolen.get(), 3);
    });
}

/// Where thieves leave mailboxes alone.
#[test]
fn nobody_fresh_is_put_behind_a_busy_worker_who_keeps_its_mail() {
    for (migrate, stealing) in [(Migrate::BeforeStart, true), (Migrate::Anytime, false)] {
        let placement = Placement::LeastLoaded;
        let config = Config { migrate, placement, stealing, ..config(2) };
        bench(config, 2, |bench| {
            assert_eq!(bench.shared.place(), None, "both are busy");
            bench.lies_down(1);
            assert_eq!(bench.shared.place(), Some(1));
            // It has risen meanwhile.
            bench.workers[1].leave_bed(false);
            bench.shared.push_mail(1, bench.fibers[0]);
            assert_eq!((bench.shared.injector.len(), bench.core(1).mailbox.len()), (1, 0));
        });
    }
}

#[test]
fn nor_is_one_that_may_move_without_stealing() {
    bench(Config { stealing: false, ..config(2) }, 1, |bench| {
        bench.fibers[0].home.store(2, Ordering::Relaxed);
        bench.shared.push_mail(1, bench.fibers[0]);
        assert_eq!((bench.shared.injector.len(), bench.core(1).mailbox.len()), (1, 0));
    });
}

#[test]
fn who_is_at_home_stays_behind_its_worker() {
    let config = Config { migrate: Migrate::BeforeStart, ..config(2) };
    bench(config, 2, |bench| {
        bench.fibers[1].home.store(2, Ordering::Relaxed);
        bench.core(1).mailbox.push(bench.fibers[1]).unwrap();
        bench.shared.push_mail(1, bench.fibers[0]);
        assert_eq!((bench.shared.injector.len(), bench.core(1).mailbox.len()), (1, 1));
    });
}

/// Its worker has just risen from the poller, for nobody: without the other one nobody would sit there while it runs.
#[test]
fn who_goes_home_to_one_that_is_awake_leaves_the_poller_to_somebody() {
    let at_home = || Config { migrate: Migrate::BeforeStart, ..config(2) };
    for taker in [None, Some(0), Some(1)] {
        bench(at_home(), 1, |bench| {
            bench.fibers[0].home.store(1, Ordering::Relaxed);
            bench.lies_down(1);
            if let Some(taker) = taker {
                bench.shared.poller.sit(taker);
            }
            bench.shared.push_from_outside(bench.fibers[0]);
            assert_eq!(bench.wakes(), u64::from(taker != Some(1)), "{taker:?}");
            bench.workers[1].leave_bed(false);
            assert_eq!(bench.find(0), Some(0));
        });
    }
}

/// The supervisor may put another worker in the place of one whose fiber is about to block its thread: the fiber
/// goes on with that thread, however often others are to change theirs.
#[test]
fn who_blocks_its_thread_is_not_sent_on() {
    let mut config = config(2);
    config.force_migrate = true;
    bench(config, 2, |bench| {
        let worker = &bench.workers[0];
        for fiber in bench.fibers {
            fiber.home.store(1, Ordering::Relaxed);
        }
        assert!(worker.is_sent_on(bench.fibers[0]));
        worker.post.set(Post::HandOff(bench.fibers[1]));
        bench.core(0).gate.mark_stalled();
        worker.run_post();
        let next = worker.next.take().expect("it goes on here");
        assert!(!worker.is_sent_on(next));
        assert_eq!(bench.core(1).mailbox.len(), 1);
        assert_eq!(bench.find(1), Some(0));
    });
}
