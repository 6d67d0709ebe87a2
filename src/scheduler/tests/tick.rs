//! When a worker looks around: by the number of dispatches, and by the clock.

use super::super::tick::{DISPATCHES, Due, Queues, Tick};
use crate::primitives::clock::{Moment, in_stamps};
use std::time::Duration;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn stamp_at(nanos: u64) -> u64 {
    in_stamps(Duration::from_nanos(nanos))
}

/// Nothing in injector and mailbox, little in the ring.
const QUIET: Queues = Queues { waiting: false, short: true };
const WAITING: Queues = Queues { waiting: true, ..QUIET };
/// Something waits, and many are in the ring.
const CROWDED: Queues = Queues { waiting: true, short: false };

/// A worker whose fibers take `each` nanoseconds; whether something waits is for the test to say.
struct Clocked {
    tick: Tick,
    now: u64,
    each: u64,
    reads: u32,
}

impl Clocked {
    fn new(each: u64, every: Option<u32>) -> Clocked {
        Clocked { tick: Tick::new(at(0), every), now: 0, each, reads: 0 }
    }

    /// Dispatches until something is due, and what.
    fn until_due(&mut self, queues: Queues) -> (u32, Due) {
        let mut dispatches = 0;
        while self.dispatches(queues) {
            dispatches += 1;
        }
        let due = self.tick.due();
        if due.injector {
            self.tick.injector_looked(at(self.now));
        } else if due.early {
            self.tick.looked_early(at(self.now));
        }
        if due.tick {
            self.tick.finish(at(self.now));
            self.tick.begin(at(self.now), stamp_at(self.now));
        }
        (dispatches, due)
    }

    fn dispatches(&mut self, queues: Queues) -> bool {
        let goes_on = self.tick.dispatch() || self.glances(queues);
        self.now += if goes_on { self.each } else { 0 };
        goes_on
    }

    /// Dispatches for so long, or a little longer.
    fn pass(&mut self, nanos: u64, queues: Queues) {
        let end = self.now + nanos;
        while self.now < end {
            if !self.dispatches(queues) {
                self.until_due(queues);
            }
        }
    }

    /// Dispatches until what is due is `so`.
    fn until(&mut self, queues: Queues, so: impl Fn(Due) -> bool) -> u32 {
        let mut dispatches = 0;
        loop {
            let (more, due) = self.until_due(queues);
            dispatches += more;
            if so(due) {
                return dispatches;
            }
        }
    }

    /// Dispatches until the injector is looked at, through ticks if they end before.
    fn until_look(&mut self, queues: Queues) -> u32 {
        self.until(queues, |due| due.injector)
    }

    /// The same for an early look, or the other one if that comes first.
    fn until_early_look(&mut self, queues: Queues) -> u32 {
        self.until(queues, |due| due.early || due.injector)
    }

    /// The same for the end of the tick, of one that begins now.
    fn until_tick(&mut self, queues: Queues) -> u32 {
        self.until(queues, |due| due.tick);
        self.until(queues, |due| due.tick)
    }

    fn glances(&mut self, queues: Queues) -> bool {
        let (now, reads) = (self.now, &mut self.reads);
        self.tick.glance(
            || queues,
            || stamp_at(now),
            || {
                *reads += 1;
                at(now)
            },
        )
    }

    /// As a worker whose estimate has settled.
    fn settled(each: u64) -> Clocked {
        let mut clocked = Clocked::new(each, None);
        for _ in 0..100 {
            clocked.until_look(QUIET);
        }
        clocked
    }
}

/// Who waits for a socket does not wait for 128 turns of ten microseconds.
#[test]
fn a_used_up_budget_counts_for_eight_dispatches() {
    let mut clocked = Clocked::new(US, None);
    let mut turns = 0;
    while clocked.dispatches(QUIET) {
        clocked.tick.budget_used_up();
        turns += 1;
    }
    assert!(clocked.tick.due().tick);
    assert_eq!(turns, DISPATCHES / 8);
}

#[test]
fn a_tick_is_128_dispatches() {
    let mut tick = Tick::new(at(0), Some(1000));
    for _ in 0..3 {
        let mut dispatches = 0;
        while tick.dispatch() || tick.glance(|| QUIET, || 0, || at(0)) {
            dispatches += 1;
        }
        assert_eq!(dispatches, DISPATCHES);
        assert_eq!(DISPATCHES, 128);
        let due = tick.due();
        assert!(due.tick && !due.injector);
        tick.finish(at(0));
    }
}

#[test]
fn the_injector_is_looked_at_once_a_millisecond_as_far_as_the_estimate_tells() {
    for (each, dispatches) in [(US, 255), (10 * US, 100), (50 * US, 20), (100 * US, 10), (MS, 8)] {
        assert_eq!(Clocked::settled(each).until_look(QUIET), dispatches, "{each} ns each");
    }
    assert_eq!(Clocked::new(US, None).until_look(QUIET), 20, "before there is an estimate");
}

/// Sockets and timers have their turn by the clock too, where 128 dispatches take long.
#[test]
fn a_tick_of_fibers_that_run_for_long_ends_by_the_clock() {
    // Time of each, dispatches in a tick with a short ring, and with a long one.
    let table = [
        (100, 128, 128),
        (US, 128, 128),
        (10 * US, 128, 128),
        (20 * US, 5, 50),
        (MS, 1, 1),
        (10 * MS, 1, 1),
    ];
    for (each, short, long) in table {
        let mut clocked = Clocked::settled(each);
        assert_eq!(clocked.until_tick(QUIET), short, "{each} ns each");
        let long_ring = Queues { short: false, ..QUIET };
        assert_eq!(clocked.until_tick(long_ring), long, "{each} ns each, a long ring");
    }
}

/// Those who ran until now took a tenth of a microsecond: the estimate is of them.
#[test]
fn a_tick_that_was_thought_short_ends_at_the_glance_that_finds_it_long() {
    for (each, most) in [(20 * MS, 33), (MS, 33), (100 * US, 65), (20 * US, 97)] {
        let mut clocked = Clocked::settled(100);
        clocked.each = each;
        let first = clocked.until(QUIET, |due| due.tick);
        // What is left of the tick was begun by the others.
        assert!(first <= most, "{first} dispatches of {each} ns");
        let next = clocked.until(QUIET, |due| due.tick);
        assert!(next <= 6, "then {next} dispatches of {each} ns");
    }
}

/// The system has taken the processor away once.
#[test]
fn who_is_short_again_is_believed_at_once() {
    let mut clocked = Clocked::settled(100);
    clocked.until(QUIET, |due| due.tick);
    clocked.now += 10 * MS;
    clocked.until(QUIET, |due| due.tick);
    for _ in 0..3 {
        assert_eq!(clocked.until(QUIET, |due| due.tick), DISPATCHES);
    }
}

/// Also where the worker asks what is due for each fiber, as one does that takes them from its mailbox.
#[test]
fn the_clock_ends_a_tick_in_which_each_fiber_is_asked_for() {
    let mut clocked = Clocked::settled(40 * US);
    while !clocked.until_due(QUIET).1.tick {}
    let fibers = (0..).find(|_| {
        let now = clocked.now;
        clocked.tick.look(|| QUIET, || stamp_at(now), || at(now));
        let due = clocked.tick.due();
        if due.injector {
            clocked.tick.injector_looked(at(now));
        }
        let dispatched = clocked.tick.dispatch();
        assert!(dispatched || due.tick || due.injector);
        clocked.now += clocked.each;
        due.tick
    });
    assert!((2..=4).contains(&fibers.unwrap()), "{fibers:?} of 40 us");
}

/// Fibers that run for a moment, and then some that take far longer than estimated.
#[test]
fn the_clock_holds_the_millisecond_where_the_estimate_is_off() {
    let mut clocked = Clocked::settled(US);
    clocked.each = 40 * US;
    // At the first glance after a millisecond.
    let first = clocked.until_look(CROWDED);
    assert!((25..=35).contains(&first), "{first} dispatches: {} us", first * 40);
    let mut clocked = Clocked::settled(US);
    clocked.each = 20 * US;
    let first = clocked.until_look(CROWDED);
    assert!((50..=60).contains(&first), "{first} dispatches: {} us", first * 20);
}

/// Whoever was woken from outside waits for a glance, not for the interval; and a flood from outside gets ten early
/// looks a millisecond, not one at each glance.
#[test]
fn what_waits_beside_a_short_ring_is_looked_at_soon() {
    // Time of each, most dispatches until a first one is found, and from then on.
    for (each, first, next) in [(US, 20, 120), (5 * US, 4, 24), (20 * US, 1, 6), (MS, 1, 1)] {
        let mut clocked = Clocked::settled(each);
        clocked.pass(2 * 100 * US, QUIET);
        let found = clocked.until_early_look(WAITING);
        assert!(found <= first, "{found} dispatches of {each} ns");
        let again = clocked.until_early_look(WAITING);
        // The worker's own have their turn between two looks.
        let least = (next / 4).max(1);
        assert!((least..=next).contains(&again), "then {again} dispatches of {each} ns");
    }
}

#[test]
fn early_looks_put_nothing_else_off() {
    for each in [5 * US, 20 * US, 50 * US] {
        let mut clocked = Clocked::settled(each);
        let (quiet, began) = (clocked.until_look(QUIET), clocked.now);
        clocked.until_look(WAITING);
        let took = clocked.now - began;
        assert!(took <= MS + 50 * US, "{took} ns instead of {quiet} times {each}");
    }
}

#[test]
fn where_many_are_in_the_ring_there_are_no_early_looks() {
    let mut clocked = Clocked::settled(20 * US);
    assert_eq!(clocked.until_early_look(CROWDED), clocked.until_look(CROWDED));
}

#[test]
fn for_fibers_that_run_for_a_moment_the_clock_is_read_only_if_something_waits() {
    let mut clocked = Clocked::settled(10);
    clocked.reads = 0;
    clocked.until_look(QUIET);
    assert_eq!(clocked.reads, 0);
    clocked.until_look(WAITING);
    assert!((1..=8).contains(&clocked.reads), "{}", clocked.reads);
}

#[test]
fn an_interval_that_is_set_counts_dispatches_alone() {
    for each in [10, US, MS] {
        let mut clocked = Clocked::new(each, Some(64));
        for _ in 0..10 {
            assert_eq!(clocked.until_look(WAITING), 64);
        }
    }
}

/// What lies between the end of a tick and its next begin was polling or sleep.
#[test]
fn the_estimate_leaves_out_what_was_not_running() {
    let mut tick = Tick::new(at(0), None);
    let mut now = 0;
    for _ in 0..20 {
        while tick.dispatch() || tick.glance(|| QUIET, || stamp_at(now), || at(now)) {
            now += 10 * US;
        }
        if tick.due().injector {
            tick.injector_looked(at(now));
        }
        tick.finish(at(now));
        now += 500 * MS;
        tick.begin(at(now), stamp_at(now));
    }
    assert_eq!(tick.interval(), 100);
}

/// A fiber that calls `blocking` again and again gets a core each time, which its thread has to begin with.
#[test]
fn where_cores_change_hands_sockets_wait_no_longer() {
    let mut tick = Tick::new(at(0), None);
    let after = (1..100).find(|call| {
        let now = call * 300 * US;
        tick.begin_elsewhere(at(now), stamp_at(now));
        assert!(tick.dispatch() || tick.glance(|| QUIET, || stamp_at(now), || at(now)));
        tick.injector_looked(at(now));
        tick.is_long()
    });
    assert_eq!(after, Some(4), "a millisecond");
}

#[test]
fn a_tick_that_is_cut_short_counts_what_there_was() {
    let mut tick = Tick::new(at(0), None);
    for _ in 0..10 {
        assert!(tick.dispatch() || tick.glance(|| QUIET, || 0, || at(0)));
    }
    tick.cut_short();
    assert!(!tick.dispatch() && !tick.glance(|| QUIET, || 0, || at(0)));
    assert!(tick.due().tick);
    // Ten of 10 us each, not more dispatches of less.
    tick.finish(at(100 * US));
    assert_eq!(tick.interval(), 41);
}

/// A wait of the worker within a tick, for the fiber that it ran, is no fiber's time.
#[test]
fn what_is_left_out_of_a_tick_is_nobodys_time() {
    let average_with = |wait: u64, left_out: u64| {
        let mut worker = Clocked::new(100, Some(64));
        worker.tick.begin(at(0), stamp_at(0));
        (0..8).for_each(|_| assert!(worker.dispatches(QUIET)));
        worker.tick.leave_out(Duration::from_nanos(left_out));
        worker.tick.finish(at(worker.now + wait));
        worker.tick.average()
    };
    let without = average_with(0, 0);
    assert_eq!(average_with(MS, MS), without);
    assert!(average_with(MS, 0) > without, "it is not told");
}
