//! When a worker spins before it goes on without the fiber that waits.
//!
//! Two fibers that compute for a microsecond or three between their waits for each other are twice as fast on two
//! workers. But the first of them that waits comes back on the worker of whoever wakes it, and from then on one worker
//! does it all. So a worker that has nothing else, while another one runs fibers, looks for [`AWHILE`] whether the wait
//! of its fiber ends, and goes on with it then; and a fiber that finds a lock taken tries it for as long. (So do Go's
//! mutex and the locks of plain threads; a fiber that would only keep others from running does not.)
//!
//! A spin has paid if the worker had enough to do afterwards: if an operation that could have waited came every
//! [`COARSE`] at most, since what two workers do in less is slowed down by the lines of the cache that go to and fro;
//! and if it was busy for longer than it had spun, since two fibers that only take turns are as fast on one worker.
//! That is seen at the next spin. Where it did not pay, or the spin ended in vain, the next waits are none, once, then
//! 3 times, and up to 63 (`util/back_off.rs`); but once after [`GOOD`] in a row that is forgiven: then the other one is
//! late, and mostly not by much, so the worker stays awake for a while (`vigil.rs`).
//!
//! No more workers spin than run fibers, but for a race. While all are awake nobody sleeps in the poller: a
//! worker that spins again and again looks at it every [`TURN`].
//!
//! Measured on two workers, with what brings fibers there (`invite.rs`): stages of 0.5, 1, 2 and 3 us of a pipeline
//! 1.12, 2.14, 3.0 to 4.2 and 6.2 -> 0.62, 1.11, 2.12 and 3.13 us an item (Go 1.40, 2.08, 3.05, 3.46); ten fibers that
//! hold a lock for 0.5, 1 and 2 us and compute for as long 1.09, 2.13, 4.6 -> 0.69, 1.26, 2.22 (Go 0.97, 1.60, 2.71),
//! two of them with 5 us 7.3 -> 5.2 (Go 5.6).

use super::core::Core;
use super::switch::Post;
use super::worker::Worker;
use crate::primitives::clock::{from_stamps, in_stamps, stamp};
use crate::primitives::sync::atomic::Ordering;
use crate::util::back_off::BackOff;
use std::ptr;
use std::time::Duration;

/// In stamps, as all times here.
const AWHILE: u64 = in_stamps(Duration::from_micros(5));
const COARSE: u64 = in_stamps(Duration::from_nanos(300));
const TURN: u64 = in_stamps(Duration::from_micros(100));
const GOOD: u32 = 4;
/// `spin_loop`s between two looks.
const SPINS: u32 = 4;

/// What a worker has seen of its spins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spins {
    /// The last one, until it is known what came of it.
    last: Option<Spin>,
    /// So many in a row have paid, up to [`GOOD`].
    paid: u32,
    back_off: BackOff,
    /// So many invitations there had been.
    invitations: u32,
    /// When the worker was sent to look at sockets and timers because it spins.
    turn: u64,
}

/// One that was not in vain.
#[derive(Clone, Copy, Debug)]
struct Spin {
    took: u64,
    end: Mark,
}

/// How far the worker was at some time.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: u64,
    work: u64,
}

impl Mark {
    /// Operations and waits since then, one at least.
    fn operations_until(self, now: Mark) -> u64 {
        now.work.saturating_sub(self.work).max(1)
    }
}

impl Spins {
    /// A fiber is about to wait: does its worker spin?
    fn begins(&mut self, now: Mark) -> bool {
        if let Some(Spin { took, end }) = self.last.take() {
            let busy = now.at.saturating_sub(end.at);
            let coarse = busy >= COARSE * end.operations_until(now);
            _ = self.judge(coarse && 3 * busy >= 4 * took);
        }
        !self.back_off.leaves_out()
    }

    /// It has paid, or not; says whether that is forgiven.
    fn judge(&mut self, paid: bool) -> bool {
        let forgiven = !paid && self.paid == GOOD;
        if !forgiven {
            self.back_off.tried(paid);
        }
        self.paid = if paid { GOOD.min(self.paid + 1) } else { 0 };
        forgiven
    }

    fn ended(&mut self, took: u64, end: Mark) {
        self.last = Some(Spin { took, end });
    }

    /// What the worker does from now on says nothing about the last one.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// There have been so many invitations: what comes is not what was before the last one.
    fn begin_anew(&mut self, invitations: u32) {
        if invitations != self.invitations {
            *self = Spins { turn: self.turn, invitations, ..Spins::default() };
        }
    }

    /// Is it time to look at sockets and timers?
    fn is_turn_due(&mut self, now: u64) -> bool {
        let due = now.wrapping_sub(self.turn) >= TURN;
        self.turn = if due { now } else { self.turn };
        due
    }
}

/// The calling fiber is about to wait, or to spin: does it spin?
#[cold]
pub(crate) fn begins_to_spin() -> bool {
    // SAFETY: valid until the next switch; none comes here.
    let worker = unsafe { Worker::current().as_ref() };
    let place = worker.and_then(|worker| Some((worker, worker.core()?)));
    place.is_some_and(|(worker, core)| worker.may_spin(core) && worker.begins_to_spin(core))
}

/// Tries for a moment, on a fiber that may. `try_once` must not switch.
#[cold]
pub(crate) fn spin(mut try_once: impl FnMut() -> bool) -> bool {
    // SAFETY: valid until the next switch; none comes here, by the caller's promise, which a debug build looks after.
    let worker = unsafe { Worker::current().as_ref() };
    let place = worker.and_then(|worker| Some((worker, worker.core()?)));
    let ended = place.is_some_and(|(worker, core)| worker.spins_while(core, || !try_once()));
    debug_assert_eq!(worker.map_or(ptr::null(), ptr::from_ref), Worker::current(), "a switch");
    ended
}

impl Worker<'_> {
    /// Do more of the others run fibers than spin, and this one has nobody to run?
    pub(super) fn may_spin(&self, core: &Core) -> bool {
        let shared = self.shared;
        shared.config.workers > 1
            && shared.idle.are_others_busy(shared.spinning.load(Ordering::Relaxed))
            && self.next.get().is_none()
            && !shared.has_work_for(core)
    }

    /// Whatever is in the way of a spin that lasts already, without a look at others' queues.
    fn goes_on_spinning(&self, core: &Core) -> bool {
        let shared = self.shared;
        // It is one of those that spin.
        let others = shared.spinning.load(Ordering::Relaxed).saturating_sub(1);
        shared.idle.are_others_busy(others)
            && core.queued() == 0
            && shared.injector.is_empty()
            && !core.gate.is_stalled()
            && !shared.is_stopping()
    }

    /// How much it has done, with what the running fiber has.
    fn work_on(&self, core: &Core) -> u64 {
        core.stats.work() + u64::from(self.seat.charged())
    }

    pub(super) fn begins_to_spin(&self, core: &Core) -> bool {
        let work = self.work_on(core);
        let spins = &mut self.own_in(core).spins;
        spins.begin_anew(self.shared.invitations.load(Ordering::Relaxed));
        spins.begins(Mark { at: stamp(), work })
    }

    /// On the worker's own flow: the fiber that was left waits, if it does. If its wait ends meanwhile it is the next
    /// to run.
    #[inline]
    pub(super) fn spins_for_who_waits(&self) {
        // SAFETY: this worker's own, on its thread; the reference ends before the place is written.
        let &Post::Park(fiber, ends) = (unsafe { &*self.post.as_ptr() }) else { return };
        let Some(core) = self.core() else { return };
        // What only the kernel or the time ends takes longer.
        if fiber.traits().outside() || !self.may_spin(core) {
            return;
        }
        if !self.begins_to_spin(core) || !self.spins_while(core, || fiber.state().stays_open(ends))
        {
            return;
        }
        self.post.set(Post::None);
        if self.is_over_already(fiber, ends) && !self.enqueued_elsewhere(fiber) {
            self.push_next(core, fiber);
        }
        let own = self.own_in(core);
        if own.spins.is_turn_due(stamp()) {
            own.tick.cut_short();
        }
    }

    /// Spins while `waits` says so; false if it was in vain, or something came up.
    pub(super) fn spins_while(&self, core: &Core, mut waits: impl FnMut() -> bool) -> bool {
        let spinning = &self.shared.spinning;
        spinning.fetch_add(1, Ordering::Relaxed);
        let start = stamp();
        let (mut took, mut waiting, mut alone) = (0, true, true);
        while waiting && alone && took < AWHILE {
            (0..SPINS).for_each(|_| std::hint::spin_loop());
            waiting = waits();
            alone = self.goes_on_spinning(core);
            took = stamp().wrapping_sub(start);
        }
        spinning.fetch_sub(1, Ordering::Relaxed);
        let work = self.work_on(core);
        let own = self.own_in(core);
        own.tick.leave_out(from_stamps(took));
        if !waiting {
            own.spins.ended(took, Mark { at: start.wrapping_add(took), work });
        } else if alone && own.spins.judge(false) {
            own.vigil.call();
        }
        !waiting
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const START: Mark = Mark { at: 1 << 40, work: 7 };
    const TOOK: u64 = in_stamps(Duration::from_micros(1));

    impl Mark {
        fn later(self, time: u64, operations: u32, waits: u64) -> Mark {
            Mark { at: self.at + time, work: self.work + u64::from(operations) + waits }
        }
    }

    /// A spin that ends after `TOOK`, and the next after this time and so many operations and waits.
    fn goes_on(spins: &mut Spins, time: u64, operations: u32, waits: u64) -> bool {
        spins.ended(TOOK, START);
        spins.begins(START.later(time, operations, waits))
    }

    /// How many waits are none, before the next spin.
    fn left_out(spins: &mut Spins) -> usize {
        (0..).find(|_| spins.begins(START)).expect("some time")
    }

    #[test]
    fn those_that_pay_go_on() {
        let mut spins = Spins::default();
        assert!(spins.begins(START), "nothing is known");
        assert!((0..9).all(|_| goes_on(&mut spins, 10 * COARSE, 6, 3)));
        assert!((0..9).all(|_| goes_on(&mut spins, 2 * TOOK, 0, 0)));
    }

    #[test]
    fn those_that_do_not_become_rare() {
        let fine = |spins: &mut Spins| goes_on(spins, 100 * COARSE, 100, 1);
        let in_turns = |spins: &mut Spins| goes_on(spins, TOOK, 0, 1);
        let in_vain = |spins: &mut Spins| {
            _ = spins.judge(false);
            spins.begins(START)
        };
        for fails in [fine, in_turns, in_vain] {
            let mut spins = Spins::default();
            let gaps = [(); 7].map(|()| {
                assert!(!fails(&mut spins));
                left_out(&mut spins)
            });
            assert_eq!(gaps, [0, 2, 6, 14, 30, 62, 62]);
            spins.begin_anew(spins.invitations + 1);
            assert!(spins.begins(START));
        }
    }

    #[test]
    fn one_that_fails_is_forgiven_after_some_good_ones() {
        let mut spins = Spins::default();
        let paid = |spins: &mut Spins, times: u32| {
            (0..times).for_each(|_| _ = goes_on(spins, 2 * TOOK, 0, 1));
        };
        paid(&mut spins, GOOD - 1);
        assert!(!spins.judge(false));
        left_out(&mut spins);
        paid(&mut spins, GOOD);
        assert!(spins.judge(false) && spins.begins(START));
        assert!(!spins.judge(false) && !spins.begins(START), "once");
    }

    #[test]
    fn what_was_slept_is_not_what_came_of_it() {
        let mut spins = Spins::default();
        spins.ended(TOOK, START);
        spins.forget();
        assert!(spins.begins(START.later(TOOK, 0, 1)) && spins.paid == 0);
    }

    #[test]
    fn sockets_and_timers_have_their_turn() {
        let mut spins = Spins::default();
        let due = |spins: &mut Spins, at| spins.is_turn_due(START.at + at);
        assert!(due(&mut spins, 0) && !due(&mut spins, TURN - 1));
        spins.begin_anew(1);
        assert!(!due(&mut spins, TURN - 1) && due(&mut spins, TURN));
    }
}
