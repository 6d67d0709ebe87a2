//! Under loom: whoever waits for what has happened goes on, and sees what came before it.

use super::*;
use crate::park::cancelled;
use crate::primitives::sync::{Arc, UnsafeCell};
use crate::sync::check;
use loom::thread;

struct Happened {
    event: RawEvent,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is written before the event is set, and read after; loom checks it.
unsafe impl Sync for Happened {}

fn wait(happened: &Happened) {
    if happened.event.wait(Wait::cancellable("model")) != Waited::Cancelled {
        // SAFETY: see above.
        happened.value.with(|value| assert_eq!(unsafe { *value }, 1));
    }
}

fn all_come_through(waiters: [fn(&Happened); 2]) {
    check(3, move || {
        let happened = Arc::new(Happened { event: RawEvent::new(), value: UnsafeCell::new(0) });
        let waiters = waiters.map(|waiter| {
            let happened = Arc::clone(&happened);
            thread::spawn(move || waiter(&happened))
        });
        // SAFETY: see above.
        happened.value.with_mut(|value| unsafe { *value = 1 });
        happened.event.set();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn two_wait() {
    all_come_through([wait, wait]);
}

#[test]
fn one_gives_up() {
    all_come_through([wait, |happened| cancelled(|| wait(happened))]);
}
