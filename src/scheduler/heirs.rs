//! What a runtime leaves behind: idle memory in the pools of the process, stacks and control blocks, which
//! goes back by age, when workers see to it.
//!
//! A worker that has seen such memory come has it in mind until nothing is left. The workers of a runtime
//! that ends take that with them. So whoever ends the runtime tells another one that has workers, the heir;
//! where there is none, it gives everything back itself.
//!
//! # Why nothing stays
//!
//! A runtime that ends is first struck off the list of heirs; once its threads have left, what they had lies in the
//! pools, and it looks at the list. Whoever stands there and ends too looks at it later, with the pools as they are
//! then. Whoever stays has workers: the note is stored, and with a full fence between, as at every
//! [`notify`](Shared::notify), those that are parked are looked for; a worker announces that it parks, and with a full
//! fence between reads the note. So one of them sees it on its way to bed, or is woken for it, or has such memory in
//! mind already and will come to the pools. (A searcher for whose sake nobody was woken looks for the note where it
//! finds something to run, with the same fences.)

use super::shared::Shared;
use crate::fiber;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::primitives::sync::{Arc, Mutex};
use crate::stack;
use std::sync::Weak;
use std::time::Duration;

/// The runtimes that have workers and have not been stopped.
static HEIRS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Something was left behind that no worker has in mind yet.
static LEFT: AtomicBool = AtomicBool::new(false);

/// Has a runtime left anything behind? Said once.
pub(super) fn has_left() -> bool {
    LEFT.load(Ordering::Relaxed) && LEFT.swap(false, Ordering::Acquire)
}

/// Would [`has_left`] say so?
pub(super) fn is_anything_left() -> bool {
    LEFT.load(Ordering::Relaxed)
}

impl Shared {
    /// It has workers now, which look after idle memory.
    pub(crate) fn inherits(self: &Arc<Shared>) {
        HEIRS.lock().push(Arc::downgrade(self));
    }

    /// It is about to stop.
    pub(super) fn inherits_no_more(&self) {
        HEIRS.lock().retain(|heir| !std::ptr::eq(heir.as_ptr(), self) && heir.strong_count() != 0);
    }
}

/// Called where a runtime was stopped, and its threads have left: somebody looks after what they leave.
pub(crate) fn bequeath() {
    if is_any_idle() && !tell_heir() {
        give_all_back();
    }
}

/// Called where a run of a current-thread runtime has ended: until the next one others look after what is in
/// the pools, or nobody.
pub(super) fn lend() {
    if is_any_idle() {
        tell_heir();
    }
}

fn is_any_idle() -> bool {
    stack::is_any_idle() || fiber::is_any_block_idle()
}

/// False if there is none. It may be stopped by now; then it comes here itself.
fn tell_heir() -> bool {
    // Each may be let go of here for good, and not under the lock.
    let heirs: Vec<_> = HEIRS.lock().iter().filter_map(Weak::upgrade).collect();
    let heir = heirs.iter().min_by_key(|heir| heir.config.stack_age);
    if let Some(heir) = heir {
        LEFT.store(true, Ordering::Release);
        heir.notify();
    }
    heir.is_some()
}

fn give_all_back() {
    let now = Moment::now();
    while stack::trim(now, Duration::ZERO).is_some_and(|next| next <= now) {}
    fiber::empty_depot();
}
