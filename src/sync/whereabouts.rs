//! Where those were put that have been woken for a lock and have not come yet: who have a *token*, of
//! `raw_mutex.rs` or `raw_rwlock.rs`. It is a hint: every decision upon it is sound.

use crate::park::{Destination, Wake, charge_current, is_beside_workers, is_near, try_charge};
use crate::primitives::const_unless_loom;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[derive(Debug)]
pub(super) struct Whereabouts(AtomicUsize);

impl Whereabouts {
    const_unless_loom! {
        pub(super) fn new() -> Whereabouts {
            Whereabouts(AtomicUsize::new(0))
        }
    }

    /// Nobody else has a token, but the one of `wake`.
    pub(super) fn of(&self, wake: Option<&Wake>) {
        self.0.store(Destination::of(wake).word(), Relaxed);
    }

    /// Besides the others the one of `wake` has one. In several places they are nowhere.
    pub(super) fn of_one_more(&self, wake: Option<&Wake>) {
        if self.0.load(Relaxed) != Destination::of(wake).word() {
            self.0.store(0, Relaxed);
        }
    }

    /// Would they run at once if the calling fiber did not?
    #[cold]
    pub(super) fn is_near(&self) -> bool {
        is_near(Destination::from_word(self.0.load(Relaxed)))
    }

    /// May the caller take the lock past them, who were overtaken for long enough? It makes way for who is near.
    /// Otherwise, if it was `often` too, it is charged, since they may stand where only another look of its worker
    /// finds them; past its budget a fiber beside the workers waits, where no yield would help.
    #[cold]
    pub(super) fn may_be_overtaken(&self, often: bool) -> bool {
        if self.is_near() {
            return false;
        }
        if often && !try_charge() {
            if is_beside_workers() {
                return false;
            }
            charge_current();
        }
        true
    }
}
