//! When a thief holds off.
//!
//! A steal moves fibers, and all that they touch, to another processor: some hundred nanoseconds of misses for each,
//! and then for those they talk to. Fibers that run for a tenth of that between two waits (a pipeline of channels, a
//! lock that is passed round) are done sooner where they are, and since they come back to their queue each time they
//! would be carried to and fro for ever. So a thief first asks what it is after. While a worker *flows*, that is goes
//! on from fiber to fiber in less than [`TALKS`], and has less than [`PAYS`] queued, the thief looks on, for
//! [`PATIENCE`] at most, and takes what there is then. Meanwhile it counts as searching, so that nobody is woken for
//! what is not worth it, and goes at once for whatever is put where all find it, and within 3 us for what another
//! worker has got. (Go waits for 3 us before it takes another's `runnext`, to the same end.)
//!
//! What is carried to and fro runs more slowly, by the misses that this costs, and might not flow any more for that
//! very reason: then a thief would take it at once, each time. So a thief that has robbed a worker of what kept it busy
//! for less than 10 us looks on at that worker whether it flows or not. But not where the runtime has sockets, one idle
//! listener say: while it looks on and the other one runs, nobody is in the poller (echo over 100 connections lost a
//! tenth of its rate, measured). At one that flows it looks on there too: that one sees to the sockets every 128
//! fibers.
//!
//! To look at a worker takes lines away from it, two of its queue and one of its counters, which it must fetch again at
//! the next fiber. So while the other one is seen to go on the thief looks at it less and less often, down to every 3
//! us ([`RARELY`]); in between at the injector and at its own mailbox, which are hardly ever written. With a look every
//! 0.4 us, on an Intel where a line takes 61 ns from one processor to the other, a worker that nobody robbed was more
//! than three times as slow: ten that take turns with three permits 324 -> 122 ns, of a mutex 251 -> 138, a hundred
//! that ask one 321 -> 222, 64 producers 40 -> 24, one that sends to a hundred 65 -> 42, bursts of a thousand wakes 174
//! -> 140, a hundred at a barrier 149 -> 81 (measured).
//!
//! What comes of it decides how long the thief looks on next time: if what it took kept it busy for less
//! time than it had looked on, it was not worth it, and its patience doubles, up to [`MOST`]; else it
//! begins anew. So fibers that talk to each other all the time are carried away three thousand times a second at
//! most, unless one of them computes in between, and those that do not, once.
//!
//! Where a hundred talk to each other, half of the ring keeps a thief busy for long, and by what they run for, which
//! the misses have made three times as much, it holds enough to be taken at once, for ever. So the thief also asks what
//! came of a steal for both (`worth.rs`). Where they were not faster than the other one alone, it looks on however much
//! is queued, and for up to [`MOST_SLOW`], if there is no third worker: it might need this one sooner. And it does so
//! for once where it is to measure that. Where they were slower it looks on for up to [`MOST_LOST`], and while the
//! other one goes on it looks at it every [`RARELY_LOST`] in the end, since each look costs that one something and all
//! that can come of it is that it stands still. A hundred that ask one 215 -> 156 ns, one that sends to a hundred 42 ->
//! 24, 64 producers 23.5 -> 16, a lock held over a yield 139 -> 122 (measured; one worker alone 173, 17, 11 and 107).
//!
//! What found no room in a worker's ring stands in the injector, for anybody. A thousand fibers that one wakes at once,
//! and that take less than a tenth of a microsecond each, went to and fro like that: two workers took twice as long for
//! them as one alone, and five times where lines of the cache take long. So while all that stands there is one worker's
//! overflow it is robbed like a ring: what is taken by who has nothing else to run is a steal, and is judged. It is
//! left to that worker only where the two were *slower* than that one alone, and where it is time to measure that. Who
//! has others to run takes his share when that is due, as ever. Bursts of a thousand wakes 357 -> 119 and 121 -> 76 ns
//! a wake, and a thousand that each spawn another, for which two workers are faster by a fourth, as before (measured).
//!
//! The estimate of the past says nothing about the fiber that runs now. So a worker that has not gone on for
//! [`STANDS`], because its fiber runs longer than others or its thread has no processor, is robbed, if it is the one
//! that is looked at; the others are by what their queues are worth. That is longer than 64 operations on channels
//! mostly take, after which one that goes on is seen to; and short, since fibers of two kinds have an average that is
//! neither's: where fifty put jobs into a queue, in a tenth of a microsecond each, and one takes them out for as long
//! as there are some, nearly everybody waits behind that one.
//!
//! Who has stood still does so again, mostly: the next [`TRUSTED`] searches there need no look, but where steals do not
//! pay or are to be measured. Before each of them others have the processor if that one has not gone on since.
//!
//! Or the thread has no processor because this thief has it: the system may have woken it where the one runs that woke
//! it. Then it would rob the other one of all that it has, piece by piece, and keep it from running meanwhile. So at
//! who has not gone on for [`PAUSES`] it looks again after others have had the processor.

use super::core::Core;
use super::worker::Worker;
use super::worth::{FLOWING, MEASURED, Mark, Worth};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use crate::primitives::thread;
use std::mem;
use std::time::Duration;

/// Nanoseconds for a fiber between two scheduling points, from which on it talks to the system: on a Zen 5 one that
/// receives and sends takes 2.5 to 3 us, one that only sends 2; those that talk to each other take some hundred
/// nanoseconds, misses included.
pub(super) const TALKS: u64 = 1_500;
/// Nanoseconds of work in a queue that are worth a steal in any case.
pub(super) const PAYS: u64 = 20_000;
/// Since it was seen to go on, which is up to [`RARELY`] after it did.
const STANDS: Duration = Duration::from_micros(5);
/// The same in a look that measures, or where steals lose: who wakes a thousand others takes as long.
const STANDS_LONG: Duration = Duration::from_micros(80);
/// Longer than most that flow take for a fiber, and before the other one is robbed.
const PAUSES: Duration = Duration::from_micros(2);
const PATIENCE: Duration = Duration::from_micros(20);
const MOST: Duration = Duration::from_micros(320);
/// The same where the two were not faster than the other one alone: to carry a hundred fibers there and back again
/// takes a hundred microseconds.
const MOST_SLOW: Duration = Duration::from_micros(1280);
/// The same where they were slower.
const MOST_LOST: Duration = Duration::from_micros(20_480);
/// So many searches at one that has stood still need no look.
pub(super) const TRUSTED: u32 = 64;
/// `spin_loop`s between two questions: some hundred nanoseconds.
const SPINS: u32 = 32;
/// Between two looks at one that goes on, at first and at most.
const OFTEN: Duration = Duration::from_nanos(400);
const RARELY: Duration = Duration::from_micros(3);
/// At most, where steals lose.
const RARELY_LOST: Duration = Duration::from_micros(50);

/// How long a worker looks on before it steals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    now: Duration,
    /// The same while steals are slow.
    slow: Option<Duration>,
    /// When it came to its end, and the worker stole.
    ended: Option<Moment>,
    stood: Stood,
}

/// One that was seen to stand still.
#[derive(Clone, Copy, Debug, Default)]
struct Stood {
    /// Its core.
    core: usize,
    /// How far it was, at the last look or steal.
    work: u64,
    /// So many searches need no look.
    left: u32,
}

impl Patience {
    pub(super) fn new() -> Patience {
        Patience { now: PATIENCE, slow: None, ended: None, stood: Stood::default() }
    }

    /// One of so many `workers` searches again, after a steal that was `worth` that; returns how long it
    /// looks on.
    pub(super) fn again(&mut self, now: Moment, worth: Worth, workers: usize) -> Duration {
        let ended = self.ended.take();
        if worth.slow {
            let most = match worth.lost {
                _ if workers > 2 => MOST,
                false => MOST_SLOW,
                true => MOST_LOST,
            };
            let more = self.slow.map(|slow| if ended.is_some() { 2 * slow } else { slow });
            return *self.slow.insert(more.unwrap_or(MEASURED).min(most));
        }
        self.slow = None;
        if let Some(ended) = ended {
            let paid = now.since(ended) >= self.now;
            self.now = if paid { PATIENCE } else { MOST.min(2 * self.now) };
        }
        if worth.unknown { self.now.max(MEASURED) } else { self.now }
    }

    /// It has looked on for so long.
    pub(super) fn ends(&mut self, now: Moment) {
        self.ended = Some(now);
    }

    /// The worker of `core` has stood still when it was so far.
    pub(super) fn has_stood(&mut self, core: usize, work: u64) {
        self.stood = Stood { core, work, left: TRUSTED };
    }

    /// Is a look needed before a steal from `core`, whose last one was `worth` that? If not: has its worker, which is
    /// so far, gone on since the last one?
    pub(super) fn trusts(&mut self, core: usize, work: u64, worth: Worth) -> Option<bool> {
        let stood = &mut self.stood;
        if core != stood.core || stood.left == 0 || worth.slow || worth.unknown {
            stood.left = 0;
            return None;
        }
        stood.left -= 1;
        Some(mem::replace(&mut stood.work, work) != work)
    }

    /// There was nothing to steal: that says nothing.
    pub(super) fn forget(&mut self) {
        self.ended = None;
    }

    #[cfg(test)]
    pub(super) fn trusted(&self) -> u32 {
        self.stood.left
    }

    #[cfg(test)]
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }
}

/// A look at one worker that flows.
#[derive(Debug)]
pub(super) struct Look {
    began: Moment,
    patience: Duration,
    /// Who does not go on for so long stands still.
    stands: Duration,
    /// When it was seen to go on, and how far it was then.
    moved: Mark,
    /// Others have had this processor since.
    gave_way: bool,
    /// For how long the other one is not looked at.
    pub(super) rest: Duration,
    /// That, at most.
    rarely: Duration,
    /// How far it was in the middle of the look: by then it has back what was carried away before.
    middle: Mark,
}

impl Look {
    /// After a steal that was `worth` that.
    pub(super) fn new(began: Mark, patience: Duration, worth: Worth) -> Look {
        let stands = if worth.leaves_overflow() { STANDS_LONG } else { STANDS };
        Look {
            began: began.at,
            patience,
            stands,
            moved: began,
            gave_way: false,
            rest: Duration::ZERO,
            rarely: if worth.lost { RARELY_LOST } else { RARELY },
            middle: began,
        }
    }

    /// Is it still better left alone? `work` is how far it is.
    pub(super) fn goes_on(&mut self, now: Moment, work: u64) -> bool {
        let moves = work != self.moved.work;
        self.rest = if moves { (2 * self.rest).clamp(OFTEN, self.rarely) } else { Duration::ZERO };
        if moves {
            self.moved = Mark { at: now, work, ..self.moved };
            self.gave_way = false;
        }
        if now.since(self.began) <= self.patience / 2 {
            self.middle = Mark { at: now, work, ..self.middle };
        }
        now.since(self.moved.at) < self.stands && !self.is_over(now)
    }

    /// It may be waiting for this thread's processor. Once each time that it does not go on.
    pub(super) fn gives_way(&mut self, now: Moment) -> bool {
        !self.gave_way && {
            self.gave_way = now.since(self.moved.at) >= PAUSES;
            self.gave_way
        }
    }

    /// Has it come to an end since the other one does not go on?
    fn sees_it_stand(&self, now: Moment) -> bool {
        now.since(self.moved.at) >= self.stands && !self.is_over(now)
    }

    fn is_over(&self, now: Moment) -> bool {
        now.since(self.began) >= self.patience
    }

    /// From where on it may be measured, if it was looked at for long enough.
    pub(super) fn measures(&self) -> Option<Mark> {
        (self.patience >= MEASURED).then_some(self.middle)
    }
}

impl Core {
    /// Do its fibers talk to each other, as far as a thief knows whose last steal was from here and `worth` that?
    fn flows(&self, worth: Worth) -> bool {
        // Misses have made them slower; or it is to be known whether they have.
        let bound = if worth.slow || worth.unknown { FLOWING } else { TALKS };
        worth.short || self.pace.load(Ordering::Relaxed) < bound
    }

    /// Is there something in the ring that a thief should take at once?
    pub(super) fn pays(&self, worth: Worth) -> bool {
        let queued = self.ring.len() as u64;
        let pace = self.pace.load(Ordering::Relaxed);
        let much = !worth.slow && !worth.unknown && queued * pace >= PAYS;
        queued != 0 && (much || !self.flows(worth))
    }
}

impl Worker<'_> {
    /// Returns when it is time to steal. One thief at a time holds off: where more are free, there is
    /// more to do than one worker does.
    pub(super) fn hold_off(&self) {
        let start = Moment::now();
        let (robbed, worth) = self.last_steal(start);
        let Some((victim, worth)) = self.whom_to_leave_alone(robbed, worth) else { return };
        let (mut now, mut work) = (start, victim.stats.work());
        let own = self.own();
        if let Some(has_gone_on) = own.patience.trusts(victim.index, work, worth) {
            if !has_gone_on {
                thread::yield_now();
                self.own().tick.leave_out(Moment::now().since(start));
            }
            return;
        }
        if self.shared.holding_off.swap(true, Ordering::Relaxed) {
            return;
        }
        let patience = own.patience.again(now, worth, self.shared.config.workers);
        if patience >= MEASURED {
            own.steals.begins_to_measure(now);
        }
        let mut look = Look::new(Mark { at: now, from: victim.index, work }, patience, worth);
        while look.goes_on(now, work) && self.leaves_alone(victim, worth) {
            self.lets_it_run(&mut look, now, victim, worth);
            // In this order: one that loses its processor in between, at the end, takes the other for slower, not for
            // faster.
            (work, now) = (victim.stats.work(), Moment::now());
        }
        self.shared.holding_off.store(false, Ordering::Relaxed);
        self.has_looked_on(&look, now, work);
        self.own().tick.leave_out(now.since(start));
    }

    /// Between two looks at `victim`, whose last robbery was `worth` that. If something else comes up, that is all.
    pub(super) fn lets_it_run(&self, look: &mut Look, now: Moment, victim: &Core, worth: Worth) {
        if look.gives_way(now) {
            return thread::yield_now();
        }
        let until = now.saturating_add(look.rest);
        loop {
            (0..SPINS).for_each(|_| std::hint::spin_loop());
            if Moment::now() >= until || self.is_called_away(victim, worth) {
                break;
            }
        }
    }

    /// Until `now`, when the one it looked on at was so far.
    pub(super) fn has_looked_on(&self, look: &Look, now: Moment, work: u64) {
        let own = self.own();
        if look.sees_it_stand(now) {
            own.patience.has_stood(look.moved.from, work);
        }
        if look.is_over(now) {
            own.patience.ends(now);
            look.measures().into_iter().for_each(|from| own.steals.measured(from, now, work));
        }
    }

    /// The core that it has robbed last, and what that was worth. A short steal says nothing where there are
    /// sockets (see the module).
    fn last_steal(&self, now: Moment) -> (usize, Worth) {
        let robbed = self.own().steals.robbed();
        let theirs = self.shared.cores.get(robbed).stats.progress();
        let own = self.held().stats.work();
        let worth = self.own().steals.judge(now, theirs, own);
        (robbed, Worth { short: worth.short && !self.shared.driver.has_sources(), ..worth })
    }

    pub(super) fn others(&self) -> impl Iterator<Item = &Core> {
        let me = self.held().index;
        self.shared.cores.iter().filter(move |core| core.index != me)
    }

    /// A worker that flows, and what this thief's last steal from it was worth; first the one that it has `robbed`,
    /// which it would rob again, unless that paid.
    pub(super) fn whom_to_leave_alone(
        &self,
        robbed: usize,
        worth: Worth,
    ) -> Option<(&Core, Worth)> {
        let left_alone = |(core, worth): &(&Core, Worth)| core.flows(*worth) && self.is_there(core);
        let again = self.others().find(|core| core.index == robbed && worth != Worth::default());
        let again = again.map(|core| (core, worth)).filter(left_alone);
        again.or_else(|| self.others().map(|core| (core, Worth::default())).find(left_alone))
    }

    /// Than to look on at `victim`, whose last robbery was `worth` that: only of that one it knows whether it goes on.
    pub(super) fn has_better_to_do(&self, victim: &Core, worth: Worth) -> bool {
        let worth_of = |core: &Core| match core.index == victim.index {
            true => worth,
            false => Worth::default(),
        };
        let pays = |core: &Core| core.pays(worth_of(core)) || self.shared.has_mail_for_all(core);
        self.is_called_away(victim, worth) || self.others().any(pays)
    }

    /// The same, as far as no other worker's queues say so.
    fn is_called_away(&self, victim: &Core, worth: Worth) -> bool {
        let shared = self.shared;
        let left = |from: usize| from == victim.index && worth.leaves_overflow();
        !shared.injector.is_empty() && !shared.injector.overflow_of().is_some_and(left)
            || !self.held().mailbox.is_empty()
            || shared.is_stopping()
    }

    /// Is `victim`, whose last robbery was `worth` that, there still, and nothing better to do?
    pub(super) fn leaves_alone(&self, victim: &Core, worth: Worth) -> bool {
        self.is_there(victim) && !self.has_better_to_do(victim, worth)
    }

    /// Whose ring did all that stands in the injector find full, if it is another's, who is there to take it back?
    pub(super) fn overflow_of_another(&self) -> Option<&Core> {
        let from = self.shared.injector.overflow_of().filter(|_| self.shared.config.stealing)?;
        let core = self.shared.cores.get(from);
        (from != self.held().index && self.is_there(core)).then_some(core)
    }

    /// Will its worker come back to its queues by itself, and soon?
    fn is_there(&self, core: &Core) -> bool {
        core.is_open() && !core.call.is_on() && !self.shared.idle.is_parked(core.index)
    }

    /// Is it better left to `core`, from whose ring it comes?
    pub(super) fn leaves_overflow_to(&self, core: &Core) -> bool {
        let (robbed, worth) = self.last_steal(Moment::now());
        robbed == core.index && worth.leaves_overflow() && core.flows(worth)
    }
}
