//! Tests of the room. Files whose tests need a process of their own run the test binary again,
//! see [`child`].

use super::{Cache, Stack, StackSize};
use crate::primitives::clock::Moment;

mod size;
