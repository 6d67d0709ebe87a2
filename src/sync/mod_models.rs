//! What of this room has models: the words, without the values that they guard.

#[path = "mpsc/mod_models.rs"]
mod mpsc;
mod raw_event;
mod raw_mutex;
mod raw_notify;
mod raw_once;
mod raw_rwlock;
mod raw_semaphore;

#[cfg(test)]
use crate::primitives::models::check;
