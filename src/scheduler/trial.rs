//! Whether something pays that can only be tried.
//!
//! Where it may pay at all, by what was seen in two [`WINDOW`]s without it, it is done in the next two. If more work by
//! a fourth (`worth.rs`) was done in each of these, and no less for the processor time that was spent on it, it goes on
//! like that for [`HOLD`], and twice as long each time, up to [`MOST`], until it is measured again; if not, it is tried
//! again after [`EVERY`], and twice as long each time, up to [`MOST`].

use super::worth::Speed;
use crate::primitives::clock::Moment;
use std::mem;
use std::time::Duration;

pub(super) const WINDOW: Duration = Duration::from_millis(1);
const HOLD: Duration = Duration::from_millis(16);
const EVERY: Duration = Duration::from_millis(4);
const MOST: Duration = Duration::from_millis(128);
/// A window that lasts for so many is none.
pub(super) const LONG: u32 = 4;

#[derive(Debug)]
pub(super) struct Trial {
    phase: Phase,
    /// The window's beginning.
    began: Moment,
    /// Done by then.
    work: u64,
    /// When it is tried again, and how long after that, if in vain.
    next: Moment,
    every: Duration,
    hold: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// It is not done. What came of the last window in which it might have paid.
    Without(Option<Seen>),
    /// It is: does it pay? With what came without, and whether one window has paid.
    Tried(Seen, bool),
    /// It has paid, and goes on until then.
    Pays(Moment),
}

/// What came of a window: work in its time, and in the processor time that it took.
#[derive(Clone, Copy, Debug)]
struct Seen {
    fast: Speed,
    thrifty: Speed,
}

impl Seen {
    /// That and what comes in the next window.
    fn and(self, next: Seen) -> Seen {
        Seen { fast: self.fast.max(next.fast), thrifty: self.thrifty.and(next.thrifty) }
    }

    fn pays_beside(self, without: Seen) -> bool {
        self.fast.pays_beside(without.fast) && !self.thrifty.lags_behind(without.thrifty)
    }
}

impl Trial {
    pub(super) fn new() -> Trial {
        let (next, every, hold) = (Moment::PAST, EVERY, HOLD);
        Trial { phase: Phase::Without(None), began: Moment::PAST, work: 0, next, every, hold }
    }

    /// Is it done now?
    pub(super) fn is_on(&self) -> bool {
        !matches!(self.phase, Phase::Without(_))
    }

    /// Is it done to see what that brings?
    pub(super) fn is_measured(&self) -> bool {
        matches!(self.phase, Phase::Tried(..))
    }

    /// How long the window has lasted, if it has had its time.
    pub(super) fn window(&self, now: Moment) -> Option<Duration> {
        let took = now.since(self.began);
        (took >= WINDOW).then_some(took)
    }

    /// The window is over, with so much work done by now, for so much processor time if that matters; by what was seen
    /// in it, `may` it pay at all?
    pub(super) fn ends_window(
        &mut self,
        now: Moment,
        work: u64,
        spent: Option<Duration>,
        may: bool,
    ) {
        let took = now.since(mem::replace(&mut self.began, now));
        let done = work.saturating_sub(mem::replace(&mut self.work, work));
        let [fast, thrifty] = [took, spent.unwrap_or(took)].map(|time| Speed::new(done, time));
        let seen = Seen { fast, thrifty };
        self.phase = match self.phase {
            Phase::Tried(..) if took >= LONG * WINDOW => {
                self.next = now.saturating_add(self.every);
                Phase::Without(None)
            }
            _ if took >= LONG * WINDOW => Phase::Without(None),
            Phase::Without(_) if !may || done == 0 => Phase::Without(None),
            Phase::Without(Some(last)) if now >= self.next => Phase::Tried(last.and(seen), false),
            Phase::Without(_) => Phase::Without(Some(seen)),
            Phase::Tried(without, _) if !seen.pays_beside(without) => self.is_in_vain(now),
            Phase::Tried(without, false) => Phase::Tried(without, true),
            Phase::Tried(_, true) => self.has_paid(now),
            Phase::Pays(until) if now < until => Phase::Pays(until),
            Phase::Pays(_) => Phase::Without(None),
        };
    }

    /// It is done, to see what that brings.
    #[cfg(test)]
    pub(super) fn tries(&mut self) {
        let nothing = Speed::new(0, WINDOW);
        self.phase = Phase::Tried(Seen { fast: nothing, thrifty: nothing }, false);
    }

    /// It has paid.
    #[cfg(test)]
    pub(super) fn pays(&mut self, now: Moment) {
        (self.began, self.work) = (now, 0);
        self.phase = self.has_paid(now);
    }

    fn is_in_vain(&mut self, now: Moment) -> Phase {
        self.next = now.saturating_add(self.every);
        (self.every, self.hold) = (MOST.min(2 * self.every), HOLD);
        Phase::Without(None)
    }

    fn has_paid(&mut self, now: Moment) -> Phase {
        let until = now.saturating_add(self.hold);
        (self.every, self.hold) = (EVERY, MOST.min(2 * self.hold));
        Phase::Pays(until)
    }
}
