//! How far the models look, and what counts beside them.

use super::sync::UnsafeCell;
use loom::model::Builder;
use std::sync::atomic::AtomicIsize;

loom::lazy_static! {
    /// A count that begins at 0 in each execution of a model. Its own steps are not explored: the models
    /// ask who counts, not when others look.
    pub(crate) static ref TALLY: AtomicIsize = AtomicIsize::new(0);
}

/// Runs `model` in every interleaving that takes the processor from a running thread at most
/// `preemptions` times, or `LOOM_MAX_PREEMPTIONS` times where that is more. Nearly every race known needs
/// two or three; a model that is small enough uses [`loom::model`], which has no bound of its own.
pub(crate) fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let wanted = Builder::new().preemption_bound.unwrap_or(0);
    check_up_to(wanted.max(preemptions), model);
}

/// As [`check`], but no further than `preemptions`. For models in which somebody unwinds: all threads of
/// a model are one for the standard library, so a guard of loom's that another drops meanwhile poisons its
/// lock, and loom itself panics at that.
pub(crate) fn check_up_to(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// What one writes before it says that it is done, and others read when they have heard of that.
#[derive(Default)]
pub(crate) struct Done(UnsafeCell<u32>);

// SAFETY: that order is what the models ask for; loom checks it.
unsafe impl Sync for Done {}

impl Done {
    pub(crate) fn write(&self) {
        // SAFETY: see above.
        self.0.with_mut(|done| unsafe { *done = 1 });
    }

    pub(crate) fn check(&self) {
        // SAFETY: see above.
        self.0.with(|done| assert_eq!(unsafe { *done }, 1));
    }
}
