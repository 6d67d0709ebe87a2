//! Taking work from other workers.

use super::worker::Worker;
use crate::fiber::FiberPtr;

impl Worker<'_> {
    /// Looks at every other ring once, from a random one on, and takes half of the first that has
    /// something.
    pub(super) fn steal(&self) -> Option<FiberPtr> {
        let cores = &self.shared.cores;
        let start = self.own().rng.below(cores.len() as u32) as usize;
        for offset in 0..cores.len() {
            let victim = &cores[(start + offset) % cores.len()];
            if victim.index == self.core.index {
                continue;
            }
            self.core.stats.steals_tried.add(1);
            if let Some((fiber, count)) = victim.ring.steal_into(&self.core.ring) {
                self.core.stats.stolen.add(count as u64);
                return Some(fiber);
            }
        }
        None
    }
}
