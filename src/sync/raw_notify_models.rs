//! Under loom: notifications meet a select of two, and a cancel: each goes to one who takes it, or is kept.

use super::*;
use crate::park::{Outcome, Parking, cancelled};
use crate::sync::check;
use loom::sync::Arc;
use loom::thread;
use std::pin::pin;

const PREEMPTIONS: usize = 3;

/// What a select of `sources` has taken: one, or nothing, since it was cancelled.
fn select(sources: [&RawNotify; 2]) -> Option<usize> {
    if let Some(ready) = sources.iter().position(|source| source.take()) {
        return Some(ready);
    }
    let parking = Parking::begin("a model");
    let node = |result| Node::of_select(parking.waiter(), result, Wants::Permit);
    let nodes = pin!([node(0), node(1)]);
    let mut linked = 0;
    for (source, node) in sources.iter().zip(nodes.iter()) {
        // SAFETY: unlinked below.
        if !unsafe { source.link(NonNull::from(node)) } {
            break;
        }
        linked += 1;
    }
    let outcome =
        if linked == 2 { parking.park(Wait::cancellable("select")) } else { parking.end(u32::MAX) };
    for (source, node) in sources.iter().zip(nodes.iter()).take(linked) {
        // SAFETY: linked there.
        unsafe { source.unlink(NonNull::from(node)) };
    }
    match outcome {
        Outcome::Woken(u32::MAX) => select(sources),
        Outcome::Woken(result) => Some(result as usize),
        Outcome::TimedOut | Outcome::Cancelled => None,
    }
}

fn pair() -> Arc<[RawNotify; 2]> {
    Arc::new([RawNotify::new(), RawNotify::new()])
}

#[test]
fn a_select_takes_one_notification_of_two() {
    check(PREEMPTIONS, || {
        let both = pair();
        let notifying: [_; 2] = std::array::from_fn(|n| {
            let both = Arc::clone(&both);
            thread::spawn(move || both[n].notify_one())
        });
        let taken = select([&both[0], &both[1]]).expect("nobody cancels");
        notifying.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!both[taken].take(), "taken and kept");
        assert!(both[1 - taken].take(), "lost");
    });
}

#[test]
fn what_a_cancelled_select_does_not_take_goes_to_the_next() {
    check(PREEMPTIONS, || {
        let both = pair();
        let theirs = Arc::clone(&both);
        let selecting =
            thread::spawn(move || cancelled(|| select([&theirs[0], &theirs[1]]).is_some()));
        let theirs = Arc::clone(&both);
        let waiting = thread::spawn(move || {
            cancelled(|| theirs[0].wait(Wait::cancellable("model")) != Waited::Cancelled)
        });
        both[0].notify_one();
        let taken = u32::from(selecting.join().unwrap()) + u32::from(waiting.join().unwrap());
        assert_eq!(taken + u32::from(both[0].take()), 1);
    });
}

#[test]
fn one_who_watches_takes_nothing_and_hears_of_it() {
    check(PREEMPTIONS, || {
        let notify = Arc::new(RawNotify::new());
        let theirs = Arc::clone(&notify);
        let watching = thread::spawn(move || {
            while !theirs.has_permit() {
                let parking = Parking::begin("a model");
                let node = pin!(Node::of_select(parking.waiter(), 5, Wants::News));
                // SAFETY: unlinked below.
                if unsafe { theirs.link(NonNull::from(&*node)) } {
                    assert_eq!(parking.park(Wait::new("watch")), Outcome::Woken(5));
                    // SAFETY: linked there.
                    unsafe { theirs.unlink(NonNull::from(&*node)) };
                }
            }
        });
        notify.notify_one();
        watching.join().unwrap();
        assert!(notify.take());
    });
}
