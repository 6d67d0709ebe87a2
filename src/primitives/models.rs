//! How far the models look, and what counts beside them.

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
    let mut builder = Builder::new();
    let bound = builder.preemption_bound.unwrap_or(0).max(preemptions);
    builder.preemption_bound = Some(bound);
    builder.max_branches = 10_000;
    builder.check(model);
}
