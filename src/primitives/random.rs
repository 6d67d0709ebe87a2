//! Seeds for the generators in `util`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A seed that differs from process to process and from call to call.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
