//! Under loom: a raise ends the open wait or the next one, and a wait that something else ended has only
//! that outcome.

use super::*;
use crate::fiber::{Ends, ThreadBlock};
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use loom::thread::spawn;

const PREEMPTIONS: usize = 3;
const PREEMPTIONS_OF_THREE: usize = 2;

fn run(wake: Option<Wake>) {
    match wake {
        Some(Wake::Thread(thread)) => thread.wake(),
        Some(Wake::Fiber(fiber)) => panic!("{fiber:?} does not wait here"),
        None => {}
    }
}

/// A source with one place.
type Place = Mutex<Option<WaiterPtr>>;

/// A wait in the scope of `interrupt`, as `park` does it; `begin_wait` was called.
fn park(thread: &Arc<ThreadBlock>, interrupt: &Interrupt) -> Outcome {
    let (state, waiter) = (thread.state(), WaiterPtr::of_thread(thread));
    let outcome = if interrupt.link(waiter) {
        thread.wait(state, Ends::BY_SOURCES, None)
    } else {
        let _ = state.settle(Outcome::Cancelled);
        state.load().outcome()
    };
    let raised = interrupt.unlink();
    assert!(raised || outcome != Outcome::Cancelled, "cancelled by nobody");
    outcome
}

/// A wait that nothing else ends.
fn wait(thread: &Arc<ThreadBlock>, interrupt: &Interrupt) -> Outcome {
    thread.state().begin_wait();
    park(thread, interrupt)
}

#[test]
fn a_raise_meets_a_wait() {
    check(PREEMPTIONS, || {
        let interrupt = Arc::new(Interrupt::new());
        let theirs = Arc::clone(&interrupt);
        let raiser = spawn(move || run(theirs.raise()));
        let thread = ThreadBlock::new();
        assert_eq!(wait(&thread, &interrupt), Outcome::Cancelled);
        raiser.join().unwrap();
        assert_eq!(wait(&thread, &interrupt), Outcome::Cancelled, "and every later one");
    });
}

#[test]
fn a_raise_a_wake_and_a_wait() {
    check(PREEMPTIONS_OF_THREE, || {
        let (interrupt, place) = (Arc::new(Interrupt::new()), Arc::new(Place::new(None)));
        let (theirs, thread) = (Arc::clone(&interrupt), ThreadBlock::new());
        let raiser = spawn(move || run(theirs.raise()));
        // Linked before the waker begins, so that there is a wait for it to end.
        thread.state().begin_wait();
        *place.lock() = Some(WaiterPtr::of_thread(&thread));
        let theirs = Arc::clone(&place);
        let waker = spawn(move || {
            let mut place = theirs.lock();
            // SAFETY: linked, and the lock is held.
            let wake = place.take().map(|waiter| unsafe { waiter.settle(Outcome::Woken(7)) });
            drop(place);
            run(wake.flatten());
        });
        let outcome = park(&thread, &interrupt);
        *place.lock() = None;
        assert!(matches!(outcome, Outcome::Cancelled | Outcome::Woken(7)), "{outcome:?}");
        raiser.join().unwrap();
        waker.join().unwrap();
        assert_eq!(wait(&thread, &interrupt), Outcome::Cancelled, "the raise is not lost");
    });
}
