//! What a worker owns: its queues, its bed, its counters, its stacks.

use super::bed::Slept;
use super::brief::Call;
use super::deadlock::Looks;
use super::follow_up::FollowUps;
use super::gate::Gate;
use super::hold_off::Patience;
use super::invite::Invites;
use super::lifo_run::LifoRun;
use super::lock_spin::LockSpins;
use super::locked_queue::LockedQueue;
use super::parker::Parker;
use super::ring::Ring;
use super::share::Sharing;
use super::slot::LifoSlot;
use super::socket_vigil::SocketVigils;
use super::spin::Spins;
use super::stats::Stats;
use super::tick::Tick;
use super::vigil::Vigil;
use super::worth::Steals;
use crate::fiber::{FiberPtr, Seat};
use crate::primitives::clock::Moment;
use crate::primitives::sync::UnsafeCell;
use crate::primitives::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::stack::{Cache, Sampler, StackSize};
use crate::util::rng::Rng;
use crossbeam_utils::CachePadded;
use std::panic::Location;
use std::ptr;

/// One worker's share of the scheduler. Others reach only what is marked so.
///
/// Held by one worker at a time, or by nobody; `crew` says by whom.
// Aligned for the bits that `near.rs` keeps beside its address, also where `CachePadded` asks for less.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Core {
    pub(super) index: usize,
    /// Thieves take from it.
    pub(super) ring: Ring,
    /// The supervisor and thieves take from it, inside the gate.
    pub(super) slot: LifoSlot,
    pub(super) gate: Gate,
    /// The seat of the worker that holds the core, or null. Read inside the gate; while the gate is
    /// free, the fiber that it names is alive.
    seat: AtomicPtr<Seat>,
    /// Anyone puts fibers here that this worker and no other should run, or should run first.
    pub(super) mailbox: LockedQueue,
    /// Anyone unparks it.
    pub(super) parker: Parker,
    /// Anyone reads it.
    pub(super) stats: CachePadded<Stats>,
    /// When the worker's idle stacks should give their memory back, in nanoseconds. Written by the
    /// worker before it sleeps and now and then, read by the one in the poller, which wakes it then.
    pub(super) trim_due: AtomicU64,
    /// How long a fiber runs here between two scheduling points, in nanoseconds, as the worker
    /// estimated it last: for thieves.
    pub(super) pace: AtomicU64,
    /// The thread of the worker that has taken the core last, as `OsThread`.
    pub(super) thread: AtomicU32,
    /// How often a worker has taken the core.
    pub(super) attached: AtomicU64,
    /// How often fibers were taken from here to other queues.
    pub(super) robbed: AtomicU32,
    /// The spawn site of the fiber that has stalled the worker by blocking its thread. Written by the supervisor
    /// before the worker sees that it is stalled.
    pub(super) stalled_site: AtomicPtr<Location<'static>>,
    /// The call of `blocking` in which the fiber here keeps the core, if it does. A hint for the supervisor.
    pub(super) call: Call,
    own: UnsafeCell<Own>,
}

/// What only the worker itself touches.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) tick: Tick,
    pub(super) rng: Rng,
    pub(super) stacks: Cache,
    pub(super) sampler: Sampler,
    /// When it looks after idle memory again, if it does not sleep before.
    pub(super) trim_turn: Moment,
    pub(super) slept: Slept,
    /// Dispatches when it last went to sleep, and its looks for a deadlock since.
    pub(super) rest: (u64, Looks),
    pub(super) lifo_run: LifoRun,
    /// The ring's mark behind those who were brought there last from elsewhere: from the driver, from the injector or
    /// by a steal.
    pub(super) brought: u32,
    /// Whose turn it was when mailbox and injector were due.
    pub(super) mail_first: bool,
    /// Fibers that have started here, have not ended, and may not move.
    pub(super) homed: usize,
    pub(super) patience: Patience,
    pub(super) steals: Steals,
    pub(super) sharing: Sharing,
    pub(super) vigil: Vigil,
    pub(super) follow_ups: FollowUps,
    pub(super) socket_vigils: SocketVigils,
    pub(super) spins: Spins,
    pub(super) lock_spins: LockSpins,
    pub(super) invites: Invites,
}

// SAFETY: `own` is reached through `Core::own` only, by whoever has the core (`crew` says who).
unsafe impl Sync for Core {}
// SAFETY: as above; the seat is a pointer that is followed inside the gate.
unsafe impl Send for Core {}

impl Core {
    pub(super) fn new(index: usize, seed: u64, size: StackSize, tick: Tick) -> Core {
        Core {
            index,
            ring: Ring::new(),
            slot: LifoSlot::new(),
            gate: Gate::new(),
            seat: AtomicPtr::new(ptr::null_mut()),
            mailbox: LockedQueue::new(),
            parker: Parker::new(),
            stats: CachePadded::new(Stats::default()),
            pace: AtomicU64::new(tick.average()),
            robbed: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            attached: AtomicU64::new(0),
            trim_due: AtomicU64::new(Moment::NEVER.as_nanos()),
            stalled_site: AtomicPtr::new(ptr::null_mut()),
            call: Call::default(),
            own: UnsafeCell::new(Own {
                tick,
                rng: Rng::new(seed, index as u64),
                stacks: Cache::new(size),
                sampler: Sampler::default(),
                trim_turn: Moment::from_nanos(0),
                slept: Slept::NEVER,
                rest: (0, Looks::NONE),
                lifo_run: LifoRun::default(),
                brought: 0,
                mail_first: false,
                homed: 0,
                patience: Patience::new(),
                steals: Steals::new(),
                sharing: Sharing::new(),
                vigil: Vigil::default(),
                follow_ups: FollowUps::default(),
                socket_vigils: SocketVigils::new(),
                spins: Spins::default(),
                lock_spins: LockSpins::default(),
                invites: Invites::new(),
            }),
        }
    }

    /// Changes whenever its worker goes on to another fiber, or another thread takes it.
    pub(super) fn moves(&self) -> u64 {
        self.stats.dispatched.get() + self.attached.load(Ordering::Relaxed)
    }

    /// Fibers that were put here may stand elsewhere now (`near.rs`).
    pub(super) fn was_robbed(&self) {
        self.robbed.fetch_add(1, Ordering::Relaxed);
    }

    /// When the worker's idle stacks should give their memory back.
    pub(super) fn trim_due(&self) -> Moment {
        Moment::from_nanos(self.trim_due.load(Ordering::Relaxed))
    }

    /// Takes from the worker what it has in mind for `due`; false if that is nothing, or not that any more.
    #[must_use]
    pub(super) fn leave_duty(&self, due: u64) -> bool {
        let never = Moment::NEVER.as_nanos();
        let relaxed = Ordering::Relaxed;
        due != never && self.trim_due.compare_exchange(due, never, relaxed, relaxed).is_ok()
    }

    /// The worker's own part.
    ///
    /// # Safety
    ///
    /// Called by the worker that holds this core, or by whoever puts it down; and no other reference from here is in
    /// use: it is taken for a few instructions, never over a switch or a call to another file.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "one worker, one reference at a time, as promised")]
    pub(super) unsafe fn own(&self) -> &mut Own {
        // SAFETY: passed on.
        self.own.with_mut(|own| unsafe { &mut *own })
    }

    /// Owner: the worker of `seat` holds the core from now on; null for nobody.
    pub(super) fn set_seat(&self, seat: *const Seat) {
        self.gate.enter();
        self.seat.store(seat.cast_mut(), Ordering::Relaxed);
        self.gate.exit();
    }

    /// Inside the gate: the fiber that runs on this core.
    pub(super) fn running(&self) -> Option<FiberPtr> {
        let seat = self.seat.load(Ordering::Relaxed);
        // SAFETY: the holder clears the place, inside the gate, before its seat goes.
        unsafe { seat.as_ref() }.and_then(Seat::current)
    }

    /// Does a worker hold the core? A hint.
    pub(super) fn is_held(&self) -> bool {
        !self.seat.load(Ordering::Relaxed).is_null()
    }
}
