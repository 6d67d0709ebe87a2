//! The wheel against a sorted map that knows every deadline.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A wheel, the entries it may point at, and the model: (tick, id) of each that is in. Of entries with one tick, any
/// may be the first.
struct Bench {
    now: u64,
    wheel: Wheel<usize>,
    entries: Vec<NonNull<Entry<usize>>>,
    model: BTreeMap<(u64, usize), ()>,
    ticks: Vec<u64>,
    deadlines: Vec<u64>,
}

impl Bench {
    fn new(now: u64) -> Self {
        Self {
            now,
            wheel: Wheel::new(Moment::from_nanos(now)),
            entries: Vec::new(),
            model: BTreeMap::new(),
            ticks: Vec::new(),
            deadlines: Vec::new(),
        }
    }

    fn insert(&mut self, deadline: u64) -> usize {
        let id = self.entries.len();
        let entry = Box::new(Entry::new(Moment::from_nanos(deadline), id));
        self.entries.push(NonNull::from(Box::leak(entry)));
        // The model's own arithmetic; what is overdue counts as due in the wheel's present tick.
        let tick = deadline / TICK + u64::from(deadline % TICK > 0);
        let tick = tick.min(NEVER_TICK).max(self.now / TICK);
        self.ticks.push(tick);
        self.deadlines.push(deadline);
        self.model.insert((tick, id), ());
        // SAFETY: fresh, and alive until `self` is dropped.
        let due = unsafe { self.wheel.insert(self.entries[id]) }.as_nanos();
        assert!(due >= deadline, "early");
        assert!(tick == NEVER_TICK || due <= deadline.max(tick * TICK), "late");
        self.check();
        id
    }

    fn remove(&mut self, id: usize) {
        let linked = self.model.remove(&(self.ticks[id], id)).is_some();
        // SAFETY: alive, and only ever in this wheel.
        assert_eq!(unsafe { self.wheel.remove(self.entries[id]) }, linked);
        self.check();
    }

    /// Fires everything due at `now`, and checks that it is everything, once, in order.
    fn advance(&mut self, now: u64) -> usize {
        self.now = self.now.max(now);
        let mut count = 0;
        while let Some(id) = self.wheel.pop_expired(Moment::from_nanos(now)) {
            let first = *self.model.first_key_value().expect("fired twice").0;
            assert_eq!(self.ticks[id], first.0, "out of order");
            assert!(self.deadlines[id] <= self.now, "early");
            assert!(self.model.remove(&(first.0, id)).is_some(), "fired twice");
            count += 1;
        }
        self.check();
        let due = self.first_tick().is_some_and(|tick| tick <= self.now);
        assert!(!due, "late");
        let next = self.wheel.next_deadline();
        assert!(next.is_none_or(|next| next.as_nanos() > now), "the caller would spin");
        count
    }

    /// When the first tick comes that somebody wants.
    fn first_tick(&self) -> Option<u64> {
        let (&(tick, _), ()) = self.model.first_key_value()?;
        (tick != NEVER_TICK).then(|| tick * TICK)
    }

    /// When to look next, if that is exact: with the first tick, or at its only entry's deadline.
    fn is_exact(&self) -> bool {
        let mut all = self.model.keys();
        let Some(&(tick, id)) = all.next() else { return self.next().is_none() };
        let alone = all.next().is_none_or(|next| next.0 != tick);
        self.next() == self.first_tick() || alone && self.next() == Some(self.deadlines[id])
    }

    fn next(&self) -> Option<u64> {
        self.wheel.next_deadline().map(Moment::as_nanos)
    }

    fn check(&self) {
        assert_eq!(self.wheel.len(), self.model.len());
        if let Some(next) = self.first_tick() {
            assert!(self.next().is_some_and(|bound| bound <= next), "next_deadline is late");
        }
        if self.model.is_empty() {
            assert_eq!(self.next(), None);
        }
        self.check_last_due();
    }

    fn last_due(&self, latest: u64) -> Option<u64> {
        self.wheel.last_due(Moment::from_nanos(latest)).map(Moment::as_nanos)
    }

    /// That is the next, or the last deadline by then, if no slot has more than stand in a chunk.
    fn check_last_due(&self) {
        let Some(next) = self.next() else { return assert_eq!(self.last_due(u64::MAX - 1), None) };
        assert!(next == 0 || self.last_due(next - 1).is_none(), "nobody is due by then");
        let deadlines = || self.model.keys().map(|(_, id)| self.deadlines[*id]);
        if self.model.len() >= 16 {
            let latest = next.saturating_add(2 * TICK);
            let found = self.last_due(latest);
            return assert!(found.is_none_or(|found| (next..=latest).contains(&found)));
        }
        for ticks in [0, 1, 2, 20] {
            let latest = next.saturating_add(ticks * TICK);
            if latest / TICK + 1 >= NEVER_TICK {
                break;
            }
            let last = deadlines().filter(|due| *due <= latest).max().unwrap_or(0).max(next);
            let found = self.last_due(latest);
            assert_eq!(found, Some(last).filter(|last| *last <= latest), "{ticks} after {next}");
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for entry in &self.entries {
            // SAFETY: leaked in `insert`; the wheel does not look at it again.
            drop(unsafe { Box::from_raw(entry.as_ptr()) });
        }
    }
}

/// From here to there, or back.
#[derive(Clone, Copy, Debug)]
enum Distance {
    Ahead(u64),
    Behind(u64),
    Never,
}

impl Distance {
    fn from(self, now: u64) -> u64 {
        match self {
            Distance::Ahead(nanos) => now.saturating_add(nanos),
            Distance::Behind(nanos) => now.saturating_sub(nanos),
            Distance::Never => u64::MAX,
        }
    }
}

/// Every order of magnitude is as likely as every other, and level boundaries are likely.
fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0u32..64, any::<u64>()).prop_map(|(zeros, bits)| bits >> zeros),
        1 => (0u64..5).prop_map(|ticks| ticks * TICK),
        1 => (16u32..64, 0u64..3).prop_map(|(bit, off)| (1u64 << bit) + off - 1),
    ]
}

fn distance() -> impl Strategy<Value = Distance> {
    prop_oneof![
        12 => nanos().prop_map(Distance::Ahead),
        2 => nanos().prop_map(Distance::Behind),
        1 => Just(Distance::Never),
    ]
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Distance),
    Remove(prop::sample::Index),
    Advance(Distance),
    Sleep,
    MoveOut,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => distance().prop_map(Op::Insert),
        3 => any::<prop::sample::Index>().prop_map(Op::Remove),
        2 => (0u64..200 * TICK).prop_map(|nanos| Op::Advance(Distance::Ahead(nanos))),
        1 => distance().prop_map(Op::Advance),
        2 => Just(Op::Sleep),
        1 => Just(Op::MoveOut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_a_sorted_map(start in nanos(), ops in prop::collection::vec(op(), 0..100)) {
        let mut bench = Bench::new(start);
        for op in ops {
            match op {
                Op::Insert(distance) => {
                    bench.insert(distance.from(bench.now));
                }
                Op::Remove(_) if bench.entries.is_empty() => {}
                Op::Remove(index) => bench.remove(index.index(bench.entries.len())),
                Op::Advance(distance) => {
                    bench.advance(distance.from(bench.now));
                }
                Op::MoveOut => {
                    drop(bench.wheel.move_out());
                    bench.check();
                }
                Op::Sleep => {
                    let Some(next) = bench.next() else { continue };
                    if bench.advance(next) == 0 {
                        prop_assert!(bench.is_exact(), "still not exact");
                    }
                }
            }
        }
    }

    #[test]
    fn is_exact_as_long_as_nothing_is_removed(
        start in nanos(),
        steps in prop::collection::vec((distance(), 0u64..50 * TICK), 0..60),
    ) {
        let mut bench = Bench::new(start);
        for (distance, step) in steps {
            bench.insert(distance.from(bench.now));
            prop_assert!(bench.is_exact());
            bench.advance(bench.now.saturating_add(step));
            prop_assert!(bench.is_exact());
        }
    }
}

#[test]
fn deadlines_of_one_tick_are_rounded_up_and_time_down() {
    let mut bench = Bench::new(10 * TICK + 1);
    bench.insert(11 * TICK + 100);
    bench.insert(11 * TICK + 200);
    assert_eq!(bench.next(), Some(12 * TICK));
    assert_eq!(bench.advance(12 * TICK), 2);
}

/// Near, and far: in a slot of many ticks.
#[test]
fn who_is_alone_in_its_slot_is_due_to_the_nanosecond() {
    for deadline in [11 * TICK + 1, 12_345 * TICK + 1] {
        let mut bench = Bench::new(10 * TICK + 1);
        bench.insert(deadline);
        assert_eq!(bench.next(), Some(deadline));
        assert_eq!(bench.advance(deadline - 1), 0);
        assert_eq!(bench.next(), Some(deadline));
        assert_eq!(bench.advance(deadline), 1);
    }
}

#[test]
fn the_last_that_is_due_by_then() {
    let mut bench = Bench::new(0);
    assert_eq!(bench.last_due(1_000 * TICK), None);
    // Level 0, its last slot too, and those above it.
    let ticks = [10, 11, 12, 20, 63, 64, 65, 128];
    ticks.iter().for_each(|tick| _ = bench.insert(tick * TICK - 100));
    let by = |ticks: u64| bench.last_due(ticks * TICK).map(|due| due.div_ceil(TICK));
    let last = |by: u64| ticks.iter().rev().find(|tick| **tick <= by).copied();
    (0..200).for_each(|ticks| assert_eq!(by(ticks), last(ticks), "by {ticks}"));
    // Before the tick ends.
    let due = 11 * TICK - 100;
    assert_eq!([due - 1, due].map(|by| bench.last_due(by)), [Some(due - TICK), Some(due)]);
}

#[test]
fn where_many_stand_one_is_taken_to_be_due_in_each_tick() {
    for (first, many) in [(10, 100), (70, 100)] {
        let mut bench = Bench::new(0);
        (0..many).for_each(|_| _ = bench.insert(first * TICK - 100));
        let by = |ticks: u64| bench.last_due(ticks * TICK).map(|due| due.div_ceil(TICK));
        assert_eq!(by(first - 1), None);
        assert_eq!(by(first), Some(first));
        // Above level 0 nobody knows better.
        assert_eq!(by(first + 2), Some(if first < 64 { first } else { first + 2 }));
    }
}

/// Who looks when the first of two was due alone does not look in vain.
#[test]
fn of_a_few_in_a_tick_those_fire_whose_time_has_come() {
    let mut bench = Bench::new(10 * TICK);
    bench.insert(10 * TICK + 100);
    assert_eq!(bench.next(), Some(10 * TICK + 100));
    bench.insert(10 * TICK + 200);
    assert_eq!(bench.advance(10 * TICK + 100), 1);
    assert_eq!(bench.next(), Some(10 * TICK + 200));
    assert_eq!(bench.advance(10 * TICK + 200), 1);
}

#[test]
fn never_does_not_come() {
    let mut bench = Bench::new(0);
    let id = bench.insert(u64::MAX);
    assert_eq!(bench.next(), None);
    assert_eq!(bench.advance(u64::MAX), 0);
    bench.remove(id);
}

#[test]
fn a_removed_deadline_wakes_at_most_once() {
    const SECOND: u64 = 1_000_000_000;
    let mut bench = Bench::new(0);
    // In one slot: level 3 has 17.2 s per slot.
    let removed = bench.insert(105 * SECOND);
    bench.insert(118 * SECOND);
    bench.remove(removed);
    bench.insert(118 * SECOND);
    assert!(bench.next() < bench.first_tick(), "nothing to see");
    let mut idle = 0;
    while bench.advance(bench.next().expect("one is left")) == 0 {
        idle += 1;
    }
    assert!(bench.now >= 118 * SECOND && idle <= 1, "{idle} wake-ups for nothing");
}

#[test]
fn an_older_now_fires_what_is_due_and_changes_nothing_else() {
    let mut bench = Bench::new(0);
    bench.advance(1000 * TICK);
    bench.insert(1001 * TICK);
    bench.insert(5 * TICK);
    assert_eq!(bench.advance(3 * TICK), 1);
    assert_eq!(bench.next(), Some(1001 * TICK));
}

#[test]
fn a_waiter_may_be_inserted_again_while_others_are_still_due() {
    let mut bench = Bench::new(0);
    for tick in [3, 70, 5000] {
        bench.insert(tick * TICK);
    }
    let mut fired = Vec::new();
    while let Some(id) = bench.wheel.pop_expired(Moment::from_nanos(6000 * TICK)) {
        fired.push(id);
        bench.model.remove(&(bench.ticks[id], id));
        if id == 0 {
            bench.insert(71 * TICK);
        }
    }
    assert_eq!(fired, [0, 1, 3, 2]);
}

#[test]
fn a_bursts_memory_goes_though_one_is_left() {
    const MANY: usize = if cfg!(miri) { 640 } else { 100_000 };
    const FEW: usize = if cfg!(miri) { 12 } else { 100 };
    let mut bench = Bench::new(0);
    let far = bench.insert(1 << 40);
    let burst: Vec<_> = (0..MANY as u64).map(|i| bench.insert((1 + i % 50) * TICK)).collect();
    let last = bench.insert(1 << 40);
    bench.advance(50 * TICK);
    assert!(bench.wheel.chunks() >= MANY / 32, "nothing to see");
    // Of so few as Miri can walk through nothing need be given back.
    let old = if cfg!(miri) { Some(bench.wheel.move_out()) } else { bench.wheel.trim() };
    drop(old.expect("two are in"));
    assert!(bench.wheel.chunks() < FEW, "{} chunks for two", bench.wheel.chunks());
    // What has fired is refused, whosever its handle is now, and those that are in stay.
    bench.check();
    burst.into_iter().for_each(|id| bench.remove(id));
    bench.remove(last);
    (0..10).for_each(|_| _ = bench.insert(60 * TICK));
    assert_eq!(bench.advance(60 * TICK), 10);
    assert!(bench.wheel.trim().is_none(), "it has what it needs");
    assert!(bench.wheel.chunks() < FEW);
    assert_eq!(bench.advance(1 << 40), 1);
    bench.remove(far);
}

/// As many chunks as timers is the most that is needed: it must not be cleared away again and again.
#[test]
fn what_is_needed_stays() {
    let mut bench = Bench::new(0);
    for slot in 0..SLOTS as u64 {
        for level in 0..6 {
            bench.insert(TICK * (slot << (level * DIGIT_BITS)));
        }
    }
    drop(bench.wheel.move_out());
    assert!(bench.wheel.trim().is_none());
}
