//! A world with a counter and a clock of its own; and the real ones, on threads that are moved about.

use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// How late a bound may be, in nanoseconds.
const LATE: u64 = 10_000;

/// Counter and clock, and what time it takes to read them.
struct World {
    tsc: u64,
    /// The clock, in units of 2^-32 ns.
    clock: u128,
    /// How far it goes in a cycle.
    rate: u64,
    nominal: u64,
    /// Cycles that the next look at the clock is interrupted for, before it and after.
    interrupt: u64,
    /// How many cycles early a look at the counter is.
    early: u64,
}

impl World {
    /// With a counter of so many MHz.
    fn new(mhz: u64) -> World {
        let rate = ONE * 1000 / mhz;
        let clock = 1 << 80;
        World { tsc: 1 << 50, clock, rate, nominal: rate, interrupt: 0, early: 0 }
    }

    fn pass(&mut self, cycles: u64) {
        self.tsc += cycles;
        self.clock += u128::from(cycles) * u128::from(self.rate);
    }

    fn pass_micros(&mut self, micros: u64) {
        self.pass(((u128::from(micros) * 1000) << 32).div_ceil(self.nominal.into()) as u64);
    }

    fn nanos(&self) -> u64 {
        (self.clock >> 32) as u64
    }

    fn read_tsc(&mut self) -> u64 {
        let tsc = self.tsc - self.early;
        self.pass(30);
        tsc
    }

    fn read_clock(&mut self) -> Moment {
        let interrupt = std::mem::take(&mut self.interrupt);
        self.pass(60 + interrupt);
        let now = self.nanos();
        self.pass(20 + interrupt);
        Moment::from_nanos(now)
    }

    /// A counter that was set back is nowhere near the anchor of `line` when it is looked at: see the module
    /// for one that is. It may have come there since, nobody having asked.
    fn stay_off(&mut self, line: Line) {
        let looks = self.tsc - 1_000..=self.tsc + 1_000;
        if [*looks.start(), *looks.end()].iter().any(|&tsc| line.roughly_at(tsc).is_some()) {
            self.tsc += 1_000_000_000;
        }
    }

    /// From here on the clock goes at so much of its nominal rate.
    fn steer(&mut self, percent: u64) {
        self.rate = self.nominal * percent / 100;
    }

    fn anchor(&mut self) -> Option<Anchor> {
        let world = RefCell::new(self);
        Anchor::take(|| world.borrow_mut().read_tsc(), || world.borrow_mut().read_clock()).1
    }

    /// Asks `clock`; the bound must hold. True if it came from an anchor.
    #[track_caller]
    fn ask(&mut self, clock: &TscClock) -> bool {
        let before = Moment::from_nanos(self.nanos());
        assert!(!clock.is_roughly_before(before, || self.read_tsc()), "it has passed already");
        let before = self.nanos();
        let reckoned = clock.reckon(|| self.read_tsc());
        let world = RefCell::new(&mut *self);
        let read_tsc = || world.borrow_mut().read_tsc();
        let read_clock = || world.borrow_mut().read_clock();
        let bound = reckoned.unwrap_or_else(|| clock.look_with(read_tsc, read_clock));
        let (bound, after) = (bound.as_nanos(), self.nanos());
        assert!(bound >= before, "early by {} ns", before - bound);
        assert!(bound <= after + LATE, "late by {} ns", bound - after);
        reckoned.is_some()
    }

    /// Asks until the rate is known.
    #[track_caller]
    fn measure(&mut self, clock: &TscClock) {
        for _ in 0..3 {
            assert!(!self.ask(clock), "nothing is known yet");
            self.pass_micros(12_000);
        }
        self.ask(clock);
        assert!(self.ask(clock), "the rate is known");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask,
    Pass { micros: u64 },
    Steer { percent: u64 },
    Interrupt { cycles: u64 },
    Early { cycles: u64 },
    Suspend { seconds: u64 },
    SetBack { tsc: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Ask),
        4 => (0..20u64).prop_map(|micros| Step::Pass { micros }),
        4 => (8_000..30_000u64).prop_map(|micros| Step::Pass { micros }),
        1 => prop_oneof![Just(89), Just(111), 89..=111u64]
            .prop_map(|percent| Step::Steer { percent }),
        1 => (0..5_000u64).prop_map(|cycles| Step::Interrupt { cycles }),
        1 => (0..900u64).prop_map(|cycles| Step::Early { cycles }),
        1 => (1..1000u64).prop_map(|seconds| Step::Suspend { seconds }),
        1 => (0..1u64 << 40).prop_map(|tsc| Step::SetBack { tsc }),
    ]
}

proptest! {
    #[test]
    fn a_bound_holds_whatever_happens(
        mhz in 1_000..5_000u64,
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let (mut world, clock) = (World::new(mhz), TscClock::new());
        world.measure(&clock);
        let mut was_set_back = false;
        for step in steps {
            match step {
                Step::Ask => {
                    if std::mem::take(&mut was_set_back) {
                        world.stay_off(clock.line.get());
                    }
                    world.ask(&clock);
                }
                Step::Pass { micros } => world.pass_micros(micros),
                Step::Steer { percent } => world.steer(percent),
                Step::Interrupt { cycles } => world.interrupt = cycles,
                Step::Early { cycles } => world.early = cycles,
                Step::Suspend { seconds } => world.tsc += seconds * 1_000_000 * mhz,
                Step::SetBack { tsc } => {
                    world.tsc = tsc + 1_000;
                    was_set_back = true;
                }
            }
        }
    }
}

#[test]
fn a_clock_that_is_steered_from_one_end_to_the_other_is_not_overtaken() {
    for (from, to) in [(89, 111), (111, 89), (100, 100)] {
        let (mut world, clock) = (World::new(2_600), TscClock::new());
        world.steer(from);
        world.measure(&clock);
        world.steer(to);
        let reckoned = (0..50_000).filter(|_| world.ask(&clock)).count();
        assert!(reckoned > 49_000, "{reckoned}");
    }
}

#[test]
fn an_anchor_is_not_used_when_it_is_old_or_ahead() {
    let line = Line::new(Anchor { tsc: 1_000_000, nanos: 5_000_000 }, ONE / 2);
    assert_eq!(line.end, 2 * GOOD_FOR);
    let bound = |tsc: u64| line.at(tsc).map(Moment::as_nanos);
    assert_eq!(bound(1_000_000), Some(5_000_000 + GUARD));
    assert_eq!(bound(1_008_000), Some(5_005_000 + GUARD), "five quarters of 4000");
    assert!(bound(1_000_000 + line.end - 1).is_some());
    assert_eq!(bound(1_000_000 + line.end), None);
    assert_eq!(bound(999_999), None);
    assert_eq!(bound(0), None);
    assert_eq!(Line::NONE.at(0), None);
    // For deadlines that are far away it is good for longer.
    let rough = |tsc: u64| line.roughly_at(tsc).map(Moment::as_nanos);
    assert_eq!(rough(1_000_000 + line.end), Some(5_000_000 + GOOD_FOR * 5 / 4 + GUARD));
    let end = line.end * u64::from(LONGER);
    assert_eq!(rough(999_999 + end), Some(5_000_000 + u64::from(LONGER) * 20_000 + GUARD - 1));
    assert_eq!((rough(1_000_000 + end), rough(999_999)), (None, None));
}

/// Who asks for nothing else looks at the clock once in 33 ms, and goes on to measure its rate.
#[test]
fn a_deadline_that_is_far_away_takes_no_look_at_the_clock() {
    let (mut world, clock) = (World::new(2_600), TscClock::new());
    let far = Moment::from_nanos(world.nanos() + 3_600_000_000_000);
    assert!(!clock.is_roughly_before(far, || world.read_tsc()), "nothing is known yet");
    world.measure(&clock);
    let mut looks = 0;
    for _ in 0..1_000 {
        world.pass_micros(1_000);
        if !clock.is_roughly_before(far, || world.read_tsc()) {
            world.ask(&clock);
            looks += 1;
        }
    }
    assert!((28..35).contains(&looks), "{looks} looks in a second");
    assert_ne!(clock.gauge.get().known, 0);
}

#[test]
fn an_anchor_is_late_if_anything() {
    for interrupt in [0, 1, 100, 200] {
        let mut world = World::new(1_000);
        let begun = Anchor { tsc: world.tsc, nanos: world.nanos() };
        world.interrupt = interrupt;
        let anchor = world.anchor().expect("it is tight");
        let cycles = anchor.tsc - begun.tsc;
        assert!(anchor.nanos >= begun.nanos + cycles, "the clock is not before the counter");
    }
}

#[test]
fn an_anchor_that_was_interrupted_is_not_kept() {
    let (mut world, clock) = (World::new(2_600), TscClock::new());
    world.measure(&clock);
    world.pass_micros(50);
    world.interrupt = TIGHT;
    assert!(!world.ask(&clock));
    assert!(!world.ask(&clock), "nothing was kept");
    assert!(world.ask(&clock));
}

#[test]
fn a_slow_clock_is_not_tried_for_ever() {
    let (mut world, clock) = (World::new(2_600), TscClock::new());
    for _ in 0..TRIES {
        world.interrupt = TIGHT;
        world.ask(&clock);
    }
    let before = world.tsc;
    world.ask(&clock);
    assert_eq!(world.tsc - before, 80, "only the clock is read");
}

#[test]
fn a_suspend_makes_the_rate_unknown_for_a_while() {
    for (tsc, seconds) in [(0, 1), (0, 100_000), (1 << 40, 0)] {
        let (mut world, clock) = (World::new(2_600), TscClock::new());
        world.measure(&clock);
        world.tsc = if tsc == 0 { world.tsc + seconds * 2_600_000_000 } else { tsc };
        world.pass_micros(10_000);
        assert!(!world.ask(&clock));
        assert!(!world.ask(&clock), "what was measured is wrong");
        world.measure(&clock);
    }
}

#[test]
fn no_suspend_is_taken_for_a_rate() {
    // How long the clock goes between two anchors, and how long the counter goes on alone; how often.
    let cases = [(12, 6, 1), (12, 20, 1), (49, 500, 3), (12, 500, 3), (2_000, 1_000, 3)];
    for (mhz, (between, alone, times)) in
        [1_000, 2_600, 5_000].map(|mhz| cases.map(|c| (mhz, c))).concat()
    {
        let (mut world, clock) = (World::new(mhz), TscClock::new());
        world.measure(&clock);
        for _ in 0..times {
            world.pass_micros(between * 1_000);
            world.tsc += alone * 1_000 * mhz;
            for _ in 0..200 {
                world.ask(&clock);
                world.pass(100);
            }
        }
    }
}

/// Restricts the calling thread to a processor, or to all.
fn stay_on(processor: Option<usize>) {
    // SAFETY: a set of processors is plain bits; the call only reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        match processor {
            Some(processor) => libc::CPU_SET(processor, &mut set),
            None => (0..libc::CPU_SETSIZE as usize).for_each(|n| libc::CPU_SET(n, &mut set)),
        }
        // One that is not there is refused, and the thread stays where it was.
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

#[track_caller]
fn ask(clock: &TscClock) {
    let before = Moment::now();
    assert!(!clock.is_surely_before(before), "it has passed already");
    let bound = clock.upper_bound();
    let after = Moment::now();
    assert!(before <= bound, "early by {:?}", before.since(bound));
    let late = bound.since(after);
    assert!(late <= Duration::from_nanos(LATE), "late by {late:?}");
}

#[test]
fn the_real_clock_keeps_its_bounds_on_threads_that_are_moved() {
    let (stop, shared) = (AtomicBool::new(false), Mutex::new(TscClock::new()));
    thread::scope(|s| {
        for worker in 0..4 {
            let (stop, shared) = (&stop, &shared);
            s.spawn(move || {
                let clock = TscClock::new();
                for round in 0.. {
                    if stop.load(Relaxed) {
                        break;
                    }
                    // One stays where it is, one goes where the system wants, two are moved.
                    match worker {
                        0 => stay_on(Some(0)),
                        1 => stay_on(None),
                        _ => stay_on(Some(round % 2)),
                    }
                    (0..100).for_each(|_| ask(&clock));
                    (0..100).for_each(|_| ask(&shared.lock().unwrap()));
                }
            });
        }
        thread::sleep(Duration::from_millis(400));
        stop.store(true, Relaxed);
    });
}

#[test]
fn the_real_clock_is_reckoned_from_anchors_where_it_can_be() {
    if !is_source() {
        return;
    }
    let clock = TscClock::new();
    let begun = Moment::now();
    while clock.reckon(tsc).is_none() {
        ask(&clock);
        assert!(Moment::now().since(begun) < Duration::from_secs(20), "{clock:?}");
    }
}
