//! Who ends that a lock is freed plainly.

use super::*;
use crate::primitives::sync::atomic::AtomicU32;
use crate::primitives::tsc;
use crate::sync::plain::{AFTER, AGAIN};
use std::thread;
use std::time::{Duration, Instant};

fn lock_and_unlock(lock: &RawMutex, times: u32) {
    for _ in 0..times {
        lock.lock_uncancelled();
        lock.unlock();
    }
}

fn is_plain(lock: &RawMutex) -> bool {
    lock.flags.load(Relaxed) & PLAIN != 0
}

/// Unless fences are full.
fn becomes_plain(lock: &RawMutex) {
    let begin = Instant::now();
    asymmetric::register();
    while !is_plain(lock) && asymmetric::is_light() {
        lock_and_unlock(lock, 1);
        assert!(begin.elapsed() < 10_000 * AGAIN, "never");
    }
}

/// The calling thread owns the lock until another waits for it.
fn somebody_waits(lock: &RawMutex) {
    lock.lock_uncancelled();
    thread::scope(|scope| {
        scope.spawn(|| lock_and_unlock(lock, 1));
        while lock.flags.load(Relaxed) & QUEUED == 0 {
            thread::yield_now();
        }
        assert!(!is_plain(lock), "the owner would not look");
        lock.unlock();
    });
}

#[test]
fn a_lock_that_nobody_waits_for_becomes_plain_until_somebody_does() {
    let lock = RawMutex::new();
    tsc::prepare();
    lock_and_unlock(&lock, AFTER);
    assert!(!is_plain(&lock));
    becomes_plain(&lock);
    if !is_plain(&lock) {
        return;
    }

    // As long ago as it takes for other locks.
    thread::sleep(2 * AGAIN);
    let ended = Instant::now();
    somebody_waits(&lock);
    lock_and_unlock(&lock, AFTER + 1);
    assert!(!is_plain(&lock) || ended.elapsed() >= AGAIN / 2, "at once");
    becomes_plain(&lock);
    assert!(is_plain(&lock));
}

/// Whoever comes while the token is out need not be seen by the owner.
#[test]
fn a_lock_that_others_wait_for_behind_the_token_stays_plain() {
    let lock = RawMutex::new();
    lock.lock_uncancelled();
    asymmetric::register();
    let plain = if asymmetric::is_light() { PLAIN } else { 0 };
    lock.flags.store(WAKING | plain, Relaxed);
    lock.turns.begin();
    let seen = thread::scope(|scope| {
        scope.spawn(|| lock_and_unlock(&lock, 1));
        while lock.flags.load(Relaxed) & QUEUED == 0 {
            thread::yield_now();
        }
        let seen = lock.flags.load(Relaxed);
        lock.unlock();
        // As who has the token.
        assert!(lock.take(WAKING, Role::HasToken));
        lock.unlock();
        seen
    });
    assert_eq!(seen, QUEUED | WAKING | plain);
    assert_eq!(lock.flags.load(Relaxed), plain);
}

/// Who waits now and then ends it for the next thousands of times; who does so again and again, for ever.
#[test]
fn a_lock_that_others_wait_for_does_not_become_plain() {
    let lock = RawMutex::new();
    for _ in 0..4 {
        lock_and_unlock(&lock, AFTER / 2);
        assert!(!is_plain(&lock));
        somebody_waits(&lock);
    }
}

/// The caller has decided to look at the queue, and then somebody gave the token out.
#[test]
fn a_lock_is_not_handed_past_a_token_that_has_just_been_given_out() {
    let lock = RawMutex::new();
    lock.lock_uncancelled();
    thread::scope(|scope| {
        let other = scope.spawn(|| lock_and_unlock(&lock, 1));
        while lock.flags.load(Relaxed) & QUEUED == 0 {
            thread::yield_now();
        }
        lock.flags.fetch_or(WAKING, Relaxed);
        lock.turns.begin();
        lock.serve();
        assert_eq!(lock.locked.load(Relaxed), FREE);
        assert_eq!(lock.flags.load(Relaxed), QUEUED | WAKING);
        assert!(!other.is_finished());
        // As who has the token.
        assert!(lock.take(WAKING, Role::HasToken));
        lock.unlock();
    });
    assert_eq!(lock.flags.load(Relaxed), 0);
}

/// As who has spun in vain.
fn lock_at_the_queue(lock: &RawMutex) {
    let enter = Enter { lock, role: Role::Comes, seen: Seen::ByToken };
    let how = Wait { at_once: true, ..Wait::new("mutex") };
    match wait(enter, Place::Back, false, how) {
        Waited::Ready(()) | Waited::Woken(HANDED) => {}
        Waited::Woken(_) => while !spin(|| lock.take(WAKING, Role::HasToken)) {},
        other => unreachable!("{other:?}"),
    }
}

/// Many times plain, and as often another thread comes to the queue just as it is freed: it is not left behind.
#[test]
fn who_comes_as_a_plain_lock_is_freed_is_not_left_behind() {
    const TURNS: u32 = 20_000;
    asymmetric::register();
    let (lock, turns) = (RawMutex::new(), [0, 0].map(AtomicU32::new));
    let [begun, ended] = &turns;
    let others = |word: &AtomicU32, turn| {
        while !spin(|| word.load(Acquire) >= turn) {}
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1..=TURNS {
                others(begun, turn);
                lock_at_the_queue(&lock);
                lock.unlock();
                ended.store(turn, Release);
            }
        });
        for turn in 1..=TURNS {
            lock.lock_uncancelled();
            if asymmetric::is_light() {
                lock.flags.fetch_or(PLAIN, Relaxed);
            }
            begun.store(turn, Release);
            (0..turn % 32).for_each(|_| std::hint::spin_loop());
            lock.unlock();
            others(ended, turn);
        }
    });
    assert_eq!(lock.locked.load(Relaxed), FREE);
}

/// Until `so`, which must come.
fn wait_until(so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come");
        thread::yield_now();
    }
}

/// Whose spin ends well does not: it is no reason to have the fibers of a worker wait for one another.
#[test]
fn who_waits_since_the_lock_is_taken_while_the_token_is_out_says_so() {
    let lock = RawMutex::new();
    lock.lock_uncancelled();
    lock.flags.store(WAKING | QUEUED, SeqCst);
    lock.turns.begin();
    assert!(lock.may_barge(WAKING) && !lock.turns.are_everybodys());
    thread::scope(|scope| {
        scope.spawn(|| {
            lock.lock_uncancelled();
            lock.unlock();
        });
        wait_until(|| lock.turns.are_everybodys());
        wait_until(|| lock.queue.lock().front().is_some());
        lock.flags.store(QUEUED, SeqCst);
        lock.unlock();
    });
}
