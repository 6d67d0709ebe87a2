//! Who holds which core: the threads of a runtime, those that wait for a core, and the cores that
//! wait for a thread.
//!
//! A worker that is about to block hands its core to a spare thread, or to a new one. A worker that
//! stalls keeps its core, and a replacement gets another. Either way the number of *running* cores
//! (held by a worker that is neither blocked nor stalled) does not exceed the number of workers that
//! the runtime was built with, but for [`rejoin`](Crew::rejoin) with fibers that cannot move.
//!
//! # Invariants
//!
//! 1. A core is held by one worker, or stands in `free`, or is on its way in a spare's orders or a
//!    thread that starts: never two of these.
//! 2. `running` counts the cores that are held or on their way, less those marked stalled.
//! 3. A spare that waits stands in `spares` or `claims` exactly while it has no orders. To follow them it takes them,
//!    and until then they may be [taken back](Crew::take_back).
//!
//! All of it under one lock, but for the wake of a thread that most of these steps cost.

use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::primitives::sync::{Arc, Condvar, Mutex};
use crate::util::few::Few;
use std::mem;

/// The core that is kept for the thread of a current-thread runtime, where one is.
pub(super) const KEPT: usize = 0;

/// See the module.
#[derive(Debug)]
pub(super) struct Crew {
    inner: Mutex<Inner>,
    /// The core that is nobody's but the thread's that runs a current-thread runtime, where fibers
    /// cannot leave it. It never stands in `free`.
    kept: Option<usize>,
    /// Copies of what is in `inner`, for a look without the lock. Cores that run, and how many may, are a
    /// [`pair`]: who reads the old of one and the new of the other would see a state that never was.
    running: AtomicU64,
    claims: AtomicUsize,
}

#[derive(Debug)]
struct Inner {
    /// Cores that run.
    running: usize,
    /// Cores that may run: the workers of the runtime; 0 while a current-thread runtime is not run.
    target: usize,
    /// Cores that nobody holds: the next to be held last. Before those that were put down, and emptied for that,
    /// comes the one with which a run of a current-thread runtime has ended, as it is.
    free: Vec<usize>,
    /// Threads that wait for a core, newest last.
    spares: Vec<Arc<Spare>>,
    /// The thread of a current-thread runtime that wants its core back.
    claims: Vec<Arc<Spare>>,
    /// Of those spares that have got a core, the ones that may not have seen it yet, newest last.
    coming: Vec<Arc<Spare>>,
    /// Those that have just got their orders, to be woken when the lock is free: a wake is a system call, and who
    /// is woken may take the caller's processor.
    told: Few<Arc<Spare>>,
    stopping: bool,
}

/// A thread without a core.
#[derive(Debug, Default)]
struct Spare {
    orders: Mutex<Option<Orders>>,
    told: Condvar,
}

#[derive(Clone, Copy, Debug)]
enum Orders {
    Run(usize),
    Leave,
}

/// Who runs a core that lost its worker, or that of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Next {
    /// A spare thread took the core.
    Taken,
    /// The caller starts a thread for it; if that fails, [`Crew::put_down`].
    Start(usize),
}

impl Spare {
    /// Waits for orders, and takes them; `None` at `deadline`.
    fn wait(&self, deadline: Moment) -> Option<Orders> {
        let mut orders = self.orders.lock();
        while orders.is_none() {
            if deadline == Moment::NEVER {
                self.told.wait(&mut orders);
                continue;
            }
            let left = deadline.since(Moment::now());
            if left.is_zero() {
                return None;
            }
            self.told.wait_for(&mut orders, left);
        }
        orders.take()
    }

    fn has_orders(&self) -> bool {
        self.orders.lock().is_some()
    }
}

/// Cores that run, and how many may.
fn pair(running: usize, target: usize) -> u64 {
    (running as u64) << 32 | target as u64
}

impl Crew {
    /// Cores `0..held` are about to be held, the others up to `cores` are free, but for `kept`.
    pub(super) fn new(held: usize, cores: usize, kept: Option<usize>) -> Crew {
        Crew {
            kept,
            inner: Mutex::new(Inner {
                running: held,
                target: held,
                free: (held..cores).rev().filter(|core| Some(*core) != kept).collect(),
                spares: Vec::new(),
                claims: Vec::new(),
                coming: Vec::new(),
                told: Few::new(),
                stopping: false,
            }),
            running: AtomicU64::new(pair(held, held)),
            claims: AtomicUsize::new(0),
        }
    }

    /// Every change ends with no core, no thread and no permission left waiting for each other.
    fn change<R>(&self, step: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.inner.lock();
        let result = step(&mut inner);
        inner.settle();
        self.running.store(pair(inner.running, inner.target), Ordering::Relaxed);
        self.claims.store(inner.claims.len(), Ordering::Relaxed);
        let told = mem::take(&mut inner.told);
        drop(inner);
        told.each(|spare| _ = spare.told.notify_one());
        result
    }

    /// Nothing changes while the result lives.
    pub(super) fn hold(&self) -> impl Sized + '_ {
        self.inner.lock()
    }

    /// Cores that run, of those that may.
    pub(super) fn running(&self) -> (usize, usize) {
        let pair = self.running.load(Ordering::Relaxed);
        ((pair >> 32) as usize, pair as u32 as usize)
    }

    /// Should some worker give up its core? A hint, for [`give_up`](Self::give_up).
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        let (running, target) = self.running();
        running > target || self.claims.load(Ordering::Relaxed) != 0
    }

    /// May more cores run than do? A hint, for [`take`](Self::take).
    pub(super) fn is_short(&self) -> bool {
        let (running, target) = self.running();
        running < target
    }

    /// The holder of `core` is about to block and lets go of it; `None` if nobody may run it, so that the
    /// caller empties it and [puts it down](Self::put_down).
    pub(super) fn hand_off(&self, core: usize) -> Option<Next> {
        self.change(|inner| {
            let may_run = !inner.stopping && inner.running <= inner.target;
            may_run.then(|| inner.assign(core))
        })
    }

    /// Nobody holds `core`, which was on its way.
    pub(super) fn put_down(&self, core: usize) {
        self.change(|inner| inner.put_down(core));
    }

    /// A core for a worker that has none, if one more may run.
    pub(super) fn take(&self) -> Option<usize> {
        self.change(Inner::take)
    }

    /// A core for a worker that has none: one that is on its way to a spare thread which has not woken for it yet,
    /// and waits on.
    pub(super) fn take_back(&self) -> Option<usize> {
        self.change(Inner::take_back)
    }

    /// Lists a spare that never comes.
    #[cfg(test)]
    pub(super) fn list_sleeper(&self) {
        self.change(|inner| _ = inner.wait(|inner| &mut inner.spares));
    }

    /// The holder of a core has stalled; it keeps the core. Says who replaces it, if anybody may; `add`
    /// makes a core.
    pub(super) fn stall(&self, add: impl FnOnce() -> Option<usize>) -> Option<Next> {
        self.change(|inner| {
            inner.running -= 1;
            if inner.stopping || inner.running >= inner.target {
                return None;
            }
            let core = inner.free.pop().or_else(add)?;
            inner.running += 1;
            Some(inner.assign(core))
        })
    }

    /// A worker that had stalled is back. False: it was replaced, and should let go of its core by
    /// [`retire`](Self::retire). `stays` says that it cannot.
    #[must_use]
    pub(super) fn rejoin(&self, stays: bool) -> bool {
        self.change(|inner| {
            let joins = stays || inner.running < inner.target;
            inner.running += usize::from(joins);
            joins
        })
    }

    /// The core of a worker that could not rejoin, empty now, is free.
    pub(super) fn retire(&self, core: usize) {
        self.change(|inner| inner.free.insert(0, core));
    }

    /// The holder of `core` gives it up if it is one too many, or if somebody claims one. The core is
    /// not the caller's any more if this is true.
    #[must_use]
    pub(super) fn give_up(&self, core: usize) -> bool {
        self.change(|inner| {
            if let Some(claimer) = inner.claims.pop() {
                inner.tell(claimer, Orders::Run(core));
                return true;
            }
            let crowded = inner.running > inner.target;
            if crowded {
                inner.put_down(core);
            }
            crowded
        })
    }

    /// Waits for a core; `None` if the runtime stops, or at `deadline`. One that is on its way to a spare which has not
    /// woken for it yet is taken at once: this thread is awake, and what is queued waits for the core.
    pub(super) fn wait_for_core(&self, deadline: Moment) -> Option<usize> {
        self.wait_in(|inner| &mut inner.spares, None, deadline, || ())
    }

    /// As `wait_for_core`, before all others: workers that see [`is_crowded`](Self::is_crowded) give
    /// up theirs. `ask` wakes one that sleeps. From now on `target` cores may run.
    pub(super) fn claim_core(
        &self,
        target: usize,
        deadline: Moment,
        ask: impl FnOnce(),
    ) -> Option<usize> {
        self.wait_in(|inner| &mut inner.claims, Some(target), deadline, ask)
    }

    /// Is `core` kept for the thread of a current-thread runtime?
    pub(super) fn is_kept(&self, core: usize) -> bool {
        self.kept == Some(core)
    }

    /// Is a core kept, and `core` another one?
    pub(super) fn is_helper(&self, core: usize) -> bool {
        self.kept.is_some_and(|kept| kept != core)
    }

    /// As `claim_core` with a target of 1, where a core is kept: there is nothing to wait for.
    pub(super) fn take_kept(&self) -> Option<usize> {
        self.change(|inner| {
            let kept = self.kept.filter(|_| !inner.stopping)?;
            inner.target = 1;
            inner.running += 1;
            Some(kept)
        })
    }

    fn wait_in(
        &self,
        list: List,
        target: Option<usize>,
        deadline: Moment,
        ask: impl FnOnce(),
    ) -> Option<usize> {
        let mine = self.change(|inner| {
            let claims = target.is_some();
            inner.target = target.unwrap_or(inner.target);
            let core = inner.take().or_else(|| if claims { None } else { inner.take_back() });
            core.ok_or_else(|| inner.wait(list))
        });
        match mine {
            Ok(core) => Some(core),
            Err(mine) => {
                ask();
                self.await_orders(mine?, list, deadline)
            }
        }
    }

    fn await_orders(&self, mine: Arc<Spare>, list: List, deadline: Moment) -> Option<usize> {
        loop {
            match mine.wait(deadline) {
                Some(Orders::Run(core)) => return Some(core),
                Some(Orders::Leave) => return None,
                None => {}
            }
            // Still listed; or told in this very moment, if that was not taken back by now.
            let listed = self.change(|inner| {
                let list = list(inner);
                let before = list.len();
                list.retain(|spare| !Arc::ptr_eq(spare, &mine));
                list.len() < before
            });
            if listed {
                return None;
            }
        }
    }

    /// A current-thread runtime ceases to be run; its thread lets go of `core` if it has one.
    pub(super) fn close(&self, core: Option<usize>) {
        self.change(|inner| {
            inner.target = 0;
            match core {
                Some(core) if self.is_kept(core) => inner.running -= 1,
                Some(core) => {
                    inner.running -= 1;
                    inner.free.push(core);
                }
                None => {}
            }
        });
    }

    /// No thread gets a core any more, and those that wait for one leave.
    pub(super) fn stop(&self) {
        self.change(|inner| {
            inner.stopping = true;
            let waiting =
                mem::take(&mut inner.spares).into_iter().chain(mem::take(&mut inner.claims));
            waiting.for_each(|spare| inner.tell(spare, Orders::Leave));
        });
    }
}

/// One of the two lists of waiting threads.
type List = fn(&mut Inner) -> &mut Vec<Arc<Spare>>;

impl Inner {
    /// Free cores that may run go to threads that wait, claims first.
    fn settle(&mut self) {
        while !(self.claims.is_empty() && self.spares.is_empty()) {
            let Some(core) = self.take() else { return };
            // Somebody waits.
            let _ = self.assign(core);
        }
    }

    /// Gives `core`, which counts as running, to a spare thread.
    fn assign(&mut self, core: usize) -> Next {
        // A claim comes first.
        if let Some(claimer) = self.claims.pop() {
            self.tell(claimer, Orders::Run(core));
        } else if let Some(spare) = self.spares.pop() {
            self.coming.retain(|spare| spare.has_orders());
            self.coming.push(Arc::clone(&spare));
            self.tell(spare, Orders::Run(core));
        } else {
            return Next::Start(core);
        }
        Next::Taken
    }

    fn tell(&mut self, spare: Arc<Spare>, orders: Orders) {
        *spare.orders.lock() = Some(orders);
        self.told.add(Some(spare));
    }

    fn put_down(&mut self, core: usize) {
        self.running -= 1;
        self.free.insert(0, core);
    }

    fn take(&mut self) -> Option<usize> {
        if self.stopping || self.running >= self.target {
            return None;
        }
        let core = self.free.pop()?;
        self.running += 1;
        Some(core)
    }

    /// A core that is on its way to a spare which has not woken for it yet, and waits on.
    fn take_back(&mut self) -> Option<usize> {
        if self.stopping {
            return None;
        }
        while let Some(spare) = self.coming.pop() {
            let orders = spare.orders.lock().take();
            if let Some(Orders::Run(core)) = orders {
                self.spares.push(spare);
                return Some(core);
            }
        }
        None
    }

    /// Lists the calling thread; `None` if the runtime stops.
    fn wait(&mut self, list: List) -> Option<Arc<Spare>> {
        if self.stopping {
            return None;
        }
        let mine = Arc::<Spare>::default();
        list(self).push(Arc::clone(&mine));
        Some(mine)
    }
}

#[cfg(all(test, loom))]
#[path = "crew_models.rs"]
mod models;
