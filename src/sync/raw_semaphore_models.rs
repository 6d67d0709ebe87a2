//! Under loom: no permit is lost or made, and nobody waits for one that is there.

use super::*;
use crate::park::cancelled;
use crate::primitives::sync::Arc;
use crate::sync::check;
use loom::thread;

fn acquire_and_release(semaphore: &RawSemaphore, count: usize) -> bool {
    let acquired = semaphore.acquire(count, None).is_ok();
    if acquired {
        semaphore.release(count);
    }
    acquired
}

fn beside(
    semaphore: &Arc<RawSemaphore>,
    f: impl FnOnce(&RawSemaphore) -> bool + 'static,
) -> thread::JoinHandle<bool> {
    let semaphore = Arc::clone(semaphore);
    thread::spawn(move || f(&semaphore))
}

/// All are through: the permits are there, and nothing else.
fn check_permits(semaphore: &RawSemaphore, count: usize) {
    assert_eq!(semaphore.word.load(Relaxed), count * PERMIT);
}

#[test]
fn three_share_a_permit() {
    check(2, || {
        let semaphore = Arc::new(RawSemaphore::new(1));
        let others = [(); 2].map(|()| beside(&semaphore, |it| acquire_and_release(it, 1)));
        assert!(acquire_and_release(&semaphore, 1));
        others.into_iter().for_each(|other| assert!(other.join().unwrap()));
        check_permits(&semaphore, 1);
    });
}

#[test]
fn one_wants_both() {
    check(2, || {
        let semaphore = Arc::new(RawSemaphore::new(2));
        let wants_both = beside(&semaphore, |it| acquire_and_release(it, 2));
        let wants_one = beside(&semaphore, |it| acquire_and_release(it, 1));
        assert!(acquire_and_release(&semaphore, 1));
        assert!(wants_both.join().unwrap() && wants_one.join().unwrap());
        check_permits(&semaphore, 2);
    });
}

#[test]
fn one_who_wants_both_gives_up() {
    check(2, || {
        let semaphore = Arc::new(RawSemaphore::new(2));
        let gives_up = beside(&semaphore, |it| cancelled(|| acquire_and_release(it, 2)));
        let wants_one = beside(&semaphore, |it| acquire_and_release(it, 1));
        assert!(acquire_and_release(&semaphore, 1));
        gives_up.join().unwrap();
        assert!(wants_one.join().unwrap());
        check_permits(&semaphore, 2);
    });
}

#[test]
fn one_does_not_wait_for_the_one_who_gave_up() {
    check(3, || {
        let semaphore = Arc::new(RawSemaphore::new(2));
        assert!(semaphore.acquire(1, None).is_ok());
        let gives_up = beside(&semaphore, |it| cancelled(|| acquire_and_release(it, 2)));
        let wants_one = beside(&semaphore, |it| acquire_and_release(it, 1));
        assert!(!gives_up.join().unwrap());
        assert!(wants_one.join().unwrap());
        semaphore.release(1);
        check_permits(&semaphore, 2);
    });
}

#[test]
fn permits_come_from_outside() {
    check(3, || {
        let semaphore = Arc::new(RawSemaphore::new(0));
        let waits = beside(&semaphore, |it| it.acquire(2, None).is_ok());
        semaphore.release(1);
        semaphore.release(1);
        assert!(waits.join().unwrap());
        check_permits(&semaphore, 0);
    });
}

#[test]
fn it_is_closed_over_one_who_waits() {
    check(3, || {
        let semaphore = Arc::new(RawSemaphore::new(0));
        let waits = beside(&semaphore, |it| it.acquire(1, None).is_ok());
        let releases = beside(&semaphore, |it| {
            it.release(1);
            true
        });
        semaphore.close();
        let acquired = waits.join().unwrap();
        assert!(releases.join().unwrap());
        assert_eq!(semaphore.available(), 1 - usize::from(acquired));
    });
}
