//! Under loom: a wait is settled once, and its waiter is made to run once, whoever comes when.

use super::*;
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use loom::thread;

const ENDS: Ends = Ends::PERMIT.or(Ends::CANCEL);

/// A fiber that runs.
fn running() -> Arc<State> {
    let state = Arc::new(State::fresh());
    assert!(state.start());
    state
}

fn beside<const N: usize>(
    state: &Arc<State>,
    others: [fn(&State) -> Settle; N],
) -> [thread::JoinHandle<Settle>; N] {
    others.map(|other| {
        let state = Arc::clone(state);
        thread::spawn(move || other(&state))
    })
}

/// As a waker does it that has a node of the waiter's.
fn wake(state: &State, result: u32) -> Settle {
    let outcome = Outcome::Woken(result);
    match state.settle_parked_fiber(outcome) {
        true => Settle::Wake,
        false => state.settle(outcome),
    }
}

/// Runs `others` beside a fiber that waits, and checks that the right to make it run is given out
/// exactly once: to one of the others, or back to the fiber, whose publish then fails.
fn settles_once<const N: usize>(others: [fn(&State) -> Settle; N]) {
    check(5, move || {
        let state = running();
        state.begin_wait();
        let others = beside(&state, others);
        let published = state.publish(ENDS).is_ok();
        let settled = others.map(|other| other.join().unwrap());
        let wakes = settled.iter().filter(|settle| **settle == Settle::Wake).count();
        assert_eq!(wakes, usize::from(published), "{settled:?}, published: {published}");
        assert!(!state.load().is_parked(), "left behind: {settled:?}");
    });
}

#[test]
fn a_wake_meets_a_park() {
    settles_once([|state| wake(state, 1)]);
}

#[test]
fn an_unpark_meets_a_park() {
    settles_once([State::unpark]);
}

#[test]
fn a_cancel_meets_a_park() {
    settles_once([State::cancel]);
}

#[test]
fn a_wake_a_timeout_and_a_park() {
    settles_once([|state| wake(state, 1), |state| state.settle(Outcome::TimedOut)]);
}

#[test]
fn a_timeout_an_unpark_and_a_park() {
    settles_once([|state| state.settle(Outcome::TimedOut), State::unpark]);
}

/// A token may end the wait too, or its time be over, before the owner runs.
#[test]
fn an_unpark_is_not_lost_to_who_comes_after_it() {
    check(5, || {
        let state = running();
        state.begin_wait();
        let others = beside(&state, [State::unpark, |state| state.settle(Outcome::TimedOut)]);
        let _ = state.publish(ENDS);
        let _ = others.map(|other| other.join().unwrap());
        let end = state.load();
        assert!(end.outcome() == BY_UNPARK || end.is(PERMIT), "{end:?}");
    });
}

#[test]
fn a_cancel_an_unpark_and_a_park() {
    settles_once([State::cancel, State::unpark]);
}

/// As `settles_once`, for a wait whose time is over before it is published: nobody has to wake its fiber, which
/// knows how it ended, and what comes too late for it is not the end of the next.
fn times_out<const N: usize>(others: [fn(&State) -> Settle; N]) {
    check(5, move || {
        let state = running();
        state.begin_wait();
        let others = beside(&state, others);
        let outcome = state.time_out(ENDS);
        let settled = others.map(|other| other.join().unwrap());
        assert!(settled.iter().all(|settle| matches!(settle, Settle::Noted | Settle::Late)));
        assert!(!state.load().is_parked());
        let permit = state.take_permit();
        let cancelled = state.load().is(CANCEL);
        match outcome {
            // By the permit if it is gone, or by the wake.
            Outcome::Woken(0) => assert!(!permit),
            Outcome::Woken(_) => assert!(settled.contains(&Settle::Noted)),
            Outcome::TimedOut => {}
            Outcome::Cancelled => assert!(cancelled),
        }
        state.begin_wait();
        let next = if cancelled { Outcome::Cancelled } else { Outcome::TimedOut };
        assert_eq!(state.time_out(ENDS), next, "another wait");
    });
}

#[test]
fn a_wake_meets_a_wait_for_no_time() {
    times_out([|state| wake(state, 1)]);
}

#[test]
fn an_unpark_and_a_wake_meet_a_wait_for_no_time() {
    times_out([State::unpark, |state| wake(state, 1)]);
}

#[test]
fn a_cancel_and_a_wake_meet_a_wait_for_no_time() {
    times_out([State::cancel, |state| wake(state, 1)]);
}

#[test]
fn a_cancel_and_an_unpark_meet_a_wait_for_no_time() {
    times_out([State::cancel, State::unpark]);
}

/// Each who waits gets the result of whoever settled it, and sees what that one did before.
#[test]
fn two_waits_in_a_row_keep_apart() {
    loom::model(|| {
        let state = running();
        let seen = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        for wait in [0, 1] {
            state.begin_wait();
            let (theirs, written) = (Arc::clone(&state), Arc::clone(&seen));
            let other = thread::spawn(move || {
                written[wait].store(1, Ordering::Relaxed);
                wake(&theirs, wait as u32)
            });
            let early = state.publish(ENDS).err().map(Snapshot::outcome);
            if let Some(outcome) = early {
                assert_eq!(outcome, Outcome::Woken(wait as u32));
                assert_eq!(
                    seen[wait].load(Ordering::Relaxed),
                    1,
                    "the waker's writes are not seen"
                );
            }
            assert_eq!(other.join().unwrap() == Settle::Wake, early.is_none());
            assert_eq!(state.load().outcome(), Outcome::Woken(wait as u32));
        }
    });
}

/// Whoever takes a fiber out of its wait sees what it did before it was published: its context.
#[test]
fn a_waker_sees_what_the_parked_left() {
    loom::model(|| {
        let state = running();
        state.begin_wait();
        let context = Arc::new(AtomicU64::new(0));
        let (theirs, stored) = (Arc::clone(&state), Arc::clone(&context));
        let other = thread::spawn(move || {
            let settle = wake(&theirs, 0);
            assert!(settle != Settle::Wake || stored.load(Ordering::Relaxed) == 1);
        });
        context.store(1, Ordering::Relaxed);
        let _ = state.publish(ENDS);
        other.join().unwrap();
    });
}

#[test]
fn a_fiber_is_started_once() {
    loom::model(|| {
        let state = Arc::new(State::fresh());
        let theirs = Arc::clone(&state);
        let other = thread::spawn(move || theirs.start());
        let cancelled = state.cancel();
        assert_eq!(cancelled, Settle::Noted);
        let mine = state.start();
        assert!(mine != other.join().unwrap(), "started twice, or never");
        assert!(state.load().is_cancelled(), "the start lost the cancel");
    });
}

#[test]
fn a_cancel_a_timeout_and_a_park() {
    settles_once([State::cancel, |state| state.settle(Outcome::TimedOut)]);
}

#[test]
fn a_cancel_a_wake_and_a_park() {
    settles_once([State::cancel, |state| wake(state, 1)]);
}

#[test]
fn a_cancel_that_comes_late_ends_the_next_wait() {
    loom::model(|| {
        let state = running();
        let theirs = Arc::clone(&state);
        let other = thread::spawn(move || theirs.cancel());
        let mut wakes = 0;
        state.begin_wait();
        // Parked, it must be woken; else it has been told already.
        wakes += u32::from(state.publish(ENDS).is_ok());
        let settled = other.join().unwrap();
        assert_eq!(u32::from(settled == Settle::Wake), wakes);
        assert_eq!(state.load().outcome(), Outcome::Cancelled);
        state.begin_wait();
        assert_eq!(state.publish(ENDS).unwrap_err().outcome(), Outcome::Cancelled);
    });
}

#[test]
fn a_permit_is_taken_once() {
    loom::model(|| {
        let state = running();
        let theirs = Arc::clone(&state);
        let other = thread::spawn(move || theirs.unpark());
        let _ = state.unpark();
        let early = state.take_permit();
        let _ = other.join().unwrap();
        let late = state.take_permit();
        // Two unparks: one permit, or one before and one after it was taken.
        assert!(early || late);
        assert!(!state.take_permit());
    });
}

#[test]
fn the_end_and_the_handle_agree_who_drops_the_result() {
    loom::model(|| {
        let state = running();
        let theirs = Arc::clone(&state);
        let handle = thread::spawn(move || theirs.detach().is_err());
        let kept_for_handle = state.finish(true).is_ok();
        let handle_drops = handle.join().unwrap();
        assert_eq!(kept_for_handle, handle_drops, "dropped twice, or never");
        if !kept_for_handle {
            assert!(state.finish(false).is_ok());
        }
    });
}
