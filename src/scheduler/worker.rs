//! A worker: the thread side of a core, and the loop on its own stack.
//!
//! What runs here and not on a fiber's stack: search, the driver's turn, timers, slab growth, hooks,
//! and handing cores from thread to thread.

use super::config::Migrate;
use super::core::{Core, Own};
use super::heirs;
use super::shared::Shared;
use super::switch::Post;
use crate::context::{self, Context};
use crate::fiber::{self, Batch, FiberPtr, Seat, Seen};
use crate::primitives::abort_with;
use crate::primitives::clock::Moment;
use crate::primitives::os_thread::OsThread;
use crate::primitives::sync::atomic::Ordering;
use crate::stack::{AltStack, StackError};
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::time::Duration;

/// Between two looks of a driver that waits for a core: is what it drives for done?
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How long a thread without a core waits for one before it leaves.
const SPARE_AGE: Duration = Duration::from_secs(5);

/// The head of what the thread's seat points to, while the thread runs fibers.
#[repr(C)]
pub(crate) struct Worker<'a> {
    /// First, so that a seat is a worker.
    pub(super) seat: Seat,
    /// The core that it may use, or null: then it runs at most one fiber, in blocking mode, up to that
    /// fiber's next scheduling point.
    pub(super) core: Cell<*const Core>,
    /// The core, while the fiber here is in a call that keeps it; `core` is null then.
    pub(super) kept: Cell<*const Core>,
    pub(super) shared: &'a Shared,
    /// For the supervisor.
    pub(super) thread: OsThread,
    /// The worker's own flow, while a fiber runs.
    pub(super) context: UnsafeCell<Context>,
    /// What whoever runs next must do first.
    pub(super) post: Cell<Post>,
    /// A fiber that only the worker's own flow can run: there was no stack at hand for it, or its
    /// core must be handed on first. Admitted already.
    pub(super) next: Cell<Option<FiberPtr>>,
    pub(super) searching: Cell<bool>,
    /// What nobody will run, put aside until the worker leaves.
    pub(super) left: Cell<Batch>,
    /// Of a fiber of a suspect site that runs in blocking mode: its entry in `sites`.
    pub(super) run: Cell<Option<u64>>,
    /// No sleep is longer.
    pub(super) deadline: Moment,
    /// The worker helps the thread that drives a current-thread runtime.
    pub(super) helps: bool,
}

/// The thread as a worker's: its seat is taken, and given back in the end.
struct Seated {
    before: *const Seat,
    /// Where an overflow is reported. Without one it is a plain crash: no reason not to run.
    _alternate: Option<AltStack>,
}

impl Drop for Seated {
    fn drop(&mut self) {
        fiber::set_seat(self.before);
    }
}

/// While a worker's own flow runs. Nobody would catch what unwinds there, nor take what the worker has, its core and
/// the poller: the others would wait for that for ever, and without a word.
struct OwnFlow;

impl OwnFlow {
    fn ends(self) {
        std::mem::forget(self);
    }
}

impl Drop for OwnFlow {
    #[cold]
    fn drop(&mut self) {
        abort_with(
            "\nvolt: a panic, whose message was printed before, has unwound a worker of the runtime, which cannot go on without it\n\
             volt: that is a fault in volt, not in what fibers do: please report it\n",
        );
    }
}

/// Runs fibers on the calling thread, first with `core`, until the scheduler stops or no core was to
/// be had for a while.
pub(crate) fn run(shared: &Shared, core: usize) {
    let worker = Worker { helps: shared.is_driven, ..Worker::new(shared, Moment::NEVER) };
    let _seated = worker.sit();
    let own_flow = OwnFlow;
    let mut core = Some(core);
    while let Some(index) = core {
        worker.attach(index);
        worker.work(&|| false);
        if shared.is_stopping() {
            break;
        }
        worker.leave_blocks();
        core = shared.crew.wait_for_core(Moment::now().saturating_add(SPARE_AGE));
    }
    if worker.core().is_some() {
        // Nobody holds the core after this, and handles may keep it.
        worker.own().stacks.clear();
    }
    worker.detach();
    worker.abandon_left();
    own_flow.ends();
}

/// Runs the fibers of a current-thread runtime on the calling thread until `done` says so or the
/// scheduler stops. `done` is asked on the worker's own stack, between fibers, and once at
/// `deadline`.
pub(crate) fn run_here(shared: &Shared, deadline: Moment, done: &dyn Fn() -> bool) {
    drive(shared, deadline, done);
    heirs::lend();
}

fn drive(shared: &Shared, deadline: Moment, done: &dyn Fn() -> bool) {
    shared.drivers.fetch_add(1, Ordering::AcqRel);
    let worker = Worker::new(shared, deadline);
    let _seated = worker.sit();
    let own_flow = OwnFlow;
    // A helper that holds the core gives it up, unless fibers there cannot leave it.
    let claim = || match shared.config.migrate {
        Migrate::Anytime => {
            let look = Moment::now().saturating_add(LOOK_AGAIN).min(deadline);
            shared.crew.claim_core(1, look, || shared.notify())
        }
        Migrate::BeforeStart => shared.crew.take_kept(),
    };
    // A fiber may end without a core, which another thread has for as long as it likes: nobody tells of that.
    while !done() {
        let Some(core) = claim() else {
            match shared.is_stopping() || Moment::now() >= deadline {
                true => break,
                false => continue,
            }
        };
        worker.attach(core);
        worker.work(done);
        if !worker.core.get().is_null() {
            break;
        }
        worker.leave_blocks();
    }
    // The next run may begin with another core.
    worker.flush();
    shared.crew.close(worker.detach());
    worker.abandon_left();
    shared.drivers.fetch_sub(1, Ordering::AcqRel);
    own_flow.ends();
}

impl<'a> Worker<'a> {
    /// Of the calling thread.
    pub(super) fn new(shared: &'a Shared, deadline: Moment) -> Worker<'a> {
        Worker {
            seat: Seat::new(),
            core: Cell::new(ptr::null()),
            kept: Cell::new(ptr::null()),
            shared,
            thread: OsThread::current(),
            context: UnsafeCell::new(Context::thread()),
            post: Cell::new(Post::None),
            next: Cell::new(None),
            searching: Cell::new(false),
            left: Cell::new(Batch::new()),
            run: Cell::new(None),
            deadline,
            helps: false,
        }
    }

    /// Takes the thread's seat; the worker must not move from now on.
    fn sit(&self) -> impl Drop + use<> {
        let before = fiber::set_seat(&raw const self.seat);
        Seated { before, _alternate: AltStack::ensure().ok() }
    }
}

/// A fiber that a worker ends because there is no stack for it. Nobody looks at it.
struct Refused;

impl Seen for Refused {
    unsafe fn before_end(_: FiberPtr) {}

    /// Its error is dropped here then, and is told of: that may wait.
    unsafe fn not_yet(_: FiberPtr) {
        // SAFETY: called by `refuse`, on a worker.
        unsafe { &*Worker::current() }.vacate();
    }
}

impl Worker<'_> {
    /// The worker that the calling thread is, or null.
    ///
    /// Valid until the calling fiber's next switch.
    #[inline(always)]
    pub(super) fn current<'w>() -> *const Worker<'w> {
        fiber::seat().cast()
    }

    /// The core, if the worker holds one.
    #[inline(always)]
    pub(super) fn core(&self) -> Option<&Core> {
        // SAFETY: cores live as long as the scheduler, which the worker borrows.
        unsafe { self.core.get().as_ref() }
    }

    /// The core, where the worker is known to hold one.
    #[inline(always)]
    pub(super) fn held(&self) -> &Core {
        debug_assert!(!self.core.get().is_null(), "a worker without a core is asked for it");
        // SAFETY: as above; on the worker's own flow `work` runs with a core only, and the callers
        // on fibers' stacks have looked.
        unsafe { &*self.core.get() }
    }

    /// The owner's part of the core.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "see `Core::own`")]
    pub(super) fn own(&self) -> &mut Own {
        self.own_in(self.held())
    }

    /// The owner's part of `core`, which is this worker's: for whoever has looked that up already.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "see `Core::own`")]
    pub(super) fn own_in<'c>(&self, core: &'c Core) -> &'c mut Own {
        debug_assert!(ptr::eq(core, self.core.get()), "another worker's core");
        // SAFETY: this worker holds the core; callers use the reference within one expression or a
        // few lines without calls back into the worker.
        unsafe { core.own() }
    }

    /// Returns when `done` says so, when the scheduler stops, or without a core.
    fn work(&self, done: &dyn Fn() -> bool) {
        loop {
            if let Some(fiber) = self.next.take() {
                self.resume(fiber);
            } else if self.core.get().is_null() {
                return;
            } else if self.shared.is_stopping() {
                return self.stop_searching();
            } else if !self.keeps_core() {
                // Before `done`: who is done must not be stalled.
                return;
            } else if done() {
                return self.stop_searching();
            } else if let Some(fiber) = self.find() {
                if fiber.admit() {
                    self.resume(fiber);
                }
            } else if !self.stays_awake(done) {
                self.park(done);
            }
        }
    }

    /// Continues `fiber` from the worker's own stack, or starts it. It was admitted. A fresh one for
    /// which there is no stack ends, and its join gets the error.
    fn resume(&self, fiber: FiberPtr) {
        if self.shared.config.force_migrate && self.is_sent_on(fiber) {
            return;
        }
        // SAFETY: this worker took the fiber from a queue, so it holds it.
        let fresh = unsafe { fiber.stack() }.is_none();
        if fresh {
            match self.allocate_stack(fiber) {
                Ok(stack) => {
                    let gate = &self.held().gate;
                    gate.enter();
                    self.attach_stack(fiber, stack);
                    gate.exit();
                }
                Err(error) => return self.refuse(fiber, error),
            }
        }
        if self.shared.sites.is_suspect(fiber.site) && !self.is_vacated() {
            self.begin_blocking_run(fiber, fresh);
        }
        self.switch_to(fiber);
    }

    /// Ends a fresh fiber, for which there is no stack.
    #[cold]
    fn refuse(&self, fiber: FiberPtr, error: StackError) {
        // What its closure holds is dropped here, and may wait: that blocks the thread.
        if fiber::may_wait(fiber, &error) {
            self.vacate();
        }
        // Its turn: the supervisor sees that the worker gets on.
        self.count_dispatch();
        // SAFETY: admitted, so started; not run.
        let woken = unsafe { fiber::fail_as::<Refused>(fiber, Box::new(error)) };
        self.after_end(woken);
    }

    /// How many nanoseconds a fiber of this worker runs between two scheduling points, estimated.
    pub(super) fn run_time(&self) -> u64 {
        let average = self.own().tick.average();
        #[cfg(test)]
        let average = average * u64::from(!self.shared.all_are_short.load(Ordering::Relaxed));
        average
    }

    /// Sends a fiber that last ran here to another worker, if there is one; else it runs here. A vacated worker
    /// sends nobody: the fiber may be about to block this very thread.
    #[cold]
    pub(super) fn is_sent_on(&self, fiber: FiberPtr) -> bool {
        let Some(core) = self.core().filter(|core| !core.gate.is_stalled()) else { return false };
        let here = core.index as u32 + 1;
        if fiber.home.load(Ordering::Relaxed) == here {
            if let Some(other) = self.shared.pick_to_migrate(fiber) {
                self.shared.push_mail(other, fiber);
                return true;
            }
        } else if fiber.home.load(Ordering::Relaxed) != 0 {
            core.stats.migrated.add(1);
            fiber.home.store(here, Ordering::Relaxed);
        }
        false
    }

    fn count_dispatch(&self) {
        match self.core() {
            Some(core) => core.stats.dispatched.add(1),
            None => self.shared.outside.dispatched.add_shared(1),
        }
    }

    fn switch_to(&self, fiber: FiberPtr) {
        self.count_dispatch();
        self.set_running(Some(fiber));
        let word = self as *const Self as usize;
        // SAFETY: the fiber is held by this worker, its context was stored when it parked or was
        // attached; our own flow is stored in `context`, which stays in place.
        let word = unsafe {
            let to = fiber.context.with(|context| *context);
            context::switch(self.context.get(), to, word)
        };
        debug_assert_eq!(word, self as *const Self as usize, "a worker's flow changed its thread");
        self.end_blocking_run();
        self.spins_for_who_waits();
        self.run_post();
    }

    /// The turn of whoever ran is over, and `next` has the processor.
    #[inline(always)]
    pub(super) fn dispatches(&self, core: &Core, next: Option<FiberPtr>) {
        core.stats.dispatched.add(u64::from(next.is_some()));
        self.ends_turn(core);
        self.seat.set_current(next);
    }

    /// Counts what the fiber has done that leaves.
    #[inline(always)]
    fn ends_turn(&self, core: &Core) {
        core.stats.operations.add(self.seat.charged().into());
    }

    /// The same of one that goes on.
    pub(super) fn ends_leg(&self) {
        let charged = u64::from(self.seat.take_charged());
        match self.core() {
            Some(core) => core.stats.operations.add(charged),
            None => self.shared.outside.operations.add_shared(charged),
        }
    }

    /// Sets who runs here, for the fiber itself and for the supervisor.
    #[inline]
    pub(super) fn set_running(&self, fiber: Option<FiberPtr>) {
        match self.core() {
            Some(core) => {
                core.gate.enter();
                self.ends_turn(core);
                self.seat.set_current(fiber);
                core.gate.exit();
            }
            None => {
                self.shared.outside.operations.add_shared(self.seat.charged().into());
                self.seat.set_current(fiber);
            }
        }
    }
}
