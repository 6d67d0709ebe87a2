//! Who waits for a tenth of a millisecond does not share a wake with others, for which it would wait a whole one.

#![cfg(any(target_os = "linux", target_os = "android"))]

mod common;

use common::{LONG, within};
use std::time::{Duration, Instant};
use volt::runtime::Builder;

const SHORT: Duration = Duration::from_micros(100);

/// How many of twenty waits for [`SHORT`] are over within half a millisecond: 18 and more; 4 at most where they are put
/// off.
fn punctual(mut wait: impl FnMut()) -> usize {
    let mut took = || {
        let start = Instant::now();
        wait();
        start.elapsed()
    };
    (0..20).filter(|_| took() < SHORT * 5).count()
}

/// Whether a plain thread's sleeps are punctual now: on a busy machine there are seconds in which none are.
fn threads_are() -> bool {
    punctual(|| std::thread::sleep(SHORT)) >= 13
}

/// At least once in twenty times in which a thread's sleeps were punctual just before and just after.
#[track_caller]
fn is_punctual(waits: fn() -> usize) {
    within(3 * LONG, move || {
        let runtime = Builder::new().workers(2).build().unwrap();
        let mut in_vain = 0;
        loop {
            let could_be = threads_are();
            if runtime.go(waits).join().unwrap() >= 13 {
                break;
            }
            in_vain += u32::from(could_be && threads_are());
            assert!(in_vain < 20, "threads were punctual, and fibers never");
        }
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn who_sleeps() {
    is_punctual(|| punctual(|| volt::sleep(SHORT)));
}

#[test]
fn who_sleeps_until_a_time() {
    is_punctual(|| punctual(|| volt::time::sleep_until(Instant::now() + SHORT)));
}

#[test]
fn who_receives_until_a_time() {
    is_punctual(|| {
        let (_sender, receiver) = volt::channel::bounded::<()>(0);
        punctual(|| assert!(receiver.recv_timeout(SHORT).is_err()))
    });
}

#[test]
fn a_tick() {
    is_punctual(|| {
        let ticks = volt::channel::tick(SHORT);
        punctual(|| {
            // One that is late is followed by another at once.
            let now = Instant::now();
            while ticks.recv().unwrap() < now {}
        })
    });
}

#[test]
fn whose_time_is_out() {
    is_punctual(|| {
        punctual(|| {
            let end = Instant::now() + SHORT;
            assert!(volt::time::timeout_at(end, volt::thread::park).is_err());
        })
    });
}
