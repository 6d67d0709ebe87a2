//! Taking work from other workers: half of a ring; and what stands in the LIFO slot behind a fiber that runs for long.
//! That is taken as the supervisor does it, by a visit at the gate, which costs the owner nothing, unless it comes
//! there meanwhile, and the thief ten microseconds: so only if nothing else is to be had, and after the worker has
//! stood still for [`AGED`]. (Go's thieves wait for 3 us before they take another's `runnext`.)

use super::core::Core;
use super::worker::Worker;
use crate::fiber::FiberPtr;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use std::iter;
use std::time::Duration;

/// As long as it takes to take somebody out of a slot, and to run them elsewhere.
const AGED: Duration = Duration::from_micros(20);
/// So often it looks at one worker. Who was woken for a fiber that another one displaced comes about when their worker
/// goes on, maybe to one that does not stop, and without a supervisor nobody else would come to that slot.
const LOOKS: u32 = 3;
/// `spin_loop`s between two looks at a worker.
const SPINS: u32 = 16;

impl Worker<'_> {
    /// Looks at the other rings, round and round from a random one on, and takes half of the first
    /// that has something. Looks at each at least once.
    pub(super) fn steal(&self) -> Option<FiberPtr> {
        let (me, count) = (self.held().index, self.shared.cores.len());
        // A worker that was woken to search comes here whatever the settings say.
        if !self.shared.config.stealing || count == 1 {
            return None;
        }
        let attempts = (self.shared.config.steal_attempts as usize).max(count - 1);
        let start = self.own().rng.below(count as u32) as usize;
        // A division for each would be a good part of the look.
        let next = |place: &usize| Some(if place + 1 == count { 0 } else { place + 1 });
        let others = iter::successors(Some(start), next).filter(|victim| *victim != me);
        let (fiber, victim) = others.take(attempts).find_map(|victim| {
            self.steal_from(self.shared.cores.get(victim)).map(|fiber| (fiber, victim))
        })?;
        self.has_robbed(victim);
        Some(fiber)
    }

    /// Of what another's ring had no room for: a steal too.
    pub(super) fn steal_overflow(&self) -> Option<FiberPtr> {
        let victim = self.overflow_of_another()?.index;
        let fiber = self.take_from_injector()?;
        self.has_robbed(victim);
        Some(fiber)
    }

    fn has_robbed(&self, victim: usize) {
        let theirs = self.shared.cores.get(victim).stats.progress();
        self.own().steals.stole(Moment::now(), victim, theirs, self.held().stats.work());
    }

    fn steal_from(&self, victim: &Core) -> Option<FiberPtr> {
        let core = self.held();
        core.stats.steals_tried.add(1);
        let Some((fiber, count)) = victim.ring.steal_into(&core.ring) else {
            return if self.shared.has_mail_for_all(victim) {
                self.take_mail_of(victim)
            } else {
                None
            };
        };
        core.stats.stolen.add(count as u64);
        victim.was_robbed();
        self.mark_ring();
        Some(fiber)
    }

    /// Who stands in the slot of a worker that goes on with one fiber. One thief at a time looks.
    pub(super) fn steal_aged(&self) -> Option<FiberPtr> {
        let waits = |core: &&Core| !core.slot.is_empty() && core.is_open();
        self.others().filter(waits).find_map(|victim| self.steal_aged_from(victim))
    }

    #[cold]
    fn steal_aged_from(&self, victim: &Core) -> Option<FiberPtr> {
        if self.shared.holding_off.swap(true, Ordering::Relaxed) {
            return None;
        }
        let fiber = (0..LOOKS).find_map(|_| self.take_aged(victim));
        self.shared.holding_off.store(false, Ordering::Relaxed);
        let fiber = fiber?;
        victim.was_robbed();
        self.held().stats.stolen.add(1);
        Some(fiber)
    }

    fn take_aged(&self, victim: &Core) -> Option<FiberPtr> {
        let moves = self.moves_until_aged(victim)?;
        let take = || if victim.moves() == moves { victim.slot.take() } else { None };
        victim.gate.visit(take).flatten()
    }

    /// Looks on at `victim`; says how far it is if it does not go on, nor anything else turns up.
    fn moves_until_aged(&self, victim: &Core) -> Option<u64> {
        let (start, moves) = (Moment::now(), victim.moves());
        let mut now = start;
        let stands = || victim.moves() == moves && !victim.slot.is_empty();
        let is_free = || !self.shared.has_work_for(self.held()) && !self.shared.is_stopping();
        while now.since(start) < AGED && stands() && is_free() {
            (0..SPINS).for_each(|_| std::hint::spin_loop());
            now = Moment::now();
        }
        self.own().tick.leave_out(now.since(start));
        (now.since(start) >= AGED).then_some(moves)
    }

    /// Half of what was put into the mailbox of a worker that does not come to it.
    #[cold]
    fn take_mail_of(&self, victim: &Core) -> Option<FiberPtr> {
        let core = self.held();
        let share = victim.mailbox.len().div_ceil(2).min(core.ring.room() + 1);
        let mut mail = victim.mailbox.take(share);
        core.stats.stolen.add(mail.len() as u64);
        let first = mail.pop()?;
        self.push_all(mail);
        Some(first)
    }
}
