//! What a steal was worth: whether thief and victim got on faster than the victim would have alone.
//!
//! What fibers do is not known, but how many are dispatched, and for what operations they are charged. The sum is taken
//! for their *work*. (Dispatches alone will not do: where two workers exchange messages each one may cost a wait, and
//! one alone takes sixteen between two of them. They are counted 64 at a time while a fiber goes on: where a turn was
//! counted at its end, what was done before a steal fell into the microseconds after it, and more of them seemed to pay
//! than did.) From a steal until the thief searches again that is what the *two* have done in that time. What the
//! victim does *alone* is seen in the second half of a look of [`MEASURED`] or more, in which this thief carries
//! nothing away: in the first half it gets its lines of the cache back. If the two were not faster by a [`GAIN`], the
//! steal was slow. That is said only where both went on from one to the next in less than [`FLOWING`], since otherwise
//! that is no measure. Or where all that the victim had went with what was stolen, since they wait for each other: then
//! that one ran dry and robbed others, this thief maybe, and what this one did is compared; ten that hand a lock round
//! went to and fro every hundred microseconds. Steals that are soon used up are judged together, until the thief has
//! been busy with them for [`ENOUGH`]. A thief that steals often looks on for that, after [`MEASURE`] and, where steals
//! pay, up to [`MEASURE_MOST`]: from a twelfth of its time down to a four-hundredth.
//!
//! Where others rob the victim during a look, the one alone seems slower than it is, and steals seem to pay, as they
//! are taken to where nothing is known. Where they rob it after the steal, what they do with its fibers is not seen,
//! and the two seem slower: a thief holds off for longer than it need.
//!
//! Measured on two workers, a hundred fibers that ask another one, each for an answer of its own: 290 -> 145 to 190 ns,
//! where one worker takes 155; the two dispatched 5,000 in a millisecond, and one of them alone 11,000.

use super::stats::Stats;
use crate::primitives::clock::Moment;
use std::mem;
use std::time::Duration;

/// Nanoseconds for a fiber between two scheduling points, below which it is known by its speed whether two workers are
/// faster than one, and whom it wakes is not shared with others for its length (`tick.rs`).
pub(super) const FLOWING: u64 = 3_000;
/// A steal that keeps the thief busy for so long was not a short one, whatever it took.
const SHORT: Duration = Duration::from_micros(10);
/// What was seen so long ago says nothing about the next steal.
const LONG_AGO: Duration = Duration::from_millis(1);
/// A thief that was busy for so long has done more than what it stole.
const LONG: Duration = Duration::from_millis(16);
/// The two must be faster by one part in so many.
const GAIN: u64 = 4;
/// What differs by less than one part in so many is the same.
const SAME: u64 = 16;
/// So often a thief steals before it looks on to measure.
const STEALS: u32 = 32;
/// So long ago it has measured last, or begun to.
const MEASURE: Duration = Duration::from_millis(2);
const MEASURE_MOST: Duration = Duration::from_millis(64);
/// The least length of a look that measures.
pub(super) const MEASURED: Duration = Duration::from_micros(160);
/// Steals are judged together until the thief has been busy with them for so long: operations are counted 64 at a time.
pub(super) const ENOUGH: Duration = Duration::from_micros(32);
/// What was seen of steals so long ago is not counted with what is seen of the next.
const RECENT: Duration = MEASURE_MOST;
/// By so many times the thief must have done more than a victim that has run dry, before all is taken to have moved.
const MOVED: u64 = 8;

/// What a thief thinks of its last steal; by default, that it paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Worth {
    /// It kept the thief busy for less than 10 us.
    pub(super) short: bool,
    /// The two were not faster than the other one alone.
    pub(super) slow: bool,
    /// They were slower.
    pub(super) lost: bool,
    /// It is time to measure that.
    pub(super) unknown: bool,
}

impl Worth {
    /// Should what found no room in the other one's ring be left to it? Or may that soon be known?
    pub(super) fn leaves_overflow(self) -> bool {
        self.lost || self.unknown
    }
}

/// How far the one that is robbed, or looked at, was at some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) at: Moment,
    /// Its core.
    pub(super) from: usize,
    /// Dispatches and operations.
    pub(super) work: u64,
}

impl Mark {
    fn until(self, now: Moment, work: u64) -> Speed {
        Speed::new(work.saturating_sub(self.work), now.since(self.at))
    }
}

/// Work in some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    work: u64,
    nanos: u64,
}

impl Speed {
    pub(super) fn new(work: u64, time: Duration) -> Speed {
        Speed { work, nanos: time.as_nanos() as u64 }
    }

    /// The greater one.
    pub(super) fn max(self, other: Speed) -> Speed {
        if self.work * other.nanos >= other.work * self.nanos { self } else { other }
    }

    /// In both times together.
    pub(super) fn and(self, other: Speed) -> Speed {
        Speed { work: self.work + other.work, nanos: self.nanos + other.nanos }
    }

    pub(super) fn pays_beside(self, alone: Speed) -> bool {
        let (both, alone) = (self.work * alone.nanos, alone.work * self.nanos);
        both >= alone + alone / GAIN
    }

    /// By more than what two measurements of the same differ by.
    pub(super) fn lags_behind(self, other: Speed) -> bool {
        let (this, other) = (self.work * other.nanos, other.work * self.nanos);
        this + this / SAME < other
    }

    fn is_faster_than(self, other: Speed) -> bool {
        self.work * other.nanos > other.work * self.nanos
    }

    fn flows(self) -> bool {
        self.work * FLOWING > self.nanos
    }
}

/// How far one is that may be robbed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Dispatches and operations.
    pub(super) work: u64,
    /// Fibers that it has stolen itself.
    pub(super) stolen: u64,
}

impl Stats {
    pub(super) fn progress(&self) -> Progress {
        Progress { work: self.work(), stolen: self.stolen.get() }
    }
}

/// What the two have done since steals from one core, until the thief searched again.
#[derive(Clone, Copy, Debug)]
struct Together {
    /// The first of them.
    since: Moment,
    from: usize,
    theirs: Speed,
    own: Speed,
    /// The victim has run dry meanwhile.
    dry: bool,
}

impl Together {
    /// Those before too, if they are from the same core and not long ago.
    fn after(self, before: Option<Together>) -> Together {
        let recent =
            |other: &Together| other.from == self.from && self.since.since(other.since) < RECENT;
        let Some(before) = before.filter(recent) else { return self };
        Together {
            since: before.since,
            from: self.from,
            theirs: self.theirs.and(before.theirs),
            own: self.own.and(before.own),
            dry: self.dry || before.dry,
        }
    }

    /// Compared with what the victim does alone, if that is known.
    fn worth(&self, alone: Option<Speed>) -> Worth {
        let Some(alone) = alone.filter(|_| self.own.flows()) else { return Worth::default() };
        let both = Speed { work: self.theirs.work + self.own.work, ..self.own };
        if self.theirs.flows() {
            let (slow, lost) = (!both.pays_beside(alone), alone.is_faster_than(both));
            return Worth { slow, lost, ..Worth::default() };
        }
        let moved = self.dry && self.own.work > MOVED * self.theirs.work;
        let lost = moved && both.lags_behind(alone);
        Worth { slow: lost, lost, ..Worth::default() }
    }
}

/// What a thief has seen of its steals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steals {
    last: Mark,
    /// How many the victim had stolen then.
    stolen: u64,
    /// How far the thief was then.
    own: u64,
    /// What came of it, once the thief has searched again, and when that was.
    judged: Option<(Moment, Worth)>,
    /// Of steals that are not judged yet.
    so_far: Option<Together>,
    /// What came of those before: since when that is known, and of which core.
    verdict: (Moment, usize, Worth),
    /// What the victim does alone, and which that is.
    alone: Option<(usize, Speed)>,
    measured: Moment,
    /// How long after that it is time to measure again.
    every: Duration,
    /// No steal from there was judged since then.
    fresh: bool,
    /// Steals since then.
    count: u32,
}

impl Steals {
    pub(super) fn new() -> Steals {
        let last = Mark { at: Moment::PAST, from: 0, work: 0 };
        Steals {
            last,
            stolen: 0,
            own: 0,
            judged: None,
            so_far: None,
            verdict: (Moment::PAST, 0, Worth::default()),
            alone: None,
            measured: Moment::PAST,
            every: MEASURE,
            fresh: false,
            count: 0,
        }
    }

    /// The thief has stolen from that core; so far is the victim, and so far the thief.
    pub(super) fn stole(&mut self, now: Moment, from: usize, theirs: Progress, own: u64) {
        self.last = Mark { at: now, from, work: theirs.work };
        (self.stolen, self.own, self.judged) = (theirs.stolen, own, None);
        self.count = self.count.saturating_add(1);
    }

    /// The core that was robbed last.
    pub(super) fn robbed(&self) -> usize {
        self.last.from
    }

    /// The thief searches, and so far the two are. What it does from its first search after the steal
    /// on, such as sleep, does not count.
    pub(super) fn judge(&mut self, now: Moment, theirs: Progress, own: u64) -> Worth {
        let (at, worth) = self.judged.unwrap_or_else(|| (now, self.first_judged(now, theirs, own)));
        self.judged = Some((at, worth));
        if now.since(at) >= LONG_AGO {
            return Worth::default();
        }
        Worth { unknown: self.is_to_measure(now), ..worth }
    }

    /// The thief goes to sleep without a search: what came of its steal is not known.
    pub(super) fn forget(&mut self) {
        self.judged.get_or_insert((Moment::PAST, Worth::default()));
    }

    fn first_judged(&mut self, now: Moment, theirs: Progress, own: u64) -> Worth {
        let Mark { at, from, .. } = self.last;
        let (time, before) = (now.since(at), self.so_far.take());
        if time >= LONG {
            self.verdict.2 = Worth::default();
            return Worth::default();
        }
        let together = Together {
            since: at,
            from,
            theirs: self.last.until(now, theirs.work),
            own: Speed::new(own.saturating_sub(self.own), time),
            dry: theirs.stolen != self.stolen,
        };
        let together = together.after(before);
        if together.own.nanos < ENOUGH.as_nanos() as u64 {
            self.so_far = Some(together);
        } else {
            self.verdict = (now, from, self.judged_together(&together));
        }
        let (known, of, worth) = self.verdict;
        let holds = of == from && now.since(known) < RECENT;
        Worth { short: time < SHORT, ..if holds { worth } else { Worth::default() } }
    }

    fn judged_together(&mut self, together: &Together) -> Worth {
        let alone = self.alone.filter(|(core, _)| *core == together.from);
        let worth = together.worth(alone.map(|(_, alone)| alone));
        if alone.is_some() && mem::take(&mut self.fresh) {
            self.every = if worth.slow { MEASURE } else { MEASURE_MOST.min(2 * self.every) };
        }
        worth
    }

    fn is_to_measure(&self, now: Moment) -> bool {
        self.count >= STEALS && now.since(self.measured) >= self.every
    }

    /// A look begins that measures, if it comes to its end.
    pub(super) fn begins_to_measure(&mut self, now: Moment) {
        (self.measured, self.count) = (now, 0);
    }

    /// So far that one came alone since `from`, as far as the thief knows.
    pub(super) fn measured(&mut self, from: Mark, now: Moment, work: u64) {
        self.alone = Some((from.from, from.until(now, work)));
        (self.measured, self.fresh, self.count) = (now, true, 0);
    }
}
