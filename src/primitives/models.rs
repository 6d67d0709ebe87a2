//! How far the models look.

use loom::model::Builder;

/// Runs `model` in every interleaving that takes the processor from a running thread at most
/// `preemptions` times, or `LOOM_MAX_PREEMPTIONS` times where that is set. Nearly every race known needs
/// two or three; a model that is small enough uses [`loom::model`], which has no bound.
pub(crate) fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 10_000;
    builder.check(model);
}
