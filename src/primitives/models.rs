//! How far the models look.

use loom::model::Builder;

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
