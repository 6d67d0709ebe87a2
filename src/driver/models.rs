//! Under loom: no armed timer is slept over, and a wait with a deadline ends once, with its timer gone.

use super::alarm::Alarm;
use super::{Driver, Timer};
use crate::driver::timers::Timers;
use crate::fiber::{Batch, Ends, FiberPtr, Outcome, ThreadBlock, WaiterPtr, Wake};
use crate::primitives::clock::Moment;
use crate::primitives::models::check;
use crate::primitives::sync::{Arc, Mutex};
use loom::thread::{JoinHandle, spawn};
use std::pin::pin;

const PREEMPTIONS: usize = 3;
const PREEMPTIONS_OF_THREE: usize = 2;

/// The wheel counts in ticks of this.
fn tick(number: u64) -> Moment {
    Moment::from_nanos(number << 16)
}

/// Timers whose waiters nobody settles but by time, and the one who sleeps over them.
struct World {
    timers: Timers,
    alarm: Alarm,
    poller: Driver,
    waiter: FiberPtr,
}

impl World {
    fn new(shards: usize) -> Arc<World> {
        Arc::new(World {
            timers: Timers::new(shards, Moment::from_nanos(0)),
            alarm: Alarm::new(),
            poller: Driver::new(),
            waiter: FiberPtr::fresh(),
        })
    }

    /// The one in the poller goes to bed; returns when it will wake by itself.
    fn set_alarm(&self) -> Moment {
        self.alarm.set(|| self.timers.next_deadline())
    }

    /// Arms a timer as a wait does, and leaves it armed.
    fn arm(&self, shard: usize, deadline: Moment) {
        self.arm_one(shard, deadline, false);
    }

    fn arm_one(&self, shard: usize, deadline: Moment, close: bool) {
        let timer = Box::leak(Box::new(Timer::new(self.waiter.as_waiter(), deadline)));
        // SAFETY: it stays where it is, for good.
        let timer = unsafe { std::pin::Pin::new_unchecked(timer) };
        let (armed, due) = self.timers.arm(shard, timer, close);
        std::mem::forget(armed);
        if due.is_some_and(|due| self.alarm.is_too_late(due)) {
            self.poller.interrupt();
        }
    }

    /// Every thread is done; the sleeper's alarm is set to `wakes_at`.
    fn finish(&self, wakes_at: Moment, first: Moment) {
        let woken = self.poller.was_interrupted();
        assert!(wakes_at <= first || woken, "sleeps until {wakes_at:?} over {first:?}");
        // SAFETY: every thread has ended, and the timers are not looked at any more.
        let _ = unsafe { self.waiter.destroy() };
    }
}

fn armer(world: &Arc<World>, shard: usize, deadline: Moment) -> JoinHandle<()> {
    let world = Arc::clone(world);
    spawn(move || world.arm(shard, deadline))
}

#[test]
fn a_sleeper_does_not_sleep_over_a_timer_armed_meanwhile() {
    check(PREEMPTIONS, || {
        let world = World::new(1);
        world.arm(0, tick(9));
        let other = armer(&world, 0, tick(5));
        let wakes_at = world.set_alarm();
        other.join().unwrap();
        world.finish(wakes_at, tick(5));
    });
}

#[test]
fn two_arm_in_one_wheel() {
    check(PREEMPTIONS_OF_THREE, || {
        let world = World::new(1);
        let others = [armer(&world, 0, tick(5)), armer(&world, 0, tick(3))];
        let wakes_at = world.set_alarm();
        others.into_iter().for_each(|other| other.join().unwrap());
        world.finish(wakes_at, tick(3));
    });
}

#[test]
fn two_arm_in_two_wheels() {
    check(PREEMPTIONS_OF_THREE, || {
        let world = World::new(2);
        let others = [armer(&world, 0, tick(5)), armer(&world, 1, tick(3))];
        let wakes_at = world.set_alarm();
        others.into_iter().for_each(|other| other.join().unwrap());
        world.finish(wakes_at, tick(3));
    });
}

/// The interrupt for the timer may end the first sleep; the second then knows the timer.
#[test]
fn a_sleeper_that_wakes_and_sleeps_again() {
    check(PREEMPTIONS, || {
        let world = World::new(1);
        let other = armer(&world, 0, tick(5));
        let _ = world.set_alarm();
        let _ = world.poller.was_interrupted();
        world.alarm.clear();
        let wakes_at = world.set_alarm();
        other.join().unwrap();
        world.finish(wakes_at, tick(5));
    });
}

/// Who goes to bed puts the next timer off, for others to share its wake, unless one is armed that will not have that.
#[test]
fn a_timer_that_is_close_is_not_put_off() {
    check(PREEMPTIONS, || {
        let world = World::new(1);
        world.arm(0, tick(1));
        let theirs = Arc::clone(&world);
        let other = spawn(move || theirs.arm_one(0, tick(3), true));
        let begins = Moment::from_nanos(0);
        let wakes_at = world.alarm.set(|| {
            let next = world.timers.next_deadline();
            world.timers.put_off(next, begins, Moment::NEVER)
        });
        other.join().unwrap();
        world.finish(wakes_at, tick(4));
    });
}

/// What is due is taken out while something else is armed: the wheel's next deadline stays true.
#[test]
fn an_expiry_meets_an_armed_timer() {
    check(PREEMPTIONS, || {
        let world = World::new(1);
        world.arm(0, tick(1));
        let other = armer(&world, 0, tick(5));
        let mut settled = Batch::new();
        world.timers.expire(tick(2), &mut settled);
        let wakes_at = world.set_alarm();
        other.join().unwrap();
        assert!(world.timers.next_deadline() > tick(1), "fired, and due again");
        world.finish(wakes_at, tick(5));
    });
}

/// A wait of a plain thread with a deadline, against whoever else ends it. Its timer stands on its
/// stack: it must be out of the wheel by any way before the wait returns.
struct Waiting {
    timers: Timers,
    thread: Arc<ThreadBlock>,
    /// A source that has a node of the wait linked.
    source: Mutex<Option<WaiterPtr>>,
}

impl Waiting {
    fn new() -> Arc<Waiting> {
        let thread = ThreadBlock::new();
        thread.state().begin_wait();
        let source = Mutex::new(Some(WaiterPtr::of_thread(&thread)));
        Arc::new(Waiting { timers: Timers::new(1, Moment::from_nanos(0)), thread, source })
    }

    fn wait(&self, ends: Ends) -> Outcome {
        let mut timer = pin!(Timer::new(WaiterPtr::of_thread(&self.thread), tick(1)));
        let (armed, _) = self.timers.arm(0, timer.as_mut(), false);
        let outcome = self.thread.wait(self.thread.state(), ends, None);
        match outcome {
            Outcome::TimedOut => armed.fired(),
            _ => drop(armed),
        }
        *self.source.lock() = None;
        assert_eq!(self.timers.len(), 0, "the timer is still in its wheel");
        outcome
    }

    fn expire(&self) {
        let mut settled = Batch::new();
        self.timers.expire(tick(2), &mut settled);
        assert!(settled.is_empty(), "a thread is no fiber");
    }

    /// As a source does: settles under its lock and wakes after it.
    fn settle(&self, result: u32) {
        let source = self.source.lock();
        // SAFETY: linked, and the lock is held.
        let wake = source.and_then(|waiter| unsafe { waiter.settle(Outcome::Woken(result)) });
        drop(source);
        wake.into_iter().for_each(run);
    }

    fn cancel(&self) {
        let settle = self.thread.state().cancel();
        // SAFETY: from this state just now, and the block is held.
        let wake = unsafe { WaiterPtr::of_thread(&self.thread).wake(settle) };
        wake.into_iter().for_each(run);
    }
}

fn run(wake: Wake) {
    match wake {
        Wake::Thread(thread) => thread.wake(),
        Wake::Fiber(fiber) => panic!("{fiber:?} does not wait here"),
    }
}

#[test]
fn a_timeout_ends_a_wait() {
    check(PREEMPTIONS, || {
        let waiting = Waiting::new();
        let theirs = Arc::clone(&waiting);
        // Until it has fired: the timer may not be armed yet.
        let time = spawn(move || {
            while theirs.thread.state().load().outcome() != Outcome::TimedOut {
                theirs.expire();
                loom::thread::yield_now();
            }
        });
        assert_eq!(waiting.wait(Ends::BY_SOURCES), Outcome::TimedOut);
        time.join().unwrap();
    });
}

#[test]
fn a_wake_and_a_timeout_end_a_wait_once() {
    check(PREEMPTIONS, || {
        let waiting = Waiting::new();
        let (theirs, others) = (Arc::clone(&waiting), Arc::clone(&waiting));
        let time = spawn(move || theirs.expire());
        let source = spawn(move || others.settle(7));
        let outcome = waiting.wait(Ends::BY_SOURCES);
        assert!(matches!(outcome, Outcome::TimedOut | Outcome::Woken(7)), "{outcome:?}");
        time.join().unwrap();
        source.join().unwrap();
        assert_eq!(waiting.thread.state().load().outcome(), outcome, "settled twice");
    });
}

#[test]
fn a_cancel_and_a_timeout_end_a_wait_once() {
    check(PREEMPTIONS, || {
        let waiting = Waiting::new();
        let (theirs, others) = (Arc::clone(&waiting), Arc::clone(&waiting));
        let time = spawn(move || theirs.expire());
        let cancel = spawn(move || others.cancel());
        let outcome = waiting.wait(Ends::CANCEL);
        assert!(matches!(outcome, Outcome::TimedOut | Outcome::Cancelled), "{outcome:?}");
        time.join().unwrap();
        cancel.join().unwrap();
        assert_eq!(waiting.thread.state().load().outcome(), outcome, "settled twice");
    });
}
