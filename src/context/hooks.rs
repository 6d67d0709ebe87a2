//! Places where a sanitizer or Valgrind is told about stacks.
//!
//! Called by the scheduler around every switch, and at the start and end of every fiber even where
//! a fresh fiber starts on the stack of the one before without a switch. Without a tool they are
//! empty and cost nothing.

use super::Bounds;

/// A fiber begins to run on the stack that `bounds` tells.
#[inline(always)]
pub(crate) fn fiber_begin(_bounds: impl FnOnce() -> Bounds) {}

/// The running flow is about to continue another one.
#[inline(always)]
pub(crate) fn before_switch() {}

/// A flow was continued.
#[inline(always)]
pub(crate) fn after_switch() {}

/// The running fiber has ended; its stack stays in use until the next switch.
#[inline(always)]
pub(crate) fn fiber_end() {}
