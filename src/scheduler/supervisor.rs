//! The supervisor: a thread that notices workers which do not come back from a fiber's code.
//!
//! While anything runs it looks four times a period. A worker that has run one fiber since the last
//! look keeps others from its LIFO slot no longer: what stands there goes to the injector. One that
//! has run it at all looks of a period is *stalled*: its slot, ring and mailbox go to the injector, and
//! a replacement with a core of its own starts. It has then run for three quarters of a period at
//! least, and for hardly more than one: nobody waits longer behind it. From outside the supervisor
//! acts only as a thief does, since the stalled fiber may spawn at any instant; it never preempts. At
//! its next scheduling point the stalled worker rejoins, or retires (`hand_off.rs`).
//!
//! # An empty poller
//!
//! Where the poller is often left for a moment it watches that too, each millisecond
//! (`poller_seat.rs`).
//!
//! # Going to sleep
//!
//! After [`LINGER`] looks at which every worker was parked, and had run nothing since the look before, it sleeps
//! until one leaves its bed.
//! It stores `asleep`, full fence, looks once more whether all are parked. A worker's parked bit is
//! cleared first, then a full fence, then `asleep` is read. Of the two reads one sees the other's
//! store.

use super::core::Core;
use super::shared::Shared;
use crate::fiber::Batch;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::primitives::sync::{Condvar, Mutex, full_fence};
use std::panic::Location;
use std::time::Duration;

/// Looks in a period.
const LOOKS: u32 = 4;
/// Quiet looks before it sleeps.
const LINGER: u32 = 2 * LOOKS;
/// How often it looks after an empty poller.
const RELIEF: Duration = Duration::from_millis(1);
/// It watches the poller if that is left more often in the time of one such look: then the looks cost less
/// than the wakes that they save.
const OFTEN: u128 = 1;
/// So many looks that find it as before end the watch, however long the period is.
const IDLE: u32 = 32;

/// A fiber that has kept its thread for longer than the supervisor's period.
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
    /// Another thread has taken over.
    pub replaced: bool,
}

/// The supervisor's bed.
#[derive(Debug)]
pub(super) struct Watch {
    asleep: AtomicBool,
    /// Somebody wants it to look.
    called: Mutex<bool>,
    call: Condvar,
}

impl Watch {
    pub(super) fn new() -> Watch {
        Watch { asleep: AtomicBool::new(false), called: Mutex::new(false), call: Condvar::new() }
    }

    /// A worker is about to run something.
    #[inline]
    pub(super) fn notice(&self) {
        full_fence();
        if self.asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    pub(super) fn wake(&self) {
        *self.called.lock() = true;
        self.call.notify_one();
    }

    fn sleep(&self, timeout: Option<Duration>) {
        let mut called = self.called.lock();
        if !*called {
            match timeout {
                Some(timeout) => drop(self.call.wait_for(&mut called, timeout)),
                None => self.call.wait(&mut called),
            }
        }
        *called = false;
    }
}

/// What the supervisor remembers of one core.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Dispatches by then; `None` if the core was at rest. Whoever is found there next has come since,
    /// also one that was not dispatched there: it took the free core after it had blocked its thread.
    dispatched: Option<u64>,
    since: Moment,
    /// How many looks since then have found it so.
    again: u32,
}

/// Runs the supervisor on the calling thread until the scheduler stops.
pub(crate) fn supervise(shared: &Shared, period: Duration) {
    let mut supervisor = Supervisor::new(shared, period);
    while !shared.is_stopping() {
        supervisor.look(Moment::now());
        supervisor.rest();
    }
}

pub(super) struct Supervisor<'a> {
    shared: &'a Shared,
    period: Duration,
    seen: Vec<Seen>,
    /// Looks in a row at which every worker was parked, and had run nothing since the last.
    quiet: u32,
    /// All dispatches by the last look.
    dispatched: u64,
    /// How often the poller had been left by the last look.
    left: u64,
    watches_poller: bool,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(shared: &'a Shared, period: Duration) -> Supervisor<'a> {
        Supervisor {
            shared,
            period,
            seen: Vec::new(),
            quiet: 0,
            dispatched: 0,
            left: shared.poller.left(),
            watches_poller: false,
        }
    }
}

/// However it ends, by a panic too: who leaves the poller to nobody must not count on it any more.
impl Drop for Supervisor<'_> {
    fn drop(&mut self) {
        self.decide_on_watch(None);
    }
}

impl Supervisor<'_> {
    /// How long it waits before it looks again; `None` while all is quiet.
    pub(super) fn pause(&self) -> Option<Duration> {
        (self.quiet < LINGER).then(|| self.period / LOOKS)
    }

    pub(super) fn rest(&mut self) {
        let watch = &self.shared.watch;
        let pause = self.pause();
        self.decide_on_watch(pause);
        match pause {
            Some(pause) if self.watches_poller => return self.watch_poller(pause),
            Some(pause) => return watch.sleep(Some(pause)),
            None => {}
        }
        watch.asleep.store(true, Ordering::Relaxed);
        full_fence();
        let as_before = self.is_quiet() && self.shared.dispatched() == self.dispatched;
        if as_before && !self.shared.is_stopping() {
            self.shared.look_for_deadlock();
            watch.sleep(None);
        }
        watch.asleep.store(false, Ordering::Relaxed);
        self.quiet = 0;
    }

    /// Begins or ends the watch over the poller, by how often that was left in the last pause, which was
    /// as long as `pause`.
    pub(super) fn decide_on_watch(&mut self, pause: Option<Duration>) {
        let poller = &self.shared.poller;
        let left = poller.left();
        let times = left - std::mem::replace(&mut self.left, left);
        let often =
            |pause: Duration| u128::from(times) * RELIEF.as_nanos() > pause.as_nanos() * OFTEN;
        let often = pause.is_some_and(often);
        match (self.watches_poller, often) {
            (false, true) => poller.watch(),
            (true, false) => self.shared.end_watch(),
            _ => {}
        }
        self.watches_poller = often;
    }

    /// Sleeps for `pause`, with looks after the poller for as long as that is left now and then.
    fn watch_poller(&mut self, pause: Duration) {
        let end = Moment::now().saturating_add(pause);
        let (mut left, mut idle) = (self.shared.poller.left(), 0);
        while idle < IDLE && Moment::now() < end && !self.shared.is_stopping() {
            self.shared.watch.sleep(Some(RELIEF.min(pause)));
            let before = left;
            left = self.shared.look_after_poller(before);
            idle = if left == before { idle + 1 } else { 0 };
        }
        if idle == IDLE {
            self.decide_on_watch(None);
            self.shared.watch.sleep(Some(end.since(Moment::now())));
        }
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
        // Also when all are parked again: it rests once nothing has run for a while.
        let dispatched = self.shared.dispatched();
        let mut quiet = std::mem::replace(&mut self.dispatched, dispatched) == dispatched;
        for core in self.shared.cores.iter() {
            quiet &= self.look_at(core, now).is_none();
        }
        self.quiet = if quiet { self.quiet + 1 } else { 0 };
        self.shared.sites.look(now, self.period);
    }

    /// Returns how many dispatches it has found, or `None` at rest.
    fn look_at(&mut self, core: &Core, now: Moment) -> Option<u64> {
        if core.gate.is_stalled() {
            self.drain(core);
        }
        let dispatched = (!self.is_at_rest(core)).then(|| core.stats.dispatched.get());
        let fresh = Seen { dispatched, since: now, again: 0 };
        if self.seen.len() <= core.index {
            self.seen.resize(core.index + 1, Seen { dispatched: None, ..fresh });
        }
        self.seen[core.index].again += 1;
        let seen = self.seen[core.index];
        if dispatched.is_none() || seen.dispatched != dispatched {
            self.seen[core.index] = fresh;
        } else if seen.again >= LOOKS - 1
            && now.since(seen.since) >= self.period / LOOKS * (LOOKS - 1)
        {
            // Looks and time: a process that was stopped for a while, because it had used up its share
            // of the processors say, has lost time, and nobody in it has stalled.
            self.stalled(core, seen, now);
        } else if now > seen.since && !core.slot.is_empty() {
            self.free_slot(core, seen);
        }
        dispatched
    }

    /// The fiber that runs there does not stop: what it keeps waiting in the slot runs elsewhere.
    fn free_slot(&self, core: &Core, seen: Seen) {
        let taken = core.gate.visit(|| {
            (Some(core.stats.dispatched.get()) == seen.dispatched)
                .then(|| core.slot.take())
                .flatten()
        });
        if let Some(fiber) = taken.flatten() {
            core.was_robbed();
            self.shared.outside.slots_freed.add_shared(1);
            self.shared.push_to_injector(fiber);
        }
    }

    fn stalled(&mut self, core: &Core, seen: Seen, now: Moment) {
        let found = core.gate.visit(|| {
            let now = Some(core.stats.dispatched.get());
            let fiber = core.running().filter(|_| now == seen.dispatched)?;
            core.gate.mark_stalled();
            core.stalled_site.store(std::ptr::from_ref(fiber.site).cast_mut(), Ordering::Relaxed);
            Some((fiber.name().map(str::to_owned), fiber.site))
        });
        let Some((name, site)) = found.flatten() else { return };
        self.shared.outside.stalls.add_shared(1);
        self.shared.sites.stalled(site);
        // What follows may take its time, a thread that is reaped and the hook, and nobody looks after the poller
        // meanwhile.
        self.decide_on_watch(None);
        let replaced = self.shared.replace();
        self.drain(core);
        let stall = Stall {
            fiber: name,
            site,
            worker: core.index,
            for_at_least: now.since(seen.since),
            replaced,
        };
        report(self.shared, &stall);
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

/// Tells the hook, and `tracing` where the feature is on.
fn report(shared: &Shared, stall: &Stall) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        fiber = stall.fiber.as_deref().unwrap_or("<unnamed>"),
        site = %stall.site,
        worker = stall.worker,
        for_at_least = ?stall.for_at_least,
        replaced = stall.replaced,
        "a fiber keeps its thread; use volt::blocking around what blocks, or yield_now in long loops"
    );
    if let Some(hook) = &shared.config.on_stall {
        crate::fiber::forget_panics(|| hook(stall));
    }
}
