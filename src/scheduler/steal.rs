//! Taking work from other workers.

use super::core::Core;
use super::worker::Worker;
use super::worth::Mark;
use crate::fiber::FiberPtr;
use crate::primitives::clock::Moment;

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
        let others = (start..).map(|place| place % count).filter(|victim| *victim != me);
        let (fiber, victim) = others.take(attempts).find_map(|victim| {
            self.steal_from(self.shared.cores.get(victim)).map(|fiber| (fiber, victim))
        })?;
        let dispatched = self.shared.cores.get(victim).stats.dispatched.get();
        let mark = Mark { at: Moment::now(), from: victim, dispatched };
        self.own().steals.stole(mark, self.held().stats.dispatched.get());
        Some(fiber)
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
