//! How far the models look, and what counts beside them.

use super::clock::Moment;
use loom::model::Builder;
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};

loom::lazy_static! {
    /// A count that begins at 0 in each execution of a model. Its own steps are not explored: the models
    /// ask who counts, not when others look.
    pub(crate) static ref TALLY: AtomicIsize = AtomicIsize::new(0);

    /// The clock of an execution, which stands still but for [`pass`].
    static ref CLOCK: AtomicU64 = AtomicU64::new(1);
}

pub(crate) fn now() -> Moment {
    Moment::from_nanos(CLOCK.load(Ordering::Relaxed))
}

/// Somebody has waited until `deadline`.
pub(crate) fn pass(deadline: Moment) {
    CLOCK.fetch_max(deadline.as_nanos(), Ordering::Relaxed);
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
