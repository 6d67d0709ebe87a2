//! Under loom: writers are alone, readers are with readers, and nobody waits for a free lock.

use super::*;
use crate::park::{cancelled, near};
use crate::primitives::sync::{Arc, UnsafeCell};
use crate::sync::check;
use loom::thread;

struct Guarded {
    lock: RawRwLock,
    count: UnsafeCell<u32>,
}

// SAFETY: `count` is touched by the lock's owners; loom checks it.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new(long_turns: bool) -> Arc<Guarded> {
        let lock = RawRwLock::new();
        if long_turns {
            lock.handing.turns_are_long();
        }
        Arc::new(Guarded { lock, count: UnsafeCell::new(0) })
    }

    fn look(&self) {
        // SAFETY: see above.
        self.count.with(|count| assert!(unsafe { *count } <= 4));
    }

    fn read(&self) -> bool {
        let locked = self.lock.read().is_ok();
        if locked {
            self.look();
            self.lock.read_unlock();
        }
        locked
    }

    fn add(&self) {
        // SAFETY: see above.
        self.count.with_mut(|count| unsafe { *count += 1 });
    }

    fn write(&self) -> bool {
        let locked = self.lock.write().is_ok();
        if locked {
            self.add();
            self.lock.write_unlock();
        }
        locked
    }

    fn write_then_read(&self) -> bool {
        assert!(self.lock.write().is_ok());
        self.add();
        self.lock.downgrade();
        self.look();
        self.lock.read_unlock();
        true
    }

    /// All are through: the lock is as new.
    fn check(&self) {
        assert_eq!(self.lock.word.load(Relaxed), 0);
    }
}

/// `first` has the best chance to come first; the last of all may give up. Whether turns are short or long, after which
/// those who wait have the lock handed.
fn all_come_through(first: fn(&Guarded) -> bool, others: [fn(&Guarded) -> bool; 2]) {
    for long_turns in [false, true] {
        check(3, move || {
            let guarded = Guarded::new(long_turns);
            let others = others.map(|other| beside(&guarded, other));
            assert!(first(&guarded));
            others.into_iter().for_each(|other| _ = other.join().unwrap());
            guarded.check();
        });
    }
}

fn beside(guarded: &Arc<Guarded>, f: fn(&Guarded) -> bool) -> thread::JoinHandle<bool> {
    let guarded = Arc::clone(guarded);
    thread::spawn(move || f(&guarded))
}

fn give_up_writing(guarded: &Guarded) -> bool {
    cancelled(|| guarded.write())
}

fn give_up_reading(guarded: &Guarded) -> bool {
    cancelled(|| guarded.read())
}

#[test]
fn writers_meet() {
    all_come_through(Guarded::write, [Guarded::write, Guarded::write]);
}

#[test]
fn a_writer_meets_readers() {
    all_come_through(Guarded::write, [Guarded::read, Guarded::read]);
}

#[test]
fn a_reader_meets_writers() {
    all_come_through(Guarded::read, [Guarded::write, Guarded::write]);
}

#[test]
fn writers_meet_a_reader() {
    all_come_through(Guarded::write, [Guarded::write, Guarded::read]);
}

#[test]
fn a_writer_gives_up_beside_a_writer() {
    all_come_through(Guarded::write, [Guarded::read, give_up_writing]);
}

#[test]
fn a_writer_gives_up_beside_a_reader() {
    all_come_through(Guarded::read, [Guarded::write, give_up_writing]);
}

#[test]
fn a_reader_gives_up() {
    all_come_through(Guarded::write, [Guarded::write, give_up_reading]);
}

fn write_twice(guarded: &Guarded) -> bool {
    guarded.write() && guarded.write()
}

fn read_twice(guarded: &Guarded) -> bool {
    guarded.read() && guarded.read()
}

/// One overtakes the one with the token, once and once too often.
#[test]
fn writers_come_again() {
    all_come_through(write_twice, [write_twice, |_| true]);
}

#[test]
fn a_writer_and_a_reader_come_again() {
    all_come_through(write_twice, [read_twice, |_| true]);
}

#[test]
fn who_comes_again_meets_others() {
    all_come_through(write_twice, [Guarded::write, Guarded::read]);
}

/// The second reader is invited by the first, and may find that the writer came again meanwhile.
#[test]
fn a_writer_comes_again_past_readers() {
    all_come_through(write_twice, [Guarded::read, Guarded::read]);
}

#[test]
fn a_reader_comes_again_past_a_reader_and_a_writer() {
    all_come_through(read_twice, [Guarded::write, Guarded::read]);
}

/// One comes past the writer's token while the other, which did, still reads.
#[test]
fn readers_come_again_past_a_writer_together() {
    all_come_through(read_twice, [Guarded::write, read_twice]);
}

/// Past the limit it is handed the lock, and may have given up by then.
#[test]
fn who_is_handed_the_lock_gives_up() {
    all_come_through(write_twice, [Guarded::write, give_up_writing]);
}

/// Past the limit it leaves the lock free, and stands behind the others.
#[test]
fn who_is_near_makes_way() {
    let twice: fn(&Guarded) -> bool = |guarded| near(|| write_twice(guarded));
    all_come_through(twice, [Guarded::write, Guarded::read]);
}

/// Past the limit it takes the lock that another has left free for one who is near to that.
#[test]
fn who_is_far_takes_what_was_left_free() {
    let twice: fn(&Guarded) -> bool = |guarded| near(|| write_twice(guarded));
    all_come_through(twice, [Guarded::write, write_twice]);
}

/// Who steps down invites the reader that waits.
#[test]
fn readers_stand_behind_a_writer_that_becomes_one() {
    all_come_through(Guarded::write_then_read, [Guarded::read, Guarded::read]);
}

/// It may do so just when the reader before it, which has the lock, lets it in.
#[test]
fn a_reader_behind_a_reader_gives_up() {
    all_come_through(Guarded::write, [Guarded::read, give_up_reading]);
}

#[test]
fn a_writer_becomes_a_reader() {
    all_come_through(Guarded::write_then_read, [Guarded::read, Guarded::write]);
}

#[test]
fn a_reader_does_not_wait_for_a_writer_that_gave_up() {
    check(3, || {
        let guarded = Guarded::new(false);
        assert!(guarded.lock.read().is_ok());
        let others = [give_up_writing, Guarded::read].map(|other| beside(&guarded, other));
        others.into_iter().for_each(|other| _ = other.join().unwrap());
        guarded.lock.read_unlock();
        guarded.check();
    });
}

#[test]
fn a_reader_does_not_wait_for_the_reader_that_was_a_writer() {
    check(3, || {
        let guarded = Guarded::new(false);
        assert!(guarded.lock.write().is_ok());
        let reader = beside(&guarded, Guarded::read);
        guarded.lock.downgrade();
        assert!(reader.join().unwrap());
        guarded.lock.read_unlock();
        guarded.check();
    });
}
