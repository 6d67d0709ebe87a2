//! Under loom: cores on their way from thread to thread: each is held by one, and none is left standing
//! while a thread waits for it.

use super::{Crew, KEPT, Next};
use crate::primitives::clock::Moment;
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use loom::thread::spawn;

const PREEMPTIONS: usize = 3;

fn wait(crew: &Crew) -> Option<usize> {
    crew.wait_for_core(Moment::NEVER)
}

/// One blocks and hands its core on; a thread without a core waits for one.
#[test]
fn a_core_that_is_handed_on_is_taken_once() {
    check(PREEMPTIONS, || {
        let crew = Arc::new(Crew::new(1, 1, None));
        let theirs = Arc::clone(&crew);
        let spare = spawn(move || wait(&theirs));
        let next = crew.hand_off(0);
        match next {
            Some(Next::Taken) => {}
            // No thread is to be had: the core is put down, and the one that waits, or will, has it.
            Some(Next::Start(core)) => crew.put_down(core),
            None => panic!("a core that may run was left standing"),
        }
        assert_eq!(spare.join().unwrap(), Some(0), "{next:?}");
        assert_eq!(crew.running(), (1, 1));
        assert_eq!(crew.take(), None, "held twice");
    });
}

/// The supervisor replaces a worker that comes back in that very moment.
#[test]
fn a_stall_and_a_return_leave_as_many_running_as_may() {
    check(PREEMPTIONS, || {
        let crew = Arc::new(Crew::new(1, 1, None));
        let theirs = Arc::clone(&crew);
        let worker = spawn(move || {
            let rejoins = theirs.rejoin(false);
            if !rejoins {
                theirs.retire(0);
            }
            rejoins
        });
        let next = crew.stall(|| Some(1));
        let rejoined = worker.join().unwrap();
        let replaced = match next {
            Some(Next::Start(_)) => true,
            None => false,
            Some(Next::Taken) => panic!("nobody waits"),
        };
        // Either the old one goes on or a new one, with its own core or that of the old one.
        assert!(
            rejoined != replaced || next == Some(Next::Start(0)),
            "{next:?} and rejoined: {rejoined}"
        );
        assert_eq!(crew.running().0, 1);
    });
}

/// The thread of a current-thread runtime wants its core back from a helper.
#[test]
fn a_claim_is_met_by_whoever_lets_go() {
    check(PREEMPTIONS, || {
        let crew = Arc::new(Crew::new(1, 1, None));
        let theirs = Arc::clone(&crew);
        let claimer = spawn(move || theirs.claim_core(1, Moment::NEVER, || ()));
        // The helper looks now and then whether somebody claims the core.
        while !(crew.is_crowded() && crew.give_up(0)) {
            loom::thread::yield_now();
        }
        assert_eq!(claimer.join().unwrap(), Some(0));
        assert_eq!(crew.running(), (1, 1));
    });
}

/// A helper that keeps its core, because of fibers at home there, sees the thread come for its own and go: at no
/// time it seems to be alone with as many cores as may run.
#[test]
fn a_helper_that_stays_is_always_one_too_many() {
    check(PREEMPTIONS, || {
        let crew = Arc::new(Crew::new(0, 2, Some(KEPT)));
        // The helper's core, and a run that is over.
        assert_eq!(crew.take_kept(), Some(KEPT));
        crew.close(None);
        let theirs = Arc::clone(&crew);
        let thread = spawn(move || {
            assert_eq!(theirs.take_kept(), Some(KEPT));
            theirs.close(Some(KEPT));
        });
        for _ in 0..2 {
            assert!(crew.is_crowded(), "{:?}", crew.running());
        }
        thread.join().unwrap();
    });
}

#[test]
fn who_waits_when_it_all_stops_leaves() {
    check(PREEMPTIONS, || {
        let crew = Arc::new(Crew::new(1, 1, None));
        let waiting = [(); 2].map(|()| {
            let crew = Arc::clone(&crew);
            spawn(move || wait(&crew))
        });
        let next = crew.hand_off(0);
        crew.stop();
        let got = waiting.map(|thread| thread.join().unwrap());
        let cores = got.iter().flatten().count();
        assert_eq!(cores, usize::from(next == Some(Next::Taken)), "{next:?}, {got:?}");
    });
}

/// One that is back at once takes its core from a spare that is about to wake for it, and waits on.
#[test]
fn a_core_that_is_taken_back_is_held_once() {
    check(PREEMPTIONS, || {
        let crew = Arc::new(Crew::new(2, 2, None));
        let theirs = Arc::clone(&crew);
        let spare = spawn(move || wait(&theirs));
        let back = match crew.hand_off(0) {
            Some(Next::Taken) => crew.take_back(),
            _ => Some(0),
        };
        let next = crew.hand_off(1);
        crew.stop();
        let got = spare.join().unwrap();
        let told =
            if back.is_none() { Some(0) } else { Some(1).filter(|_| next == Some(Next::Taken)) };
        assert_eq!(got, told, "{back:?}, {next:?}");
    });
}

/// The same where the spare leaves just then, as it has waited for long.
#[test]
fn a_spare_that_leaves_takes_no_core_along() {
    check(PREEMPTIONS + 1, || {
        let crew = Arc::new(Crew::new(2, 2, None));
        let theirs = Arc::clone(&crew);
        let spare = spawn(move || theirs.wait_for_core(Moment::PAST));
        let (next, back) = (crew.hand_off(0), crew.take_back());
        let got = spare.join().unwrap();
        let taken = next == Some(Next::Taken);
        assert!(taken || back.is_none() && got.is_none(), "{next:?}, {back:?}, {got:?}");
        assert!(!taken || (back.is_some() != got.is_some()), "{back:?}, {got:?}");
    });
}

/// One that has handed its core on waits for one, while a spare wakes for that.
#[test]
fn who_waits_takes_the_core_from_a_spare_or_leaves_it_to_that() {
    check(PREEMPTIONS, || {
        let crew = Arc::new(Crew::new(1, 1, None));
        let theirs = Arc::clone(&crew);
        let spare = spawn(move || {
            let core = wait(&theirs);
            theirs.stop();
            core
        });
        let next = crew.hand_off(0);
        let mine = if next == Some(Next::Taken) { wait(&crew) } else { Some(0) };
        if mine.is_some() {
            // The spare waits on: it gets the core now, or all stops.
            assert_ne!(crew.hand_off(0), None, "it was not held here");
            crew.stop();
        }
        let theirs = spare.join().unwrap();
        assert!(mine.is_some() || theirs == Some(0), "{next:?}, {mine:?}, {theirs:?}");
    });
}
