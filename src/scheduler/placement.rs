//! Which worker gets a fiber that comes from outside, or that must move: the load of each.
//!
//! A worker's load is what stands in its ring, slot and mailbox, and one for the fiber that it runs:
//! read when it is asked for, so that no counter can drift and no push pays for one. A worker whose
//! place is taken by another has none, and is passed over.

use super::config::Placement;
use super::core::Core;
use super::shared::Shared;
use crate::fiber::FiberPtr;
use crate::primitives::sync::atomic::Ordering;
use crate::util::rng::Rng;

impl Core {
    /// Fibers that wait for this core's worker.
    pub(super) fn queued(&self) -> usize {
        self.ring.len() + usize::from(!self.slot.is_empty()) + self.mailbox.len()
    }

    /// May fibers be put here?
    pub(super) fn is_open(&self) -> bool {
        self.is_held() && !self.gate.is_stalled()
    }
}

impl Shared {
    /// What `core` has to do, for the choice among cores; `None` if fibers are not put there.
    pub(super) fn load(&self, core: &Core) -> Option<usize> {
        let runs = usize::from(!self.idle.is_parked(core.index));
        core.is_open().then(|| core.queued() + runs)
    }

    /// The core whose mailbox gets a fiber from outside; `None` for the injector.
    pub(super) fn place(&self) -> Option<usize> {
        let core = match self.config.placement {
            Placement::Injector => None,
            Placement::TwoChoices => self.less_loaded(self.two_choices()),
            Placement::LeastLoaded => self.less_loaded(0..self.cores.len()),
        };
        // Behind a busy worker it would wait for that one, where thieves leave mailboxes alone.
        core.filter(|core| self.shares_mail() || self.idle.is_parked(*core))
    }

    /// Do thieves look into mailboxes?
    pub(super) fn shares_mail(&self) -> bool {
        self.moves_freely && self.config.stealing
    }

    /// Is there something in the mailbox of `victim` that any worker may run?
    pub(super) fn has_mail_for_all(&self, victim: &Core) -> bool {
        self.moves_freely && !victim.mailbox.is_empty()
    }

    fn two_choices(&self) -> [usize; 2] {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) as u64;
        let mut rng = Rng::new(self.seed, turn);
        let count = self.cores.len() as u32;
        [rng.below(count) as usize, rng.below(count) as usize]
    }

    /// The least loaded of `cores`, the first of several.
    fn less_loaded(&self, cores: impl IntoIterator<Item = usize>) -> Option<usize> {
        let loads = cores.into_iter().filter_map(|index| {
            let load = self.load(self.cores.get(index))?;
            Some((load, index))
        });
        loads.min().map(|(_, index)| index)
    }

    /// Another core than the one that `fiber` ran on last, an idle one if there is one.
    pub(super) fn pick_to_migrate(&self, fiber: FiberPtr) -> Option<usize> {
        let last = fiber.home.load(Ordering::Relaxed) as usize;
        let count = self.cores.len();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let others = || {
            let order = (0..count).map(move |offset| (turn + offset) % count);
            order.filter(move |index| index + 1 != last && self.cores.get(*index).is_open())
        };
        others().find(|index| self.idle.is_parked(*index)).or_else(|| others().next())
    }
}
