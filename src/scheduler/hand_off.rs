//! How a core goes from thread to thread: blocking mode, stall and return, and the thread of a
//! current-thread runtime that wants its core back.
//!
//! A worker lets go of its core on its own flow: it empties LIFO slot and ring into the injector, and
//! `crew` says who goes on. The fiber for whose sake it does so then runs on this thread without a
//! core: what it spawns and wakes goes to the injector, its waits block the thread while it is pinned,
//! and at its next scheduling point the worker, having no core, waits for one.
//!
//! Under [`Migrate::BeforeStart`] the core stays, because of the fibers that belong to its thread; the
//! worker counts as stalled instead, and its replacement gets another core.

use super::brief::CallSite;
use super::config::Migrate;
use super::core::Core;
use super::crew::Next;
use super::heirs;
use super::shared::Shared;
use super::sites::Site;
use super::switch::Post;
use super::worker::Worker;
use crate::fiber::{self, Batch, FiberPtr};
use crate::primitives::clock::{Moment, stamp};
use crate::primitives::sync::atomic::Ordering;
use crate::primitives::sync::full_fence;
use std::ptr;
use std::time::Duration;

impl Shared {
    /// Puts another worker in the place of one that has stalled. False if there can be none.
    pub(super) fn replace(&self) -> bool {
        match self.crew.stall(|| self.add_core()) {
            Some(Next::Taken) => true,
            Some(Next::Start(core)) => self.start_thread(core),
            None => false,
        }
    }

    /// Nobody comes to hold `core`, which the caller has let go of, or which was on its way.
    ///
    /// # Safety
    ///
    /// It is where the caller is: nobody holds it, and by crew's first invariant nobody will before this.
    pub(crate) unsafe fn put_down(&self, core: usize) {
        // SAFETY: passed on.
        unsafe { self.leave_stacks(self.cores.get(core)) };
        self.crew.put_down(core);
        if self.crew.is_short() {
            // The supervisor may sleep until something runs.
            self.watch.wake();
        }
    }

    /// Starts threads for cores that are free though they should run. Those who wait for nothing else may be queued, or
    /// wait for a socket or a timer, or be spawned yet.
    pub(super) fn start_missing(&self) {
        while self.live() > 0 {
            let Some(core) = self.crew.take() else { return };
            if !self.start_thread(core) {
                return;
            }
        }
    }

    /// # Safety
    ///
    /// The caller holds `core`, or it is on its way and the caller is where it is.
    unsafe fn leave_stacks(&self, core: &Core) {
        // SAFETY: passed on.
        let stacks = unsafe { &mut core.own().stacks };
        stacks.clear();
        let due = core.trim_due.load(Ordering::Relaxed);
        match stacks.has_news() | core.leave_duty(due) {
            true => self.duty_is_left(),
            false => self.notify(),
        }
    }

    /// A core for a fiber of `site` that has blocked, if there is one. One that is on its way to another thread it has
    /// only if nobody would miss it: nothing is queued, and somebody sits in the poller, since a fiber that blocks
    /// again and again would keep the core from both.
    pub(super) fn core_again(&self, site: Site) -> Option<usize> {
        let is_missed = || {
            self.is_any_queued()
                || self.poller.taken_by().is_none()
                || self.sites.is_suspect(site)
                || self.config.force_migrate
        };
        let take_back = || if is_missed() { None } else { self.crew.take_back() };
        self.crew.take().or_else(take_back)
    }

    /// Idle memory that somebody had in mind is for the next worker that goes to sleep, and one is woken.
    pub(super) fn duty_is_left(&self) {
        self.stacks_left.store(true, Ordering::Release);
        self.notify();
    }

    /// Is there idle memory that no worker may have in mind yet? The next one that goes to sleep has.
    pub(super) fn is_memory_left(&self) -> bool {
        self.stacks_left.load(Ordering::Relaxed)
            || heirs::is_anything_left()
            || fiber::is_any_news()
    }
}

/// Of a longer period of the supervisor's a quarter is too long for those who wait behind a call.
const LONGEST_PERIOD: Duration = Duration::from_millis(100);

impl Shared {
    /// Is a call of `blocking` at `site` so brief that others may wait for it? Only where a supervisor will look soon
    /// whether it is; and not where there is a thread alone, or every resume is to move the fiber.
    fn keeps_core_at(&self, site: CallSite) -> bool {
        self.brief_calls.expected(site)
            && self.config.stall_period.is_some_and(|period| period <= LONGEST_PERIOD)
            && self.config.learn_blocking
            && !self.is_driven
            && !self.config.force_migrate
            && self.poller.seems_watched()
    }

    /// A call of `blocking` at `site` took so long.
    pub(crate) fn blocked_for(&self, site: CallSite, time: Duration) {
        self.brief_calls.took(site, time);
    }
}

impl Worker<'_> {
    /// What the fiber does in there it does as one without a core: what it spawns and wakes goes where others find it.
    /// So does whoever was to run next.
    fn set_core_aside(&self, site: CallSite) {
        let core = self.held();
        core.gate.enter();
        let next = core.slot.take();
        core.gate.exit();
        next.into_iter().for_each(|fiber| self.push_back(fiber));
        core.stats.brief_calls.add(1);
        core.call.begin(site, Moment::now());
        self.kept.set(self.core.replace(ptr::null()));
    }

    /// Uses its core again, if that was set aside.
    fn take_up_core(&self) -> bool {
        let kept = self.kept.replace(ptr::null());
        if kept.is_null() {
            return false;
        }
        self.core.set(kept);
        self.held().call.end();
        true
    }

    /// Holds core `index`, which `crew` gave it.
    pub(super) fn attach(&self, index: usize) {
        let core = self.shared.cores.get(index);
        core.parker.set_thread();
        self.core.set(core);
        core.thread.store(self.thread.0, Ordering::Relaxed);
        core.attached.fetch_add(1, Ordering::Relaxed);
        core.set_seat(&raw const self.seat);
        let now = Moment::now();
        self.own().tick.begin_elsewhere(now, stamp());
        // Another thread counts otherwise.
        self.own().spins.forget();
        self.own().socket_vigils.forget();
        self.shared.watch.notice(now);
    }

    /// Holds no core any more; the caller hands it on.
    pub(super) fn detach(&self) -> Option<usize> {
        let core = self.core()?;
        core.set_seat(ptr::null());
        self.core.set(ptr::null());
        // Whoever puts something there from now on finds it closed, or is seen here.
        full_fence();
        self.shared.forward_mail(core);
        Some(core.index)
    }

    /// What stands in the worker's own queues goes where others find it.
    pub(super) fn flush(&self) {
        let Some(core) = self.core() else { return };
        let mut batch = Batch::new();
        core.gate.enter();
        batch.extend(core.slot.take());
        core.gate.exit();
        while let Some(fiber) = core.ring.pop() {
            batch.push(fiber);
        }
        core.was_robbed();
        self.shared.push_all_to_injector(batch);
    }

    /// The fiber that runs next on this thread blocks it: somebody else takes the worker's place.
    /// Nothing is left to do if the supervisor has replaced it in that very moment.
    pub(super) fn vacate(&self) {
        if self.is_vacated() {
            return;
        }
        self.stop_searching();
        self.flush();
        let core = self.held();
        core.stats.hand_offs.add(1);
        if self.shared.config.migrate == Migrate::BeforeStart {
            core.gate.mark_stalled();
            // As in `detach`: of what was put into the mailbox, fibers that have not started may go.
            full_fence();
            self.shared.forward_mail(core);
            self.shared.replace();
            self.shared.notify();
        } else {
            self.pass_on();
        }
    }

    fn pass_on(&self) {
        let Some(index) = self.detach() else { return };
        match self.shared.crew.hand_off(index) {
            Some(Next::Taken) => {}
            Some(Next::Start(core)) => drop(self.shared.start_thread(core)),
            // SAFETY: detached, and crew has given it to nobody.
            None => unsafe { self.shared.put_down(index) },
        }
    }

    /// Sees to it that the worker may go on running fibers; false if it has let go of its core.
    pub(super) fn keeps_core(&self) -> bool {
        (!self.held().gate.is_stalled() || self.come_back())
            && (!self.is_one_too_many() || !self.give_up_core())
    }

    /// Is another thread to have this core, or nobody?
    pub(super) fn is_one_too_many(&self) -> bool {
        self.shared.crew.is_crowded() && !self.is_home()
    }

    /// Are there, or may there be, fibers that cannot run on another core than this?
    fn is_home(&self) -> bool {
        self.own().homed > 0 || self.shared.crew.is_kept(self.held().index)
    }

    fn give_up_core(&self) -> bool {
        self.empty_core();
        let Some(index) = self.detach() else { return true };
        let given = self.shared.crew.give_up(index);
        if !given {
            self.attach(index);
        }
        given
    }

    /// The worker has stalled and is back: it rejoins if there is room, and retires otherwise.
    fn come_back(&self) -> bool {
        let core = self.held();
        let site = core.stalled_site.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: null, or the address of a `&'static Location`.
        if let Some(site) = unsafe { site.as_ref() } {
            self.shared.sites.returned(site);
        }
        core.gate.clear_stalled();
        // What it had in mind may be another's by now, but for what is kept here.
        self.own().stacks.begin_anew();
        let now = Moment::now();
        self.own().tick.begin_elsewhere(now, stamp());
        self.shared.watch.notice(now);
        let rejoins = self.shared.crew.rejoin(self.is_home());
        if rejoins {
            core.stats.rejoined.add(1);
            if self.shared.crew.is_crowded() {
                // Whoever comes sees that it is one too many.
                self.shared.notify();
            }
        } else {
            core.stats.retired.add(1);
            self.empty_core();
            self.detach().into_iter().for_each(|index| self.shared.crew.retire(index));
        }
        rejoins
    }

    /// Leaves nothing in the core that would wait for its next holder. Another worker is woken
    /// whatever there was, unless one searches: if this one was to go to the poller, somebody else must.
    fn empty_core(&self) {
        self.stop_searching();
        self.flush();
        self.leave_stacks();
    }

    /// The idle stacks of a core that nobody may hold after this worker, and its duty to give memory back:
    /// the next worker that goes to sleep has it, and one is woken for that.
    pub(super) fn leave_stacks(&self) {
        // SAFETY: this worker holds it.
        unsafe { self.shared.leave_stacks(self.held()) };
    }

    /// A thread whose place another has taken goes to sleep, without a worker's duties: if there are blocks that
    /// nobody has in mind, such as those of fibers that were joined here in blocking mode, a worker looks after
    /// them.
    pub(super) fn leave_blocks(&self) {
        if fiber::is_any_news() {
            self.shared.notify();
        }
    }

    /// A fiber of a suspect site runs next: in blocking mode, or as any other where as many are as may.
    pub(super) fn begin_blocking_run(&self, fiber: FiberPtr, fresh: bool) {
        let run = self.shared.sites.begin(fiber.site, fresh, self.thread, Moment::now());
        if run.is_some() {
            self.run.set(run);
            self.vacate();
        }
    }

    /// It has come to a scheduling point, if there was one.
    #[inline]
    pub(super) fn end_blocking_run(&self) {
        if let Some(run) = self.run.take() {
            self.shared.sites.end(run);
        }
    }

    /// Is the worker's place taken by another, so that the fiber on this thread may block it?
    #[inline]
    pub(super) fn is_vacated(&self) -> bool {
        self.core().is_none_or(|core| core.gate.is_stalled())
    }
}

/// The calling fiber is about to block its thread: another thread takes over the core.
///
/// # Safety
///
/// Called by the fiber itself, on a worker.
#[cold]
pub(crate) unsafe fn hand_off(fiber: FiberPtr) {
    // SAFETY: a fiber runs on a worker only; valid until the next switch.
    let worker = unsafe { &*Worker::current() };
    worker.take_up_core();
    match worker.is_vacated() {
        true => worker.leave_blocks(),
        false => worker.leave_to_own_flow(fiber, Post::HandOff(fiber)),
    }
}

/// Does the worker of the calling fiber have its core still, set aside or in use?
///
/// # Safety
///
/// As [`hand_off`].
pub(crate) unsafe fn holds_core() -> bool {
    // SAFETY: as above.
    let worker = unsafe { &*Worker::current() };
    !worker.kept.get().is_null() || !worker.is_vacated()
}

/// The calling fiber is about to call what may block its thread, at `site`. True if that is expected to be brief: then
/// the core is set aside meanwhile, to be handed on if the fiber waits in there, or to be taken from it by the
/// supervisor.
///
/// # Safety
///
/// Called by the fiber itself, on a worker; [`end_call`] follows if this is true, and no switch comes between but by
/// way of [`hand_off`].
pub(crate) unsafe fn keep_core(site: CallSite) -> bool {
    // SAFETY: as above.
    let worker = unsafe { &*Worker::current() };
    let keeps = !worker.is_vacated() && worker.shared.keeps_core_at(site);
    if keeps {
        worker.set_core_aside(site);
    }
    keeps
}

/// The call is over. False if somebody else has the core's place by now.
///
/// # Safety
///
/// As [`hand_off`].
pub(crate) unsafe fn end_call() -> bool {
    // SAFETY: as above.
    let worker = unsafe { &*Worker::current() };
    worker.take_up_core() && !worker.is_vacated()
}

/// The calling fiber blocks its thread no longer: it goes on with a core, here if one is free, or if nobody would miss
/// one whose new thread has not come yet, and through the injector otherwise. So does one whose worker has been
/// replaced and has its core still: the worker sees to itself first. Where fibers cannot leave their thread it goes on
/// up to its next scheduling point, as after a stall.
///
/// # Safety
///
/// As [`hand_off`]; and the fiber may leave its thread.
#[cold]
pub(crate) unsafe fn regain_core(fiber: FiberPtr) {
    // SAFETY: as above.
    let worker = unsafe { &*Worker::current() };
    let has_core = worker.core().is_some();
    if !worker.is_vacated() || has_core && worker.shared.config.migrate == Migrate::BeforeStart {
        return;
    }
    let core = if has_core { None } else { worker.shared.core_again(fiber.site) };
    match core {
        Some(core) => {
            worker.end_blocking_run();
            worker.attach(core);
            worker.set_running(Some(fiber));
        }
        None => worker.leave_to_own_flow(fiber, Post::Yield(fiber)),
    }
}
