//! When another worker is woken for few fibers that the poller brings.
//!
//! For few, which take less than a wake does, it is woken in vain mostly, and takes the processor from whoever sends to
//! them (`poller_seat.rs`). But where a worker comes back to the poller again and again and finds few each time, all
//! ready, it does it all, while others sleep: four connections between fibers of one program took 8.9 us a message and
//! answer on two workers, and take 6.6 (Tokio 6.0, Zen 5). Whether the processors that others would run on are free
//! only the system knows. So it is tried (`trial.rs`), where the poller's worker has hardly slept and no other runs
//! fibers, or one sleeps: that is woken for few too, but not for a single one.
//!
//! A server whose clients are on the same processors has nothing to gain. HTTP over 50 connections, where it was always
//! done so: 5.2 -> 5.5 us a request, slowest hundredth 300 -> 410 us; tried: both as without.

use super::trial::Trial;
use crate::primitives::clock::Moment;
use std::mem;
use std::time::Duration;

/// The poller's worker hardly sleeps if it does for less than one part in so many.
const BUSY: u32 = 4;

/// What the workers that come from the poller have seen. One of them at a time asks: who has the role.
#[derive(Debug)]
pub(super) struct Assist {
    trial: Trial,
    /// How long the poller's worker has slept in this window.
    slept: Duration,
}

impl Assist {
    pub(super) fn new() -> Assist {
        Assist { trial: Trial::new(), slept: Duration::ZERO }
    }

    /// A worker rises from the poller, after it has slept for so long. Is another one woken for few? So much work was
    /// done by all.
    pub(super) fn rises(
        &mut self,
        now: Moment,
        slept: Duration,
        work: impl FnOnce() -> u64,
        may_try: impl FnOnce() -> bool,
    ) -> bool {
        self.slept += slept;
        if let Some(took) = self.trial.window(now) {
            let hardly_sleeps = mem::take(&mut self.slept) * BUSY < took;
            self.trial.ends_window(now, work(), None, hardly_sleeps && may_try());
        }
        self.trial.is_on()
    }

    /// It has paid.
    #[cfg(test)]
    pub(super) fn pays(&mut self, now: Moment) {
        self.trial.pays(now);
        self.slept = Duration::ZERO;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scheduler::trial::{LONG, WINDOW};

    const ALONE: u64 = 1_000;
    const NEVER: Duration = Duration::ZERO;

    /// What the workers do, window by window.
    struct World {
        assist: Assist,
        now: Moment,
        work: u64,
        may_try: bool,
    }

    impl World {
        fn new() -> World {
            World { assist: Assist::new(), now: Moment::now(), work: 7, may_try: true }
        }

        /// So much is done in a window of such a length, the poller's worker sleeps for so long in it: is another one
        /// woken for few from then on?
        fn window(&mut self, work: u64, slept: Duration, took: Duration) -> bool {
            (self.now, self.work) = (self.now.saturating_add(took), self.work + work);
            self.assist.rises(self.now, slept, || self.work, || self.may_try)
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
        let mut world = World { may_try: false, ..World::new() };
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
