//! An upper bound of the present, for deadlines: the processor's time stamp counter, anchored to the
//! clock. It costs half as much as the clock itself, and next to nothing beside other work, since to
//! read the counter does not make the processor wait for what came before.
//!
//! A thread reads counter and clock together, as an *anchor*. For the next 16 us the present is the anchor's moment and
//! the cycles since, at the rate that was measured, and what could be missing is added: so a deadline that is reckoned
//! from it is never early, and some 5 us late at most, less than 10 in the worst case of 2. Not for measuring, nor for
//! asking whether a deadline has passed: two bounds need not be in order. But a bound that lies before a deadline says
//! that it has not, and for that an anchor is good for 33 ms: most deadlines are further away than the quarter of that.
//!
//! Why it is never early:
//!
//! 1. *Anchor.* The counter is read before the clock. Whatever comes between, an interrupt or another
//!    thread, makes the anchor late. The clock's own look at the counter is ordered (`lfence`), so
//!    it comes after ours in time too. A third look says how long it took; an anchor that is not tight
//!    is not kept.
//! 2. *Rate.* The system steers its clock, and refuses or warns of more than 11% off nominal, either way
//!    (`adjtimex`; some daemons do go far beyond the usual 500 ppm). So the clock runs at most 1.11 / 0.89
//!    = 1.247 times as fast as when it was measured, and 1.25 times the rate is reckoned. That is why an
//!    anchor is good for so short a time: a bound is late by a quarter of that, and by less than a half
//!    where the clock has slowed down as far as it goes.
//! 3. *Measuring.* From one tight anchor to another, 10 to 50 ms after it, so to 2 in 10,000; again and
//!    again, and the rate is unknown, which means the clock itself, unless the last two agree. In a
//!    suspend the counter may go on while the clock does not: with half a second of that, the counter
//!    would seem faster than any is. So would one that was set back.
//! 4. *Processors.* A thread may be moved between the two looks, and what has the anchor may go from one
//!    thread to the next. The system computes its clock from this very counter, on every processor by
//!    the same numbers: it does so only where it has seen that counters agree and do not stop (`tsc` as
//!    its clock source), and so it is with guests that move to another machine. No other source will do. One
//!    that is changed later to a slow one makes no tight anchors; to `kvm-clock`, to which a guest falls back
//!    whose counters disagree, it does, and a bound may then be early by as much as they disagree.
//! 5. *Order.* Our look at the counter is not ordered, and may come before that of earlier instructions
//!    which are still under way. A clock that was read before by the same thread is, but for some ns: its
//!    look holds up what follows. What another processor did before may be seen, by a load that was under
//!    way, after the look: by some hundred ns, for which there is [`GUARD`].
//! 6. A counter that was set back makes an age near 2^64, and an old anchor one above the limit: both are taken anew.
//!    One that is set back in a suspend, to just after an anchor or so that nobody asks until it has come there again,
//!    makes a deadline look ahead for 33 ms, and a bound early in the first 16 us of these.

use super::clock::Moment;
use std::arch::x86_64::_rdtsc;
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU8, Ordering};

/// How long an anchor is good, in nanoseconds. A new one costs some 20 ns more than the clock alone: to
/// have one for each deadline is worse than none by 0.2% of the time at most.
const GOOD_FOR: u64 = 16_000;
/// So many times as long it is good for asking whether a deadline is still ahead. Less than [`WINDOW`], so that whoever
/// asks nothing else goes on to measure.
const LONGER: u32 = 2048;
/// How many nanoseconds are added for what is read out of order.
const GUARD: u64 = 1_000;
/// How many cycles the two looks around the clock's are apart, at most. The clock takes about 100,
/// and a thousand and more where it is a system call.
const TIGHT: u64 = 512;
/// How many nanoseconds lie between two anchors that a rate is measured from.
const WINDOW: RangeInclusive<u64> = 10_000_000..=50_000_000;
/// After so many that were not tight, one after the other, no more are tried.
const TRIES: u32 = 64;

/// Nanoseconds a cycle, in units of 2^-32. None is 0.
type Rate = u64;

const ONE: Rate = 1 << 32;
/// What counters may have: from 8 GHz to 1/4 GHz.
const RATES: RangeInclusive<Rate> = ONE / 8..=4 * ONE;

/// Counter and clock, read together: the clock's moment is not before the counter's.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    tsc: u64,
    nanos: u64,
}

impl Anchor {
    const NONE: Anchor = Anchor { tsc: 0, nanos: 0 };

    /// Reads the clock, and makes an anchor of that if it was quick.
    #[inline(always)]
    fn take(
        mut tsc: impl FnMut() -> u64,
        clock: impl FnOnce() -> Moment,
    ) -> (Moment, Option<Anchor>) {
        let before = tsc();
        let now = clock();
        let tight = tsc().wrapping_sub(before) < TIGHT;
        (now, tight.then_some(Anchor { tsc: before, nanos: now.as_nanos() }))
    }

    /// The rate of the clock from `self` to `later`; 0 if that can be none.
    fn rate_to(self, later: Anchor) -> Rate {
        let cycles = u128::from(later.tsc.wrapping_sub(self.tsc));
        let nanos = u128::from(later.nanos - self.nanos) << 32;
        let rate = nanos.checked_div(cycles).unwrap_or(0);
        Rate::try_from(rate).ok().filter(|rate| RATES.contains(rate)).unwrap_or(0)
    }
}

/// What the counter's rate is known from.
#[derive(Clone, Copy, Debug)]
struct Gauge {
    /// Where the measurement that is under way began.
    begun: Option<Anchor>,
    /// What the last one found.
    last: Rate,
    /// The greater one of the last two, if they agree.
    known: Rate,
}

impl Gauge {
    const NEW: Gauge = Gauge { begun: None, last: 0, known: 0 };

    /// Takes note of an anchor, and returns the rate; 0 if it is not known.
    fn measure(&mut self, anchor: Anchor) -> Rate {
        let begun = *self.begun.get_or_insert(anchor);
        let lasted = anchor.nanos.saturating_sub(begun.nanos);
        if WINDOW.contains(&lasted) {
            let rate = begun.rate_to(anchor);
            let agree = rate.abs_diff(self.last) <= rate >> 8;
            self.known = if agree { rate.max(self.last) } else { 0 };
            self.last = rate;
        }
        if lasted >= *WINDOW.start() {
            self.begun = Some(anchor);
        }
        self.known
    }
}

/// An anchor and what is reckoned from it.
#[derive(Clone, Copy, Debug)]
struct Line {
    anchor: Anchor,
    /// Not less than the clock's, whatever the system does to that.
    rate: Rate,
    /// How many cycles after the anchor it ends; 0 for no line.
    end: u64,
}

impl Line {
    const NONE: Line = Line { anchor: Anchor::NONE, rate: 0, end: 0 };

    fn new(anchor: Anchor, rate: Rate) -> Line {
        if rate == 0 {
            return Line::NONE;
        }
        Line { anchor, rate: rate + rate / 4 + 1, end: (GOOD_FOR << 32) / rate }
    }

    /// Not before the moment when the counter was at `tsc`; `None` if that is too far from the anchor.
    #[inline(always)]
    fn at(self, tsc: u64) -> Option<Moment> {
        self.within(self.end, tsc)
    }

    /// The same [`LONGER`] after the anchor, and late by as much more.
    #[inline(always)]
    fn roughly_at(self, tsc: u64) -> Option<Moment> {
        self.within(self.end * u64::from(LONGER), tsc)
    }

    #[inline(always)]
    fn within(self, end: u64, tsc: u64) -> Option<Moment> {
        let cycles = tsc.wrapping_sub(self.anchor.tsc);
        // Some 41 ms at most: no overflow.
        (cycles < end)
            .then(|| Moment::from_nanos(self.anchor.nanos + GUARD + ((cycles * self.rate) >> 32)))
    }
}

/// One thread's. It may go to another thread, with what it is in.
#[derive(Debug)]
pub(crate) struct TscClock {
    line: Cell<Line>,
    gauge: Cell<Gauge>,
    /// How many anchors more may fail to be tight.
    tries: Cell<u32>,
}

impl TscClock {
    pub(crate) const fn new() -> TscClock {
        TscClock {
            line: Cell::new(Line::NONE),
            gauge: Cell::new(Gauge::NEW),
            tries: Cell::new(TRIES),
        }
    }

    /// A moment that is not before the present, and less than 10 us after.
    #[inline]
    pub(crate) fn upper_bound(&self) -> Moment {
        self.reckon(tsc).unwrap_or_else(|| self.look())
    }

    /// Is the present surely before `deadline`? Where it is not so, it may be all the same.
    #[inline]
    pub(crate) fn is_surely_before(&self, deadline: Moment) -> bool {
        self.is_roughly_before(deadline, tsc) || self.upper_bound() < deadline
    }

    #[inline(always)]
    fn is_roughly_before(&self, deadline: Moment, tsc: impl FnOnce() -> u64) -> bool {
        let line = self.line.get();
        line.end != 0 && line.roughly_at(tsc()).is_some_and(|bound| bound < deadline)
    }

    /// From the anchor, if it is still good.
    #[inline(always)]
    fn reckon(&self, tsc: impl FnOnce() -> u64) -> Option<Moment> {
        let line = self.line.get();
        if line.end == 0 { None } else { line.at(tsc()) }
    }

    #[cold]
    #[inline(never)]
    fn look(&self) -> Moment {
        if is_source() { self.look_with(tsc, Moment::now) } else { Moment::now() }
    }

    /// The present, and if possible an anchor.
    fn look_with(&self, tsc: impl FnMut() -> u64, clock: impl FnOnce() -> Moment) -> Moment {
        if self.tries.get() == 0 {
            return clock();
        }
        let (now, anchor) = Anchor::take(tsc, clock);
        self.go_on(anchor);
        now
    }

    /// Goes on from `anchor`, if there is one.
    fn go_on(&self, anchor: Option<Anchor>) {
        let Some(anchor) = anchor else {
            self.tries.set(self.tries.get() - 1);
            return self.line.set(Line::NONE);
        };
        self.tries.set(TRIES);
        let mut gauge = self.gauge.get();
        self.line.set(Line::new(anchor, gauge.measure(anchor)));
        self.gauge.set(gauge);
    }
}

/// See [`super::clock::stamp`].
#[inline(always)]
pub(super) fn stamp() -> Option<u64> {
    (SOURCE.load(Ordering::Relaxed) == COUNTER).then(tsc)
}

#[inline(always)]
fn tsc() -> u64 {
    // SAFETY: every processor of this architecture has it; a system that forbids it could not compute
    // its own clock from it, and is not asked before that is known.
    unsafe { _rdtsc() }
}

/// Does the system compute its clock from the counter?
///
/// Not behind a lock: the child of a fork would wait there for a thread that it does not have.
fn is_source() -> bool {
    match SOURCE.load(Ordering::Relaxed) {
        UNKNOWN => {
            prepare();
            is_source()
        }
        known => known == COUNTER,
    }
}

/// Asks the system. Called before a runtime starts: a program may close its doors afterwards (seccomp), and
/// a fiber should not read files on its stack.
pub(crate) fn prepare() {
    const FILE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let is_counter = std::fs::read(FILE).is_ok_and(|name| name.trim_ascii() == b"tsc");
    SOURCE.store(if is_counter { COUNTER } else { ANOTHER }, Ordering::Relaxed);
}

const UNKNOWN: u8 = 0;
const COUNTER: u8 = 1;
const ANOTHER: u8 = 2;
/// What the system computes its clock from.
static SOURCE: AtomicU8 = AtomicU8::new(UNKNOWN);

#[cfg(test)]
#[path = "tsc_tests.rs"]
mod tests;
