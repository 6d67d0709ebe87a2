//! Under loom: it is done once, all see what was done, and nobody waits for what is over.

use super::*;
use crate::park::cancelled;
use crate::primitives::sync::{Arc, UnsafeCell};
use crate::sync::check;
use loom::thread;

struct Done {
    once: RawOnce,
    times: UnsafeCell<u32>,
}

// SAFETY: `times` is written by the one who does it, and read when it is done; loom checks it.
unsafe impl Sync for Done {}

impl Done {
    fn new() -> Arc<Done> {
        Arc::new(Done { once: RawOnce::new(), times: UnsafeCell::new(0) })
    }

    fn call(&self) -> bool {
        match self.once.begin(true) {
            Ok(Begin::Run(running)) => {
                // SAFETY: see above.
                self.times.with_mut(|times| unsafe { *times += 1 });
                running.done();
            }
            Ok(Begin::Done) => {}
            Ok(Begin::Poisoned) => unreachable!("forced"),
            Err(Cancelled) => return false,
        }
        self.look();
        true
    }

    /// Begins it and does not come to the end.
    fn fail(&self) -> bool {
        match self.once.begin(true) {
            Ok(Begin::Run(running)) => drop(running),
            _ => self.look(),
        }
        true
    }

    fn wait(&self) -> bool {
        let done = self.once.wait_done(true).is_ok();
        if done {
            self.look();
        }
        done
    }

    fn look(&self) {
        // SAFETY: see above.
        self.times.with(|times| assert_eq!(unsafe { *times }, 1));
    }
}

fn all_come_through(others: [fn(&Done) -> bool; 2]) {
    check(3, move || {
        let done = Done::new();
        let others = others.map(|other| {
            let done = Arc::clone(&done);
            thread::spawn(move || other(&done))
        });
        assert!(done.call());
        others.into_iter().for_each(|other| _ = other.join().unwrap());
        done.look();
    });
}

#[test]
fn three_call() {
    all_come_through([Done::call, Done::call]);
}

#[test]
fn one_fails() {
    all_come_through([Done::call, Done::fail]);
}

#[test]
fn one_waits() {
    all_come_through([Done::wait, Done::call]);
}

#[test]
fn one_waits_and_one_fails() {
    all_come_through([Done::wait, Done::fail]);
}

#[test]
fn one_gives_up() {
    all_come_through([|done| cancelled(|| done.wait()), Done::wait]);
}
