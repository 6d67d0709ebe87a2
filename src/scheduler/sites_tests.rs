//! When a site is suspect, and flagged, and not any more.

use super::*;

const PERIOD: Duration = Duration::from_millis(100);

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn sites() -> Sites {
    Sites::new(true, 512)
}

fn begin(sites: &Sites, site: Site, now: Moment) -> u64 {
    sites.begin(site, true, OsThread(7), now).expect("there is room")
}

#[test]
fn a_site_is_suspect_while_one_of_its_fibers_is_stuck() {
    let (sites, here) = (sites(), Location::caller());
    assert!(!sites.is_suspect(here));
    sites.stalled(here, true);
    assert!(sites.is_suspect(here));
    let run = begin(&sites, here, at(0));
    sites.returned(here);
    sites.look(at(99), PERIOD, |_| true);
    assert!(!sites.is_suspect(here), "a run of less than a period is not stuck");
    sites.stalled(here, true);
    sites.look(at(100), PERIOD, |_| true);
    sites.returned(here);
    sites.look(at(101), PERIOD, |_| true);
    assert!(sites.is_suspect(here), "the run in blocking mode is stuck");
    sites.end(run);
    sites.look(at(102), PERIOD, |_| true);
    assert!(!sites.is_suspect(here));
    assert_eq!(sites.report()[0].stalls, 3);
}

/// A dispatch of theirs would wait for whoever has the lock, on all workers at once.
#[test]
fn other_sites_are_told_apart_without_the_lock() {
    let (sites, here) = (sites(), Location::caller());
    let others = [
        Location::caller(),
        Location::caller(),
        Location::caller(), //
    ];
    let other = others.into_iter().find(|other| bit(other) != bit(here)).unwrap();
    sites.stalled(here, true);
    std::thread::scope(|scope| {
        let ((says, said), sites) = (std::sync::mpsc::channel(), &sites);
        let held = sites.inner.lock();
        scope.spawn(move || says.send(sites.is_suspect(other)).unwrap());
        let suspect = said.recv_timeout(Duration::from_secs(10));
        drop(held);
        assert_eq!(suspect, Ok(false));
    });
    assert!(sites.is_suspect(here) && !sites.is_suspect(other));
}

/// What a site is once so many of its fibers have run one after the other, from `now` on, every second of them stuck;
/// and when they have.
fn half_of_them_stuck(sites: &Sites, here: Site, fibers: u64, mut now: u64) -> (bool, u64) {
    sites.stalled(here, true);
    for fiber in 0..fibers {
        let run = begin(sites, here, at(now));
        now += if fiber % 2 == 0 { 100 } else { 10 };
        sites.look(at(now), PERIOD, |_| true);
        sites.end(run);
    }
    sites.returned(here);
    sites.look(at(now), PERIOD, |_| true);
    let flagged = sites.report()[0].flagged;
    assert_eq!(sites.is_suspect(here), flagged);
    (flagged, now)
}

#[test]
fn a_site_that_stalls_half_the_time_is_flagged() {
    let (sites, here) = (sites(), Location::caller());
    let (flagged, _) = half_of_them_stuck(&sites, here, ENOUGH, 0);
    assert!(flagged, "{:?}", sites.report());
}

/// Flagged; then so many runs begin and end a millisecond each, of which every `stuck`th is found stuck. Is it still?
fn stays_flagged(runs: u64, stuck: u64) -> bool {
    let (sites, here) = (sites(), Location::caller());
    let (flagged, mut now) = half_of_them_stuck(&sites, here, ENOUGH, 0);
    assert!(flagged);
    for turn in 1..=runs {
        let run = sites.begin(here, false, OsThread(7), at(now)).expect("there is room");
        now += if turn % stuck == 0 { 100 } else { 1 };
        sites.look(at(now), PERIOD, |_| true);
        sites.end(run);
    }
    sites.look(at(now), PERIOD, |_| true);
    assert_eq!(sites.is_suspect(here), sites.report()[0].flagged);
    sites.is_suspect(here)
}

#[test]
fn it_is_no_more_once_of_a_thousand_turns_hardly_any_is_stuck() {
    assert!(stays_flagged(RUNS - 2, u64::MAX), "too few to tell");
    assert!(!stays_flagged(RUNS, u64::MAX));
    assert!(!stays_flagged(4 * RUNS, 2 * MANY));
}

#[test]
fn it_stays_so_where_some_are() {
    assert!(stays_flagged(4 * RUNS, MANY));
    assert!(stays_flagged(4 * RUNS, 3));
}

/// Those that block are over last.
#[test]
fn a_thousand_turns_at_once_are_not_enough() {
    let (sites, here) = (sites(), Location::caller());
    let (_, now) = half_of_them_stuck(&sites, here, ENOUGH, 0);
    let turns = |now| {
        for _ in 0..RUNS {
            let run = begin(&sites, here, at(now));
            sites.end(run);
        }
        sites.look(at(now), PERIOD, |_| true);
        sites.is_suspect(here)
    };
    let least = u64::from(PERIODS) * PERIOD.as_millis() as u64;
    assert!(turns(now + least - 1));
    assert!(!turns(now + least));
}

#[test]
fn it_can_be_flagged_again() {
    let (sites, here) = (sites(), Location::caller());
    let (_, mut now) = half_of_them_stuck(&sites, here, ENOUGH, 0);
    now += u64::from(PERIODS) * PERIOD.as_millis() as u64;
    (0..RUNS).for_each(|_| sites.end(begin(&sites, here, at(now))));
    sites.look(at(now), PERIOD, |_| true);
    assert!(!sites.is_suspect(here));
    let (few, now) = half_of_them_stuck(&sites, here, ENOUGH / 2, now);
    assert!(!few, "it begins anew");
    assert!(half_of_them_stuck(&sites, here, ENOUGH / 2, now).0);
}

/// One at each hiccup does not add up.
#[test]
fn what_was_long_ago_counts_less() {
    let (sites, here) = (sites(), Location::caller());
    let (mut now, minute) = (0, u64::from(HALVED) * PERIOD.as_millis() as u64);
    for _ in 0..10 * ENOUGH {
        let (flagged, after) = half_of_them_stuck(&sites, here, 8, now);
        assert!(!flagged, "{:?}", sites.report());
        now = after + minute;
    }
    (0..ENOUGH).for_each(|_| now = half_of_them_stuck(&sites, here, 1, now).1);
    assert!(sites.report()[0].flagged, "as many within minutes do");
}

#[test]
fn a_worker_may_be_back_before_its_stall_is_told() {
    let (sites, here) = (sites(), Location::caller());
    sites.returned(here);
    sites.look(at(0), PERIOD, |_| true);
    assert!(!sites.is_suspect(here));
    sites.stalled(here, true);
    sites.look(at(1), PERIOD, |_| true);
    assert!(!sites.is_suspect(here));
    assert_eq!(sites.report()[0].stalls, 1);
}

#[test]
fn one_that_stalls_less_is_not() {
    let (sites, here) = (sites(), Location::caller());
    sites.stalled(here, true);
    for _ in 0..2 * ENOUGH {
        let run = begin(&sites, here, at(0));
        sites.end(run);
    }
    sites.returned(here);
    sites.look(at(0), PERIOD, |_| true);
    assert!(!sites.is_suspect(here));
}

#[test]
fn where_learning_is_off_stalls_are_only_counted() {
    let (sites, here) = (Sites::new(false, 512), Location::caller());
    sites.stalled(here, true);
    assert!(!sites.is_suspect(here));
    assert_eq!(sites.report()[0].stalls, 1);
}
#[test]
fn who_computes_makes_no_site_suspect() {
    let (sites, here) = (sites(), Location::caller());
    sites.stalled(here, false);
    assert!(!sites.is_suspect(here));
    sites.look(at(0), PERIOD, |_| false);
    assert_eq!(sites.report()[0].stalls, 1, "it is counted all the same");
    sites.stalled(here, true);
    assert!(sites.is_suspect(here), "none that computes, and one that blocks");
    sites.returned(here);
    sites.look(at(0), PERIOD, |_| true);
    assert!(!sites.is_suspect(here));
}

/// Each of them slows the others down, so that all last for long.
#[test]
fn who_computes_in_blocking_mode_does_not_keep_its_site_suspect() {
    let (sites, here) = (sites(), Location::caller());
    sites.stalled(here, true);
    let runs: Vec<_> = (0..2 * ENOUGH).map(|_| begin(&sites, here, at(0))).collect();
    let asked = std::cell::Cell::new(0);
    let computes = |thread: OsThread| {
        assert_eq!(thread.0, 7);
        asked.set(asked.get() + 1);
        false
    };
    sites.look(at(99), PERIOD, computes);
    assert_eq!(asked.get(), 0, "none has lasted for a period");
    sites.look(at(100), PERIOD, computes);
    assert_eq!(asked.get(), AT_A_TIME as u64);
    (0..99).for_each(|_| sites.look(at(200), PERIOD, computes));
    assert_eq!(asked.get(), 2 * ENOUGH * u64::from(LOOKS), "each a few times");
    assert_eq!(sites.report()[0].stalls, 1 + 2 * ENOUGH);
    assert!(sites.is_suspect(here), "by the first one, which is stuck");
    sites.returned(here);
    sites.look(at(300), PERIOD, computes);
    assert!(!sites.is_suspect(here) && !sites.report()[0].flagged, "{:?}", sites.report());
    runs.into_iter().for_each(|run| sites.end(run));
}

/// It was over, and its thread in bed, before anybody knew whether it slept.
#[test]
fn a_run_that_ends_while_it_is_looked_at_is_no_stall() {
    let (sites, here) = (sites(), Location::caller());
    sites.stalled(here, true);
    let (run, other) = (begin(&sites, here, at(0)), begin(&sites, here, at(50)));
    sites.look(at(100), PERIOD, |_| {
        sites.end(run);
        true
    });
    sites.returned(here);
    sites.look(at(149), PERIOD, |_| true);
    assert!(!sites.is_suspect(here));
    assert_eq!(sites.report()[0].stalls, 1);
    sites.end(other);
}

#[test]
fn no_more_run_in_blocking_mode_than_may() {
    let (sites, here) = (Sites::new(true, 2), Location::caller());
    let other = Location::caller();
    sites.stalled(here, true);
    sites.stalled(other, true);
    let first = begin(&sites, here, at(0));
    begin(&sites, other, at(0));
    assert_eq!(sites.begin(here, true, OsThread(7), at(0)), None, "of all sites together");
    assert!(sites.is_suspect(here));
    sites.end(first);
    begin(&sites, here, at(1));
}

/// By how many of its runs are stuck a flagged site is judged.
#[test]
fn runs_of_a_flagged_site_are_looked_at_until_it_is_known() {
    let (sites, here) = (sites(), Location::caller());
    let (_, now) = half_of_them_stuck(&sites, here, ENOUGH, 0);
    assert!(!sites.wants_a_look());
    for (blocks, looks) in [(true, 1), (false, LOOKS)] {
        let run = begin(&sites, here, at(now));
        for _ in 0..looks {
            assert!(sites.wants_a_look(), "{blocks}");
            sites.look(at(now + 100), PERIOD, |_| blocks);
        }
        assert!(!sites.wants_a_look(), "{blocks}");
        sites.end(run);
    }
}

/// Hundreds may begin before the supervisor looks for the first time.
#[test]
fn those_that_began_before_the_first_look_are_counted() {
    let (sites, here) = (sites(), Location::caller());
    let years = 40 * 365 * 86_400_000;
    sites.stalled(here, true);
    let begins = |fibers, now| (0..fibers).for_each(|_| _ = begin(&sites, here, at(now)));
    begins(400, years);
    sites.look(at(years + 1), PERIOD, |_| true);
    begins(ENOUGH, years + 2);
    (100..103).for_each(|later| sites.look(at(years + later), PERIOD, |_| true));
    assert!(!sites.report()[0].flagged, "{:?}", sites.inner.lock().known);
}
