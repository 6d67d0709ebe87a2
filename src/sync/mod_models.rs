//! What of this room has models: the words, without the values that they guard.

#[path = "mpsc/mod_models.rs"]
mod mpsc;
mod raw_event;
mod raw_mutex;
mod raw_notify;
mod raw_once;
mod raw_rwlock;
mod raw_semaphore;

/// Runs `model` in every interleaving with at most so many preemptions.
#[cfg(test)]
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 10_000;
    builder.check(model);
}
