//! Under loom: two waiters choose while a select opens its wait, parks, is cancelled: one of them at most is
//! told that it has chosen, and that is the one that the select hears of.

use super::*;
use crate::park::{Parking, Wait, cancelled};
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use loom::thread;

const PREEMPTIONS: usize = 3;

/// A select of two cases of others; returns which was chosen.
fn select(ticket: &Ticket) -> Option<u32> {
    let parking = Parking::begin("a model");
    let outcome = match ticket.arm(parking.waiter()) {
        Ok(()) => parking.park(Wait::cancellable("select")),
        Err(result) => Outcome::Woken(result),
    };
    let _ = ticket.close();
    match outcome {
        Outcome::Woken(READY) | Outcome::TimedOut | Outcome::Cancelled => None,
        Outcome::Woken(position) => Some(position),
    }
}

fn chooses(ticket: &Arc<Ticket>, position: u32) -> thread::JoinHandle<bool> {
    let ticket = Arc::clone(ticket);
    thread::spawn(move || ticket.end(Stand::Chosen(position), position))
}

#[test]
fn one_of_two_is_chosen() {
    check(PREEMPTIONS, || {
        let ticket = Arc::new(Ticket::new());
        let choosing = [chooses(&ticket, 0), chooses(&ticket, 1)];
        let chosen = select(&ticket).expect("nobody cancels");
        let told = choosing.map(|thread| thread.join().unwrap());
        assert_eq!(told, [chosen == 0, chosen == 1]);
    });
}

#[test]
fn a_cancel_and_a_wake_meet_a_choice() {
    check(PREEMPTIONS, || {
        let ticket = Arc::new(Ticket::new());
        let choosing = chooses(&ticket, 1);
        let theirs = Arc::clone(&ticket);
        let waking = thread::spawn(move || _ = theirs.end(Stand::Changed, READY));
        let chosen = cancelled(|| select(&ticket));
        let told = choosing.join().unwrap();
        waking.join().unwrap();
        assert_eq!(chosen, told.then_some(1));
        assert!(!ticket.end(Stand::Chosen(0), 0), "nobody is there");
    });
}
