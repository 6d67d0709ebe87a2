//! What of this room the models need: an instant is a number.

mod instant;

pub(crate) use instant::{Instant, both_now};
