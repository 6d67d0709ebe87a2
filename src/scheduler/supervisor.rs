//! The supervisor: a thread that notices workers which do not come back from a fiber's code.
//!
//! While anything runs it looks four times a period, and less often where the only one that runs comes back to the
//! poller again and again. A worker that has run one fiber since the last
//! look keeps others from its LIFO slot no longer: what stands there goes to the injector. One that
//! has run it at all looks of a period is *stalled*: its slot, ring and mailbox go to the injector, and
//! a replacement with a core of its own starts. It has then run for three quarters of a period at
//! least, and for hardly more than one: nobody waits longer behind it. From outside the supervisor
//! acts only as a thief does, since the stalled fiber may spawn at any instant; it never preempts. At
//! its next scheduling point the stalled worker rejoins, or retires (`hand_off.rs`). Whether its
//! thread sleeps when it is found, or computes, makes no difference but for what `sites.rs` learns of it.
//!
//! When it wakes, and who decides that besides it, stands in `watch.rs`. Some milliseconds after the poller was left to
//! nobody it sees to that (`poller_seat.rs`); looks at the workers are a quarter of a period apart all the same.
//!
//! It sleeps until a worker leaves its bed once nothing has run for two periods, but for looks at what may be a
//! deadlock.
//!
//! Where a thread was refused, or its hook has panicked, a core is free that should run: it tries again now and then.

use super::brief::CallSite;
use super::core::Core;
use super::deadlock::Looks;
use super::shared::Shared;
use super::sites::Site;
use super::watch::{IN_A_PERIOD, LINGER};
use crate::fiber::Batch;
use crate::primitives::clock::Moment;
use crate::primitives::os_thread::OsThread;
use crate::primitives::sync::atomic::Ordering;
use std::panic::Location;
use std::time::Duration;

/// Before a thread that was refused is asked for again.
const AGAIN: Duration = Duration::from_millis(100);

/// A fiber that has kept its thread for three quarters of the supervisor's
/// [period](crate::runtime::Builder::stall_period) at least.
///
/// ```
/// use volt::runtime::{Builder, Stall};
///
/// fn report(stall: &Stall) {
///     eprintln!("a fiber spawned at {} runs since {:?}", stall.site, stall.for_at_least);
/// }
///
/// let builder = Builder::new().on_stall(report);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// The fiber's name, if it has one.
    pub fiber: Option<String>,
    /// Where it was spawned.
    pub site: &'static Location<'static>,
    /// The core whose worker is stalled.
    pub worker: usize,
    /// How long it has been running, as far as the supervisor has seen.
    pub for_at_least: Duration,
    /// Another thread has taken over. Not so if the system refuses one, or where 512 are stalled already.
    pub replaced: bool,
}

/// What the supervisor remembers of one core.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The core's moves by then; `None` if it was at rest. Whoever is found there next has come since,
    /// also one that was not dispatched there: it took the free core after it had blocked its thread.
    moves: Option<u64>,
    since: Moment,
    /// How many looks since then have found it so.
    again: u32,
}

/// Runs the supervisor on the calling thread until the scheduler stops.
pub(crate) fn supervise(shared: &Shared, period: Duration) {
    let mut supervisor = Supervisor::new(shared, period);
    while !shared.is_stopping() {
        supervisor.turn(Moment::now());
        supervisor.rest();
    }
}

pub(super) struct Supervisor<'a> {
    shared: &'a Shared,
    period: Duration,
    seen: Vec<Seen>,
    /// The cores whose workers have stalled, and do not block as far as was seen.
    computing: Vec<usize>,
    sleepers: Sleepers,
    /// The last look, and the last one since which something had run.
    looked: Moment,
    active: Option<Moment>,
    /// Its looks for a deadlock since.
    looks: Looks,
    /// All dispatches by the last look.
    dispatched: u64,
    /// When the next look comes, at the earliest.
    next: Moment,
    /// When the poller had been left to nobody when that was last seen to.
    seen_to: Moment,
    /// When it asks for the threads that are missing, if some are.
    asks: Option<Moment>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(shared: &'a Shared, period: Duration) -> Supervisor<'a> {
        Supervisor {
            shared,
            period,
            seen: Vec::new(),
            computing: Vec::new(),
            sleepers: Sleepers::default(),
            looked: Moment::default(),
            active: None,
            looks: Looks::NONE,
            dispatched: 0,
            next: Moment::PAST,
            seen_to: shared.poller.left(),
            asks: None,
        }
    }
}

/// However it ends, by a panic too: who leaves the poller to nobody must not count on it any more.
impl Drop for Supervisor<'_> {
    fn drop(&mut self) {
        self.shared.end_watch();
    }
}

impl Supervisor<'_> {
    /// From one look to the next; `None` once all has been quiet for long.
    pub(super) fn pause(&self) -> Option<Duration> {
        let active = self.active.unwrap_or(self.looked);
        let quiet = self.looked.since(active) >= self.period.saturating_mul(LINGER);
        (!quiet).then_some(self.period / IN_A_PERIOD)
    }

    /// Awake, at `now`.
    pub(super) fn turn(&mut self, now: Moment) {
        if now >= self.next {
            self.look(now);
            self.next = now.saturating_add(self.period / IN_A_PERIOD);
        }
        let left = self.poller_left();
        if let Some(left) = left.filter(|left| now.since(*left) >= self.shared.watch.often()) {
            self.seen_to = left;
            self.shared.look_after_poller();
        }
        self.ask_for_threads(now);
    }

    fn ask_for_threads(&mut self, now: Moment) {
        let again = now.saturating_add(AGAIN);
        self.asks = self.shared.crew.is_short().then(|| self.asks.unwrap_or(again));
        if self.asks.is_some_and(|at| now >= at) {
            self.asks = Some(again);
            // This may take its time, and nobody looks after the poller meanwhile.
            self.shared.end_watch();
            self.shared.start_missing();
        }
    }

    /// When the poller was left to nobody, if that is to be seen to.
    fn poller_left(&self) -> Option<Moment> {
        Some(self.shared.poller.left()).filter(|left| *left != self.seen_to)
    }

    pub(super) fn rest(&mut self) {
        let (shared, watch) = (self.shared, &self.shared.watch);
        shared.poller.watch();
        if self.pause().is_some() || self.asks.is_some() {
            let far = Moment::now().saturating_add(self.period.saturating_mul(LINGER));
            let asks = self.asks.unwrap_or(Moment::NEVER);
            let left = self.poller_left();
            let near =
                left.map_or(self.next, |left| self.next.min(left.saturating_add(watch.relief())));
            let as_before = || left.is_none() && shared.all_rest(None);
            _ = watch.lie_down(near.min(asks), far.min(asks), as_before);
        } else if !self.rest_for_long() {
            self.active = None;
        }
        watch.sleep();
    }

    /// Until something runs. `true` if it has to look for a deadlock once more before that.
    fn rest_for_long(&mut self) -> bool {
        let (shared, near) = (self.shared, self.next);
        let dispatched = self.dispatched;
        let lie_down = |supervisor: &Supervisor<'_>, far| {
            let as_before = || supervisor.is_quiet() && shared.dispatched() == dispatched;
            shared.watch.lie_down(near, far, as_before)
        };
        if !lie_down(self, Moment::NEVER) {
            return false;
        }
        let again = self.look_for_deadlock();
        again.is_some_and(|time| lie_down(self, Moment::now().saturating_add(time)))
    }

    /// Says when it has to look again. The hook may take its time: nobody counts on the supervisor meanwhile.
    fn look_for_deadlock(&mut self) -> Option<Duration> {
        let shared = self.shared;
        if !shared.tells_of_deadlocks {
            return None;
        }
        shared.end_watch();
        let again = self.looks.next(|| shared.look_for_deadlock(|| ()));
        shared.poller.watch();
        again
    }

    fn is_quiet(&self) -> bool {
        self.shared.cores.iter().all(|core| self.is_at_rest(core))
    }

    /// Nothing runs on `core`, or what runs there is dealt with.
    fn is_at_rest(&self, core: &Core) -> bool {
        !core.is_held() || core.gate.is_stalled() || self.shared.idle.is_parked(core.index)
    }

    /// One look, at `now`.
    pub(super) fn look(&mut self, now: Moment) {
        self.sleepers.begin_look();
        // Also when all are parked again: it rests once nothing has run for a while.
        let dispatched = self.shared.dispatched();
        let mut quiet = std::mem::replace(&mut self.dispatched, dispatched) == dispatched;
        for core in self.shared.cores.iter() {
            quiet &= self.look_at(core, now).is_none();
        }
        if !quiet || self.active.is_none() {
            self.active = Some(now);
            self.looks = Looks::NONE;
        }
        self.looked = now;
        self.look_at_computing();
        self.shared.sites.look(now, self.period, |thread| self.sleepers.blocks(thread));
    }

    /// Whoever had no processor when it was found, or computed first, may block by now.
    fn look_at_computing(&mut self) {
        let (shared, sleepers) = (self.shared, &mut self.sleepers);
        self.computing.retain(|&index| {
            let core = shared.cores.get(index);
            let found = core.gate.visit(|| {
                let fiber = core.running().filter(|_| core.gate.is_stalled())?;
                Some((fiber.site, notes_if_blocked(core, fiber.site, sleepers)))
            });
            // Not seen: somebody lists the fibers, or it is coming back, as the next look finds.
            let Some(found) = found else { return true };
            let Some((site, blocks)) = found else { return false };
            if blocks {
                shared.sites.blocks(site);
            }
            !blocks
        });
    }

    /// Returns how often it has found that the core moved, or `None` at rest.
    fn look_at(&mut self, core: &Core, now: Moment) -> Option<u64> {
        if core.gate.is_stalled() {
            self.drain(core);
        }
        let moves = (!self.is_at_rest(core)).then(|| core.moves());
        let fresh = Seen { moves, since: now, again: 0 };
        if self.seen.len() <= core.index {
            self.seen.resize(core.index + 1, Seen { moves: None, ..fresh });
        }
        self.seen[core.index].again += 1;
        let seen = self.seen[core.index];
        if let Some(site) = moves.and_then(|_| core.call.is_long(now)) {
            self.end_brief_call(core, site, now);
        } else if moves.is_none() || seen.moves != moves {
            self.seen[core.index] = fresh;
        } else if core.call.is_on() {
            // Nobody who blocks with notice stalls.
        } else if seen.again >= IN_A_PERIOD - 1
            && now.since(seen.since) >= self.period / IN_A_PERIOD * (IN_A_PERIOD - 1)
        {
            // Looks and time: a process that was stopped for a while, because it had used up its share
            // of the processors say, has lost time, and nobody in it has stalled.
            self.stalled(core, seen, now);
        } else if now > seen.since && !core.slot.is_empty() {
            self.free_slot(core, seen);
        }
        moves
    }

    /// The fiber that runs there does not stop: what it keeps waiting in the slot runs elsewhere.
    fn free_slot(&self, core: &Core, seen: Seen) {
        let taken = core
            .gate
            .visit(|| (Some(core.moves()) == seen.moves).then(|| core.slot.take()).flatten());
        if let Some(fiber) = taken.flatten() {
            core.was_robbed();
            self.shared.outside.slots_freed.add_shared(1);
            self.shared.push_to_injector(fiber);
        }
    }

    fn stalled(&mut self, core: &Core, seen: Seen, now: Moment) {
        let found = core.gate.visit(|| {
            let now = Some(core.moves());
            let fiber = core.running().filter(|_| now == seen.moves)?;
            let blocks = notes_if_blocked(core, fiber.site, &mut self.sleepers);
            core.gate.mark_stalled();
            Some((fiber.name().map(str::to_owned), fiber.site, blocks))
        });
        let Some((name, site, blocks)) = found.flatten() else { return };
        if !blocks {
            self.computing.push(core.index);
        }
        self.shared.sites.stalled(site, blocks);
        self.shared.outside.stalls.add_shared(1);
        let replaced = self.put_another_there(core);
        let stall = Stall {
            fiber: name,
            site,
            worker: core.index,
            for_at_least: now.since(seen.since),
            replaced,
        };
        report(self.shared, &stall);
    }

    /// A call of `blocking` was to be brief and is not: the core goes on without it.
    fn end_brief_call(&self, core: &Core, site: CallSite, now: Moment) {
        let found = core.gate.visit(|| {
            let is_there = core.call.is_long(now).is_some();
            is_there.then(|| core.gate.mark_stalled())
        });
        if found.flatten().is_some() {
            self.shared.outside.overdue_calls.add_shared(1);
            self.shared.brief_calls.was_long(site);
            self.put_another_there(core);
        }
    }

    /// In the place of the worker of `core`, which is marked as stalled. Returns whether there can be one.
    fn put_another_there(&self, core: &Core) -> bool {
        // This may take its time, a thread that is started, and nobody looks after the poller meanwhile.
        self.shared.end_watch();
        let replaced = self.shared.replace();
        self.drain(core);
        replaced
    }

    /// Takes what the stalled worker of `core` keeps from others.
    fn drain(&self, core: &Core) {
        let mut batch = Batch::new();
        if let Some(Some(fiber)) = core.gate.visit(|| core.slot.take()) {
            batch.push(fiber);
        }
        loop {
            let mut some = core.ring.steal_batch();
            if some.is_empty() {
                break;
            }
            batch.append(&mut some);
        }
        core.was_robbed();
        self.shared.push_all_to_injector(batch);
        self.shared.forward_mail(core);
    }
}

/// Does the worker's fiber of `site` block its thread? Asked in its gate, or it might be back meanwhile and asleep in
/// its bed. For that case it finds there which site is told that it is.
fn notes_if_blocked(core: &Core, site: Site, sleepers: &mut Sleepers) -> bool {
    let blocks = sleepers.blocks(OsThread(core.thread.load(Ordering::Relaxed)));
    if blocks {
        core.stalled_site.store(std::ptr::from_ref(site).cast_mut(), Ordering::Relaxed);
    }
    blocks
}

/// Tells threads that sleep from those that compute. Where the system does not say which they do, by their processor
/// time.
#[derive(Debug, Default)]
struct Sleepers {
    /// What those had had by the last look who were asked after then, and by this one.
    before: Vec<(OsThread, Duration)>,
    now: Vec<(OsThread, Duration)>,
}

impl Sleepers {
    fn begin_look(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// Does a thread that does not come back block? Where nobody can tell it may.
    fn blocks(&mut self, thread: OsThread) -> bool {
        let by_time = || Some(self.stands_still(thread, thread.processor_time()?));
        thread.is_asleep().or_else(by_time).unwrap_or(true)
    }

    /// It has had no processor since the last look, as far as is known: at the first one it computes.
    fn stands_still(&mut self, thread: OsThread, time: Duration) -> bool {
        self.now.push((thread, time));
        self.before.contains(&(thread, time))
    }
}

/// Tells the hook, and `tracing` where the feature is on.
fn report(shared: &Shared, stall: &Stall) {
    // A subscriber that panics ends neither.
    #[cfg(feature = "tracing")]
    crate::util::forget_panics(|| {
        tracing::warn!(
            fiber = stall.fiber.as_deref().unwrap_or("<unnamed>"),
            site = %stall.site,
            worker = stall.worker,
            for_at_least = ?stall.for_at_least,
            replaced = stall.replaced,
            "a fiber keeps its thread; use volt::blocking around what blocks, or yield_now in long loops"
        )
    });
    if let Some(hook) = shared.hooks().on_stall {
        crate::util::forget_panics(|| hook(stall));
    }
}
