//! The word in states that are rare, or that a test must make.

use super::*;
use crate::primitives::sync::Arc;
use crate::primitives::tsc;
use crate::runtime::Builder;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

/// Past a token as often as may be without a look; who comes then looks.
#[test]
fn a_reader_looks_where_no_turns_are_left() {
    let lock = RawRwLock::new();
    lock.word.store(QUEUED | TOKEN, SeqCst);
    lock.turns.begin();
    while lock.turns.left() > 0 {
        assert!(lock.read().is_ok());
        // Not by `read_unlock`, which serves a queue that is not there.
        lock.word.fetch_sub(READER, SeqCst);
    }
    assert!(lock.read().is_ok());
    assert_ne!(lock.turns.left(), 0, "it has come by without a look");
}

/// As many read as may: who comes now does not get in, with the token or without.
#[test]
fn a_reader_too_many_does_not_get_in() {
    let lock = RawRwLock::new();
    lock.word.store(MOST_READERS, SeqCst);
    assert!(!lock.try_read());
    assert_eq!(lock.word.load(SeqCst), MOST_READERS);
    assert_eq!(with_token(Want::Read, MOST_READERS | TOKEN), None);
}

/// Whoever would be one too many stays in the queue, and nobody panics who only frees the lock.
#[test]
fn a_reader_too_many_waits_for_the_others() {
    let lock = RawRwLock::new();
    lock.word.store(MOST_READERS, SeqCst);
    let served = thread::scope(|scope| {
        let reader = scope.spawn(|| lock.read().is_ok());
        while lock.word.load(SeqCst) != MOST_READERS | QUEUED {
            thread::yield_now();
        }
        let served = catch_unwind(AssertUnwindSafe(|| lock.serve(ALL)));
        lock.word.fetch_sub(MOST_READERS - READER, SeqCst);
        lock.read_unlock();
        assert!(reader.join().unwrap());
        served
    });
    assert!(served.is_ok());
    lock.read_unlock();
    assert_eq!(lock.word.load(SeqCst), 0);
}

/// The token is far, and was overtaken for long enough: a reader that comes takes the lock, and leaves it to nobody
/// before.
#[test]
fn a_reader_that_may_take_the_lock_does_not_hand_it_away() {
    tsc::prepare();
    let lock = RawRwLock::new();
    lock.word.store(QUEUED | TOKEN, SeqCst);
    lock.turns.begin();
    while !lock.turns.are_many() {
        assert!(lock.read().is_ok());
        lock.word.fetch_sub(READER, SeqCst);
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(10) {}
    assert!(lock.turns.are_long());
    assert!(lock.read().is_ok());
    // Who serves a queue that is not there takes `QUEUED` away.
    assert_eq!(lock.word.load(SeqCst), QUEUED | TOKEN | READER);
}

/// A reader that has just come, and leaves again, is nobody whom others could join.
#[test]
fn who_ends_a_turn_gives_out_one_token() {
    let runtime =
        Builder::new().workers(1).stall_period(None).force_migrate(false).build().unwrap();
    let tokens = runtime.run(|| {
        let lock = Arc::new(RawRwLock::new());
        assert!(lock.write().is_ok());
        let readers = [(); 3].map(|()| {
            let lock = Arc::clone(&lock);
            crate::go(move || {
                assert!(lock.read().is_ok());
                lock.read_unlock();
            })
        });
        // They run until they wait, and again when this one waits.
        crate::yield_now();
        assert_eq!(lock.word.load(SeqCst), WRITER | QUEUED);
        lock.word.fetch_add(READER, SeqCst);
        lock.write_unlock();
        let tokens = lock.word.load(SeqCst) & TOKENS;
        lock.read_unlock();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        tokens
    });
    assert_eq!(tokens, TOKEN);
}

#[test]
fn who_waits_since_the_lock_is_taken_while_a_token_is_out_says_so() {
    let lock = RawRwLock::new();
    lock.word.store(READER | QUEUED | TOKEN, SeqCst);
    lock.turns.begin();
    assert!(lock.may_barge(Want::Write, READER | QUEUED | TOKEN));
    assert!(!lock.turns.are_everybodys(), "it may not have to wait");
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(lock.write().is_ok());
            lock.write_unlock();
        });
        let begun = Instant::now();
        let waits = || lock.turns.are_everybodys() && lock.queue.lock().front().is_some();
        while !waits() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody said so");
            thread::yield_now();
        }
        lock.word.fetch_sub(TOKEN, SeqCst);
        lock.read_unlock();
    });
}
