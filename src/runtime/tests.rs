//! How a shutdown learns that the last fiber has ended; who sleeps in the poller.

use super::Builder;
use super::runtime::wait_drained;
use crate::park::{self, Wait};
use crate::primitives::clock::Moment;
use crate::scheduler::Shared;
use crate::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(10);

fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "still waiting for: {what}");
        std::thread::yield_now();
    }
}

/// Drains with `drain` on a thread of its own, ends the last fiber once that waits and `before` has
/// been called, and says how long the drain went on after that.
fn drain_with(drain: fn(&Shared), before: fn(&Shared)) -> Duration {
    let runtime = Builder::new().workers(2).build().unwrap();
    let shared = Arc::clone(&runtime.handle().0);
    let fiber = runtime.go(thread::park);
    let theirs = Arc::clone(&shared);
    let drainer = std::thread::spawn(move || drain(&theirs));
    until("somebody waits for the end", || !shared.drained.is_empty());
    before(&shared);
    let start = Instant::now();
    fiber.thread().unpark();
    drainer.join().unwrap();
    fiber.join().unwrap();
    start.elapsed()
}

/// Without a second look: the end itself must tell.
#[test]
fn the_last_end_wakes_who_waits_for_it() {
    fn drain(shared: &Shared) {
        shared.begin_drain();
        let deadline = Some(Moment::now().saturating_add(LONG * 2));
        let wait = Wait { deadline, ..Wait::new("shutdown") };
        park::wait_until(&shared.drained, wait, || shared.live() == 0);
    }
    let took = drain_with(drain, |_| ());
    assert!(took < LONG, "the last end told nobody");
}

/// The fiber ends as one that has not seen yet that a drain has begun: it tells nobody.
#[test]
fn an_end_that_tells_nobody_is_seen_all_the_same() {
    fn drain(shared: &Shared) {
        wait_drained(shared, Moment::now().saturating_add(LONG * 2));
    }
    let took = drain_with(drain, |shared| shared.draining.store(false, Ordering::SeqCst));
    assert!(took < LONG, "nobody looked again");
}

/// Each fiber starts the next before it ends, so there is always one: no moment may look like the
/// end of all.
#[test]
fn a_chain_of_fibers_is_never_seen_dead() {
    fn link(stop: Arc<AtomicBool>) {
        if !stop.load(Ordering::Relaxed) {
            drop(crate::go(move || link(stop)));
        }
    }
    let runtime = Builder::new().workers(2).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    runtime.go(move || link(theirs));
    let shared = &runtime.handle().0;
    // Looks count only while the chain goes on.
    let mut dead = false;
    while !dead && runtime.stats().total.spawned < 1_000_000 {
        dead = (0..1000).any(|_| shared.live() == 0);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(!dead, "nobody lives, while one fiber starts the next");
    runtime.shutdown(LONG).unwrap();
}

/// A worker goes to bed just when somebody looks at the poller in passing: it takes the place there
/// all the same, or nobody would see its timer.
#[test]
fn who_looks_in_passing_does_not_keep_a_worker_from_the_poller() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let shared = &runtime.handle().0;
    let [running, looking] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let fiber = {
        let (running, looking) = (Arc::clone(&running), Arc::clone(&looking));
        runtime.go(move || {
            running.store(true, Ordering::Release);
            until("somebody looks", || looking.load(Ordering::Acquire));
            thread::sleep(Duration::from_millis(1));
        })
    };
    until("the worker is awake", || running.load(Ordering::Acquire));
    let look = shared.driver.try_role().expect("the only worker runs a fiber");
    let parked = runtime.stats().total.parked;
    looking.store(true, Ordering::Release);
    until("the worker goes to bed", || runtime.stats().total.parked > parked);
    // By the end of this look the worker has found that somebody is there.
    std::thread::sleep(Duration::from_millis(50));
    drop(look);
    until("the timer", || fiber.is_finished());
    runtime.shutdown(LONG).unwrap();
}
