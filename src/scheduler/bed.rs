//! How a worker goes to sleep and wakes: announce, look once more, sleep.

use super::core::Core;
use super::deadlock::{Looks, QUIET};
use super::heirs;
use super::hold_off::{PAYS, TALKS};
use super::idle::Left;
use super::ring;
use super::watch::LINGER;
use super::worker::Worker;
use crate::driver::{Awake, GoesOn};
use crate::fiber::{self, Batch};
use crate::primitives::clock::{Moment, stamp};
use crate::primitives::sync::atomic::Ordering;
use crate::stack;
use std::time::Duration;

/// More fibers from the poller are many, however short they have been of late.
const FEW: u64 = 8;

/// The same where fibers do not talk to the system: as many as the ring has room for.
const MANY: u64 = ring::CAPACITY as u64;
/// Nanoseconds of their work for which another worker is woken.
const PAYS_TO_WAKE: u64 = 100_000;

/// Nanoseconds for a fiber between two scheduling points, from which on another worker is woken for the poller even
/// for a single one: that costs as much as tens of microseconds of work, and who comes meanwhile is served at once.
const SHORT: u64 = 50_000;

/// Between two looks after idle memory a worker that goes on does not for so long, nor for so many times as
/// long as the first has taken.
const OFTEN: Duration = Duration::from_millis(5);
const TIMES: u32 = 100;

/// What a worker remembers of its last sleep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slept {
    /// For how long; `None` if it was in the poller, and nothing came before a timer.
    time: Option<Duration>,
    /// Dispatches by then.
    dispatched: u64,
}

/// How long a worker that goes on leaves idle memory alone after it has looked after it for so long.
pub(super) fn rest_after(took: Duration) -> Duration {
    OFTEN.max(took.saturating_mul(TIMES))
}

impl Slept {
    pub(super) const NEVER: Slept = Slept { time: Some(Duration::MAX), dispatched: 0 };
}

/// How a sleep has ended.
#[derive(Default)]
struct Woken {
    /// The poller is left to nobody.
    leaves_poller: bool,
    by_timer: bool,
    /// When, if that was a moment ago.
    at: Option<Moment>,
}

impl Worker<'_> {
    pub(super) fn park(&self, done: &dyn Fn() -> bool) {
        let (core, shared) = (self.held(), self.shared);
        let now = Moment::now();
        self.end_tick(core, now);
        // Before the last look: whoever is told may wake fibers.
        let look_again = self.look_around(now);
        if self.is_vacated() {
            return;
        }
        self.ends_vigils(now);
        self.is_no_longer_alone(core);
        shared.idle.park(core.index, self.searching.replace(false));
        let work = match self.has_only_its_mail() {
            true => {
                // Whoever counted on this searcher counts on the thread now.
                shared.leave_to_kept();
                core.queued() > 0
            }
            false => shared.has_work_for(core),
        };
        let mut woken = Woken::default();
        if work || self.is_one_too_many() || shared.is_stopping() || done() {
            self.leave_bed(true);
        } else {
            core.stats.parked.add(1);
            self.put_off_the_watch(now);
            woken = self.sleep(now, look_again);
        }
        let awake = woken.at.unwrap_or_else(Moment::now);
        let slept = awake.since(now);
        self.has_slept(slept);
        match woken.leaves_poller {
            true => {
                shared.poller.leave(awake);
                shared.watch.relieve(awake, slept, || shared.all_rest(Some(core.index)));
            }
            false => shared.watch.notice(awake),
        }
        let dispatched = core.stats.dispatched.get();
        self.own().slept = Slept { time: (!woken.by_timer).then_some(slept), dispatched };
        self.own().tick.begin(awake, stamp());
    }

    /// What this worker has shared and spun for says nothing about what comes after its sleep.
    fn is_no_longer_alone(&self, core: &Core) {
        let own = self.own_in(core);
        own.spins.forget();
        own.lifo_run.forget();
        own.invites.close();
    }

    /// Where the next message may be long in coming, or the next timer is, the supervisor need not look before. Not for
    /// who has run nothing: it may go on like that for ever, and somebody must look for a deadlock.
    fn put_off_the_watch(&self, now: Moment) {
        let (core, shared) = (self.held(), self.shared);
        let last = self.own().slept;
        let Some(period) = shared.config.stall_period else { return };
        if core.stats.dispatched.get() == last.dispatched {
            return;
        }
        let will_sleep =
            last.time.unwrap_or_else(|| shared.driver.timers.next_deadline().since(now));
        if will_sleep >= shared.watch.often() {
            let far = now.saturating_add(period.saturating_mul(LINGER));
            shared.watch.put_off(now, far, || shared.all_rest(None));
        }
    }

    /// Awake again. A claimed worker counts as searching already; one that saw work in its last look
    /// searches for it whatever the limit says.
    pub(super) fn leave_bed(&self, saw_work: bool) {
        let searching = match self.shared.idle.unpark(self.held().index) {
            Left::Claimed => true,
            Left::ByItself if saw_work => {
                self.shared.idle.begin_search_now();
                true
            }
            Left::ByItself => false,
        };
        self.searching.set(searching);
    }

    /// In the poller if nobody else is there, on the thread otherwise; leaves the bed.
    fn sleep(&self, now: Moment, look_again: Option<Duration>) -> Woken {
        let (core, shared) = (self.held(), self.shared);
        self.trim_stacks(now);
        let timeout = look_again.into_iter().chain(shared.config.park_timeout).min();
        let Some(mut role) = shared.poller.role(|| shared.driver.try_role()) else {
            let left = (self.deadline != Moment::NEVER).then(|| self.deadline.since(now));
            // Where more is to be given back it would be woken at once.
            if core.trim_due() > now {
                core.parker.sleep_on_thread(timeout.into_iter().chain(left).min());
            }
            self.leave_bed(false);
            let at = Moment::now();
            self.own().socket_vigils.sleeps_elsewhere(at.since(now));
            return Woken { at: Some(at), ..Woken::default() };
        };
        let mut settled = Batch::new();
        shared.poller.sit(core.index);
        let (mut awake, mut vigil) = (None, self.begins_socket_vigil());
        core.parker.sleep_in_poller(|| {
            let latest = timeout.map_or(Moment::NEVER, |timeout| now.saturating_add(timeout));
            let latest = latest.min(self.deadline);
            let until = || shared.next_trim(now).min(latest);
            core.stats.polls.add(1);
            let mut looks_on = vigil.as_mut().map(|vigil| || vigil.goes_on());
            let looks_on = looks_on.as_mut().map(|goes_on| goes_on as &mut GoesOn<'_>);
            awake = Some(shared.driver.wait(&mut role, now, until, looks_on, &mut settled));
        });
        self.ends_socket_vigil(vigil, awake, now);
        let few = !self.is_assisted(&settled, awake, now) && self.are_few(settled.len());
        shared.poller.rise();
        drop(role);
        // Before others are woken: it would be the first that is found asleep.
        self.leave_bed(false);
        // In this order: see `poller_seat`.
        let some = self.push_settled(settled);
        let leaves_poller = few && shared.poller.is_watched();
        let wakes = some && !leaves_poller;
        if wakes {
            shared.notify();
        }
        shared.wake_for_trim(core.index);
        let by_timer = awake.is_some_and(|awake| awake.by_timer);
        // To wake another one takes long.
        Woken { leaves_poller, by_timer, at: awake.filter(|_| !wakes).map(|awake| awake.at) }
    }

    /// Has it paid of late to wake another worker for few that the poller brings? This one had lain down by `since`.
    pub(super) fn is_assisted(&self, settled: &Batch, awake: Option<Awake>, since: Moment) -> bool {
        let Some(Awake { at, .. }) = awake.filter(|_| self.shared.config.workers > 1) else {
            return false;
        };
        let (shared, slept) = (self.shared, at.since(since));
        let work = || shared.cores.iter().map(|core| core.stats.work()).sum();
        // It is parked still. And one thing is tried at a time.
        let may_try = || {
            let somebody = !shared.idle.is_anybody_busy() || shared.idle.sleeps_another();
            somebody && !self.own().socket_vigils.are_measured()
        };
        shared.assist.lock().rises(at, slept, work, may_try) && settled.len() > 1
    }

    /// Will it be done with them about when another worker, woken for a share of them, would begin?
    pub(super) fn are_few(&self, settled: usize) -> bool {
        let average = self.run_time();
        match settled as u64 {
            0 => false,
            1 => average < SHORT,
            n if average < TALKS => n <= MANY && n * average < PAYS_TO_WAKE,
            n => n <= FEW && n * average < PAYS,
        }
    }

    /// Where there is no supervisor, looks for a deadlock if nothing has run since the last sleep;
    /// otherwise says when to come again for that.
    fn look_around(&self, now: Moment) -> Option<Duration> {
        let shared = self.shared;
        if shared.config.stall_period.is_some() || !shared.tells_of_deadlocks {
            return None;
        }
        let dispatched = self.held().stats.dispatched.get();
        let (before, mut looks) = self.own().rest;
        if before != dispatched {
            self.own().rest = (dispatched, Looks::NONE);
            return (shared.live() != 0).then_some(QUIET);
        }
        // Who gives memory back comes here many times in a moment.
        if self.held().trim_due() <= now {
            return looks.again();
        }
        // Who is told may wake fibers and wait for them: that blocks the thread.
        let again = looks.next(|| shared.look_for_deadlock(|| self.vacate()));
        if !self.is_vacated() {
            self.own().rest.1 = looks;
        }
        again
    }

    /// Gives back some memory of stacks that have been idle for long, when that is due; says when to
    /// come again. What their fibers needed in the wheels goes with them.
    pub(super) fn trim_stacks(&self, now: Moment) {
        let (_, due) = self.trim_some(now);
        // Also if it is no news: the one in the poller may have found it due already, and this worker awake.
        if due != Moment::NEVER && due > now {
            self.shared.driver.earlier_deadline(due);
        }
    }

    /// The same for a worker that goes on, at the end of a tick: it may never come to its bed.
    #[cold]
    pub(super) fn trim_in_passing(&self) {
        let now = Moment::now();
        let (before, due) = self.trim_some(now);
        // Of what is put off it tells before it sleeps.
        if due < before {
            self.shared.driver.earlier_deadline(due);
        }
        let end = Moment::now();
        self.own().trim_turn = end.saturating_add(rest_after(end.since(now)));
    }

    /// Says when it was due, and when it is now.
    fn trim_some(&self, now: Moment) -> (Moment, Moment) {
        let core = self.held();
        let before = core.trim_due();
        let age = self.shared.config.stack_age;
        let due = if before <= now {
            // Whatever has been said by now is seen to here. What is said later is for the next time.
            self.has_new_stacks();
            let here = self.own().stacks.trim(now, age);
            let shared = [stack::trim(now, age), fiber::trim(now, age)];
            self.shared.driver.timers.trim();
            here.into_iter().chain(shared.into_iter().flatten()).min().unwrap_or(Moment::NEVER)
        } else if self.has_new_stacks() {
            // At an earlier time that it has in mind it looks at everything, and sees when the rest is due.
            before.min(now.saturating_add(age))
        } else {
            before
        };
        core.trim_due.store(due.as_nanos(), Ordering::Relaxed);
        (before, due)
    }

    /// Have stacks become idle, or blocks, that nobody has in mind yet, here or where a runtime has ended?
    /// Said once, by whoever put them where they are before: who asks finds them there.
    fn has_new_stacks(&self) -> bool {
        let left = &self.shared.stacks_left;
        let left = left.load(Ordering::Relaxed) && left.swap(false, Ordering::Acquire);
        self.own().stacks.has_news() | left | fiber::has_news() | heirs::has_left()
    }
}
