//! A fiber's state word, one transition after the other.

use super::*;

fn active() -> State {
    let state = State::fresh();
    assert!(state.start());
    state
}

#[test]
fn a_fiber_is_started_once() {
    let state = State::fresh();
    assert!(state.start());
    assert!(!state.start());
}

#[test]
fn a_wake_before_the_park_is_kept() {
    let state = active();
    state.begin_wait();
    assert_eq!(state.settle(Outcome::Woken(7)), Settle::Noted);
    let seen = state.publish(Ends::BY_SOURCES).unwrap_err();
    assert_eq!(seen.outcome(), Outcome::Woken(7));
}

#[test]
fn a_wait_stays_open_as_long_as_nothing_ends_it() {
    let ended_by = |end: fn(&State), ends| {
        let state = active();
        state.begin_wait();
        assert!(state.stays_open(ends));
        end(&state);
        let open = state.stays_open(ends);
        assert_eq!(open, state.publish(ends).is_ok());
        !open
    };
    let settle = |state: &State| assert_eq!(state.settle(Outcome::Woken(0)), Settle::Noted);
    let cancel = |state: &State| assert_eq!(state.cancel(), Settle::Noted);
    let unpark = |state: &State| assert_eq!(state.unpark(), Settle::Noted);
    assert!(ended_by(settle, Ends::BY_SOURCES));
    assert!(ended_by(cancel, Ends::CANCEL) && !ended_by(cancel, Ends::PERMIT));
    assert!(ended_by(unpark, Ends::PERMIT) && !ended_by(unpark, Ends::CANCEL));
}

#[test]
fn a_wait_is_settled_once() {
    let state = active();
    state.begin_wait();
    state.publish(Ends::BY_SOURCES).unwrap();
    assert_eq!(state.settle(Outcome::TimedOut), Settle::Wake);
    assert_eq!(state.settle(Outcome::Woken(1)), Settle::Late);
    assert_eq!(state.load().outcome(), Outcome::TimedOut);
    state.begin_wait();
    state.publish(Ends::BY_SOURCES).unwrap();
    assert_eq!(state.settle(Outcome::Woken(u32::MAX)), Settle::Wake);
    assert_eq!(state.load().outcome(), Outcome::Woken(u32::MAX));
}

#[test]
fn only_a_fiber_that_is_parked_and_in_no_queue_is_settled_in_short() {
    let woken = Outcome::Woken(1);
    let parked = |state: State, ends: Ends| {
        assert!(!state.settle_parked_fiber(woken), "it is not parked yet");
        state.begin_wait();
        state.publish(ends).unwrap();
        let settled = state.settle_parked_fiber(woken);
        assert_eq!(state.load().is_parked(), !settled);
        assert!(!settled || state.load().outcome() == woken);
        settled
    };
    assert!(parked(active(), Ends::CANCEL));
    assert!(!parked(active(), Ends::BLOCKS), "its thread must be woken");
    assert!(!parked(State::thread(), Ends::BY_SOURCES), "it is no fiber");
    let early = State::fresh();
    assert!(early.start_out_of_turn());
    assert!(!parked(early, Ends::BY_SOURCES), "an entry of it stands in a queue");
}

#[test]
fn two_unparks_are_one_permit() {
    let state = active();
    assert_eq!(state.unpark(), Settle::Noted);
    assert_eq!(state.unpark(), Settle::Noted);
    assert!(state.take_permit());
    assert!(!state.take_permit());
    state.publish(Ends::PERMIT).unwrap();
    assert_eq!(state.unpark(), Settle::Wake);
    assert!(!state.take_permit(), "the wait consumed it");
}

#[test]
fn an_unpark_does_not_end_other_waits() {
    let state = active();
    state.publish(Ends::BY_SOURCES).unwrap();
    assert_eq!(state.unpark(), Settle::Noted);
    assert!(state.load().is_parked());
    assert_eq!(state.settle(Outcome::Woken(0)), Settle::Wake);
    assert!(state.take_permit());
}

#[test]
fn a_cancel_ends_only_waits_that_allow_it() {
    let state = active();
    state.publish(Ends::BY_SOURCES).unwrap();
    assert_eq!(state.cancel(), Settle::Noted);
    assert_eq!(state.settle(Outcome::Woken(0)), Settle::Wake);
    state.begin_wait();
    let seen = state.publish(Ends::CANCEL).unwrap_err();
    assert_eq!(seen.outcome(), Outcome::Cancelled);
}

#[test]
fn a_detached_result_is_noticed() {
    let state = active();
    assert!(state.detach().is_ok());
    assert!(state.finish(true).is_err());
    assert!(state.finish(false).unwrap().is_exclusive());
    assert!(state.detach().is_err());
}

/// Joined before its start, it stands in a queue still.
#[test]
fn only_a_wait_that_a_cancel_may_end_is_given_up() {
    let given_up = |state: &State| {
        state.give_up();
        state.load().is_settled_in(state.turn())
    };
    let state = State::fresh();
    assert!(state.start_out_of_turn());
    state.begin_wait();
    assert!(!given_up(&state), "it runs");
    state.publish(Ends::BY_SOURCES).unwrap();
    assert!(!given_up(&state));
    assert_eq!(state.settle(Outcome::Woken(0)), Settle::Wake);
    state.begin_wait();
    state.publish(Ends::CANCEL).unwrap();
    assert!(!state.is_over() && given_up(&state) && state.is_over());
    assert_eq!(state.settle(Outcome::Woken(0)), Settle::Late);
    assert!(!state.load().is_cancelled());
}
