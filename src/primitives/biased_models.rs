//! Under loom: one thread is inside at a time, whoever has or loses the bias, and nobody sleeps for ever.
//!
//! A streak is one turn here and a revoker looks once, so that the bias is given at once and is taken in
//! either way.

use super::{BiasedLock, Caller};
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use loom::thread;

/// Who has the bias is named by the address of something of its own.
fn take_turns(lock: &BiasedLock<usize>, times: usize) {
    let seat = Box::new(0_usize);
    for _ in 0..times {
        // SAFETY: the box is this thread's, and outlives its visits.
        *lock.lock(unsafe { Caller::of(&raw const *seat) }) += 1;
    }
}

/// Loom reports two that are inside at once (the value is a checked cell), and a deadlock. `first` has the bias
/// before the others come, `turns` says how many times each of them takes the lock.
fn model(preemptions: usize, first: usize, turns: &'static [usize], again: usize) {
    check(preemptions, move || {
        let lock = Arc::new(BiasedLock::new(0));
        let seats = Box::new([0_usize; 1]);
        // SAFETY: as above, of this thread.
        let me = unsafe { Caller::of(&raw const seats[0]) };
        (0..first).for_each(|_| *lock.lock(me) += 1);
        let others: Vec<_> = turns
            .iter()
            .map(|&times| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || take_turns(&lock, times))
            })
            .collect();
        (0..again).for_each(|_| *lock.lock(me) += 1);
        others.into_iter().for_each(|other| other.join().unwrap());
        let all = first + again + turns.iter().sum::<usize>();
        assert_eq!(*lock.lock(me), all);
    });
}

/// The bias is taken from one that comes again meanwhile.
#[test]
fn a_bias_is_revoked() {
    model(3, 2, &[1], 2);
}

/// Another gets it afterwards, and the first comes again.
#[test]
fn a_bias_goes_from_one_to_another() {
    model(3, 2, &[3], 1);
}

/// While one loses the bias a third waits, and gets it.
#[test]
fn a_bias_is_fought_for() {
    model(2, 2, &[2, 1], 1);
}

/// One that had the bias tries by it alone, and stays away where that is no more: others are kept out by nothing that
/// it leaves behind. Where it gets in, the guard goes from one function to another.
#[test]
fn one_tries_by_bias_alone() {
    check(3, || {
        let lock = Arc::new(BiasedLock::new(0));
        let seats = Box::new([0_usize; 1]);
        // SAFETY: as above, of this thread.
        let me = unsafe { Caller::of(&raw const seats[0]) };
        (0..2).for_each(|_| *lock.lock(me) += 1);
        let other = thread::spawn({
            let lock = Arc::clone(&lock);
            move || take_turns(&lock, 3)
        });
        let mut got_in = 0;
        for _ in 0..2 {
            if let Some(guard) = lock.lock_by_bias(me) {
                // SAFETY: of this lock, just now.
                *unsafe { lock.guard(guard.hold()) } += 1;
                got_in += 1;
            }
        }
        other.join().unwrap();
        assert_eq!(*lock.lock(Caller::NONE), 2 + 3 + got_in);
    });
}

/// One that nobody knows gets in, and never has the bias.
#[test]
fn a_stranger_comes() {
    check(3, || {
        let lock = Arc::new(BiasedLock::new(0));
        let other = thread::spawn({
            let lock = Arc::clone(&lock);
            move || (0..2).for_each(|_| *lock.lock(Caller::NONE) += 1)
        });
        take_turns(&lock, 3);
        other.join().unwrap();
        assert_eq!(*lock.lock(Caller::NONE), 5);
    });
}
