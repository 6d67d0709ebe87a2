//! How many fibers a look for a deadlock looks at.

use super::Builder;
use crate::primitives::clock::Moment;
use crate::thread;
use std::sync::atomic::Ordering;
use std::time::Duration;

const FIBERS: usize = 50;
const LONG: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);

/// The one that waits for a timer is found last, and first from then on; once it is gone all are looked at.
#[test]
fn a_look_for_a_deadlock_begins_where_the_last_one_has_ended() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let handle = runtime.handle().clone();
    let waiting = |what| {
        let fibers = handle.fibers(2 * FIBERS).into_iter();
        fibers.filter(move |fiber| fiber.waits_for == Some(what))
    };
    let until = |what, count: usize| {
        let deadline = Moment::now().saturating_add(LONG);
        while waiting(what).count() != count {
            assert!(Moment::now() < deadline, "{count} wait for {what}");
            thread::yield_now();
        }
    };
    let sleeper = runtime.run(|| {
        let sleeps = || {
            thread::park();
            thread::sleep(HOUR);
        };
        let mut fibers: Vec<_> = (0..FIBERS).map(|_| crate::go(sleeps)).collect();
        until("park", FIBERS);
        let last = waiting("park").next_back().unwrap().id;
        let sleeper = fibers.iter().position(|fiber| fiber.thread().id() == last).unwrap();
        fibers[sleeper].thread().unpark();
        until("sleep", 1);
        fibers.swap_remove(sleeper)
    });
    let look = || {
        let before = handle.0.looked_at.load(Ordering::Relaxed);
        let undecided = handle.0.look_for_deadlock(|| ());
        (undecided, handle.0.looked_at.load(Ordering::Relaxed) - before)
    };
    // Where nobody knows what other threads do there is nothing to look for.
    if cfg!(target_os = "linux") && !cfg!(miri) {
        assert_eq!(look(), (false, FIBERS));
        assert_eq!(look(), (false, 1));
    }
    runtime.run(|| {
        sleeper.cancel();
        assert!(sleeper.join().is_err());
    });
    if cfg!(target_os = "linux") && !cfg!(miri) {
        assert_eq!(look(), (true, FIBERS - 1), "this thread is awake");
    }
    runtime.shutdown_now(LONG).unwrap();
}
