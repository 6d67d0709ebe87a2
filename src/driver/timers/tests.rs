//! How much one turn settles, and who sees to the rest.

use super::super::Driver;
use super::super::alarm::Alarm;
use super::*;
use crate::fiber::{self, ThreadBlock};
use crate::primitives::sync::Arc;
use std::time::Duration;

/// A wait of the calling thread, which any of its timers ends.
fn thread() -> Arc<ThreadBlock> {
    let thread = fiber::thread_block();
    thread.state().begin_wait();
    thread
}

/// Arms so many timers in wheel `index`; they stay where they are until they have fired.
fn arm(timers: &Timers, index: usize, count: usize, deadline: Moment) -> Vec<Pin<Box<Timer>>> {
    (0..count).map(|_| arm_one(timers, index, deadline, false)).collect()
}

fn arm_one(timers: &Timers, index: usize, deadline: Moment, close: bool) -> Pin<Box<Timer>> {
    let thread = thread();
    let waiter = WaiterPtr::of_thread(&thread);
    let mut armed = Box::pin(Timer::new(waiter, deadline));
    mem::forget(timers.arm(index, armed.as_mut(), close));
    armed
}

#[test]
fn a_turn_settles_so_many_of_a_wheel_and_leaves_the_others_due() {
    let timers = Timers::new(1, Moment::from_nanos(0));
    let (due, later) = (Moment::from_nanos(1 << 16), Moment::from_nanos(1 << 40));
    let many = 2 * IN_WHEEL + 1;
    let _armed = (arm(&timers, 0, many, due), arm(&timers, 0, 1, later));
    let mut settled = Batch::new();
    for left in [IN_WHEEL + 1, 1] {
        timers.expire(due, &mut settled);
        assert_eq!(timers.len(), left + 1);
        assert!(timers.next_deadline() <= due, "{left} are due, and nobody would look");
    }
    timers.expire(due, &mut settled);
    assert_eq!(timers.len(), 1);
    assert_eq!(timers.next_deadline(), later);
    timers.expire(later, &mut settled);
    assert_eq!((timers.len(), timers.next_deadline()), (0, Moment::NEVER));
}

/// There are more of them than wheels while some block.
#[test]
fn every_worker_has_a_wheel() {
    let timers = Timers::new(2, Moment::from_nanos(0));
    let due = Moment::from_nanos(1 << 16);
    let _armed: Vec<_> = (0..9).map(|index| arm(&timers, index, 1, due)).collect();
    let count = |index: usize| timers.shards[index].wheel.lock().len();
    assert_eq!([count(0), count(1)], [5, 4]);
    timers.expire(due, &mut Batch::new());
    assert_eq!(timers.len(), 0);
}

/// One wheel that is due again and again does not keep the others waiting.
#[test]
fn every_wheel_gets_its_share_of_the_turns() {
    const TURN: usize = IN_TURN / IN_WHEEL;
    const WHEELS: usize = 2 * TURN + 1;
    let timers = Timers::new(WHEELS, Moment::from_nanos(0));
    let due = Moment::from_nanos(1 << 16);
    let _armed: Vec<_> = (0..WHEELS).map(|index| arm(&timers, index, 2 * IN_WHEEL, due)).collect();
    let mut settled = Batch::new();
    let served = || timers.shards.iter().filter(|s| s.wheel.lock().len() == IN_WHEEL).count();
    for turn in 1..=2 {
        timers.expire(due, &mut settled);
        assert_eq!(served(), turn * TURN, "each turn settles the same number");
    }
    timers.expire(due, &mut settled);
    assert_eq!(timers.shards[WHEELS - 1].wheel.lock().len(), IN_WHEEL, "the last had no turn");
    for _ in 0..2 * WHEELS {
        timers.expire(due, &mut settled);
    }
    assert_eq!(timers.len(), 0);
}

/// Who goes into the poller while something is due comes back at once.
#[test]
fn nobody_sleeps_in_the_poller_while_timers_are_due() {
    const LONG: Duration = Duration::from_secs(60);
    let driver = Driver::new(1).unwrap();
    let begun = Moment::now();
    let _armed = arm(&driver.timers, 0, 3 * IN_WHEEL, begun);
    let mut role = driver.try_role().expect("nobody else turns it");
    let mut settled = Batch::new();
    let mut turns = 0;
    while driver.timers.len() > 0 {
        let until = || begun.saturating_add(LONG);
        driver.wait(&mut role, Moment::now(), until, None, &mut settled);
        assert!(Moment::now().since(begun) < LONG / 2, "slept over what was due");
        turns += 1;
    }
    assert!(turns >= 3, "{turns} turns have settled all");
}

const MILLI: Duration = Duration::from_millis(1);
/// Long enough for a wait that is to the millisecond.
const FAR: Duration = Duration::from_millis(15);

fn wait(driver: &Driver, now: Moment) {
    let mut role = driver.try_role().expect("nobody else turns it");
    driver.wait(&mut role, now, || Moment::NEVER, None, &mut Batch::new());
}

/// The kernel's poller counts in milliseconds, and two of them it was. In one round of twenty: what a busy machine
/// takes from a thread that sleeps is not meant.
#[test]
fn a_timer_alone_is_as_punctual_as_the_systems() {
    let driver = Driver::new(1).unwrap();
    let ours = || {
        let begun = Moment::now();
        let _armed = arm(&driver.timers, 0, 1, begun.saturating_add(MILLI));
        while driver.timers.len() > 0 {
            wait(&driver, Moment::now());
        }
        Moment::now().since(begun)
    };
    // Between two of ours, which then are more than a millisecond apart.
    let theirs = || {
        let begun = Moment::now();
        std::thread::sleep(MILLI);
        Moment::now().since(begun)
    };
    let is_punctual = |_| {
        let (mut ours, mut theirs): (Vec<_>, Vec<_>) = (0..25).map(|_| (ours(), theirs())).unzip();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert!(ours[0] >= MILLI);
        ours[15] < theirs[15] + MILLI / 2
    };
    assert!((0..20).any(is_punctual));
}

/// Where the poller counts in nanoseconds by itself, each has its own.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn timers_that_are_near_to_each_other_share_a_wake() {
    const COUNT: u32 = 40;
    let driver = Driver::new(1).unwrap();
    let begun = Moment::now();
    let due = |i: u32| begun.saturating_add(MILLI / 10 * i);
    let _armed: Vec<_> = (1..=COUNT).map(|i| arm(&driver.timers, 0, 1, due(i))).collect();
    let mut waits = 0;
    while driver.timers.len() > 0 {
        let now = Moment::now();
        // Else it does not wait: this thread was late for the next one.
        waits += u32::from(driver.timers.next_deadline() > now);
        wait(&driver, now);
    }
    assert!(Moment::now() >= due(COUNT));
    assert!(waits <= 6, "{waits} waits for the timers of 4 ms");
}

#[test]
fn who_is_due_soon_after_the_next_needs_no_wake_of_its_own() {
    let timers = Timers::new(3, Moment::from_nanos(0));
    let tick = |ticks: u64| Moment::from_nanos(ticks << 16);
    let _armed = [(0, 20), (2, 22), (2, 23), (1, 40)]
        .map(|(index, ticks)| arm(&timers, index, 1, tick(ticks)));
    assert_eq!(timers.next_deadline(), tick(20));
    assert_eq!(timers.gather(tick(0), tick(20)), tick(22), "two ticks later at the latest");
    assert_eq!(timers.gather(tick(17), tick(20)), tick(20), "that is long for so short a wait");
    timers.expire(tick(22), &mut Batch::new());
    assert_eq!((timers.len(), timers.gather(tick(0), tick(23))), (2, tick(23)));
    timers.expire(tick(23), &mut Batch::new());
    assert_eq!((timers.len(), timers.gather(tick(0), tick(40))), (1, tick(40)));
}

/// As they are who begin to sleep one after the other, on several workers.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn one_wait_is_for_all_that_are_due_within_a_tenth_of_a_millisecond() {
    let driver = Driver::new(2).unwrap();
    // Again where the machine has let the time go by: for a short wait that would be long.
    loop {
        let begun = Moment::now();
        let due = |i: u32| begun.saturating_add(5 * MILLI + MILLI / 200 * i);
        let _armed: Vec<_> =
            (0..20).map(|i| arm(&driver.timers, i as usize % 2, 1, due(i))).collect();
        let now = Moment::now();
        wait(&driver, now);
        if due(0).since(now) > MILLI {
            return assert_eq!(driver.timers.len(), 0);
        }
        while driver.timers.len() > 0 {
            wait(&driver, Moment::now());
        }
    }
}

/// One of them alone in its wake, and the other in the next. In one round of twenty, as above.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn of_two_timers_that_are_near_to_each_other_the_second_comes_soon() {
    let driver = Driver::new(1).unwrap();
    let apart = |_| {
        std::thread::sleep(3 * MILLI);
        let begun = Moment::now();
        let due = [MILLI, MILLI + MILLI / 5].map(|time| begun.saturating_add(time));
        let _armed = due.map(|due| arm(&driver.timers, 0, 1, due));
        wait(&driver, Moment::now());
        let (first, left) = (Moment::now(), driver.timers.len());
        while driver.timers.len() > 0 {
            wait(&driver, Moment::now());
        }
        (left == 1).then(|| Moment::now().since(first))
    };
    assert!((0..20).filter_map(apart).any(|apart| apart < MILLI * 2 / 3), "it had to wait");
}

/// Twenty of a tenth of a millisecond, one after the other: else those wakes are a millisecond apart, but for
/// the first two. In one round of twenty, as above.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn who_waits_for_less_than_that_need_not_share_a_wake() {
    let driver = Driver::new(1).unwrap();
    let twenty = |close| {
        let begun = Moment::now();
        for _ in 0..20 {
            let due = Moment::now().saturating_add(MILLI / 10);
            let _armed = arm_one(&driver.timers, 0, due, close);
            while driver.timers.len() > 0 {
                wait(&driver, Moment::now());
            }
        }
        Moment::now().since(begun)
    };
    let in_time = || driver.try_role().expect("nobody else turns it").next_in_time();
    assert!((0..20).any(|_| twenty(true) < 10 * MILLI));
    assert!(in_time().since(Moment::now()) < APART_IF_CLOSE, "others have to wait for longer");
    assert!(twenty(false) > 15 * MILLI, "those that are not known to be close");
    assert!(in_time().since(Moment::now()) < APART);
}

/// Who arms them with short timeouts that are mostly met would wake it again and again.
#[test]
fn a_poller_that_knows_that_some_are_close_is_not_interrupted_for_more() {
    let mut kept = Vec::new();
    let timers = Timers::new(1, Moment::from_nanos(0));
    let (thread, alarm) = (thread(), Alarm::new());
    let tick = |ticks: u64| Moment::from_nanos(ticks << 16);
    let mut interrupts = |deadline, close| {
        let mut timer = Box::pin(Timer::new(WaiterPtr::of_thread(&thread), deadline));
        let (armed, due) = timers.arm(0, timer.as_mut(), close);
        mem::forget(armed);
        kept.push(timer);
        due.is_some_and(|due| alarm.is_too_late(due))
    };
    let lies_down = |now| alarm.set(|| timers.put_off(tick(2), now, Moment::NEVER));
    assert!(!interrupts(tick(2), false), "nobody sleeps");
    assert!(lies_down(tick(1)) > tick(15));
    assert!(!interrupts(tick(9), false), "it is not the next");
    assert!(interrupts(tick(8), true), "it is not to be put off with that one");
    assert_eq!(lies_down(tick(5)), tick(6));
    let sooner = tick(5).saturating_add(Duration::from_nanos(TICK / 2));
    assert!(!interrupts(sooner, true), "in time enough");
}

#[test]
fn timers_are_close_until_the_last_one_that_was_is_due() {
    let timers = Timers::new(2, Moment::from_nanos(0));
    let tick = |ticks: u64| Moment::from_nanos(ticks << 16);
    let put_off = |now| timers.put_off(tick(2), now, Moment::NEVER);
    let _far = arm_one(&timers, 0, tick(12), false);
    assert_eq!(put_off(tick(1)), tick(1).saturating_add(APART));
    let _close =
        [(1, 5), (1, 4), (0, 3)].map(|(index, ticks)| arm_one(&timers, index, tick(ticks), true));
    assert_eq!(put_off(tick(1)), tick(2), "a tick later");
    assert_eq!(put_off(tick(4)), tick(5));
    assert_eq!(put_off(tick(5)), tick(5).saturating_add(APART));
    assert_eq!(timers.put_off(tick(6), tick(5), Moment::PAST), tick(6), "the last was long ago");
}

#[test]
fn an_interrupt_ends_a_wait_for_a_near_timer() {
    let driver = Driver::new(1).unwrap();
    // Again where the machine has let the time go by.
    loop {
        let due = Moment::now().saturating_add(FAR);
        let _armed = arm(&driver.timers, 0, 1, due);
        driver.interrupt();
        wait(&driver, Moment::now());
        let (left, in_time) = (driver.timers.len(), Moment::now() < due);
        let mut waits = 0;
        while driver.timers.len() > 0 {
            wait(&driver, Moment::now());
            waits += 1;
        }
        assert!(Moment::now() >= due);
        if in_time {
            assert_eq!(left, 1, "fired early");
            assert!(waits <= 3, "{waits} waits: nobody takes the interrupt");
            break;
        }
    }
}
