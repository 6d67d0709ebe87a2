//! When another worker is woken for few fibers that the poller brings.
//!
//! For few, which take less than a wake does, it is woken in vain mostly, and takes the processor from whoever sends to
//! them (`poller_seat.rs`). But where a worker comes back to the poller again and again and finds few each time, all ready,
//! it does it all, while others sleep: four connections between fibers of one program took 8.9 us a message and answer on
//! two workers, and take 6.6 (Tokio 6.0, Zen 5). Whether the processors that others would run on are free only the
//! system knows. So it is tried: where the poller's worker has hardly slept for two [`WINDOW`]s, and no other runs fibers at their end, another one is woken for
//! few too, but not for a single one, in the next two. If all of them got on faster by a fourth in each of these (`worth.rs`), it goes on like
//! that for [`HOLD`], and twice as long each time, up to [`MOST`], until it is measured again; if not, it is tried again after [`EVERY`], and
//! twice as long each time, up to [`MOST`].
//!
//! A server whose clients are on the same processors has nothing to gain. HTTP over 50 connections, where it was always done so: 5.2 ->
//! 5.5 us a request, slowest hundredth 300 -> 410 us; tried: both as without.

use super::worth::Speed;
use crate::primitives::clock::Moment;
use std::time::Duration;

const WINDOW: Duration = Duration::from_millis(1);
const HOLD: Duration = Duration::from_millis(16);
const EVERY: Duration = Duration::from_millis(4);
const MOST: Duration = Duration::from_millis(128);
/// The poller's worker hardly sleeps if it does for less than one part in so many.
const BUSY: u32 = 4;
/// A window that lasts for so many is none.
const LONG: u32 = 4;

/// What the workers that come from the poller have seen. One of them at a time asks: who has the role.
#[derive(Debug)]
pub(super) struct Assist {
    phase: Phase,
    window: Window,
    /// When it is tried again, and how long after that, if in vain.
    next: Moment,
    every: Duration,
    hold: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nobody is woken for few. What came of the last window in which the worker hardly slept.
    Alone(Option<Speed>),
    /// Others are: does it pay? With what came of it alone, and whether one window has paid.
    Tried(Speed, bool),
    /// It has paid, and goes on until then.
    Pays(Moment),
}

#[derive(Clone, Copy, Debug)]
struct Window {
    began: Moment,
    /// Dispatches and operations of all workers by then.
    work: u64,
    /// How long the poller's worker has slept since.
    slept: Duration,
}

impl Assist {
    pub(super) fn new() -> Assist {
        let window = Window { began: Moment::PAST, work: 0, slept: Duration::ZERO };
        let (next, every, hold) = (Moment::PAST, EVERY, HOLD);
        Assist { phase: Phase::Alone(None), window, next, every, hold }
    }

    /// A worker rises from the poller, after it has slept for so long. Is another one woken for few? So much work was done
    /// by all.
    pub(super) fn rises(
        &mut self,
        now: Moment,
        slept: Duration,
        work: impl FnOnce() -> u64,
        does_it_all: impl FnOnce() -> bool,
    ) -> bool {
        self.window.slept += slept;
        if now.since(self.window.began) >= WINDOW {
            self.window_ends(now, work(), does_it_all());
        }
        !matches!(self.phase, Phase::Alone(_))
    }

    fn window_ends(&mut self, now: Moment, work: u64, does_it_all: bool) {
        let next = Window { began: now, work, slept: Duration::ZERO };
        let Window { began, work: before, slept } = std::mem::replace(&mut self.window, next);
        let (took, speed) =
            (now.since(began), Speed::new(work.saturating_sub(before), now.since(began)));
        self.phase = match self.phase {
            Phase::Tried(..) if took >= LONG * WINDOW => {
                self.next = now.saturating_add(self.every);
                Phase::Alone(None)
            }
            _ if took >= LONG * WINDOW => Phase::Alone(None),
            Phase::Alone(_) if slept * BUSY >= took || !does_it_all => Phase::Alone(None),
            Phase::Alone(Some(last)) if now >= self.next => Phase::Tried(last.max(speed), false),
            Phase::Alone(_) => Phase::Alone(Some(speed)),
            Phase::Tried(alone, _) if !speed.pays_beside(alone) => self.is_in_vain(now),
            Phase::Tried(alone, false) => Phase::Tried(alone, true),
            Phase::Tried(_, true) => self.has_paid(now),
            Phase::Pays(until) if now < until => Phase::Pays(until),
            Phase::Pays(_) => Phase::Alone(None),
        };
    }

    /// It has paid.
    #[cfg(test)]
    pub(super) fn pays(&mut self, now: Moment) {
        self.window = Window { began: now, work: 0, slept: Duration::ZERO };
        self.phase = self.has_paid(now);
    }

    fn is_in_vain(&mut self, now: Moment) -> Phase {
        self.next = now.saturating_add(self.every);
        (self.every, self.hold) = (MOST.min(2 * self.every), HOLD);
        Phase::Alone(None)
    }

    fn has_paid(&mut self, now: Moment) -> Phase {
        let until = now.saturating_add(self.hold);
        (self.every, self.hold) = (EVERY, MOST.min(2 * self.hold));
        Phase::Pays(until)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ALONE: u64 = 1_000;
    const NEVER: Duration = Duration::ZERO;

    /// What the workers do, window by window.
    struct World {
        assist: Assist,
        now: Moment,
        work: u64,
        does_it_all: bool,
    }

    impl World {
        fn new() -> World {
            World { assist: Assist::new(), now: Moment::now(), work: 7, does_it_all: true }
        }

        /// So much is done in a window of such a length, the poller's worker sleeps for so long in it: is another one
        /// woken for few from then on?
        fn window(&mut self, work: u64, slept: Duration, took: Duration) -> bool {
            (self.now, self.work) = (self.now.saturating_add(took), self.work + work);
            self.assist.rises(self.now, slept, || self.work, || self.does_it_all)
        }

        fn busy(&mut self, work: u64) -> bool {
            self.window(work, NEVER, WINDOW)
        }

        /// Alone until another one is woken, which is for so many windows.
        fn alone(&mut self) -> u32 {
            1 + (0..999).find(|_| self.busy(ALONE)).expect("some time")
        }

        /// So much is done in each window while another one is woken for few: for how many?
        fn assisted(&mut self, work: u64) -> u32 {
            1 + (0..999).find(|_| !self.busy(work)).expect("some time")
        }
    }

    fn tried() -> World {
        let mut world = World::new();
        assert!(!world.busy(ALONE), "nothing is known of what began before");
        assert!(!world.busy(ALONE));
        assert!(world.busy(ALONE), "two windows");
        world
    }

    #[test]
    fn it_is_tried_where_the_poller_brings_few_without_end() {
        tried();
        for slept in [WINDOW / BUSY, WINDOW] {
            let mut world = World::new();
            assert!((0..99).all(|_| !world.window(ALONE, slept, WINDOW)), "{slept:?}");
        }
        let mut world = World::new();
        assert!((0..99).all(|_| !world.window(ALONE, NEVER, LONG * WINDOW)), "nobody came");
        let mut world = World { does_it_all: false, ..World::new() };
        assert!((0..99).all(|_| !world.busy(ALONE)), "others run too");
        let mut world = World::new();
        let naps = (0..99).map(|nap| if nap % 2 == 0 { WINDOW } else { NEVER });
        assert!(naps.map(|slept| world.window(ALONE, slept, WINDOW)).all(|wakes| !wakes));
    }

    #[test]
    fn a_window_has_its_time() {
        let mut world = World::new();
        let part = WINDOW / 10;
        assert_eq!((0..99).find(|_| world.window(ALONE, NEVER, part)), Some(20));
        let mut world = World::new();
        // A third of each.
        assert!((0..99).all(|_| !world.window(ALONE, part / 3, part)));
    }

    #[test]
    fn what_pays_goes_on_and_is_measured_again() {
        let mut world = tried();
        let holds = [(); 6].map(|()| {
            let windows = world.assisted(ALONE + ALONE / 4);
            assert_eq!(world.alone(), 2);
            windows - 2
        });
        assert_eq!(holds, [16, 32, 64, 128, 128, 128]);
        world.assisted(ALONE);
        world.alone();
        assert_eq!(world.assisted(2 * ALONE), 16 + 2, "anew");
    }

    #[test]
    fn what_does_not_becomes_rare() {
        let mut world = tried();
        let gaps = [(); 7].map(|()| {
            assert_eq!(world.assisted(ALONE + ALONE / 5), 1);
            world.alone()
        });
        assert_eq!(gaps, [4, 8, 16, 32, 64, 128, 128]);
        world.assisted(2 * ALONE);
        world.alone();
        world.assisted(ALONE);
        assert_eq!(world.alone(), 4, "it has paid in between");
    }

    #[test]
    fn it_has_to_pay_twice_and_beside_the_better_window() {
        let mut world = tried();
        assert!(world.busy(2 * ALONE), "once");
        assert!(!world.busy(ALONE), "and not again");
        for alone in [[ALONE, 2 * ALONE, ALONE], [ALONE, ALONE, 2 * ALONE]] {
            let mut world = World::new();
            assert_eq!(alone.map(|work| world.busy(work)), [false, false, true]);
            assert_eq!(world.assisted(2 * ALONE), 1);
        }
    }

    #[test]
    fn a_lull_says_nothing() {
        let mut world = tried();
        assert!(!world.window(ALONE, NEVER, LONG * WINDOW));
        assert_eq!(world.alone(), 4, "but that it is not tried again at once");
        assert!(!world.window(ALONE, NEVER, LONG * WINDOW));
        assert_eq!(world.alone(), 4, "nor more rarely");
    }
}
