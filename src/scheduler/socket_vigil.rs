//! When the one in the poller stays awake for what may follow from the sockets.
//!
//! Who waits for the answer to its last message before it sends the next sleeps meanwhile, and so does the server,
//! where connections are few: each message has two wakes by the system in it. Each takes tens of microseconds where a
//! processor is a virtual machine's and has halted. A server that stays awake may even take less processor time: the
//! client's processor is hardly asleep then when the answer comes.
//!
//! So who was woken by a socket, after a short sleep, and has sent something since, keeps a vigil before it sleeps
//! there again: it looks at the sockets again and again, for [`BRIEFLY`], which is less processor time than a sleep and
//! a wake take. (With 5 us HTTP over 50 connections took 4% more of it, with 2 one, and echo over 100 gained a tenth
//! with either.) Who has sent nothing waits for no answer: what comes would come anyway, in pieces the smaller the more
//! often it looks. (With vigils a reader of 100,000 records in a second took 6.5 us for each, and takes 5.9.) It does
//! for [`AWAKE`] where a trial shows that more gets through like that, and no less for the processor time that it takes
//! (`trial.rs`). What comes in its own time is answered sooner by one that stays awake, but at more processor time, and
//! that is what nobody has asked for. What gets through are bytes: a stream that comes in its own time is read in as
//! many more pieces as the worker is awake. They are this worker's, as the time is. `util/odds.rs` says how often a
//! vigil is left out where they are in vain; those are in vain too in which others took the processor: it was in the
//! way of who brought it.
//!
//! Who keeps one counts as parked, so whoever has something to run wakes it, by an interrupt. It gives way to others on
//! its processor, and does without where the workers that are awake leave no processor for whom it waits for.

use super::core::Core;
use super::shared::Shared;
use super::trial::Trial;
use super::vigil::Ways;
use super::worker::Worker;
use crate::driver::Awake;
use crate::primitives::clock::Moment;
use crate::util::odds::Odds;
use std::mem;
use std::time::Duration;

const BRIEFLY: Duration = Duration::from_micros(2);
/// What a sleep and a wake take of this processor's time: 4 to 5 us on a virtual machine (measured).
const SLEEP: Duration = Duration::from_micros(5);
const AWAKE: Duration = Duration::from_micros(50);
/// What comes within this has paid: about the processor time that a sleep and a wake take of all.
const SOON: Duration = Duration::from_micros(20);
/// A sleep was short if it was not much longer than what it took to wake up.
const SHORT: Duration = Duration::from_micros(200);

/// What a worker has seen of its vigils in the poller.
#[derive(Debug)]
pub(super) struct SocketVigils {
    /// A socket has ended the last sleep, which was short.
    expected: bool,
    /// Bytes that had been sent by its end.
    sent: u64,
    brief: Odds,
    long: Odds,
    /// Of long ones.
    trial: Trial,
    /// Short sleeps that sockets have ended, in this window, all sleeps, and how long they were without vigils.
    short: u32,
    sleeps: u32,
    slept: Duration,
}

impl SocketVigils {
    pub(super) fn new() -> SocketVigils {
        let (brief, long) = (Odds::default(), Odds::default());
        SocketVigils {
            expected: false,
            sent: 0,
            brief,
            long,
            trial: Trial::new(),
            short: 0,
            sleeps: 0,
            slept: Duration::ZERO,
        }
    }

    /// Sleeps in this window.
    #[cfg(test)]
    pub(super) fn sleeps(&self) -> u32 {
        self.sleeps
    }

    /// So often, in this window.
    #[cfg(test)]
    pub(super) fn have_slept(&mut self, sleeps: u32) {
        self.sleeps = sleeps;
    }

    /// Long ones are kept to see what that brings.
    #[cfg(test)]
    pub(super) fn are_tried(&mut self) {
        self.trial.tries();
    }

    /// What was sent elsewhere is not known here.
    pub(super) fn forget(&mut self) {
        self.expected = false;
    }

    /// The worker has slept on its thread for so long.
    pub(super) fn sleeps_elsewhere(&mut self, slept: Duration) {
        self.expected = false;
        // One who never sleeps in the poller begins no other window.
        self.sleeps = self.sleeps.saturating_add(1);
        self.slept += slept;
    }

    /// Are long ones kept to see what that brings?
    pub(super) fn are_measured(&self) -> bool {
        self.trial.is_measured()
    }

    /// The worker lies down in the poller, and has sent so many bytes so far: for how long does it look on first?
    fn begin(&mut self, sent: u64) -> Option<Duration> {
        let (odds, time) = match self.trial.is_on() {
            true => (&mut self.long, AWAKE),
            false => (&mut self.brief, BRIEFLY),
        };
        (mem::take(&mut self.expected) && sent != self.sent && !odds.leaves_out()).then_some(time)
    }

    /// A vigil that was to last for `time` has ended after `waited`, with something from the sockets or not; was the
    /// processor taken meanwhile?
    fn end(&mut self, time: Duration, waited: Duration, given: bool, taken: bool) {
        let is_long = time == AWAKE;
        let odds = if is_long { &mut self.long } else { &mut self.brief };
        let says_something = if given { waited <= SOON } else { waited >= time };
        if taken || says_something {
            odds.tried(given && !taken);
        }
    }

    /// It rises from the poller after so long, of which it slept for so long, woken by a socket or not. So many bytes
    /// have gone through its sockets so far, so many of them sent.
    fn rise(
        &mut self,
        now: Moment,
        (lain, slept): (Duration, Duration),
        by_sockets: bool,
        (moved, sent): (u64, u64),
    ) {
        self.expected = by_sockets && lain < SHORT;
        self.sent = sent;
        self.short += u32::from(self.expected);
        self.sleeps += u32::from(!slept.is_zero());
        self.slept += slept;
        if let Some(took) = self.trial.window(now) {
            self.ends_window(now, took, moved);
        }
    }

    fn ends_window(&mut self, now: Moment, took: Duration, moved: u64) {
        let sleeps_shortly = mem::take(&mut self.short).saturating_mul(2) * SHORT >= took;
        let sleeps = mem::take(&mut self.sleeps) * SLEEP;
        let spent = took.saturating_sub(mem::take(&mut self.slept)) + sleeps;
        let was_on = self.trial.is_on();
        self.trial.ends_window(now, moved, Some(spent), sleeps_shortly);
        if !was_on {
            self.long = Odds::default();
        }
    }
}

/// One that goes on.
pub(super) struct SocketVigil<'a> {
    shared: &'a Shared,
    core: &'a Core,
    start: Moment,
    time: Duration,
    ways: Ways,
    /// How long it was, if nothing has ended it that came.
    over: Option<Duration>,
}

impl SocketVigil<'_> {
    /// Asked after each look in vain: does it go on? When that was, if so.
    pub(super) fn goes_on(&mut self) -> Option<Moment> {
        self.core.stats.polls.add(1);
        let now = Moment::now();
        let waited = now.since(self.start);
        let goes_on = waited < self.time && has_room(self.shared);
        if goes_on {
            self.ways.give(now);
        }
        if !goes_on || self.ways.taken {
            self.over = Some(waited);
            return None;
        }
        Some(now)
    }
}

/// Does who looks on, and counts as parked, leave a processor for whom it waits for?
fn has_room(shared: &Shared) -> bool {
    shared.idle.awake() + 1 < shared.config.processors as u64
}

impl Worker<'_> {
    /// The worker is parked, and lies down in the poller: does it look on first?
    pub(super) fn begins_socket_vigil(&self) -> Option<SocketVigil<'_>> {
        let (core, shared) = (self.held(), self.shared);
        let time = self.own().socket_vigils.begin(self.seat.sent()).filter(|_| has_room(shared))?;
        let start = Moment::now();
        Some(SocketVigil { shared, core, start, time, ways: Ways::new(start), over: None })
    }

    /// It rises from there, where it lay down at `start`, unless it did not sleep at all.
    pub(super) fn ends_socket_vigil(
        &self,
        vigil: Option<SocketVigil<'_>>,
        awake: Option<Awake>,
        start: Moment,
    ) {
        let Some(awake @ Awake { at, by_sockets, .. }) = awake else { return };
        let (lain, mut slept) = (at.since(start), at.since(start));
        if let Some(SocketVigil { start, time, ways, over, .. }) = vigil.filter(|_| awake.looked) {
            let waited = over.unwrap_or(at.since(start));
            slept = over.map_or(Duration::ZERO, |waited| lain.saturating_sub(waited));
            let given = by_sockets && over.is_none();
            self.own().socket_vigils.end(time, waited, given, ways.taken);
        }
        let bytes = (self.seat.moved(), self.seat.sent());
        self.own().socket_vigils.rise(at, (lain, slept), by_sockets, bytes);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scheduler::trial::WINDOW;

    const NAP: Duration = Duration::from_micros(30);
    const MICRO: Duration = Duration::from_micros(1);

    /// A worker whose sleeps in the poller are short, and end by a socket, and that answers what comes.
    struct World {
        vigils: SocketVigils,
        now: Moment,
        moved: u64,
        sent: u64,
        /// What a window brings without long vigils, and with them.
        brings: [u64; 2],
        /// For so long a worker in a long vigil is awake before it sleeps.
        awake: Duration,
    }

    impl World {
        fn new(brings: [u64; 2]) -> World {
            World {
                vigils: SocketVigils::new(),
                now: Moment::now(),
                moved: 0,
                sent: 0,
                brings,
                awake: Duration::ZERO,
            }
        }

        fn rises(&mut self, slept: Duration, by_sockets: bool) {
            let awake = if self.vigils.trial.is_on() { self.awake } else { Duration::ZERO };
            self.vigils.rise(self.now, (slept, slept - awake), by_sockets, (self.moved, self.sent));
        }

        /// It has answered, and lies down again.
        fn begins(&mut self) -> Option<Duration> {
            self.sent += 1;
            self.vigils.begin(self.sent)
        }

        /// A window with so many such sleeps of that length. Are vigils long after it?
        fn window(&mut self, sleeps: u32, slept: Duration) -> bool {
            self.moved += self.brings[usize::from(self.vigils.trial.is_on())];
            for _ in 0..sleeps {
                self.now = self.now.saturating_add(WINDOW / sleeps);
                self.rises(slept, true);
            }
            self.vigils.trial.is_on()
        }

        /// How often it is woken by a socket until it keeps a vigil.
        fn naps(&mut self) -> u32 {
            let keeps = |_: &u32| {
                self.rises(NAP, true);
                self.begins().is_some()
            };
            (1..).find(keeps).expect("some time")
        }
    }

    #[test]
    fn who_was_woken_by_a_socket_after_a_short_sleep_looks_on() {
        let mut world = World::new([0, 0]);
        assert_eq!(world.begins(), None);
        for (slept, by_sockets, time) in
            [(NAP, true, Some(BRIEFLY)), (SHORT, true, None), (NAP, false, None)]
        {
            world.rises(slept, by_sockets);
            assert_eq!(world.begins(), time);
            assert_eq!(world.begins(), None, "once");
        }
    }

    #[test]
    fn who_has_sent_nothing_waits_for_no_answer() {
        let mut world = World::new([0, 0]);
        for sends in [true, false, true] {
            world.rises(NAP, true);
            world.sent += u64::from(sends);
            assert_eq!(world.vigils.begin(world.sent), sends.then_some(BRIEFLY));
        }
    }

    #[test]
    fn those_in_vain_become_rare() {
        let mut world = World::new([0, 0]);
        let mut ends = |waited, given, taken| {
            world.vigils.end(BRIEFLY, waited, given, taken);
            world.naps()
        };
        assert_eq!(ends(BRIEFLY, false, false), 3);
        assert_eq!(ends(MICRO, false, false), 1, "something else has ended it");
        assert_eq!(ends(BRIEFLY, false, false), 11);
        assert_eq!(ends(MICRO, true, true), 43, "it was in the way");
        assert!((0..9).all(|_| ends(MICRO, true, false) == 1));
        assert_eq!(ends(BRIEFLY, false, false), 1, "forgiven");
        assert_eq!(ends(BRIEFLY, false, false), 3);
    }

    #[test]
    fn long_ones_are_kept_where_more_gets_done() {
        let mut world = World::new([1_000, 2_000]);
        let windows = (1..99).find(|_| world.window(20, NAP));
        assert_eq!(windows, Some(3), "two that are known, after one that is not");
        assert!(world.vigils.are_measured());
        assert_eq!(world.begins(), Some(AWAKE));
        assert!(world.window(20, NAP) && world.window(20, NAP) && !world.vigils.are_measured());
        let windows = (1..99).find(|_| !world.window(20, NAP));
        assert_eq!(windows, Some(16), "it is measured again");
        assert_eq!(world.begins(), Some(BRIEFLY));
    }

    #[test]
    fn what_comes_in_its_own_time_is_not_waited_for() {
        let mut world = World::new([1_000, 1_200]);
        let tried = (0..999).filter(|_| world.window(20, NAP)).count();
        assert!((1..20).contains(&tried), "{tried} of 999 windows");
    }

    /// A window without long vigils has 400 us and twenty sleeps in it, one with them a thousand.
    #[test]
    fn more_for_more_processor_time_is_not_more() {
        for (brings, keeps) in [(2_000, true), (1_900, true), (1_800, false)] {
            let mut world = World { awake: NAP, ..World::new([1_000, brings]) };
            let tried = (0..999).filter(|_| world.window(20, NAP)).count();
            assert_eq!(tried > 900, keeps, "{brings}");
        }
    }

    /// Or is none that is known of: those of a library that reads by itself.
    #[test]
    fn where_nothing_gets_through_that_is_not_more() {
        for brings in [[0, 0], [1_000, 0]] {
            let mut world = World::new(brings);
            let tried = (0..999).filter(|_| world.window(20, NAP)).count();
            assert!(tried < 20, "{tried} of 999 windows bring {brings:?}");
        }
    }

    /// Two workers that sleep in the poller in turn.
    #[test]
    fn what_was_slept_elsewhere_is_no_time_awake() {
        let mut vigils = SocketVigils::new();
        vigils.expected = true;
        vigils.sleeps_elsewhere(NAP);
        assert_eq!((vigils.sleeps, vigils.slept, vigils.begin(1)), (1, NAP, None));
    }

    #[test]
    fn long_ones_are_not_tried_where_sleeps_are_long_or_few() {
        for (sleeps, slept) in [(4, SHORT), (1, NAP)] {
            let mut world = World::new([1_000, 2_000]);
            assert!((0..99).all(|_| !world.window(sleeps, slept)), "{sleeps} of {slept:?}");
        }
    }

    /// It has found out how to be late for each: a trial says whether that pays.
    #[test]
    fn a_late_one_is_neither_paid_nor_in_vain() {
        let mut world = World::new([1_000, 2_000]);
        while !world.window(20, NAP) {}
        for _ in 0..9 {
            world.vigils.end(AWAKE, NAP, true, false);
            assert_eq!(world.naps(), 1);
        }
        world.vigils.end(AWAKE, AWAKE, false, false);
        assert_eq!(world.naps(), 3, "none of them has paid");
        while world.window(20, NAP) {}
        while !world.window(20, NAP) {}
        world.vigils.end(AWAKE, AWAKE, false, false);
        assert_eq!(world.naps(), 3, "anew with each trial");
    }
}
