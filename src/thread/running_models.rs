//! Under loom: whoever waited for a scope's fibers sees what all of them did.

use super::*;
use crate::primitives::models::{Done, check};
use crate::primitives::sync::Arc;
use loom::thread::{self, JoinHandle};

fn fiber(running: &Arc<Running>, done: &Arc<Done>, panics: bool) -> JoinHandle<()> {
    running.one_more();
    let (running, done) = (Arc::clone(running), Arc::clone(done));
    thread::spawn(move || {
        done.write();
        running.one_ended(panics);
    })
}

fn wait(running: &Running) {
    assert_eq!(running.wait(Wait::cancellable("scope")), Outcome::Woken(0));
    assert_eq!(running.count(), 0);
}

#[test]
fn the_owner_waits_for_two() {
    check(3, || {
        let running = Arc::<Running>::default();
        let done = [Arc::default(), Arc::default()];
        let mut panics = [true, false].into_iter();
        let fibers = done.each_ref().map(|done| fiber(&running, done, panics.next().unwrap()));
        wait(&running);
        done.iter().for_each(|done| done.check());
        assert!(running.has_panicked());
        assert!(running.ended.is_empty());
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn a_fiber_starts_another() {
    check(3, || {
        let running = Arc::<Running>::default();
        let done = Arc::<Done>::default();
        running.one_more();
        let first = {
            let (running, done) = (Arc::clone(&running), Arc::clone(&done));
            thread::spawn(move || {
                let other = fiber(&running, &done, false);
                running.one_ended(false);
                other.join().unwrap();
            })
        };
        wait(&running);
        done.check();
        first.join().unwrap();
    });
}
